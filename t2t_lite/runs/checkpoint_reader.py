"""Opening of a checkpoint for reading, and the error where it cannot be read: gone, damaged, or out of reach."""

import contextlib
import errno
import os
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from t2t_lite.errors import DamagedError, DataError, T2TError
from t2t_lite.remote.mirror import fetch
from t2t_lite.runs.checkpoint_files import LAST_STEP, missing_file
from t2t_lite.runs.checkpoint_index import check_index

# What TensorFlow raises for files that cannot be read; IndexError where one is cut off.
_READ_ERRORS = (tf.errors.OpError, OSError, IndexError, RuntimeError, ValueError)
# Reasons that say nothing of what a file holds.
_OF_THE_SYSTEM = (
    *(errno.EACCES, errno.EPERM, errno.EIO, errno.ESTALE, errno.EMFILE, errno.ENFILE, errno.ENOMEM),
    *(errno.ENOSPC, errno.EDQUOT),
)


class GoneError(DataError):
    """A checkpoint that was removed while it was being read."""


def open_checkpoint(path: str) -> Any:
    """Returns TensorFlow's reader of a checkpoint, whose index is checked first; raises as `explain_unreadable`."""
    fetch(path)
    with explain_unreadable(path):
        check_index(path)
        return tf.train.load_checkpoint(path)


@contextlib.contextmanager
def explain_unreadable(path: str) -> Iterator[None]:
    """Context in which an error of a checkpoint's reader becomes GoneError, DamagedError or DataError."""
    try:
        yield
    except T2TError:
        raise
    except _READ_ERRORS as error:
        raise _unreadable(path, error) from error


def read_step(reader: Any, key: str) -> int:
    """Returns the step that a checkpoint was saved at; ValueError for anything else."""
    step = np.asarray(reader.get_tensor(key))
    if step.dtype.kind not in "iu" or step.size != 1 or not 0 <= int(step.item()) <= LAST_STEP:
        raise ValueError("its step is no number of updates")
    return int(step.item())


def _unreadable(path: str, error: Exception) -> DataError:
    missing = missing_file(path)
    if missing and missing.endswith(".index"):
        return GoneError(
            f"The checkpoint {path} cannot be read: {missing} is not there. A trainer may have removed it."
        )
    if isinstance(error, UnicodeEncodeError):
        return DataError(f"{path}: TensorFlow takes only paths that are UTF-8. Give another.")
    if not missing and (reason := _of_the_system(error)):
        return DataError(
            f"The checkpoint {path} cannot be read: {reason}. That says nothing of what it holds. Run the same command "
            "again; if the files stay unreadable, move them away, and the checkpoint before it counts."
        )
    reason = f"{missing} is missing" if missing else first_line(error)
    return DamagedError(f"The checkpoint {path} cannot be read: it is damaged or incomplete ({reason}).")


def _of_the_system(error: Exception) -> str | None:
    """The system's reason for an error, such as missing rights; None where the files themselves are at fault."""
    if isinstance(error, OSError):
        return f"{error.filename}: {error.strerror}" if error.errno in _OF_THE_SYSTEM else None
    return next((os.strerror(number) for number in _OF_THE_SYSTEM if os.strerror(number) in str(error)), None)


def first_line(error: Exception) -> str:
    """The first line of an error, without TensorFlow's own names."""
    line = str(error).partition("\n")[0].rstrip(".")
    return re.sub(r"^\{\{function_node \S+\}\} | \[Op:\w+\]$", "", line)
