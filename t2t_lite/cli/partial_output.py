"""Output file that grows block by block and gets its name when it is complete; --resume continues it."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from t2t_lite.errors import DataError, UsageError
from t2t_lite.files import lock_or_warn, name_in_errors, open_own, read_json, replace_file, sync, sync_open

_FORMAT = 1  # of FILE.partial.json


class PartialOutput:
    """FILE.partial, and FILE.partial.json, which says how much of the input is done.

    Each block is on the disk before it is counted. However the command ends, at most one block is done twice.

    Args:
        path: the file to write.
        settings: what the output depends on besides the input lines, JSON-ready.
        resume: continue the output of a stopped command.

    Attributes:
        done: lines of the input whose output is written.

    Raises:
        UsageError: another process is writing the file; or, with `resume`, the file was begun with other settings.
        DataError: with `resume`, the partial output is damaged.
    """

    def __init__(self, path: str, settings: Mapping[str, Any], *, resume: bool) -> None:
        self._path = Path(os.path.realpath(path))
        self.partial, self._state = (Path(f"{self._path}{end}") for end in (".partial", ".partial.json"))
        self._settings = json.loads(json.dumps(settings))
        self._hash, self._written = hashlib.sha256(), hashlib.sha256()  # of the input and of the output
        self.done, self._bytes, self._digest = 0, 0, ""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._file = open_own(self.partial)
        try:
            lock_or_warn(self._file, self.partial)
            if not resume:
                self._state.unlink(missing_ok=True)  # it counts the lines of what is dropped now
            elif self._state.exists():
                self._read_state()
            self._file.truncate(self._bytes)  # drops a block that was only partly written
            self._file.seek(self._bytes)
        except BlockingIOError:
            self._file.close()
            raise UsageError(f"Another t2t-lite-decoder is writing {self.partial}; give another --output.") from None
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> PartialOutput:
        return self

    def __exit__(self, *error: object) -> None:
        with contextlib.suppress(OSError):  # of what `write` could not write, which is not counted
            self._file.close()

    @staticmethod
    def count_done(path: str) -> int | None:
        """Returns how many lines of this output a stopped command has done; None if it left no usable state."""
        try:
            number: int = _read(Path(f"{os.path.realpath(path)}.partial.json"))["lines"]
            return number
        except (OSError, DataError):
            return None

    def skip_done(self, lines: Iterator[str]) -> None:
        """Skips the lines that are done; raises UsageError if they differ from the lines that were translated."""
        for number in range(self.done):
            line = next(lines, None)
            if line is None:
                raise UsageError(f"The input has {number:,} lines, but {self.done:,} are done in {self.partial}.")
            self._count(line)
        if self.done and self._hash.hexdigest() != self._digest:
            raise UsageError(
                f"The first {self.done:,} lines of the input are not those whose translations are in {self.partial}. "
                "Give the same input, or leave out --resume to begin again."
            )

    def write(self, lines: Sequence[str], data: bytes) -> None:
        """Adds the output `data` of a block of input lines."""
        with name_in_errors(self.partial):
            self._file.write(data)
            self._file.flush()
            sync_open(self._file.fileno(), self.partial)
        for line in lines:
            self._count(line)
        self._written.update(data)
        self._bytes += len(data)
        self.done += len(lines)
        state = {
            "format": _FORMAT,
            "lines": self.done,
            "bytes": self._bytes,
            "input_sha256": self._hash.hexdigest(),
            "output_sha256": self._written.hexdigest(),
            "settings": self._settings,
        }
        replace_file(self._state, json.dumps(state, indent=2) + "\n")

    def finish(self) -> None:
        """Gives the file its final name."""
        self._file.close()
        os.replace(self.partial, self._path)
        sync(self._path.parent)
        self._state.unlink(missing_ok=True)

    def _count(self, line: str) -> None:
        self._hash.update(line.encode("utf-8") + b"\n")

    def _read_state(self) -> None:
        state = _read(self._state)
        self.done, self._bytes, self._digest = state["lines"], state["bytes"], state["input_sha256"]
        self._check_written(state["output_sha256"])
        old, new = state["settings"], self._settings
        names = sorted(old.keys() | new.keys())
        changes = [f"  {n}: {old.get(n)!r} -> {new.get(n)!r}" for n in names if old.get(n) != new.get(n)]
        if changes:
            raise UsageError(
                f"{self.partial} was begun with other settings:\n"
                + "\n".join(changes)
                + "\nGive the same settings, or leave out --resume to begin again."
            )

    def _check_written(self, sha256: str) -> None:
        """Raises DataError unless what is counted as written is there, and is what was written."""
        left = self._bytes
        with name_in_errors(self.partial):
            while block := self._file.read(min(left, 1 << 20)):
                self._written.update(block)
                left -= len(block)
        if left:
            raise DataError(
                f"{self.partial} has lost some of its {self._bytes:,} bytes; leave out --resume to begin again."
            )
        if self._written.hexdigest() != sha256:
            raise DataError(
                f"{self.partial} is damaged or was edited: its checksum is not the one in {self._state.name}. Leave "
                "out --resume to begin again."
            )


def _read(path: Path) -> dict[str, Any]:
    """Reads what `write` has written; errors as those of `read_json`."""
    types = {"lines": int, "bytes": int, "input_sha256": str, "output_sha256": str, "settings": dict}
    return read_json(path, _FORMAT, types, "Leave out --resume to begin again.")


class Stream:
    """Standard output or a device; each block is written as soon as it is done."""

    done = 0

    def __init__(self, path: str | None) -> None:
        self._device = None if path is None else open(path, "wb")  # noqa: SIM115 (closed by __exit__)
        self._file = self._device or sys.stdout.buffer

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *error: object) -> None:
        if self._device is not None:
            self._device.close()

    def write(self, lines: Sequence[str], data: bytes) -> None:
        """Writes the output `data` of a block of input lines."""
        with name_in_errors("standard output" if self._device is None else self._device.name):
            self._file.write(data)
            self._file.flush()

    def finish(self) -> None:
        """Does nothing: all is written."""
