"""A product with a matrix of weights."""

from __future__ import annotations

from typing import Any, ClassVar

import keras
from keras import ops

from t2t_lite.layers.matmul import matmul


@keras.saving.register_keras_serializable("t2t_lite")
class Linear(keras.layers.Layer):
    """x W, without a bias, in the layer's precision.

    Args:
        rows, columns: of W.

    Attributes:
        size: how many numbers W has.

    Call arguments:
        x: [..., rows].

    Returns:
        [..., columns].
    """

    MATRICES: ClassVar = {"kernel": "IO"}

    def __init__(self, rows: int, columns: int, **kwargs: Any) -> None:
        super().__init__(autocast=False, **kwargs)
        self.rows, self.columns, self.size = rows, columns, rows * columns

    def build(self, x_shape: Any = None) -> None:
        self.kernel = self.add_weight(name="kernel", shape=(self.rows, self.columns), initializer="glorot_uniform")

    def call(self, x: Any) -> Any:
        return matmul(ops.cast(x, self.compute_dtype), self.kernel)
