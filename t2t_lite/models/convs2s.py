"""Convolutional encoder-decoder (Gehring et al., 2017): gated convolutions, attention in every layer of the decoder.

Legend: B sentences, S source length, T target length, K hypotheses of a sentence, L layers of the decoder.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from keras import ops

from t2t_lite.ids import PAD
from t2t_lite.layers import masks
from t2t_lite.layers.conv_embedding import ConvEmbedding
from t2t_lite.layers.dropout import Dropout, fold_in
from t2t_lite.layers.weight_norm import WeightNormLinear
from t2t_lite.models import base
from t2t_lite.models.convs2s_hparams import Convolution, ConvS2SHParams, parse_layers
from t2t_lite.models.convs2s_stacks import ConvDecoder, ConvEncoder
from t2t_lite.models.cost import CostPerSymbol
from t2t_lite.registry import register_model


@register_model("convs2s")
class ConvS2S(base.Model):
    """A convolutional encoder-decoder, without recurrence: training computes all positions at once.

    Args: as for `from_hparams`.
    """

    attention_kinds = ("memory",)

    def __init__(
        self, hparams: ConvS2SHParams, source_vocab_size: int, target_vocab_size: int, shared: bool = False
    ) -> None:
        super().__init__(hparams, source_vocab_size, target_vocab_size, shared, name="convs2s", autocast=False)
        encoder_layers = parse_layers("encoder_layers", hparams.encoder_layers)
        decoder_layers = parse_layers("decoder_layers", hparams.decoder_layers)
        d_model, d_out, dropout = hparams.d_model, hparams.d_out, hparams.dropout
        policy, dtype = self.dtype_policy.name, self.compute_dtype

        def embedding(vocab_size: int, name: str) -> ConvEmbedding:
            return ConvEmbedding(vocab_size, hparams.max_positions, d_model, dtype, name=name)

        self.source_embedding = embedding(source_vocab_size, "source_embedding")
        self.target_embedding = embedding(target_vocab_size, "target_embedding")
        self.dropout = Dropout(dropout, name="dropout")
        self.encoder = ConvEncoder(encoder_layers, d_model, dropout, len(decoder_layers), dtype=policy, name="encoder")
        self.decoder = ConvDecoder(decoder_layers, d_model, d_out, dropout, dtype=policy, name="decoder")
        stddev = math.sqrt((1 - dropout) / d_out)
        self.softmax = WeightNormLinear(d_out, target_vocab_size, stddev, dtype=policy, name="softmax")
        self._cost = cost_of(encoder_layers, decoder_layers, d_model, d_out, target_vocab_size)
        self.build(None)

    def build(self, input_shape: Any) -> None:
        part: Any
        for part in (self.source_embedding, self.target_embedding, self.encoder, self.decoder, self.softmax):
            part.build(None)

    @classmethod
    def from_hparams(
        cls, hparams: ConvS2SHParams, source_vocab_size: int, target_vocab_size: int, shared: bool
    ) -> ConvS2S:
        return cls(hparams, source_vocab_size, target_vocab_size, shared)

    @property
    def cost(self) -> CostPerSymbol:
        return self._cost

    def output(self) -> tuple[Any, Any]:
        return self.softmax.matrix(), self.softmax.bias

    def logits(self, hidden: Any) -> Any:
        # The layer's own product: in a search its weights are laid out once.
        return ops.cast(self.softmax(hidden), "float32")

    def encode(self, batch: Mapping[str, Any], seed: Any = None) -> dict[str, Any]:
        """Reads the source.

        Returns:
            "keys" z and "values" (z + e) sqrt(1/2) sqrt(n), n being the length of the sentence, [B, S, d_model] each;
            "bias" float32 [B, 1, S], which hides padding.
        """
        source = batch["source"]
        real = ops.cast(ops.not_equal(source, PAD), self.compute_dtype)[..., None]
        embedded = self._embed(self.source_embedding, source, fold_in(seed, 0))
        keys, values = self.encoder(embedded, real, seed=fold_in(seed, 1))
        lengths = ops.cast(ops.count_nonzero(source, axis=1), "float32")[:, None, None]
        values = values * ops.cast(ops.sqrt(lengths), values.dtype)  # n sqrt(1 / n), for all sums over the source
        return {"keys": keys, "values": values, "bias": masks.padding_bias(source)[:, 0]}

    def hidden(self, batch: Mapping[str, Any], seed: Any = None) -> Any:
        return self._run_decoder(batch, seed)[0]

    def attention_maps(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        return {"memory": ops.stack(self._run_decoder(batch, None)[1], axis=1)[:, :, None]}

    def _run_decoder(self, batch: Mapping[str, Any], seed: Any) -> tuple[Any, list[Any]]:
        source = self.encode(batch, fold_in(seed, 0))
        shifted = ops.pad(batch["target"][:, :-1], ((0, 0), (1, 0)))
        embedded = self._embed(self.target_embedding, shifted, fold_in(seed, 1))
        return self.decoder(embedded, source, seed=fold_in(seed, 2))

    def _embed(self, embedding: ConvEmbedding, ids: Any, seed: Any) -> Any:
        return self.dropout(embedding(ids, positions=ops.arange(ops.shape(ids)[1])), seed=seed)

    def start(self, memory: Any, beam_size: int, steps: Any) -> tuple[Any, Any, Any]:
        """Begins a search; as `base.Model` says."""

        def step(ids: Any, index: Any, fixed: Any, state: Any) -> tuple[Any, Any]:
            vector, state = self.decoder.position(self.target_embedding(ids, positions=index), fixed, state)
            return self.logits(vector), state

        return memory, self.decoder.first(ops.shape(memory["keys"])[0], beam_size), step


def cost_of(
    encoder_layers: Sequence[Convolution],
    decoder_layers: Sequence[Convolution],
    d_model: int,
    d_out: int,
    target_vocab_size: int,
) -> CostPerSymbol:
    """Arithmetic and memory, from the sizes.

    Values kept: for each layer the window, its product, the gate and the output, with attention also queries and
    contexts; for the softmax layer logits, probabilities and gradient. Weights of attention are not counted.
    """

    def layers(convolutions: Sequence[Convolution], outputs: int) -> tuple[int, int]:
        """Multiply-adds and values of a symbol."""
        inputs = convolutions[0].channels
        products, values = d_model * inputs, d_model + inputs
        for channels, width in convolutions:
            products += 2 * width * inputs * channels + (inputs * channels if inputs != channels else 0)
            values += width * inputs + 5 * channels
            inputs = channels
        return products + inputs * outputs, values + outputs

    source, source_values = layers(encoder_layers, d_model)
    target, target_values = layers(decoder_layers, d_out)
    target += sum(2 * channels * d_model for channels, _ in decoder_layers) + d_out * target_vocab_size
    target_values += sum(channels + 3 * d_model for channels, _ in decoder_layers) + 3 * target_vocab_size
    pair = 2 * d_model * len(decoder_layers)  # scores and contexts
    return CostPerSymbol(2 * source, 2 * target, 2 * pair, source_values, target_values)
