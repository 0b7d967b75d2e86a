"""Weights that change no more: what oneDNN makes of a matrix before it multiplies is kept from one search to the next.

For the few rows of a search's step that takes up to as much time as the product itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf
from tensorflow.core.framework.attr_value_pb2 import AttrValue

from t2t_lite.layers.matrix import Function, Matrix, matrices_of
from t2t_lite.models.transformer import Transformer

_CPUINFO = Path("/proc/cpuinfo")


class PrepackedMatrix(Matrix):
    """Weights side by side, as the steps of a search multiply with them.

    Args:
        weights: [I, O] each, or [O, I], as `axes` says; O may differ.
    """

    def __init__(self, weights: Sequence[Any], axes: str) -> None:
        self._weights, self._axes = weights, axes
        outputs = sum(weight.shape[axes.index("O")] for weight in weights)
        self.shape = (weights[0].shape[axes.index("I")], outputs)

    def product(self, dtype: str, *, steps: bool = False) -> Function:
        arrays = [tf.cast(tf.convert_to_tensor(weight), dtype) for weight in self._weights]
        array, transpose = tf.concat(arrays, self._axes.index("O")), self._axes == "OI"
        if steps:
            return lambda rows: _product(rows, array, transpose)
        return lambda rows: tf.matmul(rows, array, transpose_b=transpose)

    def concat(self, others: Sequence[Any]) -> PrepackedMatrix:
        return PrepackedMatrix([weight for kernel in (self, *others) for weight in kernel._weights], self._axes)

    def columns(self, ids: Any) -> Any:
        (table,) = self._weights
        return tf.gather(tf.convert_to_tensor(table), ids)


def prepack(model: Any) -> None:
    """Puts a `PrepackedMatrix` in the place of each matrix of the decoder and of the softmax; they must change no more.

    Does nothing to models other than `Transformer`, which may have other uses for them, nor where there is a GPU, or no
    oneDNN that multiplies in the model's precision. It is not for what is exported, which must run there, too.
    """
    if type(model) is not Transformer or tf.config.list_physical_devices("GPU") or not _works(model.compute_dtype):
        return
    for layer, name, axes in matrices_of((*model.decoder._flatten_layers(), model.softmax)):
        setattr(layer, name, PrepackedMatrix([getattr(layer, name)], axes))


def _works(dtype: str) -> bool:
    if dtype == "bfloat16" and not (_CPUINFO.exists() and " avx512f " in _CPUINFO.read_text(encoding="utf-8")):
        return False  # as TensorFlow decides for its own products; oneDNN might end the process
    x = tf.cast(tf.ones([2, 16]), dtype)
    try:
        product = tf.function(_product, autograph=False)(x, tf.transpose(x), False)
    except (tf.errors.OpError, RuntimeError, ValueError):  # TensorFlow has it not for this processor, or not any more
        return False
    return bool(tf.reduce_all(product == 16))


def _product(rows: Any, array: Any, transpose: bool) -> Any:
    """[R, I], [I, O] (or [O, I], to be transposed) -> [R, O]; in graphs only.

    TensorFlow makes this operation of a product and a bias where the matrix is a constant; no function of its own does.
    """
    outputs = array.shape[0 if transpose else 1]
    kind = AttrValue(type=rows.dtype.as_datatype_enum)
    operation = tf.compat.v1.get_default_graph().create_op(
        "_MklNativeFusedMatMul",
        [rows, array, tf.zeros([outputs], rows.dtype)],
        [rows.dtype],
        name="MatMul",
        attrs={
            "T": kind,
            "num_args": AttrValue(i=1),
            "fused_ops": AttrValue(list=AttrValue.ListValue(s=[b"BiasAdd"])),  # it has no form without a bias
            "transpose_b": AttrValue(b=transpose),
            "is_filter_const": AttrValue(b=True),
            "_kernel": AttrValue(s=b"MklNameChangeOp"),
        },
    )
    return tf.ensure_shape(operation.outputs[0], [rows.shape[0], outputs])
