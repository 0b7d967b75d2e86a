"""Prepacked weights: the layout that oneDNN makes of a matrix before a product is kept between searches.

For the few rows of a search's step, making this layout takes up to as much time as the product itself.

Gain (benchmarks/notebook.md): D3 takes 0.88 of the time, with bfloat16 0.79; D2 with bfloat16 0.87.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf
from tensorflow.core.framework.attr_value_pb2 import AttrValue
from tensorflow.python.framework.ops import get_default_graph  # tf.compat.v1 would be imported for it

from t2t_lite.cpus import instruction_sets
from t2t_lite.ops.graph import graph
from t2t_lite.ops.packed import VariableMatrix, columns


class PrepackedMatrix(VariableMatrix):
    """A variable's value, as the steps of a search multiply with it; in graphs only."""

    def multiply(self, rows: Any, *others: Any) -> list[Any]:
        matrices, dtype = (self, *others), rows.dtype

        def array() -> Any:
            arrays = [tf.cast(tf.convert_to_tensor(matrix.weight), dtype) for matrix in matrices]
            return tf.concat(arrays, self.axes.index("O")) if others else arrays[0]

        product = prepacked_product(rows, self.outer.once((dtype, *matrices), array), self.axes == "OI")
        return columns(product, (matrix.outputs for matrix in matrices))


def is_supported(dtype: str) -> bool:
    """Whether prepacked weights work here: without a GPU, and with a oneDNN that multiplies in `dtype`."""
    if tf.config.list_physical_devices("GPU") or dtype == "float16":  # of which few CPUs have products in oneDNN
        return False
    if dtype == "bfloat16" and "avx512f" not in instruction_sets():
        return False  # TensorFlow's rule for its own products; oneDNN might end the process
    x = tf.cast(tf.ones([2, 16]), dtype)
    try:
        product = graph(prepacked_product)(x, tf.transpose(x), False)
    except (tf.errors.OpError, RuntimeError, ValueError):  # TensorFlow lacks it for this processor, or no longer has it
        return False
    return bool(tf.reduce_all(product == 16))


def prepacked_product(rows: Any, array: Any, transpose_b: bool) -> Any:
    """[R, I], [I, O] (or [O, I], to be transposed) -> [R, O]; in graphs only.

    TensorFlow puts this operation in place of a product and a bias if the matrix is a constant; none of its functions
    makes it directly.
    """
    outputs = array.shape[0 if transpose_b else 1]
    kind = AttrValue(type=rows.dtype.as_datatype_enum)
    operation = get_default_graph().create_op(
        "_MklNativeFusedMatMul",
        [rows, array, tf.zeros([outputs], rows.dtype)],
        [rows.dtype],
        name="MatMul",
        attrs={
            "T": kind,
            "num_args": AttrValue(i=1),
            "fused_ops": AttrValue(list=AttrValue.ListValue(s=[b"BiasAdd"])),  # it has no form without a bias
            "transpose_b": AttrValue(b=transpose_b),
            "is_filter_const": AttrValue(b=True),
            "_kernel": AttrValue(s=b"MklNameChangeOp"),
        },
    )
    return tf.ensure_shape(operation.outputs[0], [rows.shape[0], outputs])
