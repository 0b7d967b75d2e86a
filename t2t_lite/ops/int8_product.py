"""Products of 8-bit integers, by oneDNN."""

from __future__ import annotations

from typing import Any, NamedTuple

import tensorflow as tf
from tensorflow.core.framework.attr_value_pb2 import AttrValue
from tensorflow.python.framework.ops import get_default_graph  # tf.compat.v1 would be imported for it

from t2t_lite.errors import UsageError
from t2t_lite.ops.graph import graph

LARGEST = 127.0  # -128 has no counterpart


class Columns(NamedTuple):
    """What rows are multiplied with: made once for all steps of a search.

    Attributes:
        values: int8 [O, I]: TensorFlow's loops take no qint8.
        bias: float32 [O], zeros.
        least, largest: float32 [O], what -127 and 127 of a column stand for.
    """

    values: Any
    bias: Any
    least: Any
    largest: Any

    @classmethod
    def make(cls, values: Any, scales: Any) -> Columns:
        """Returns those of int8 `values` [O, I], without -128, whose product is multiplied by float32 `scales` [O]."""
        return cls(values, tf.zeros(values.shape[:1]), -LARGEST * scales, LARGEST * scales)


def int8_product(rows: Any, columns: Columns, *, prepack: bool) -> Any:
    """Multiplies 8-bit integers and adds up in 32 bits, exactly; in graphs only.

    TensorFlow puts this operation in place of a product of rounded numbers; none of its functions makes it directly.

    Args:
        rows: int8 [R, I], without -128.
        columns: those of the matrix [O, I].
        prepack: from its first call on, the operation keeps what oneDNN makes of the columns before it multiplies. The
            columns must be the same in all calls. For few rows this preparation takes as long as the product.

    Returns:
        float32 [R, O]: rows times the transpose of columns, times scales.
    """
    arrays = [tf.bitcast(rows, tf.qint8), tf.bitcast(columns.values, tf.qint8), columns.bias]
    ranges = [tf.constant(-LARGEST), tf.constant(LARGEST), columns.least, columns.largest]
    (product,) = (
        get_default_graph()
        .create_op(
            "_QuantizedMatMul",
            [*arrays, *ranges],
            [tf.float32],
            name="product",
            attrs={
                "T1": AttrValue(type=tf.qint8.as_datatype_enum),
                "T2": AttrValue(type=tf.qint8.as_datatype_enum),
                "Tdevice_inputs": _types(arrays),
                "Thost_inputs": _types(ranges),
                "Tdevice_outputs": _types(ranges[:1]),
                "Thost_outputs": _types([]),
                # It has no form without a bias; here the bias is zeros.
                "fused_ops": AttrValue(list=AttrValue.ListValue(s=[b"BiasAdd", b"Dequantize"])),
                "transpose_b": AttrValue(b=True),
                "is_weight_const": AttrValue(b=prepack),
                "is_bias_const": AttrValue(b=prepack),
            },
        )
        .outputs
    )
    return tf.ensure_shape(product, [rows.shape[0], columns.values.shape[0]])


def _types(tensors: list[Any]) -> AttrValue:
    return AttrValue(list=AttrValue.ListValue(type=[tensor.dtype.as_datatype_enum for tensor in tensors]))


def check_machine() -> None:
    """Raises UsageError if there is a GPU, which computes no int8 models."""
    if tf.config.list_physical_devices("GPU"):
        raise UsageError("Models of 8-bit integers are for CPUs, and this machine has a GPU. Use bfloat16 here.")


def is_exact_here() -> bool:
    """Whether this machine has exact products of 8-bit integers."""
    try:
        return bool(graph(is_exact)().numpy())
    except (tf.errors.OpError, RuntimeError, ValueError):  # TensorFlow lacks it for this processor, or no longer has it
        return False


def is_exact() -> Any:
    """Whether the largest sums are right, bool scalar; in graphs only.

    Processors without VNNI add two products in 16 bits, which are too few.
    """
    rows, columns = tf.fill([2, 64], LARGEST), tf.fill([64, 64], LARGEST)
    made = Columns.make(tf.cast(columns, tf.int8), tf.ones([64]))
    product = int8_product(tf.cast(rows, tf.int8), made, prepack=False)
    return tf.reduce_all(product == 64 * LARGEST**2)
