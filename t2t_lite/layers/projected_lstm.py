"""An LSTM layer whose output is smaller than its cell (Sak et al., 2014)."""

from __future__ import annotations

from typing import Any, ClassVar

import keras
from keras import ops

from t2t_lite.layers.lstm import Lstm
from t2t_lite.layers.matmul import matmul


@keras.saving.register_keras_serializable("t2t_lite")
class ProjectedLstm(Lstm):
    """`Lstm` with h' = P (sigmoid(o) tanh(c')).

    Args:
        units: size of c.
        outputs: size of h.
    """

    MATRICES: ClassVar = {**Lstm.MATRICES, "projection": "IO"}

    def __init__(self, units: int, outputs: int, **kwargs: Any) -> None:
        super().__init__(units, **kwargs)
        self.outputs = outputs

    def build(self, x_shape: tuple[int | None, ...]) -> None:
        super().build(x_shape)
        shape = (self.units, self.outputs)
        self.projection = self.add_weight(name="projection", shape=shape, initializer="glorot_uniform")

    def after(self, of_input: Any, state: Any) -> tuple[Any, Any]:
        h, c = super().after(of_input, state)
        return ops.cast(matmul(ops.cast(h, self.compute_dtype), self.projection), "float32"), c
