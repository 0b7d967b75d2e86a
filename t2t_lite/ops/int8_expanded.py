"""The int8 matrices of an export as float32, for processors without exact products of 8-bit integers.

An export does not know its processor: its graph computes with integers where their products are exact, and else with
what they were expanded to when the export was loaded.

Legend: I what is summed over, O outputs.
"""

from __future__ import annotations

import contextvars
import math
import uuid
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from t2t_lite.ops.int8_product import is_exact

_ALIGNED = 16  # float32 numbers in 64 bytes, at whose multiples TensorFlow takes a slice as it is
_CURRENT = contextvars.ContextVar["ExpandedMatrices | None"]("expanded_matrices", default=None)


def expanded_matrices() -> ExpandedMatrices | None:
    """Returns what int8 matrices multiply with instead of their integers; None: their integers."""
    return _CURRENT.get()


class ExpandedMatrices(tf.saved_model.experimental.TrackableResource):
    """The expanded matrices of one export.

    They are one variable [rows, _ALIGNED], as an export loads the slower the more variables it has. Loading sets it,
    only where it is needed; elsewhere it is empty.
    """

    def __init__(self) -> None:
        super().__init__()
        self._name = f"expanded_{uuid.uuid4()}"  # a process may load several exports; equal names are one variable
        self._starts: dict[tuple[int, ...], int] = {}
        self._parts: list[Callable[[], Any]] = []  # of the variable, each float32 [rows, _ALIGNED]
        self._rows = 0

    def compute_anywhere(self, compute: Callable[[], Any]) -> Any:
        """Returns what `compute` does with a quantized model in a graph that does not know its processor.

        The graph has both ways, and takes that of integers where their products are exact.
        """

        def compute_expanded() -> Any:
            token = _CURRENT.set(self)
            try:
                return compute()
            finally:
                _CURRENT.reset(token)

        return tf.cond(is_exact(), compute, compute_expanded)

    def read(self, arrays: Sequence[Any]) -> Any:
        """Returns int8 variables [O, I] as float32, below each other, [all O, I]."""
        shape = [sum(array.shape[0] for array in arrays), arrays[0].shape[1]]
        numbers = math.prod(shape)
        rows = math.ceil(numbers / _ALIGNED)
        key = tuple(map(id, arrays))
        if key not in self._starts:
            self._starts[key] = self._rows
            self._rows += rows
            self._parts.append(lambda: _in_rows(tf.cast(tf.concat(arrays, 0), tf.float32), rows))
        with tf.init_scope():
            handle = self.resource_handle
        variable = tf.raw_ops.ReadVariableOp(resource=handle, dtype=tf.float32)
        part = tf.slice(variable, [self._starts[key], 0], [rows, _ALIGNED])  # of aligned rows; nothing is copied
        return tf.reshape(tf.reshape(part, [-1])[:numbers], shape)

    def _create_resource(self) -> Any:
        return tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=[None, _ALIGNED], shared_name=self._name)

    def _initialize(self) -> None:
        def expand_all() -> Any:
            return tf.concat([part() for part in self._parts], 0)

        value = tf.cond(is_exact(), lambda: tf.zeros([0, _ALIGNED]), expand_all)
        tf.raw_ops.AssignVariableOp(resource=self.resource_handle, value=value)


def _in_rows(array: Any, rows: int) -> Any:
    """[O, I] -> [rows, _ALIGNED], with zeros at the end."""
    flat = tf.reshape(array, [-1])
    return tf.reshape(tf.pad(flat, [[0, rows * _ALIGNED - flat.shape[0]]]), [rows, _ALIGNED])
