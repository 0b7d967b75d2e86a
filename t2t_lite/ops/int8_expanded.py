"""The int8 matrices of an export as float32, for processors without exact products of 8-bit integers.

An export does not know its processor: its graph computes with integers where their products are exact, and else with
what they were expanded to when the export was loaded.

Legend: I what is summed over, O outputs.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from t2t_lite.ops.int8_product import is_exact
from t2t_lite.ops.loaded_arrays import LoadedArrays

_CURRENT = contextvars.ContextVar["ExpandedMatrices | None"]("expanded_matrices", default=None)


def expanded_matrices() -> ExpandedMatrices | None:
    """Returns what int8 matrices multiply with instead of their integers; None: their integers."""
    return _CURRENT.get()


class ExpandedMatrices(LoadedArrays):
    """The expanded matrices of one export. Loading makes them only where they are needed; elsewhere there are none."""

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

    def expand(self, arrays: Sequence[Any]) -> Any:
        """Returns int8 variables [O, I] as float32, below each other, [all O, I]."""
        shape = [sum(array.shape[0] for array in arrays), arrays[0].shape[1]]
        return self.read(tuple(map(id, arrays)), shape, lambda: tf.cast(tf.concat(arrays, 0), tf.float32))

    def _make_all(self) -> Any:
        return tf.cond(is_exact(), lambda: tf.zeros([0, self.width]), super()._make_all)
