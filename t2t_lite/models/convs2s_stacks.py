"""The encoder and the decoder of `convs2s`: gated convolutions one above the other (Gehring et al., 2017).

Legend: B sentences, S source length, T target length, K hypotheses of a sentence, C channels, E size of embeddings.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import keras
from keras import ops

from t2t_lite.layers.conv_attention import ConvAttention
from t2t_lite.layers.dropout import Dropout, fold_in
from t2t_lite.layers.fork import fork
from t2t_lite.layers.gated_convolution import GatedConvolution
from t2t_lite.layers.weight_norm import WeightNormLinear
from t2t_lite.models.convs2s_hparams import Convolution

HALF = math.sqrt(0.5)  # factor of a sum of two; it keeps the variance if both have the same


class _Stack(keras.layers.Layer):
    """Convolutions, with residual connections that are projected where the number of channels changes.

    Initial weights keep the variance where dropout makes inputs larger (section 3.5).

    Args:
        layers: sizes.
        d_model: E.
        outputs: size that the last layer's output is projected to.
        dropout: share of each layer's input that training drops.
    """

    def __init__(
        self, layers: Sequence[Convolution], d_model: int, outputs: int, dropout: float, **kwargs: Any
    ) -> None:
        super().__init__(autocast=False, **kwargs)
        layers = [Convolution(*size) for size in layers]
        self.dropout = Dropout(dropout, name="dropout")
        self.input_projection = self._linear(d_model, layers[0].channels, "input", 1 - dropout)
        self.convolutions, self.projections = [], []
        inputs = layers[0].channels
        for i, (channels, width) in enumerate(layers):
            stddev = math.sqrt(4 * (1 - dropout) / (width * inputs))
            name = f"convolution_{i}"
            self.convolutions.append(
                GatedConvolution(inputs, channels, width, stddev, dtype=self.dtype_policy.name, name=name)
            )
            new = channels != inputs
            self.projections.append(self._linear(inputs, channels, f"projection_{i}") if new else None)
            inputs = channels
        self.output_projection = self._linear(inputs, outputs, "output")

    def _linear(self, inputs: int, outputs: int, name: str, kept: float = 1.0) -> WeightNormLinear:
        return WeightNormLinear(inputs, outputs, math.sqrt(kept / inputs), dtype=self.dtype_policy.name, name=name)

    def build(self, input_shape: Any = None) -> None:
        parts: list[Any] = [self.input_projection, *self.convolutions, *self.projections, self.output_projection]
        for part in parts:
            if part is not None:
                part.build()

    def blocks(self) -> Iterator[tuple[int, Any, Any]]:
        """Yields the number of each layer, its convolution, and a function from its input to its residual."""
        for i, (convolution, projection) in enumerate(zip(self.convolutions, self.projections, strict=True)):
            yield i, convolution, projection or (lambda x: x)


@keras.saving.register_keras_serializable("t2t_lite")
class ConvEncoder(_Stack):
    """Reads the source, all positions at once.

    Args:
        layers, d_model, dropout: as above.
        readers: layers that attend to z; its gradient is divided by twice their number (section 3.4, and fairseq).

    Call arguments:
        embedded: e, [B, S, E].
        there: [B, S, 1], 1 at symbols and 0 at padding, in the layer's precision.
        seed: int32 [3], or None for inference.

    Returns:
        z and (z + e) sqrt(1/2), [B, S, E] each.
    """

    def __init__(
        self, layers: Sequence[Convolution], d_model: int, dropout: float, readers: int, **kwargs: Any
    ) -> None:
        super().__init__(layers, d_model, d_model, dropout, **kwargs)
        self.readers = readers

    def call(self, embedded: Any, there: Any, seed: Any = None) -> tuple[Any, Any]:
        x = self.input_projection(embedded)
        for i, convolution, residual in self.blocks():
            left, right = (convolution.width - 1) // 2, convolution.width // 2
            inputs = ops.pad(self.dropout(x * there, seed=fold_in(seed, i)), ((0, 0), (left, right), (0, 0)))
            x = (convolution(inputs) + residual(x)) * HALF
        z = self.output_projection(x) * there
        fixed = ops.stop_gradient(z)
        z = fixed + (z - fixed) / (2 * self.readers)  # the value of z, as the difference is 0; but not its gradient
        return z, (z + embedded) * HALF


@keras.saving.register_keras_serializable("t2t_lite")
class ConvDecoder(_Stack):
    """Reads the symbols before each position; every layer attends to the source.

    A state is a list of the last k - 1 inputs, [B, K, k - 1, C], of each layer of width k > 1.

    Call arguments:
        embedded: g, of the symbols before each position, [B, T, E].
        source: "keys", "values" and "bias", as `ConvAttention` has them.
        seed: int32 [3], or None for inference.

    Returns:
        [B, T, outputs], and each layer's weights of attention, float32 [B, T, S].
    """

    def __init__(
        self, layers: Sequence[Convolution], d_model: int, outputs: int, dropout: float, **kwargs: Any
    ) -> None:
        super().__init__(layers, d_model, outputs, dropout, **kwargs)
        self.attention = [
            ConvAttention(channels, d_model, dtype=self.dtype_policy.name, name=f"attention_{i}")
            for i, (channels, _) in enumerate(layers)
        ]

    def build(self, input_shape: Any = None) -> None:
        super().build()
        for attention in self.attention:
            attention.build()

    def call(self, embedded: Any, source: Any, seed: Any = None) -> tuple[Any, list[Any]]:
        def inputs(i: int, convolution: GatedConvolution, x: Any) -> Any:
            return ops.pad(self.dropout(x, seed=fold_in(seed, i)), ((0, 0), (convolution.width - 1, 0), (0, 0)))

        x, maps = self._all_layers(embedded, source, inputs)
        return self.dropout(x, seed=fold_in(seed, len(self.convolutions))), maps

    def first(self, sentences: Any, beam_size: int) -> list[Any]:
        """Returns the state before the first position: zeros."""
        return [
            ops.zeros((sentences, beam_size, convolution.width - 1, convolution.inputs), self.compute_dtype)
            for convolution in self.convolutions
            if convolution.width > 1
        ]

    def position(self, embedded: Any, source: Any, state: Sequence[Any]) -> tuple[Any, list[Any]]:
        """One position of a search: embedded [B, K, E] -> [B, K, outputs], and the state after it."""
        before, after = iter(state), []

        def inputs(i: int, convolution: GatedConvolution, x: Any) -> Any:
            if convolution.width == 1:
                return x[:, :, None]
            window = ops.concatenate([next(before), x[:, :, None]], 2)
            after.append(window[:, :, 1:])
            return window

        return self._all_layers(embedded, source, inputs)[0], after

    def _all_layers(self, embedded: Any, source: Any, inputs: Any) -> tuple[Any, list[Any]]:
        """Returns the outputs and each layer's weights of attention.

        Args:
            inputs: makes a convolution's inputs. For one position of a search they are [B, K, k, C]; the axis of that
                position is removed after the convolution.
        """
        first, *others = fork(embedded, 1 + len(self.attention))
        x, maps = self.input_projection(first), []
        for i, convolution, residual in self.blocks():
            h = convolution(inputs(i, convolution, x))
            h, weights = self.attention[i](h if len(h.shape) == 3 else h[:, :, 0], others[i], **source)
            x = (h + residual(x)) * HALF
            maps.append(weights)
        return self.output_projection(x), maps
