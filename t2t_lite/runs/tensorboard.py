"""TensorBoard's files of a run: curves in groups, sample translations, the hyperparameters."""

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import tensorflow as tf

from t2t_lite.errors import DataError
from t2t_lite.files import StrPath, lacks_room

_LARGEST = float(np.finfo(np.float32).max)
_SPEED = ("tokens_per_second", "input_seconds", "flops_per_second", "utilisation", "trained_seconds", "goodput")
_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>()#+!|~-])")  # the page reads text as Markdown


class Board:
    """Writes one event file to `folder`; `hparams` are shown in the page's tab HPARAMS."""

    def __init__(self, folder: StrPath, hparams: Mapping[str, bool | int | float | str]) -> None:
        self._folder = folder
        with self._explain():
            self._writer = tf.summary.create_file_writer(str(folder))
        if hparams:
            from tensorboard.plugins.hparams import api

            with self._explain(), self._writer.as_default(step=0):
                api.hparams(dict(hparams), trial_id="run")  # one run, however often it is started

    def scalars(self, values: Mapping[str, float]) -> None:
        """Writes the entries of a line of metrics.jsonl, under "train/...", "dev/..." and "speed/..."."""
        with self._explain(), self._writer.as_default(step=int(values["step"])):
            for name, value in values.items():
                if name != "step":
                    # FLOPs may be too large for an int64, and the perplexity of a diverging run for a float32.
                    # TensorFlow keeps each Python number that it has ever made a tensor of, but no number of NumPy.
                    tf.summary.scalar(tag(name), np.float32(np.clip(value, -_LARGEST, _LARGEST)))
            self._writer.flush()

    def samples(self, step: int, rows: Sequence[tuple[str, str, str]]) -> None:
        """Writes (source, translation, reference) of some lines as a table."""
        table = [["source", "translation", "reference"], *([escape(text) for text in row] for row in rows)]
        with self._explain(), self._writer.as_default(step=step):
            tf.summary.text("dev/samples", tf.constant(table))
            self._writer.flush()

    def close(self) -> None:
        """Ends the file."""
        with self._explain():
            self._writer.close()

    @contextlib.contextmanager
    def _explain(self) -> Iterator[None]:
        """Raises DataError where the file cannot be written."""
        try:
            yield
        except tf.errors.OpError as error:
            line = next((line for line in str(error).split("\n") if "; " in line), str(error))
            reason = line.rpartition("; ")[2].partition(" [Op:")[0]
            advice = "Make room and run" if lacks_room(error) else "Run"
            raise DataError(
                f"TensorBoard's curves could not be written to {self._folder}: {reason}. {advice} the same command "
                "again."
            ) from error


def tag(name: str) -> str:
    """The TensorBoard name of an entry of metrics.jsonl."""
    if name.startswith("dev_"):
        return f"dev/{name.removeprefix('dev_')}"
    return f"{'speed' if name in _SPEED else 'train'}/{name}"


def escape(text: str) -> str:
    """Escapes a text so that Markdown shows it as it is."""
    return _MARKDOWN.sub(r"\\\1", text)
