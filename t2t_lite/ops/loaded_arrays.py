"""Arrays that an export makes of its weights when it is loaded, so that no request has to make them.

Parallel requests share them, too (benchmarks/notebook.md).
"""

from __future__ import annotations

import contextlib
import contextvars
import math
import uuid
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any

import tensorflow as tf

_ALIGNED = 64  # bytes, at whose multiples TensorFlow takes a slice as it is
_CURRENT = contextvars.ContextVar["LoadedArrays | None"]("loaded_arrays", default=None)


def loaded_arrays() -> LoadedArrays | None:
    """Returns what the searches of an export read packed weights from; None: they pack them themselves."""
    return _CURRENT.get()


class LoadedArrays(tf.saved_model.experimental.TrackableResource):
    """Arrays of one export, of one dtype.

    They are one variable [rows, `width`], as an export loads the slower the more variables it has.

    Args:
        dtype: of all arrays.
        scope: returns a context in which arrays are made; None: none is needed.

    Attributes:
        dtype: as the argument.
        width: numbers in 64 bytes.
    """

    def __init__(
        self, dtype: Any = tf.float32, scope: Callable[[], contextlib.AbstractContextManager[Any]] | None = None
    ) -> None:
        super().__init__()
        self._name = f"loaded_{uuid.uuid4()}"  # a process may load several exports; equal names are one variable
        self.dtype, self._scope = tf.as_dtype(dtype), scope or contextlib.nullcontext
        self.width = _ALIGNED // self.dtype.size
        self._starts: dict[Hashable, int] = {}
        self._parts: list[Callable[[], Any]] = []  # of the variable, each [rows, width]
        self._rows = 0

    @contextlib.contextmanager
    def in_use(self) -> Iterator[None]:
        """Context in which `loaded_arrays` returns this object."""
        token = _CURRENT.set(self)
        try:
            yield
        finally:
            _CURRENT.reset(token)

    def read(self, key: Hashable, shape: Sequence[int], make: Callable[[], Any]) -> Any:
        """Returns the array that `make` returned at the first call with this `key`; loading calls it again."""
        numbers = math.prod(shape)
        rows = math.ceil(numbers / self.width)
        if key not in self._starts:
            self._starts[key] = self._rows
            self._rows += rows
            self._parts.append(lambda: self._in_rows(make(), rows))
        with tf.init_scope():
            handle = self.resource_handle
        variable = tf.raw_ops.ReadVariableOp(resource=handle, dtype=self.dtype)
        part = tf.slice(variable, [self._starts[key], 0], [rows, self.width])  # of aligned rows; nothing is copied
        return tf.reshape(tf.reshape(part, [-1])[:numbers], shape)

    def _in_rows(self, array: Any, rows: int) -> Any:
        """Any shape -> [rows, width], with zeros at the end."""
        flat = tf.reshape(array, [-1])
        return tf.reshape(tf.pad(flat, [[0, rows * self.width - flat.shape[0]]]), [rows, self.width])

    def _make_all(self) -> Any:
        with self._scope():
            return tf.concat([tf.zeros([0, self.width], self.dtype), *(part() for part in self._parts)], 0)

    def _create_resource(self) -> Any:
        return tf.raw_ops.VarHandleOp(dtype=self.dtype, shape=[None, self.width], shared_name=self._name)

    def _initialize(self) -> None:
        tf.raw_ops.AssignVariableOp(resource=self.resource_handle, value=self._make_all())
