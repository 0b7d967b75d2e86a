"""Part files: results of the steps of a pipeline, so that one that was killed does not make them again.

A part has the name of its step and a checksum of what it was made from. It appears whole or not at all, and two
processes that make it write the same. What stands in parts is arrays and JSON.
"""

import contextlib
import dataclasses
import hashlib
import json
import os
import shutil
import uuid
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from t2t_lite.data.encode import Side
from t2t_lite.data.range_text import Choice, Encoded
from t2t_lite.data.text_counts import SplitCounts
from t2t_lite.errors import DataError, T2TError, UsageError
from t2t_lite.files import name_in_errors, sync_open
from t2t_lite.text.unknown_pieces import UnknownPieces

Arrays = dict[str, np.ndarray]

_FAULT = "fault.json"


def checksum(*facts: Any) -> str:
    """Returns a short checksum of JSON-ready values and paths, for the names of parts."""
    return hashlib.sha256(json.dumps(facts, default=str).encode("utf-8", "backslashreplace")).hexdigest()[:24]


@dataclasses.dataclass(frozen=True)
class Parts:
    """The part files in a folder that all workers see."""

    folder: Path

    def keep(self, names: Iterable[str], inputs: Iterable[str] = ()) -> int:
        """Removes what a killed or failed pipeline has left but these parts; returns how many of `names` there are."""
        wanted, others = ({self._path(name).name for name in some} for some in (names, inputs))
        there = {path.name for path in self.folder.glob("*")}
        for left in there - wanted - others:
            (self.folder / left).unlink(missing_ok=True)
        return len(there & wanted)

    def remove(self) -> None:
        """Removes all parts, when they are no longer needed."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def make(self, name: str, compute: Callable[[], Arrays]) -> str:
        """Writes a part unless it is there; returns its name. A user's fault is kept for `fault`."""
        if self._path(name).exists():
            return name
        try:
            arrays = compute()
        except T2TError as error:
            text = json.dumps({"usage": isinstance(error, UsageError), "message": str(error)})
            self._write(self.folder / _FAULT, lambda file: file.write(text.encode()))
            raise
        self._write(self._path(name), lambda file: np.savez(file, allow_pickle=False, **arrays))
        return name

    def load(self, name: str) -> Arrays:
        """Reads a part that is there."""
        with name_in_errors(self._path(name)), np.load(self._path(name), allow_pickle=False) as arrays:
            return dict(arrays)

    def fault(self) -> T2TError | None:
        """Returns the fault of the user's that a step has found."""
        with contextlib.suppress(FileNotFoundError):
            found = json.loads((self.folder / _FAULT).read_bytes())
            return (UsageError if found["usage"] else DataError)(found["message"])
        return None

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.npz"

    def _write(self, path: Path, write: Callable[[Any], object]) -> None:
        # Not by the process' number, which another machine may have, too.
        aside = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
        path.parent.mkdir(exist_ok=True)
        with name_in_errors(path), open(aside, "wb") as file:
            write(file)
            file.flush()
            sync_open(file.fileno(), path)
        os.replace(aside, path)


def pack(values: Any) -> np.ndarray:
    """Returns JSON-ready values as an array, for a part."""
    return as_array(json.dumps(values).encode())


def unpack(array: np.ndarray) -> Any:
    return json.loads(array.tobytes())


def as_array(data: bytes) -> np.ndarray:
    return np.frombuffer(data, np.uint8)


def sides_to_arrays(sides: tuple[Side, ...], prefix: str = "") -> Arrays:
    """Returns the sides of a chunk for a part; `sides_from_arrays` reads them."""
    arrays = {f"{prefix}{i}.{name}": getattr(side, name) for i, side in enumerate(sides) for name in ("ids", "lengths")}
    return {**arrays, f"{prefix}rest": pack([[side.unknown.to_json(), side.lost] for side in sides])}


def sides_from_arrays(arrays: Mapping[str, np.ndarray], prefix: str = "") -> tuple[Side, ...]:
    return tuple(
        Side(arrays[f"{prefix}{i}.ids"], arrays[f"{prefix}{i}.lengths"], UnknownPieces.from_json(unknown), lost)
        for i, (unknown, lost) in enumerate(unpack(arrays[f"{prefix}rest"]))
    )


def encoded_to_arrays(encoded: Encoded) -> Arrays:
    """Returns an encoded range for a part; `encoded_from_arrays` reads it."""
    pairs, sources = encoded.seen
    facts = [len(encoded.chunks), encoded.counts.to_json(), sorted(pairs), sorted(sources), encoded.overlapping]
    arrays = {"text": as_array(encoded.text), "facts": pack(facts)}
    for number, sides in enumerate(encoded.chunks):
        arrays |= sides_to_arrays(sides, f"{number}.")
    return arrays


def encoded_from_arrays(arrays: Arrays, counts: SplitCounts) -> Encoded:
    """Args: counts: of no pairs."""
    number, found, pairs, sources, overlapping = unpack(arrays["facts"])
    chunks = [sides_from_arrays(arrays, f"{i}.") for i in range(number)]
    seen = {(source, target) for source, target in pairs}, set(sources)
    return Encoded(chunks, arrays["text"].tobytes(), counts.from_json(found), seen, overlapping)


def choice_to_arrays(choice: Choice) -> Arrays:
    """Returns a choice for a part, a bit for each pair; `choice_from_arrays` reads it."""
    arrays = {"firsts": choice.firsts}
    if choice.kept is None:
        return arrays
    return {**arrays, "kept": np.packbits(choice.kept), "cleaned": pack(choice.cleaned)}


def choice_from_arrays(arrays: Arrays) -> Choice:
    if "kept" not in arrays:
        return Choice(arrays["firsts"])
    kept = np.unpackbits(arrays["kept"], count=int(arrays["firsts"][-1])).astype(bool)
    return Choice(arrays["firsts"], kept, unpack(arrays["cleaned"]))
