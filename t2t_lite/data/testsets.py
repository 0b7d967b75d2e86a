"""Test sets of sacreBLEU, such as wmt14/full, which it keeps in ~/.sacrebleu or the folder that SACREBLEU names."""

import contextlib
import os
import socket
import tarfile
import zipfile
from collections.abc import Iterator
from typing import NamedTuple

from t2t_lite.data.sources import read_lines
from t2t_lite.errors import DataError, UsageError, did_you_mean
from t2t_lite.languages import base_language

_TIMEOUT = 60.0  # seconds for a server's answer; sacreBLEU would wait for ever


class Testset(NamedTuple):
    """Sources, and one or several references of each: references[r][n] is of sources[n]."""

    sources: list[str]
    references: list[list[str]]


def read_testset(name: str, source: str, target: str) -> Testset:
    """Returns a test set as sacreBLEU has it, which downloads it if need be.

    Args:
        source, target: codes of the languages; regions do not count.

    Raises:
        UsageError: there is no such test set, or none of these languages.
        DataError: it is not there and cannot be downloaded, or is damaged.
    """
    from sacrebleu import utils

    known = utils.get_available_testsets()
    if name not in known:
        raise UsageError(
            f"--testset={name}: sacreBLEU has no such test set.{did_you_mean(name, known)} sacrebleu --list lists them."
        )
    pair, pairs = f"{base_language(source)}-{base_language(target)}", utils.get_langpairs_for_testset(name)
    if pair not in pairs:
        raise UsageError(f"--testset={name} is not for {pair}, but for {', '.join(sorted(pairs))}.")
    with _explain(name):
        paths = [utils.get_source_file(name, pair), *utils.get_reference_files(name, pair)]
    sources, *references = (list(read_lines(path)) for path in paths)
    for path, lines in zip(paths[1:], references, strict=True):
        if len(lines) != len(sources):
            raise DataError(
                f"{path} has {len(lines):,} lines but {paths[0]} has {len(sources):,}. Delete their folder; sacreBLEU "
                "makes it again."
            )
    return Testset(sources, references)


@contextlib.contextmanager
def _explain(name: str) -> Iterator[None]:
    """Raises DataError, with what sacreBLEU wanted and where to put it, if it cannot make the files."""
    from sacrebleu import DATASETS, SACREBLEU_DIR

    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(_TIMEOUT)
    try:
        yield
    except (OSError, EOFError, tarfile.TarError, zipfile.BadZipFile, SystemExit) as error:
        raw = os.path.join(SACREBLEU_DIR, name, "raw")
        copies = [
            f"{url} and copy it to {os.path.join(raw, name.replace('/', '_') + '.' + os.path.basename(url))}"
            for url in DATASETS[name].data or ()
        ]
        reason = "the file is not the expected one" if isinstance(error, SystemExit) else error
        raise DataError(
            f"--testset={name} is not in {SACREBLEU_DIR}, and sacreBLEU could not make it ({reason}). Download "
            f"{', '.join(copies)}, and unpack it in that folder. SACREBLEU=DIR names another one than {SACREBLEU_DIR}."
        ) from error
    finally:
        socket.setdefaulttimeout(before)
