"""Translation by a pipeline of Apache Beam: each worker process opens the model once, and translates lines in parts."""

from __future__ import annotations

import contextlib
import dataclasses
import glob
import io
import itertools
import logging
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from t2t_lite.cli import line_source, output
from t2t_lite.cli.decode import DecodeRequest, Model, open_model, translate_lines
from t2t_lite.cli.partial_output import PartialOutput
from t2t_lite.data.input_texts import read_texts
from t2t_lite.data.parts import Arrays, Parts, as_array, checksum, pack, unpack
from t2t_lite.data.pipelines import Beam, ChunkSteps, run_chunks
from t2t_lite.distributed.tensorflow_loading import load_tensorflow, prepare_command
from t2t_lite.errors import DataError, UsageError
from t2t_lite.export.export_folder import find_version
from t2t_lite.files import sha256_of
from t2t_lite.runs.run_dir import HPARAMS_FILE
from t2t_lite.version import local_version

PART = 4 * line_source.BLOCK  # lines
_SHOWN = 10  # warnings

_log = logging.getLogger("t2t_lite")
_lock = threading.Lock()  # a worker process may have several threads, but has one model
_opened: dict[str, Model] = {}  # by key, at most one


@dataclasses.dataclass(frozen=True)
class _DecodeSteps(ChunkSteps):
    """Translates chunks of lines; `files`: as of `_files_of`."""

    request: DecodeRequest
    files: list[str]

    def compute(self, rows: list[Any]) -> Arrays:
        with _lock:
            if self.key not in _opened:
                prepare_command()
                _opened.clear()
                model = open_model(self.request)
                if self.files != _files_of(self.request):
                    raise DataError("The model has changed since the command began. Start it again.")
                _opened[self.key] = model
            translator = _opened[self.key].translator
            translator.warn_again()  # whichever chunks this worker had before
            with _kept_warnings() as warnings:
                text = translate_lines(self.request, translator, rows)
            return {"text": as_array(text), "warnings": pack(warnings)}


def decode_on(beam: Beam, request: DecodeRequest) -> None:
    """Translates the lines of all files that `request.input` names, a file or a pattern, in the order of their names.

    Raises:
        T2TError: as `decode`, or `Beam.run`.
    """
    paths = _find_files(str(request.input))
    dataclasses.replace(request, input=paths[0]).check()
    target = Path(str(request.output)).absolute()
    for path in paths:
        output.check_output("output", str(target), path)
    files = _files_of(request)
    what = dataclasses.asdict(dataclasses.replace(request, input=None, output=None))
    work = Parts(target.with_name(f".{target.name}.parts"))
    steps = _DecodeSteps(work, checksum(local_version(), what, files), request, files)
    with PartialOutput(str(target), {}, resume=False) as out:  # no other command writes there meanwhile
        places: list[str] = []
        warnings: list[str] = []
        for number, arrays in enumerate(run_chunks(beam, steps, _chunks(paths, places))):
            warnings += (f"{places[number]}: {text}" for text in unpack(arrays["warnings"]))
            out.write([], arrays["text"].tobytes())  # counts no lines: the next command continues with the parts
        out.finish()
    work.remove()
    for text in warnings[:_SHOWN]:
        _log.warning("%s", text)
    if more := len(warnings[_SHOWN:]):
        _log.warning("There are %s more warnings of this kind, of later lines.", f"{more:,}")


def _find_files(pattern: str) -> list[str]:
    paths = [pattern] if Path(pattern).is_file() else sorted(filter(line_source.is_file, glob.glob(pattern)))
    if Path(pattern).is_dir():
        raise UsageError(
            f"--input={pattern} is a folder. Name its files by a pattern, such as {Path(pattern, '*.en')}."
        )
    if not paths:
        raise UsageError(f"--input={pattern}: there is no such file, and none whose name has this pattern.")
    return paths


def _chunks(paths: list[str], places: list[str]) -> Iterator[list[str]]:
    """Yields the lines of all files in lists, each of one file; adds where they are to `places`."""
    for path in paths:
        lines, first = iter(read_texts(path)), 1
        while chunk := list(itertools.islice(lines, PART)):
            places.append(f"{path}, lines {first:,} to {first + len(chunk) - 1:,}")
            yield chunk
            first += len(chunk)


class _Kept(logging.Handler):
    def __init__(self, warnings: list[str]) -> None:
        super().__init__(logging.WARNING)
        self._warnings = warnings

    def emit(self, record: logging.LogRecord) -> None:
        self._warnings.append(record.getMessage())


@contextlib.contextmanager
def _kept_warnings() -> Iterator[list[str]]:
    """Context that gives the warnings, instead of showing them: nobody may see what a worker shows."""
    warnings: list[str] = []
    handler, shows, level = _Kept(warnings), _log.propagate, _log.level
    printed = io.StringIO()
    _log.addHandler(handler)
    _log.propagate = False
    _log.setLevel(logging.WARNING)  # Beam's worker processes have set the level of all others
    try:
        with contextlib.redirect_stderr(printed):
            yield warnings
        warnings += filter(None, printed.getvalue().split("\n"))
    finally:
        _log.removeHandler(handler)
        _log.propagate = shows
        _log.setLevel(level)


def _files_of(request: DecodeRequest) -> list[str]:
    """Returns the checksums of the files that say what a model is; a checkpoint's index has those of its weights."""
    load_tensorflow()
    from t2t_lite.runs.checkpoint import find

    if request.runs is None:
        return [sha256_of(find_version(str(request.saved_model)) / "variables" / "variables.index")]
    files: list[str | Path] = []
    for folder in request.runs.folders:
        files += [f"{find(folder, request.runs.checkpoint)}.index", Path(folder, HPARAMS_FILE)]
    return [*map(sha256_of, files)]
