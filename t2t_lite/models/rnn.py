"""LSTM encoder-decoder with attention (Luong et al., 2015; Wu et al., 2016; and others, by name).

Legend: B sentences, S source length, T target length, K hypotheses of a sentence.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import keras
from keras import ops

from t2t_lite.layers import masks
from t2t_lite.layers.dropout import fold_in
from t2t_lite.layers.embedding import Embedding
from t2t_lite.models import base
from t2t_lite.models.rnn_cost import RnnCost
from t2t_lite.models.rnn_decoder import RnnDecoder
from t2t_lite.models.rnn_encoder import RnnEncoder
from t2t_lite.models.rnn_hparams import RnnHParams
from t2t_lite.registry import register_model


@register_model("rnn")
class Rnn(base.Model):
    """An encoder and a decoder of LSTM layers; the decoder begins with the states that the encoder ends with.

    Args:
        hparams, source_vocab_size, target_vocab_size, shared: as for `from_hparams`.
        encoder, decoder: as `RnnEncoder` and `RnnDecoder`, in the model's precision.
        softmax_bias: the softmax layer has a bias.
    """

    attention_kinds = ("memory",)
    xla = False

    def __init__(
        self,
        hparams: Any,
        source_vocab_size: int,
        target_vocab_size: int,
        shared: bool,
        *,
        encoder: Any,
        decoder: Any,
        softmax_bias: bool = False,
    ) -> None:
        super().__init__(hparams, source_vocab_size, target_vocab_size, shared, name="rnn", autocast=False)
        units, tied = hparams.d_model, hparams.share_embeddings

        def embedding(vocab_size: int, name: str, size: int = units) -> Embedding:
            return Embedding(vocab_size, size, self.compute_dtype, name=name)

        # The order matters: it is that of the weights, and so of sums over them.
        self.target_embedding = embedding(target_vocab_size, "target_embedding")
        self.source_embedding = (
            self.target_embedding if shared and tied else embedding(source_vocab_size, "source_embedding")
        )
        self.softmax = self.target_embedding if tied else embedding(target_vocab_size, "softmax", decoder.outputs)
        self.encoder, self.decoder = encoder, decoder
        self.softmax_bias: Any = None
        self._has_bias = softmax_bias
        self.build(None)

    def build(self, input_shape: Any) -> None:
        parts = [self.source_embedding, self.target_embedding, self.softmax, self.encoder, self.decoder]
        part: Any
        for part in dict.fromkeys(parts):
            part.build(None)
        if self._has_bias:
            shape = (self.target_vocab_size,)
            self.softmax_bias = self.add_weight(name="softmax_bias", shape=shape, initializer="zeros")

    @classmethod
    def from_hparams(cls, hparams: RnnHParams, source_vocab_size: int, target_vocab_size: int, shared: bool) -> Rnn:
        policy = base.policy_of(hparams.precision)
        layers, units, dropout = hparams.num_layers, hparams.d_model, hparams.dropout
        encoder = RnnEncoder(hparams.encoder, layers, units, dropout, dtype=policy, name="encoder")
        how = hparams.attention_score, hparams.input_feeding, dropout
        # The decoder's states are as long as the encoder's outputs.
        decoder = RnnDecoder(hparams.wiring, layers, encoder.outputs, *how, units, dtype=policy, name="decoder")
        return cls(
            hparams,
            source_vocab_size,
            target_vocab_size,
            shared,
            encoder=encoder,
            decoder=decoder,
            softmax_bias=hparams.softmax_bias,
        )

    @property
    def cost(self) -> RnnCost:
        attention, feed = self.decoder.attention, self.decoder.feed
        others = (feed, attention.query, attention.combined)
        return RnnCost(
            encoder=self.encoder.sizes,
            decoder=self.decoder.sizes,
            source_matrices=0 if attention.keys is None else attention.keys.size,
            target_matrices=sum(m.size for m in others if m is not None) + math.prod(self.softmax.table.shape),
            target_vocab_size=self.target_vocab_size,
            additive=attention.score in ("additive", "normed_additive"),
            input_feeding=feed is not None,
        )

    def output(self) -> tuple[Any, Any]:
        return self.softmax.table, self.softmax_bias

    def encode(self, batch: Mapping[str, Any], seed: Any = None) -> dict[str, Any]:
        """Reads the source.

        Returns:
            "memory" [B, S, units or twice that], "bias" float32 [B, 1, S] that hides padding, and "states" after the
            last symbol, of each layer, as `Lstm` has them.
        """
        source = batch["source"]
        lengths = ops.count_nonzero(source, axis=1)
        memory, states = self.encoder(self.source_embedding(source), lengths, seed=fold_in(seed, 0))
        return {"memory": memory, "bias": masks.padding_bias(source)[:, 0], "states": states}

    def hidden(self, batch: Mapping[str, Any], seed: Any = None) -> Any:
        return self._run_decoder(batch, seed, maps=False)[0]

    def attention_maps(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """As `Model.attention_maps`, [B, 1, 1, T, S]; of a `late` decoder row 0 is zeros."""
        weights = self._run_decoder(batch, None, maps=True)[1]
        if self.decoder.late:
            weights = ops.pad(weights[:, :-1], ((0, 0), (1, 0), (0, 0)))
        return {"memory": weights[:, None, None]}

    def _run_decoder(self, batch: Mapping[str, Any], seed: Any, maps: bool) -> tuple[Any, Any]:
        encoded = self.encode(batch, fold_in(seed, 0))
        shifted = ops.pad(batch["target"][:, :-1], ((0, 0), (1, 0)))
        return self.decoder(
            self.target_embedding(shifted),
            self.decoder.first(encoded["states"]),
            self.decoder.source(encoded["memory"], encoded["bias"]),
            seed=fold_in(seed, 1),
            maps=maps,
        )

    def start(self, memory: Any, beam_size: int, steps: Any) -> tuple[Any, Any, Any]:
        state = self.decoder.first(memory["states"])
        state = keras.tree.map_structure(lambda value: ops.repeat(value, beam_size, axis=1), state)

        def step(ids: Any, index: Any, fixed: Any, state: Any) -> tuple[Any, Any]:
            hidden, state = self.decoder.step(self.target_embedding(ids), state, fixed)
            return self.logits(hidden), state

        return self.decoder.source(memory["memory"], memory["bias"]), state, step
