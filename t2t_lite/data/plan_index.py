"""Index of a plan: arrays that take long to compute for many millions of pairs, kept beside the prepared data.

plan-NAME.index: a line of JSON with the format, the key, and each array's type and size; the arrays; the SHA-256 of all
that. A file with another key, or a damaged one, is computed again and replaced. Where nothing can be written, or for
fewer than `LEAST` pairs, there is none.
"""

import contextlib
import hashlib
import json
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from t2t_lite.files import replace_file

FORMAT = 1  # to be raised when the same key gives another plan
LEAST = 10_000_000  # pairs; fewer are planned in seconds

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

    def get(self, name: str, key: dict[str, int], make: Callable[[], Sequence[Array]]) -> Sequence[Array]:
        """Returns the arrays of one dimension that `make` returns for the same lengths and the same key."""
        if self._folder is None:
            return make()
        path, wanted = self._folder / f"plan-{name}.index", {**self._key, **key}
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            return _read(path, wanted)
        arrays = make()
        try:
            replace_file(path, _pack(wanted, arrays))
        except OSError as error:
            _log.info("%s is not written (%s), so the plan is made again each time.", path, error.strerror)
        return arrays


def _pack(key: dict[str, Any], arrays: Sequence[Array]) -> bytes:
    header = {"format": FORMAT, "key": key, "arrays": [[array.dtype.str, len(array)] for array in arrays]}
    data = b"".join([json.dumps(header).encode(), b"\n", *(array.tobytes() for array in arrays)])
    return data + hashlib.sha256(data).digest()


def _read(path: Path, key: dict[str, Any]) -> list[Array]:
    """Returns the arrays of a file; ValueError, KeyError or TypeError for another key or format, or a damaged one."""
    with open(path, "rb") as file:
        header = json.loads(file.readline(1 << 16))
        if header["format"] != FORMAT or header["key"] != key:
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
