"""Products with weights whose rows are normalised (Salimans and Kingma, 2016)."""

from __future__ import annotations

from typing import Any, ClassVar

import keras
from keras import ops

from t2t_lite.layers.functions import current
from t2t_lite.layers.matmul import matmul
from t2t_lite.layers.matrix import Matrix, norm_factors


@keras.saving.register_keras_serializable("t2t_lite")
class WeightNormLinear(keras.layers.Layer):
    """x W^T + b in the layer's precision; each row of W is g v / |v|, with a direction v and a length g.

    Training multiplies by W, because W has fewer numbers than the products do. A search has few rows to multiply. It
    multiplies them by the rows v, which are laid out once like any matrix, and then each product by its g / |v|. There
    are only as many of these factors as outputs, and they are computed once, too. Both ways give the same product.

    Args:
        inputs, outputs: sizes.
        stddev: standard deviation of the initial directions' numbers; the initial lengths are those of the directions.

    Call arguments:
        x: [..., inputs].

    Returns:
        [..., outputs].
    """

    MATRICES: ClassVar = {"direction": "OI"}
    FLOAT32: ClassVar = ("direction",)

    def __init__(self, inputs: int, outputs: int, stddev: float, **kwargs: Any) -> None:
        super().__init__(autocast=False, **kwargs)
        self.inputs, self.outputs, self.stddev = inputs, outputs, stddev

    def build(self, x_shape: Any = None) -> None:
        normal = keras.initializers.RandomNormal(stddev=self.stddev)
        self.direction = self.add_weight(name="direction", shape=(self.outputs, self.inputs), initializer=normal)

        def lengths(shape: Any, dtype: Any) -> Any:
            return ops.cast(ops.norm(ops.convert_to_tensor(self.direction), axis=1), dtype)

        self.gain = self.add_weight(name="gain", shape=(self.outputs,), initializer=lengths)
        self.bias = self.add_weight(name="bias", shape=(self.outputs,), initializer="zeros")

    def matrix(self) -> Any:
        """W, float32 [outputs, inputs]."""
        direction = ops.convert_to_tensor(self.direction)
        return direction * norm_factors(direction, self.gain)[:, None]

    def call(self, x: Any) -> Any:
        x = ops.cast(x, self.compute_dtype)
        direction = current(self.direction)
        if not isinstance(direction, Matrix):
            return matmul(x, self.matrix(), self.bias, transposed=True)
        product = matmul(x, direction) * direction.norm_factors(self.gain, x.dtype)
        return product + direction.bias(self.bias, x.dtype)
