"""Vectors of symbols plus vectors of positions, both learned (Gehring et al., 2017, sections 3.1 and 3.5)."""

from __future__ import annotations

from typing import Any, ClassVar

import keras
from keras import ops

from t2t_lite.ids import PAD
from t2t_lite.layers.matmul import take

_STDDEV = 0.1  # section 3.5


@keras.saving.register_keras_serializable("t2t_lite")
class ConvEmbedding(keras.layers.Layer):
    """tok(x) + pos(i).

    Padding, which is also the symbol that starts the decoder, has the zero vector before its position is added.
    Positions past the table use its last row.

    Args:
        vocab_size, max_positions: rows of both tables.
        d_model: columns.
        output_dtype: dtype of what `call` returns; see `Embedding`.

    Call arguments:
        ids: int [...].
        positions: int, of a shape that broadcasts to that of `ids`.

    Returns:
        [..., d_model].
    """

    MATRICES: ClassVar = {"table": "OI"}
    LOOKED_UP: ClassVar = ("positions",)
    FLOAT32: ClassVar = ("table", "positions")

    def __init__(
        self, vocab_size: int, max_positions: int, d_model: int, output_dtype: str = "float32", **kwargs: Any
    ) -> None:
        super().__init__(autocast=False, **{"dtype": "float32", **kwargs})
        self.vocab_size, self.max_positions, self.d_model = vocab_size, max_positions, d_model
        self.output_dtype = output_dtype

    def build(self, ids_shape: Any = None) -> None:
        def table(rows: int, name: str) -> Any:
            normal = keras.initializers.RandomNormal(stddev=_STDDEV)
            return self.add_weight(name=name, shape=(rows, self.d_model), initializer=normal)

        self.table, self.positions = table(self.vocab_size, "table"), table(self.max_positions, "positions")

    def call(self, ids: Any, positions: Any) -> Any:
        symbols = take(self.table, ids) * ops.cast(ops.not_equal(ids, PAD), "float32")[..., None]
        places = ops.take(self.positions, ops.minimum(positions, self.max_positions - 1), axis=0)
        return ops.cast(symbols + places, self.output_dtype)
