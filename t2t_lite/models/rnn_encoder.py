"""The encoder of `rnn`: LSTM layers one above the other, which read in either direction.

Legend: B sentences, S source length.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from t2t_lite.layers.dropout import Dropout, fold_in
from t2t_lite.layers.lstm import Lstm, LstmSize

FORWARDS, BACKWARDS = False, True
RESIDUAL_FROM = 2  # GNMT: from the third layer on, each adds its input to its output (Wu et al., 2016, section 3.1)

# The directions in which layer i reads, by the encoder's name.
ENCODERS: dict[str, Callable[[int], tuple[bool, ...]]] = {
    "uni": lambda i: (FORWARDS,),
    "reversed": lambda i: (BACKWARDS,),  # Sutskever et al. (2014)
    "bi": lambda i: (FORWARDS, BACKWARDS),  # two stacks, side by side at the end
    "gnmt": lambda i: (FORWARDS, BACKWARDS) if i == 0 else (FORWARDS,),  # Wu et al. (2016), section 3.2
    "interleaved": lambda i: (bool(i % 2),),  # Zhou et al. (2016)
}


@keras.saving.register_keras_serializable("t2t_lite")
class RnnEncoder(keras.layers.Layer):
    """Reads the source with LSTM layers.

    If a layer has as many LSTMs as the layer below, each reads the outputs of one of those. Otherwise each reads all
    outputs, concatenated.

    Args:
        kind: a name of `ENCODERS`.
        num_layers, units: of LSTM.
        dropout: share of each LSTM's input that training drops.

    Attributes:
        outputs: size of an output, and of the states: `units`, with "bi" twice that.
        sizes: of each LSTM.

    Call arguments:
        x: [B, S, units].
        lengths: int [B], without padding.
        seed: int32 [3], or None for inference.

    Returns:
        The last layer's outputs [B, S, outputs]; and each layer's state after the last symbol it read. Where a layer
        has two directions, "gnmt" returns the backward state, as tensorflow/nmt does, and "bi" both, concatenated.
    """

    def __init__(self, kind: str, num_layers: int, units: int, dropout: float, **kwargs: Any) -> None:
        super().__init__(autocast=False, **kwargs)
        self.kind, self.num_layers, self.units = kind, num_layers, units
        self.dropout = Dropout(dropout, name="dropout")
        self.layers = [
            [
                Lstm(units, reverse, dtype=self.dtype_policy.name, name=f"{'backward' if way else 'layer'}_{i}")
                for way, reverse in enumerate(ENCODERS[kind](i))
            ]
            for i in range(num_layers)
        ]
        below = [1, *map(len, self.layers)]
        self.sizes = [
            LstmSize(units if n == len(lstms) else n * units, units)
            for n, lstms in zip(below, self.layers, strict=False)
            for _ in lstms
        ]
        self.outputs = units * below[-1]

    def build(self, input_shape: Any = None) -> None:
        lstms = [lstm for layer in self.layers for lstm in layer]
        for lstm, size in zip(lstms, self.sizes, strict=True):
            lstm.build((None, None, size.inputs))

    def call(self, x: Any, lengths: Any, seed: Any = None) -> tuple[Any, list[Any]]:
        streams, states = [x], []
        for i, lstms in enumerate(self.layers):
            if len(streams) != len(lstms):
                streams = [ops.concatenate(streams, -1)] if len(streams) > 1 else streams * len(lstms)
            ends = []
            for way, lstm in enumerate(lstms):
                dropped = self.dropout(streams[way], seed=fold_in(seed, i + way * self.num_layers))
                outputs, end = lstm(dropped, lengths=lengths)
                residual = self.kind == "gnmt" and i >= RESIDUAL_FROM
                streams[way] = streams[way] + outputs if residual else outputs
                ends.append(end)
            both = self.kind == "bi"
            states.append(tuple(ops.concatenate(parts, -1) for parts in zip(*ends, strict=True)) if both else ends[-1])
        return ops.concatenate(streams, -1) if len(streams) > 1 else streams[0], states
