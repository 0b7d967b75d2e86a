"""Int8 weights: a quarter of float32's bytes to read, and products of integers.

A matrix [I, O] is stored as round(127 w / max |w|), with a maximum for each column. Each row that it is multiplied
with is rounded in the same way just before the product. So the product of a row depends on no other row.

Processors without instructions for such products (VNNI) add them up wrongly, or slowly. There the integers are expanded
to float32 and multiply rows that are not rounded: nearly as fast as float32, with outputs of which a few differ.

A small matrix is expanded on every processor. It stays in a cache, so nothing is gained by reading less, and rounding
the rows takes more operations than it saves. So rows that several matrices multiply at once are rounded only if none of
them is small.

Gain (benchmarks/notebook.md): D3 takes 0.63 of the time of float32, D2 0.68, D1 0.71.

Legend: R rows, I what is summed over, O outputs.
"""

from __future__ import annotations

import gc
import logging
import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from t2t_lite.errors import DataError, UsageError
from t2t_lite.layers.matrix import Matrix, find_weight_ids, matrices_of, norm_factors
from t2t_lite.ops.int8_expanded import expanded_matrices
from t2t_lite.ops.int8_product import LARGEST, Columns, int8_product, is_exact_here
from t2t_lite.ops.outer_graph import OuterGraph
from t2t_lite.ops.packed import columns
from t2t_lite.ops.prepacked import prepacked_product

_log = logging.getLogger("t2t_lite")
_LEAST_SHARE = 0.9  # below that, int8 would save little
SMALL = 1 << 16  # numbers of a matrix that is multiplied as float32
_TINY = 1e-30  # instead of the maximum of zeros


class Int8Matrix(Matrix):
    """A matrix [I, O] of int8 weights; it multiplies float32, in graphs only.

    Args:
        values: int8 [O, I], or the same integers as float32 (`expand`).
        scales: float32 [O]; column o of the matrix is values[o] * scales[o].
        outer: graph of a search, whose steps share what oneDNN makes of the values; None: for a single product.
        prepack: see `prepare_weights`; integers are prepacked in any case.
    """

    def __init__(self, values: Any, scales: Any, outer: OuterGraph | None = None, *, prepack: bool = False) -> None:
        self.values, self.scales, self._outer, self._prepack = values, scales, outer, prepack
        self.shape = (values.shape[1], values.shape[0])
        self.outputs = values.shape[0]

    def for_steps(self, outer: OuterGraph, prepack: bool) -> Int8Matrix:
        return type(self)(self.values, self.scales, outer, prepack=prepack)

    def multiply(self, rows: Any, *others: Any) -> list[Any]:
        if rows.dtype != tf.float32:
            raise ValueError(f"int8 weights multiply float32, not {rows.dtype.name}")
        matrices = (self, *others)

        def join() -> tuple[Any, Any]:
            scales = tf.concat([m.scales for m in matrices], 0) if others else tf.convert_to_tensor(self.scales)
            arrays = [matrix.values for matrix in matrices]
            if (expanded := expanded_matrices()) is not None:
                return expanded.read(arrays), scales
            values = tf.concat(arrays, 0) if others else tf.convert_to_tensor(self.values)
            if all(map(rounds_rows, arrays)):
                return Columns.make(values, scales), None
            return tf.cast(values, tf.float32), scales

        values, scales = self._outer.once(matrices, join) if self._outer else join()
        if not isinstance(values, Columns):
            multiply = prepacked_product if self._prepack else tf.matmul
            product = multiply(rows, values, transpose_b=True)
            return columns(product * scales, (matrix.outputs for matrix in matrices))
        with tf.name_scope("int8"):
            rounded, largest = round_rows(rows)
            rounded = tf.cast(rounded, tf.int8)
            product = int8_product(rounded, values, prepack=self._outer is not None) * (largest / LARGEST)
        return columns(product, (matrix.outputs for matrix in matrices))

    def norm_factors(self, gains: Any, dtype: Any) -> Any:
        def make() -> Any:
            rows = tf.cast(tf.convert_to_tensor(self.values), tf.float32) * tf.convert_to_tensor(self.scales)[:, None]
            return tf.cast(norm_factors(rows, tf.convert_to_tensor(gains)), dtype)

        return self._outer.once((dtype, "norm factors", self), make) if self._outer else make()

    def take(self, ids: Any) -> Any:
        return tf.cast(tf.gather(self.values, ids), tf.float32) * self.take_scales(ids)[..., None]

    def take_scales(self, ids: Any) -> Any:
        """Returns the scales of the outputs `ids`: int [...] -> float32 [...]."""
        return tf.gather(self.scales, ids)


