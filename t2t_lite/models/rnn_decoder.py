"""The decoder of `rnn`: LSTM layers and attention, wired in one of several ways.

Legend: B sentences, S source length, T target length, K hypotheses of a sentence (1 in training).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import keras
from keras import ops

from t2t_lite.layers.dropout import Dropout, draw_seed, fold_in
from t2t_lite.layers.linear import Linear
from t2t_lite.layers.lstm import Lstm, LstmSize
from t2t_lite.layers.projected_lstm import ProjectedLstm
from t2t_lite.layers.rnn_attention import Result, RnnAttention, Score
from t2t_lite.models.rnn_encoder import RESIDUAL_FROM


@dataclasses.dataclass(frozen=True)
class Wiring:
    """How a decoder's attention is wired.

    Args:
        result: what attention makes of the context; see `RnnAttention`.
        at_bottom: the query is the bottom layer's output, and all other layers are given the context, as in GNMT.
            Otherwise the query is the top layer's output, and the softmax layer is given the result.
        late: the layers above are given the context of the position before (zeros at the first one).
    """

    result: Result
    at_bottom: bool = False
    late: bool = False


WIRINGS = {
    "top": Wiring("tanh"),  # Luong et al. (2015), section 3.1; with input feeding, 3.3
    "attention_wrapper": Wiring("linear"),  # tensor2tensor's lstm_attention
    "vinyals": Wiring("concat"),  # Vinyals et al. (2015), section 2.1
    "gnmt": Wiring("context", at_bottom=True, late=True),  # Wu et al. (2016), section 3
    "gnmt_v2": Wiring("context", at_bottom=True),  # tensorflow/nmt
}


@keras.saving.register_keras_serializable("t2t_lite")
class RnnDecoder(keras.layers.Layer):
    """LSTM layers, with attention whose queries are the outputs of the last layer or of the first.

    Args:
        wiring: a name of `WIRINGS`.
        num_layers, units: of LSTM.
        score: of attention.
        input_feeding: besides the symbol, the bottom layer is given what attention gave at the position before (Luong
            et al., 2015, section 3.3).
        dropout: share of each LSTM's input that training drops.
        d_model: size of the symbols' vectors, and of attentional vectors.
        cells: size of each LSTM's cell if its output is projected to `units`; 0: no projection.

    Attributes:
        late: what the softmax layer is given at a position depends on contexts of earlier positions alone.
        outputs: size of what the softmax layer is given.
        sizes: of each LSTM, without what is fed.

    Call arguments:
        x: vectors of the symbols before each position, [B, T, d_model].
        state: from `first`.
        source: from `source`.
        seed: int32 [3], or None for inference; in Keras' `fit` it is drawn.
        maps: also return weights of attention with input feeding.

    Returns:
        What the softmax layer is given [B, T, outputs]; and the weights of attention at each position, float32
        [B, T, S], or None.
    """

    def __init__(
        self,
        wiring: str,
        num_layers: int,
        units: int,
        score: Score,
        input_feeding: bool,
        dropout: float,
        d_model: int,
        cells: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(autocast=False, **kwargs)
        policy = self.dtype_policy.name
        self.wiring = WIRINGS[wiring]
        self.late = self.wiring.late
        self.dropout = Dropout(dropout, name="dropout")
        names = [f"layer_{i}" for i in range(num_layers)]
        self.layers: list[Lstm] = [
            ProjectedLstm(cells, units, dtype=policy, name=name) if cells else Lstm(units, dtype=policy, name=name)
            for name in names
        ]
        attention = RnnAttention(units, score, self.wiring.result, d_model, dtype=policy, name="attention")
        # The order matters: it is that of the weights, and so of sums over them.
        self.feed = (
            Linear(attention.outputs, 4 * (cells or units), dtype=policy, name="feed") if input_feeding else None
        )
        self.attention = attention
        self.below = 1 if self.wiring.at_bottom else num_layers  # layers up to attention
        self.outputs = units if self.wiring.at_bottom else self.attention.outputs
        given = units if self.wiring.at_bottom else 0  # size of the context
        inputs = [d_model, *[units + given] * (num_layers - 1)]
        self.sizes = [LstmSize(size, cells or units, units if cells else 0) for size in inputs]

    def build(self, input_shape: Any = None) -> None:
        for layer, size in zip(self.layers, self.sizes, strict=True):
            layer.build((None, None, size.inputs))
        if self.feed is not None:
            self.feed.build()
        self.attention.build()

    def first(self, states: Sequence[Any]) -> dict[str, Any]:
        """Returns the state before the first position: that of the encoder, and zeros for what attention gave."""
        if self.feed is None and not self.wiring.late:
            return {"layers": list(states)}
        zeros = ops.zeros_like(states[0][0][..., :1])
        return {"layers": list(states), "fed": ops.repeat(zeros, self.attention.outputs, axis=-1)}

    def source(self, memory: Any, bias: Any) -> dict[str, Any]:
        """Returns what attention reads at each position: memory, keys and bias, as `RnnAttention` has them."""
        return {"memory": memory, "keys": self.attention.keys_of(memory), "bias": bias}

    def call(
        self,
        x: Any,
        state: Any,
        source: Any,
        seed: Any = None,
        maps: bool = False,
        training: bool | None = None,
    ) -> tuple[Any, Any]:
        seed = draw_seed() if seed is None and training else seed
        inputs = x
        if self.feed is None:
            for i in range(self.below):
                x = self._layer(i, state)(self.dropout(x, seed=fold_in(seed, i)))
            results, weights = self.attention(x, **source)
        else:
            x, results, weights = self._scan(x, state, source, seed, maps)
        if self.wiring.late:
            results = ops.pad(results[:, :-1], ((0, 0), (1, 0), (0, 0)))
        return self._above(inputs, x, results, lambda i: self._layer(i, state), seed), weights

    def _layer(self, i: int, state: Any) -> Callable[[Any], Any]:
        """Layer i, over all positions from `state` on."""
        return lambda x: self.layers[i](x, state=state["layers"][i])[0]

    def _above(
        self, inputs: Any, x: Any, results: Any, layer: Callable[[int], Callable[[Any], Any]], seed: Any = None
    ) -> Any:
        """What the softmax layer is given, [B, T or K, outputs].

        Args:
            inputs: of the bottom layer, without what is fed.
            x: outputs of the layer that gives attention its query.
            results: results of attention.
            layer: i -> layer i, from inputs to outputs.
        """
        if not self.wiring.at_bottom:
            return results
        for i in range(self.below, len(self.layers)):
            y = layer(i)(self.dropout(ops.concatenate([x, results], -1), seed=fold_in(seed, i)))
            x = x + y if i >= RESIDUAL_FROM else y
        return x

    def _scan(self, x: Any, state: Any, source: Any, seed: Any, maps: bool) -> tuple[Any, Any, Any]:
        """Runs layers and attention position by position; returns outputs (for layers above), results and weights.

        Two things are known for all positions beforehand: the bottom layer's products, and which numbers are dropped.
        """
        known = [self.layers[0].of_input(self.dropout(x, seed=fold_in(seed, 0)))]
        if seed is not None and self.dropout.rate:
            sizes = {
                len(self.layers): self.attention.outputs,
                **{i: self.sizes[i].inputs for i in range(1, self.below)},
            }
            ones = ops.ones_like(x[..., :1])
            known += [self.dropout(ops.repeat(ones, n, axis=-1), seed=fold_in(seed, at)) for at, n in sizes.items()]
        ends = [sum(part.shape[-1] for part in known[: i + 1]) for i in range(len(known) - 1)]

        def position(before: Any, now: Any) -> tuple[Any, Any]:
            of_input, *kept = ops.split(now, ends, axis=-1) if ends else [now]
            _, weights, state = self.position(of_input, before["state"], source, kept)
            after = {"state": state, **({"weights": weights} if maps else {})}
            if self.wiring.at_bottom:
                after["above"] = ops.concatenate([state["layers"][-1][0], state["fed"]], -1)
            return after, after

        # ops.scan: outputs have the structure of the state, and only one array is scanned, as in `Lstm`.
        first = {"state": {**state, "layers": state["layers"][: self.below]}}
        if maps:
            first["weights"] = ops.zeros_like(source["bias"])
        if self.wiring.at_bottom:
            # Not the state's h: its gradient would be a sum of three, one of them out of a list. TensorFlow's AddN
            # begins with whichever buffer is free, so the last bits would depend on timing.
            first["above"] = ops.concatenate([state["layers"][0][0], state["fed"]], -1)
        by_position = ops.transpose(ops.concatenate(known, -1), (1, 0, 2))[:, :, None]
        _, outputs = ops.scan(position, first, by_position)
        outputs = keras.tree.map_structure(lambda value: ops.transpose(value[:, :, 0], (1, 0, 2)), outputs)
        if not self.wiring.at_bottom:
            return None, ops.cast(outputs["state"]["fed"], self.compute_dtype), outputs.get("weights")
        h, results = ops.split(ops.cast(outputs["above"], self.compute_dtype), 2, axis=-1)
        return h, results, outputs.get("weights")

    def position(self, of_input: Any, state: Any, source: Any, kept: Sequence[Any] = ()) -> tuple[Any, Any, Any]:
        """One position, up to attention.

        Args:
            of_input: W x + b of the bottom layer, [B, K, 4 units].
            state: the state before this position.
            source: from `source`.
            kept: [B, K, ...], factors for what is fed and for the inputs of the layers above the bottom one.

        Returns:
            What attention gives [B, K, ...], weights [B, K, S], and the state after it.
        """
        masks = iter(kept)

        def drop(value: Any) -> Any:
            mask = next(masks, None)
            return value if mask is None else value * ops.cast(mask, value.dtype)

        if self.feed is not None:
            of_input = of_input + self.feed(drop(state["fed"]))
        states = [self.layers[0].after(of_input, state["layers"][0])]
        for i in range(1, self.below):
            layer = self.layers[i]
            states.append(layer.after(layer.of_input(drop(states[-1][0])), state["layers"][i]))
        result, weights = self.attention(states[-1][0], **source)
        fed = {"fed": ops.cast(result, "float32")} if "fed" in state else {}
        return result, weights, {"layers": states, **fed}

    def step(self, x: Any, state: Any, source: Any) -> tuple[Any, Any]:
        """One position of a search: what the softmax layer is given [B, K, outputs], and the state after it.

        Args:
            x: vectors of the symbols before it, [B, K, d_model].
            state, source: as for `position`.
        """
        result, _, after = self.position(self.layers[0].of_input(x), state, source)

        def layer(i: int) -> Callable[[Any], Any]:
            def run(inputs: Any) -> Any:
                after["layers"].append(self.layers[i].after(self.layers[i].of_input(inputs), state["layers"][i]))
                return ops.cast(after["layers"][-1][0], self.compute_dtype)

            return run

        h, given = (ops.cast(values, self.compute_dtype) for values in (after["layers"][-1][0], result))
        if self.wiring.late:
            given = ops.cast(state["fed"], self.compute_dtype)
        return self._above(x, h, given, layer), after
