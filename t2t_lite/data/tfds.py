"""Text from TensorFlow Datasets, the only part of t2t-lite that downloads anything."""

from __future__ import annotations

import importlib.util
import logging
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from t2t_lite.errors import DataError, UsageError

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

_CHUNK = 1000  # pairs handed over at once by the process that reads
_RETRIES = 4  # of a request; urllib3 waits 0, 0.4, 0.8 and 1.6 seconds before them
_TIMEOUTS = (5.0, 60.0)  # seconds: to connect, and between two pieces of an answer
_PACKAGES = ("tensorflow_datasets", "importlib_resources")  # the second one is imported by the first


def read_tfds(name: str, split: str, source: str, target: str) -> Iterator[tuple[str, str]]:
    """Yields (source, target) of a translation data set of TensorFlow Datasets, which downloads it if needed.

    The data set is kept in TFDS_DATA_DIR, or in ~/tensorflow_datasets if that is not set. A separate process reads it,
    so that TensorFlow takes no memory from this one, and no devices before training has chosen them.

    Args:
        name: of the data set and its configuration, such as "wmt14_translate/de-en".
        split: a split of the data set, such as "validation".
        source, target: the languages, as the data set calls them.

    Raises:
        UsageError: tensorflow-datasets is not installed.
        DataError: it cannot be read or downloaded.
    """
    missing = [package.replace("_", "-") for package in _PACKAGES if importlib.util.find_spec(package) is None]
    if missing:
        raise UsageError(
            f"{name} is read with tensorflow-datasets, but {' and '.join(missing)} is not installed. Install it (pip "
            "install 't2t-lite[tfds]'), or give a folder of the files with --raw_dir=DIR."
        )
    import multiprocessing

    # A fork of a process in which TensorFlow runs threads may hang.
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=_send_tfds, args=(sender, name, split, (source, target)), daemon=True)
    child.start()
    sender.close()
    try:
        while chunk := receiver.recv():
            if isinstance(chunk, str):
                raise DataError(chunk)
            yield from chunk
    except EOFError:
        raise DataError(f"The process that reads {name} was killed, perhaps for want of memory.") from None
    finally:
        child.kill()
        child.join()
        receiver.close()


def _send_tfds(sender: Connection, name: str, split: str, languages: tuple[str, str]) -> None:
    """Runs in the child process: sends lists of pairs, then an empty list; or a message if anything goes wrong."""
    from t2t_lite.data.encode import follow_parent

    follow_parent()
    try:
        for chunk in _tfds_chunks(name, split):
            # Texts of TensorFlow Datasets are not guaranteed to be one line.
            sides = ([text.decode().replace("\n", " ") for text in chunk[language]] for language in languages)
            sender.send(list(zip(*sides, strict=True)))
        sender.send([])
    except Exception as error:
        sender.send(_describe_error(error, name, split))


def _describe_error(error: Exception, name: str, split: str) -> str:
    folder = os.environ.get("TFDS_DATA_DIR", "~/tensorflow_datasets")
    return (
        f"TensorFlow Datasets could not give {name}, split {split!r}: {type(error).__name__}: {error}\nIt keeps its "
        f"data in {folder} (TFDS_DATA_DIR names another folder) and downloads what is not there (http_proxy and "
        "https_proxy name a proxy). If you have the files, give their folder with --raw_dir=DIR."
    )


def _tfds_chunks(name: str, split: str) -> Iterator[dict[str, list[bytes]]]:
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"  # reading needs no GPU
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    stderr = os.dup(2)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # no setting silences all notices of the import
    import tensorflow as tf
    import tensorflow_datasets as tfds

    tf.config.list_physical_devices()
    os.dup2(stderr, 2)
    os.dup2(stderr, 1)  # its messages about downloads are not part of our output
    if not os.isatty(stderr):
        tfds.disable_progress_bar()
    _limit_retries()
    builder = tfds.builder(name)
    builder.download_and_prepare()
    # The order of the examples is fixed. Autocache would keep a small data set in memory.
    dataset = builder.as_dataset(split=split, read_config=tfds.ReadConfig(try_autocache=False))
    for batch in dataset.batch(_CHUNK):
        yield {language: texts.numpy().tolist() for language, texts in batch.items()}


def _limit_retries() -> None:
    """Makes TensorFlow Datasets give up on a server in seconds, in this process.

    By default it tries eleven times, in three minutes, and waits forever for a server that does not answer. It makes a
    new adapter for each request, so a class that limits both replaces the adapter's class.
    """
    import requests

    class Limited(requests.adapters.HTTPAdapter):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            self.max_retries = self.max_retries.new(total=_RETRIES)

        def send(self, *args: Any, **options: Any) -> Any:
            options["timeout"] = options.get("timeout") or _TIMEOUTS
            return super().send(*args, **options)

    requests.adapters.HTTPAdapter = Limited  # type: ignore[misc]
    logging.getLogger("urllib3").setLevel(logging.ERROR)
