"""Index of a plan: arrays that take long to compute for many millions of pairs, kept beside the prepared data.

plan-NAME-KEY.index: a line of JSON with the format, the key, and each array's type and size; the arrays; the SHA-256 of
all that. KEY is a checksum of the plan's key, so that runs with other seeds keep theirs; an epoch replaces the one
before. The `MOST` files that were used last are kept. A damaged file is computed again and replaced. Where nothing can
be written, or for fewer than `LEAST` pairs, there is none.
"""

import contextlib
import hashlib
import json
import logging
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from t2t_lite.files import replace_file

FORMAT = 1  # to be raised when the same key gives another plan
LEAST = 10_000_000  # pairs; fewer are planned in seconds
MOST = 8  # files, each of up to 4 bytes a pair; a plan has one or two

Array = np.ndarray

_log = logging.getLogger("t2t_lite")


class PlanIndex:
    """The index of the plans of some pairs.

    Args:
        folder: of the prepared data; None: nothing is kept.
        lengths: int [n], of all pairs, of source and target; and what else there is of each pair.
    """

    def __init__(self, folder: Path | None, *lengths: Array) -> None:
        self._folder = folder if len(lengths[0]) >= LEAST else None
        if self._folder is not None:
            sides = map(np.ascontiguousarray, lengths)
            self._key = {"numpy": np.__version__, "lengths": [hashlib.sha256(side.data).hexdigest() for side in sides]}

    def get(
        self, name: str, key: dict[str, int], make: Callable[[], Sequence[Array]], epoch: int = 0
    ) -> Sequence[Array]:
        """Returns the arrays of one dimension that `make` returns for the same lengths, key and epoch."""
        if self._folder is None:
            return make()
        plan = {"format": FORMAT, **self._key, **key}
        digest = hashlib.sha256(json.dumps(plan, sort_keys=True).encode()).hexdigest()
        path, wanted = self._folder / f"plan-{name}-{digest[:12]}.index", {**plan, "epoch": epoch}
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            arrays: Sequence[Array] = _read(path, wanted)
            with contextlib.suppress(OSError):  # another user's file
                os.utime(path)
            return arrays
        arrays = make()
        try:
            replace_file(path, _pack(wanted, arrays))
            for old in sorted(self._folder.glob("plan-*.index"), key=lambda file: -file.stat().st_mtime_ns)[MOST:]:
                old.unlink(missing_ok=True)
        except OSError as error:
            _log.info("%s is not written (%s), so the plan is made again each time.", path, error.strerror)
        return arrays


def _pack(key: dict[str, Any], arrays: Sequence[Array]) -> list[bytes | memoryview]:
    header = {"key": key, "arrays": [[array.dtype.str, len(array)] for array in arrays]}
    parts: list[bytes | memoryview] = [
        json.dumps(header).encode() + b"\n",
        *(array.data.cast("B") for array in arrays if len(array)),
    ]
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return [*parts, digest.digest()]


def _read(path: Path, key: dict[str, Any]) -> list[Array]:
    """Returns the arrays of a file; ValueError, KeyError or TypeError for another key, or a damaged one."""
    with open(path, "rb") as file:
        header = json.loads(file.readline(1 << 16))
        if header["key"] != key:
            raise ValueError("another plan")
        start = file.tell()
    data = np.memmap(path, np.uint8, "r")
    if hashlib.sha256(data[:-32].data).digest() != data[-32:].tobytes():
        raise ValueError("damaged")
    arrays = []
    for dtype, count in header["arrays"]:
        end = start + np.dtype(dtype).itemsize * count
        arrays.append(np.frombuffer(data[start:end], dtype))
        start = end
    return arrays