def rounds_rows(values: Any) -> bool:
    """Whether rows are rounded before they are multiplied with the `values` of an `Int8Matrix`."""
    return values.dtype == tf.int8 and math.prod(values.shape) > SMALL


def round_rows(rows: Any) -> tuple[Any, Any]:
    """Returns rows [..., I] as whole numbers up to 127, and their largest numbers [..., 1], which are 127 there."""
    largest = tf.maximum(tf.reduce_max(tf.abs(rows), -1, keepdims=True), _TINY)
    return tf.round(rows * (LARGEST / largest)), largest


def quantize(model: Any) -> None:
    """Replaces each matrix of a model by an `Int8Matrix`; the model can then no longer be trained.

    Logs the share of the model's matrices that is then int8. Vectors, and tables that are only looked up, do not count.

    Args:
        model: a `models.base.Model` in float32.

    Raises:
        UsageError: less than nine tenths of its weights are in matrices that can be int8.
        DataError: a weight is not finite.
    """
    found = list(matrices_of(model._flatten_layers()))
    looked_up = find_weight_ids(model._flatten_layers(), "LOOKED_UP")
    matrices = [weight for weight in model.weights if len(weight.shape) > 1 and id(weight) not in looked_up]
    share = _numbers([getattr(layer, name) for layer, name, _ in found]) / max(_numbers(matrices), 1)
    if share < _LEAST_SHARE:
        raise UsageError(
            f"{type(model).__name__}: {share:.0%} of what it multiplies with is in layers that int8 weights are made "
            f"for, and at least {_LEAST_SHARE:.0%} has to be. Use another precision."
        )
    _log.info("int8: %.1f%% of the numbers in the matrices of the model; all else is float32.", 100 * share)
    gc.freeze()  # Keras collects garbage for each weight removed; this keeps it from scanning every object
    try:
        for layer, name, axes in found:
            weight = np.asarray(getattr(layer, name))
            if not np.isfinite(weight).all():
                raise DataError(f"{layer.path}/{name} has numbers that are not finite. Use another checkpoint.")
            delattr(layer, name)  # before the new one is set, or the model would keep the old one
            setattr(layer, name, _round_columns(weight if axes == "OI" else weight.T))
    finally:
        gc.unfreeze()


def expand(matrices: Iterable[Int8Matrix]) -> None:
    """Holds the integers of matrices as float32 from now on."""
    for matrix in matrices:
        matrix.values = tf.Variable(tf.cast(matrix.values, tf.float32), trainable=False)


def adapt_to_processor(model: Any) -> None:
    """Expands what multiplies as float32 on this processor: small matrices, or all without VNNI."""
    matrices = int8_matrices(model).values()
    if is_exact_here():
        expand(matrix for matrix in matrices if not rounds_rows(matrix.values))
    else:
        _log.info("int8: this processor has no instructions for it (VNNI); the rounded weights multiply as float32.")
        expand(matrices)


def _numbers(weights: Sequence[Any]) -> int:
    return sum(math.prod(weight.shape) for weight in weights)


def int8_matrices(model: Any) -> dict[str, Int8Matrix]:
    """The int8 matrices of a model by their paths; empty if the model was not quantized."""
    found = {
        f"{prefix}{layer.path}/{name}": getattr(layer, name)
        for prefix, member in model.members().items()
        for layer, name, _ in matrices_of(member._flatten_layers())
    }
    return {path: kernel for path, kernel in found.items() if isinstance(kernel, Int8Matrix)}


def _round_columns(columns: np.ndarray) -> Int8Matrix:
    """float32 [O, I] -> a kernel [I, O]."""
    scales = np.maximum(np.abs(columns).max(1), _TINY) / np.float32(LARGEST)
    values = np.rint(columns / scales[:, None]).astype(np.int8)
    return Int8Matrix(tf.Variable(values, trainable=False), tf.Variable(scales, trainable=False))
