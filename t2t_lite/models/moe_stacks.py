"""Encoder and decoder of `moe`: LSTM layers with a mixture of experts between them (Shazeer et al., 2017, appendix E).

Legend: B sentences, S source length, T target length.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import keras
from keras import ops

from t2t_lite.layers.dropout import Dropout, fold_in
from t2t_lite.layers.lstm import LstmSize
from t2t_lite.layers.mixture_of_experts import MixtureOfExperts
from t2t_lite.layers.projected_lstm import ProjectedLstm
from t2t_lite.models.rnn_decoder import RnnDecoder

ENCODER_LAYERS, DECODER_LAYERS = 3, 2


@keras.saving.register_keras_serializable("t2t_lite")
class MoeEncoder(keras.layers.Layer):
    """Three LSTM layers, and experts after the second: x + LSTM(x), x + sigmoid(MoE(x)).

    Args:
        units: size of inputs and outputs of all layers.
        cells: size of each LSTM's cell.
        experts: n, k and d_ff of the mixture.
        dropout: share of embeddings and of each layer's outputs that training drops.

    Attributes:
        outputs: `units`.
        sizes: of each LSTM.

    Call arguments:
        x: [B, S, units].
        lengths: int [B], without padding.
        seed: int32 [3], or None for inference.

    Returns:
        Outputs [B, S, units]; and the last two layers' states after the last symbol.
    """

    def __init__(self, units: int, cells: int, experts: Sequence[int], dropout: float, **kwargs: Any) -> None:
        super().__init__(autocast=False, **kwargs)
        self.outputs, self.sizes = units, [LstmSize(units, cells, units)] * ENCODER_LAYERS
        self.dropout = Dropout(dropout, name="dropout")
        policy = self.dtype_policy.name
        self.layers = [ProjectedLstm(cells, units, dtype=policy, name=f"layer_{i}") for i in range(ENCODER_LAYERS)]
        self.experts = MixtureOfExperts(*experts, dtype=self.dtype_policy.name, name="experts")

    def build(self, input_shape: Any = None) -> None:
        layer: Any
        for layer in (*self.layers, self.experts):
            layer.build((None, None, self.outputs))

    def call(self, x: Any, lengths: Any, seed: Any = None) -> tuple[Any, list[Any]]:
        x, states = self.dropout(x, seed=fold_in(seed, 0)), []
        for i, lstm in enumerate(self.layers):
            y, end = lstm(x, lengths=lengths)
            x = x + self.dropout(y, seed=fold_in(seed, 1 + i))
            states.append(end)
            if i == 1:
                y = ops.sigmoid(self.experts(x, seed=fold_in(seed, 4)))
                x = x + self.dropout(y, seed=fold_in(seed, 5))
        return x, states[-DECODER_LAYERS:]


@keras.saving.register_keras_serializable("t2t_lite")
class MoeDecoder(RnnDecoder):
    """Two LSTM layers, and experts between them, with residual connections like the encoder's.

    The bottom layer's output is the query of attention. The bottom layer is given the context at the next position; the
    layers above see the context only in this way.

    Args:
        units, cells, experts, dropout: as for `MoeEncoder`.

    Call arguments and result: as `RnnDecoder`.
    """

    def __init__(self, units: int, cells: int, experts: Sequence[int], dropout: float, **kwargs: Any) -> None:
        super().__init__("gnmt_v2", DECODER_LAYERS, units, "product", True, dropout, units, cells, **kwargs)
        self.late = True
        self.sizes = [LstmSize(units, cells, units)] * DECODER_LAYERS  # the layers above are not given the context
        self.experts = MixtureOfExperts(*experts, dtype=self.dtype_policy.name, name="experts")

    def build(self, input_shape: Any = None) -> None:
        super().build(input_shape)
        self.experts.build((None, None, self.outputs))

    def _above(
        self, inputs: Any, x: Any, results: Any, layer: Callable[[int], Callable[[Any], Any]], seed: Any = None
    ) -> Any:
        # Seed 0 drops what it dropped for the bottom layer; seed 2 is for what is fed.
        x = self.dropout(inputs, seed=fold_in(seed, 0)) + self.dropout(x, seed=fold_in(seed, 3))
        y = ops.sigmoid(self.experts(x, seed=fold_in(seed, 4)))
        x = x + self.dropout(y, seed=fold_in(seed, 5))
        return x + self.dropout(layer(1)(x), seed=fold_in(seed, 6))
