"""The encoder and the decoder of `rnn`: LSTM layers one above the other.

Legend: B sentences, S source length, T target length, K hypotheses of a sentence (1 in training).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from t2t_lite.layers.dropout import Dropout, fold_in
from t2t_lite.layers.linear import Linear
from t2t_lite.layers.lstm import Lstm
from t2t_lite.layers.rnn_attention import RnnAttention, Score


class _Stack(keras.layers.Layer):
    """LSTM layers of one size; training drops a share `dropout` of what each is given."""

    def __init__(self, num_layers: int, units: int, dropout: float, **kwargs: Any) -> None:
        super().__init__(autocast=False, **kwargs)
        self.units = units
        self.dropout = Dropout(dropout, name="dropout")
        self.layers = [Lstm(units, dtype=self.dtype_policy, name=f"layer_{i}") for i in range(num_layers)]

    def build(self, input_shape: Any = None) -> None:
        for layer in self.layers:
            layer.build((None, None, self.units))

    def all_positions(self, x: Any, before: Sequence[Any], lengths: Any, seed: Any) -> tuple[Any, list[Any]]:
        """One layer after the other: outputs of the last [B, T, units], and each one's state after the last position.

        Args:
            x: [B, T, units].
            before: each layer's state, or None for zeros.
            lengths: int [B], positions before the padding; None: no states are returned.
        """
        states = []
        for i, (layer, state) in enumerate(zip(self.layers, before, strict=True)):
            x, state = layer(self.dropout(x, seed=fold_in(seed, i)), state=state, lengths=lengths)
            states.append(state)
        return x, states


class RnnEncoder(_Stack):
    """Reads the source from left to right.

    Args:
        num_layers, units: of LSTM.
        dropout: share of each layer's input that training drops.

    Call arguments:
        x: [B, S, units].
        lengths: int [B], without padding.
        seed: int32 [2], or None for inference.

    Returns:
        The last layer's outputs [B, S, units]; and each layer's state after the last symbol before the padding.
    """

    def call(self, x: Any, lengths: Any, seed: Any = None) -> tuple[Any, list[Any]]:
        return self.all_positions(x, [None] * len(self.layers), lengths, seed)


class RnnDecoder(_Stack):
    """LSTM layers, and attention of the last one's outputs.

    Args:
        num_layers, units, dropout: as for the encoder.
        score: of attention.
        input_feeding: the bottom layer is given the attentional vector of the position before, beside the symbol
            (Luong et al., 2015, section 3.3).

    Call arguments:
        x: of the symbols before each position, [B, T, units].
        state: from `first`.
        source: from `source`.
        seed: int32 [2], or None for inference.
        maps: return weights of attention with input feeding, too.

    Returns:
        Attentional vectors [B, T, units]; and the weights of attention, float32 [B, T, S], or None.
    """

    def __init__(
        self, num_layers: int, units: int, score: Score, input_feeding: bool, dropout: float, **kwargs: Any
    ) -> None:
        super().__init__(num_layers, units, dropout, **kwargs)
        self.feed = Linear(units, 4 * units, dtype=self.dtype_policy, name="feed") if input_feeding else None
        self.attention = RnnAttention(units, score, dtype=self.dtype_policy, name="attention")

    def build(self, input_shape: Any = None) -> None:
        super().build()
        if self.feed is not None:
            self.feed.build()
        self.attention.build()

    def first(self, states: Sequence[Any]) -> dict[str, Any]:
        """Returns the state before the first position: that of the encoder, and an attentional vector of zeros."""
        fed = {} if self.feed is None else {"fed": ops.zeros_like(states[0][0])}
        return {"layers": list(states), **fed}

    def source(self, memory: Any, bias: Any) -> dict[str, Any]:
        """Returns what attention reads at each position: memory, keys and bias, as `RnnAttention` has them."""
        return {"memory": memory, "keys": self.attention.keys(memory), "bias": bias}

    def call(self, x: Any, state: Any, source: Any, seed: Any = None, maps: bool = False) -> tuple[Any, Any]:
        if self.feed is None:
            x, _ = self.all_positions(x, state["layers"], None, seed)
            return self.attention(x, **source)
        # What is known of all positions beforehand: the bottom layer's products, and which numbers are dropped.
        known = [self.layers[0].of_input(self.dropout(x, seed=fold_in(seed, 0)))]
        if seed is not None and self.dropout.rate:
            ones = ops.ones_like(x)
            places = [len(self.layers), *range(1, len(self.layers))]
            known += [self.dropout(ones, seed=fold_in(seed, at)) for at in places]

        def position(before: Any, now: Any) -> tuple[Any, Any]:
            kept = ops.split(now[..., 4 * self.units :], len(known) - 1, axis=-1) if len(known) > 1 else ()
            _, weights, state = self.position(now[..., : 4 * self.units], before["state"], source, kept)
            after = {"state": state, **({"weights": weights} if maps else {})}
            return after, after

        # Of ops.scan: outputs have the structure of the state, and one array is scanned, as in `Lstm`.
        first = {"state": state}
        if maps:
            first["weights"] = ops.zeros_like(source["bias"])
        by_position = ops.transpose(ops.concatenate(known, -1), (1, 0, 2))[:, :, None]
        _, outputs = ops.scan(position, first, by_position)
        outputs = keras.tree.map_structure(lambda value: ops.transpose(value[:, :, 0], (1, 0, 2)), outputs)
        return ops.cast(outputs["state"]["fed"], self.compute_dtype), outputs.get("weights")

    def position(self, of_input: Any, state: Any, source: Any, kept: Sequence[Any] = ()) -> tuple[Any, Any, Any]:
        """One position of training or of a search.

        Args:
            of_input: W x + b of the bottom layer, [B, K, 4 units].
            state: before it.
            source: from `source`.
            kept: [B, K, units] that the vector fed and the inputs of the layers above are multiplied by.

        Returns:
            Attentional vectors [B, K, units], weights [B, K, S], and the state after it.
        """
        masks = iter(kept)

        def dropped(value: Any) -> Any:
            mask = next(masks, None)
            return value if mask is None else value * ops.cast(mask, value.dtype)

        if self.feed is not None:
            of_input = of_input + self.feed(dropped(state["fed"]))
        states = [self.layers[0].after(of_input, state["layers"][0])]
        for layer, before in zip(self.layers[1:], state["layers"][1:], strict=True):
            states.append(layer.after(layer.of_input(dropped(states[-1][0])), before))
        vector, weights = self.attention(states[-1][0], **source)
        fed = {} if self.feed is None else {"fed": ops.cast(vector, "float32")}
        return vector, weights, {"layers": states, **fed}
