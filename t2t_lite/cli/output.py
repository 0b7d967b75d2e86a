"""Output of the commands: checks of paths, atomic files, lines of translations, streams that outlive their readers."""

from __future__ import annotations

import contextlib
import json
import math
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

from t2t_lite.data.compressed import split_suffix
from t2t_lite.errors import UsageError
from t2t_lite.files import check_folder, name_in_errors, replace_file

if TYPE_CHECKING:
    from t2t_lite.client import response
    from t2t_lite.decoding.alignments import Alignment
    from t2t_lite.decoding.line_translator import Hypothesis


STANDARD_INPUT = 0  # its file descriptor


def check_output(flag: str, path: str, source: str | int | None = None) -> None:
    """Raises UsageError if `write_file` could not write there, or should not.

    Args:
        source: what is read, a path or a file descriptor, which may not be written to; None: nothing of the user's.
    """
    if os.path.isdir(path):
        raise UsageError(f"--{flag}={path} is a folder, not a file.")
    if os.path.exists(path) and not os.path.isfile(path):  # a device is written to, whoever may write to its folder
        if not os.access(path, os.W_OK):
            raise UsageError(f"--{flag}={path} cannot be written to.")
        return
    check_folder(flag, os.path.dirname(path) or ".")
    suffix = split_suffix(path)[1]
    if suffix:  # else commands that read it would call it damaged
        raise UsageError(
            f"--{flag}={path}: it is written uncompressed. Leave the ending {suffix} out, and compress the file "
            "afterwards."
        )
    for written in (path, f"{path}.partial"):  # the decoder writes the second one first
        if source is not None and _same(source, written):
            raise UsageError(f"--{flag}={path} would overwrite the input, {written}. Give another --{flag}.")


def _same(one: str | int, other: str) -> bool:
    return os.path.exists(one) and os.path.exists(other) and os.path.samefile(one, other)


def write_file(path: str, data: bytes) -> None:
    """Writes a file completely or not at all; follows links and creates the folder if need be.

    A device, such as /dev/null, is written to, not replaced.
    """
    path = os.path.realpath(path)
    if os.path.exists(path) and not os.path.isfile(path):
        with name_in_errors(path), open(path, "wb") as file:
            file.write(data)
        return
    os.makedirs(os.path.dirname(path), exist_ok=True)
    replace_file(Path(path), data)


class Form(NamedTuple):
    """How outputs are written: as a JSON object for each input line, or as lines, each after its score if `scores`.

    alignments: the form of those that outputs have, "hard" or "soft"; None: they have none. In JSON, scores of words,
    quality estimates and the constraints that outputs lack are written if there are any.
    """

    as_json: bool = False
    scores: bool = False
    alignments: str | None = None

    def joins(self, hypotheses: Iterable[Hypothesis | response.ServedHypothesis]) -> bool:
        """Whether an output has a line break, which is written as a space."""
        return not self.as_json and any("\n" in one.text for one in hypotheses)

    def format(self, line: str, hypotheses: Sequence[Hypothesis | response.ServedHypothesis]) -> str:
        """Returns what is written for the input `line`."""
        if self.as_json:
            scores = [round(h.score, 4) if math.isfinite(h.score) else None for h in hypotheses]
            outputs: list[dict[str, Any]] = [
                {"text": h.text, "score": score} for h, score in zip(hypotheses, scores, strict=True)
            ]
            for output, one in zip(outputs, hypotheses, strict=True):
                if words := getattr(one, "words", None):
                    output |= words.as_dict()
                if quality := getattr(one, "quality", None):
                    output["quality"] = quality.as_dict()
                if unmet := getattr(one, "unmet", ()):
                    output["unmet_constraints"] = [*unmet]
            source = {}
            if self.alignments:
                found = _alignments(hypotheses)
                source = {"source_pieces": found[0].source}
                for output, alignment in zip(outputs, found, strict=True):
                    values = alignment.links() if self.alignments == "hard" else alignment.rounded()
                    output |= {"target_pieces": alignment.target, "alignment": values}
            return json.dumps({"input": line, **source, "outputs": outputs}, ensure_ascii=False) + "\n"
        # One line per output, even if a model has learnt to write line breaks.
        texts = [h.text.replace("\n", " ") for h in hypotheses]
        if self.alignments:
            pairs = zip(texts, _alignments(hypotheses), strict=True)
            texts = [f"{text} ||| {alignment.format(self.alignments)}" for text, alignment in pairs]
        if self.scores:
            return "".join(f"{h.score:.4f}\t{text}\n" for h, text in zip(hypotheses, texts, strict=True))
        return f"{texts[0]}\n"


def _alignments(hypotheses: Iterable[Hypothesis | response.ServedHypothesis]) -> list[Alignment]:
    return [alignment for one in hypotheses if (alignment := getattr(one, "alignment", None)) is not None]


def warn_of_joined(number: int) -> None:
    """Prints of how many lines the outputs have line breaks that are written as spaces."""
    if number:
        lines = "1 line" if number == 1 else f"{number:,} lines"
        print(
            f"The outputs of {lines} have line breaks, which are written as spaces. --json keeps them.", file=sys.stderr
        )


class LastingStream:
    """A text stream that drops all text after a failed write, for example when its reader has gone.

    Args:
        stream: the stream to write to.
        lost: printed on standard error after the first failed write; "" prints nothing.
    """

    def __init__(self, stream: TextIO, lost: str = "") -> None:
        self._stream, self._lost = stream, lost

    def write(self, text: str) -> int:
        """Writes `text`, or drops it."""
        try:
            self._stream.write(text)
        except OSError as error:
            self._drop(error)
        return len(text)

    def flush(self) -> None:
        """Flushes what was written, or drops it."""
        try:
            self._stream.flush()
        except OSError as error:
            self._drop(error)

    def _drop(self, error: OSError) -> None:
        # Sends the buffer and all later output to the null device: else Python's own flush at exit would fail, too.
        with contextlib.suppress(OSError, ValueError):
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, self._stream.fileno())
            os.close(null)
        if self._lost:
            print(f"{self._lost} ({error.strerror or error})", file=sys.stderr, flush=True)
            self._lost = ""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextlib.contextmanager
def lasting_output(lost: str) -> Iterator[None]:
    """Makes standard output and standard error such streams; prints `lost` if standard output is lost."""
    out, err = LastingStream(sys.stdout, lost), LastingStream(sys.stderr)
    with contextlib.redirect_stderr(err), contextlib.redirect_stdout(out):
        try:
            yield
        finally:
            out.flush()
            err.flush()
