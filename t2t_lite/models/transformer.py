"""The Transformer (Figure 1): embeddings, encoder, decoder, tied softmax.

Legend: B batch, S source length, T target length.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Mapping
from typing import Any, Self

import keras
import numpy as np
from keras import ops

from t2t_lite.errors import UsageError
from t2t_lite.ids import EOS, PAD
from t2t_lite.layers import masks
from t2t_lite.layers.dropout import Dropout, fold_in
from t2t_lite.layers.embedding import Embedding
from t2t_lite.layers.local_attention import Window
from t2t_lite.layers.no_build_trace import NoBuildTrace
from t2t_lite.layers.positions import SIGNALS, LearnedPositions
from t2t_lite.layers.recording import record
from t2t_lite.models.base import Model
from t2t_lite.models.decoder import Decoder
from t2t_lite.models.encoder import Encoder
from t2t_lite.models.stack import Experts
from t2t_lite.models.transformer_cost import TransformerCost
from t2t_lite.models.transformer_hparams import TransformerHParams
from t2t_lite.ops import fixed_kv_cache
from t2t_lite.registry import register_model


@register_model("transformer")
class Transformer(NoBuildTrace, Model):
    """The encoder-decoder of "Attention Is All You Need".

    Args:
        hparams: the recipe.
        source_vocab_size, target_vocab_size: rows of the embeddings.
        shared: one vocabulary for both sides.
        experts: of a mixture in every second layer, in the place of the feed-forward network; None: networks alone.
    """

    hparams: TransformerHParams
    packs = True
    xla_search = True
    attention_kinds = ("encoder", "decoder", "memory")
    source_positions: Any = None  # only if positions are learned
    target_positions: Any = None

    def __init__(
        self,
        hparams: TransformerHParams,
        source_vocab_size: int,
        target_vocab_size: int,
        shared: bool,
        experts: Experts | None = None,
    ) -> None:
        super().__init__(hparams, source_vocab_size, target_vocab_size, shared, name="transformer")
        self.remat, self.guided_alignment = hparams.remat, hparams.guided_alignment
        d_model, tied, dtype = hparams.d_model, hparams.share_embeddings, self.dtype_policy.name
        one_table = tied and (shared or hparams.share_between_vocabularies)
        if one_table and source_vocab_size != target_vocab_size:
            raise UsageError(
                f"hparams: share_between_vocabularies=true: the vocabularies have {source_vocab_size:,} and "
                f"{target_vocab_size:,} pieces, so that they cannot share a table. Set it to false."
            )

        def embedding(vocab_size: int, name: str) -> Embedding:
            return Embedding(vocab_size, d_model, self.compute_dtype, name=name)

        self.target_embedding = embedding(target_vocab_size, "target_embedding")
        self.source_embedding = self.target_embedding if one_table else embedding(source_vocab_size, "source_embedding")
        self.softmax = self.target_embedding if tied else embedding(target_vocab_size, "softmax")
        if hparams.positions == "learned":
            self.source_positions = LearnedPositions(hparams.max_positions, d_model, name="source_positions")
            self.target_positions = LearnedPositions(hparams.max_positions, d_model, name="target_positions")
        self.dropout = Dropout(hparams.dropout, dtype=dtype, name="dropout")  # on the sums of embeddings and positions
        self.encoder = Encoder(hparams, experts, dtype=dtype, name="encoder")
        self.decoder = Decoder(hparams, experts, dtype=dtype, name="decoder")
        bound = (6 / (32 + d_model)) ** 0.5  # of a row of tensor2tensor's table of 32 target spaces
        uniform = functools.partial(keras.initializers.RandomUniform, -bound, bound)
        normal = functools.partial(keras.initializers.RandomNormal, stddev=1.0)  # as a symbol's when scaled
        self.source_bias = self._vector(hparams.source_vector, "source_bias", d_model, uniform)
        self.start_vector = self._vector(hparams.start_vector, "start_vector", d_model, normal)
        self.output_bias = self._vector(hparams.output_bias, "output_bias", target_vocab_size, keras.initializers.Zeros)
        # One call creates all weights, under names that follow from the structure alone.
        ids = np.zeros((1, 2), "int32")
        if not tied:
            with keras.name_scope(self.name):
                self.softmax(ids)
        self({"source": ids, "target": ids})

    def _vector(self, wanted: bool, name: str, size: int, initializer: Callable[[], Any]) -> Any:
        """A weight, or None. Each initializer takes a number from Keras' seed, so it is made only if it is used."""
        return self.add_weight(name=name, shape=(size,), initializer=initializer()) if wanted else None

    @classmethod
    def from_hparams(
        cls, hparams: TransformerHParams, source_vocab_size: int, target_vocab_size: int, shared: bool
    ) -> Self:
        return cls(hparams, source_vocab_size, target_vocab_size, shared)

    @property
    def cost(self) -> TransformerCost:
        return TransformerCost(self.hparams, self.softmax.vocab_size)

    def output(self) -> tuple[Any, Any]:
        return self.softmax.table, self.output_bias

    def hidden(self, batch: Mapping[str, Any], seed: Any = None) -> Any:
        memory, memory_bias = self.encode(batch, fold_in(seed, 0))
        target, segments, positions = batch["target"], batch.get("target_segment"), batch.get("target_position")
        shifted = ops.pad(target[:, :-1], ((0, 0), (1, 0)))
        if segments is not None:
            shifted = ops.where(positions == 0, 0, shifted)
        if window := self.hparams.attention_window:
            bias = Window(window, causal=True, segments=ops.ones_like(target) if segments is None else segments)
        else:
            bias = masks.causal_bias(ops.shape(target)[1])
            if segments is not None:
                bias = bias + masks.segment_bias(segments, segments)
        return self._decode(shifted, positions, memory, bias, memory_bias, seed=fold_in(seed, 1))

    def encode(self, batch: Mapping[str, Any], seed: Any = None) -> tuple[Any, Any]:
        """Returns the encoder's output [B, S, d_model] and the float32 bias [B, 1, 1, S] that hides padding."""
        source = batch["source"]
        segments = batch.get("source_segment")
        positions = batch.get("source_position")
        if not self.hparams.source_end:
            ends = ops.equal(source, EOS)
            source = ops.where(ends, PAD, source)
            segments = None if segments is None else ops.where(ends, 0, segments)
        if segments is None:
            bias = memory_bias = masks.padding_bias(source)
        else:
            memory_bias = masks.segment_bias(batch["target_segment"], segments)
        if window := self.hparams.attention_window:
            real = ops.cast(ops.not_equal(source, PAD), "int32")
            bias = Window(window, causal=False, segments=real if segments is None else segments)
        elif segments is not None:
            bias = masks.segment_bias(segments, segments)
        x = self._embed("source", source, positions, fold_in(seed, 0))
        return self.encoder(x, bias=bias, seed=fold_in(seed, 1)), memory_bias

    def start(self, memory: tuple[Any, Any], beam_size: int, steps: Any) -> tuple[Any, Any, Callable[..., Any]]:
        states, bias = memory
        fixed = {"memory": self.decoder.keys_values(states), "memory_bias": bias}
        caches: Any = fixed_kv_cache if isinstance(steps, int) else self._kv_cache

        def step(ids: Any, index: Any, fixed: Any, state: Any) -> tuple[Any, Any]:
            cache = caches.KVCache(state, index, **fixed)
            return self.logits(self.next_hidden(ids, index, cache)), cache.advance()

        return fixed, caches.init(fixed["memory"], ops.shape(states)[0], beam_size, steps), step

    def next_hidden(self, ids: Any, index: Any, cache: Any) -> Any:
        """Returns one position of a search, [B, K, d_model], equal to that column of `hidden`.

        Args:
            ids, index: as for `step` of `Model.start`.
            cache: what came before, as `ops.kv_cache.KVCache`.
        """
        bias = cache.bias
        if window := self.hparams.attention_window:
            bias = bias + masks.bias(masks.near(index, cache.positions, window, causal=True))
        return self._decode(ids, ops.ones_like(ids) * index, None, bias, cache.memory_bias, cache.layers)

    def reorder(self, state: Any, parents: Any) -> Any:
        return self._kv_cache.reorder(state, parents)

    def is_full(self, state: Any) -> Any:
        return self._kv_cache.is_full(state)

    def renew(self, state: Any, steps: Any) -> Any:
        return self._kv_cache.compact(state, steps)

    @property
    def _kv_cache(self) -> Any:
        from t2t_lite.ops import kv_cache  # for TensorFlow only

        return kv_cache

    def attention_maps(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """As `Model.attention_maps`; the paper's Figures 3 to 5. Column j of "decoder" is its input, target j - 1."""
        layers = {
            "encoder": [block.self_attention for block in self.encoder.blocks],
            "decoder": [block.self_attention for block in self.decoder.blocks],
            "memory": [block.cross_attention for block in self.decoder.blocks],
        }
        with contextlib.ExitStack() as stack:
            seen = {name: stack.enter_context(record(attentions)) for name, attentions in layers.items()}
            self(batch)
        return {name: ops.stack(weights, axis=1) for name, weights in seen.items()}

    @property
    def alignment_attention(self) -> Any:
        layer = self.hparams.aligning_layer
        return self.decoder.blocks[layer - 1].cross_attention if layer else None

    def _decode(
        self, ids: Any, positions: Any, memory: Any, bias: Any, memory_bias: Any, caches: Any = None, seed: Any = None
    ) -> Any:
        x = self._embed("target", ids, positions, fold_in(seed, 0))
        biases = {"self_bias": bias, "memory_bias": memory_bias}
        return self.decoder(x, memory, **biases, caches=caches, seed=fold_in(seed, 1))

    def _embed(self, side: str, ids: Any, positions: Any, seed: Any = None) -> Any:
        if positions is None:
            positions = ops.arange(ops.shape(ids)[1])[None, :]
        x = self.source_embedding(ids) if side == "source" else self.target_embedding(ids)
        encoding = self.position_encoding(side, positions)
        return self.dropout(x + ops.cast(encoding, x.dtype), seed=seed)

    def position_encoding(self, side: str, positions: Any) -> Any:
        """Returns what is added to the embeddings of a side at `positions`, int [...].

        Args:
            side: "source", which includes the source's vector, or "target", which includes the start's at position 0.

        Returns:
            float32, broadcastable to [..., d_model].
        """
        kind, d_model = self.hparams.positions, self.hparams.d_model
        if kind == "learned":
            encoding = (self.source_positions if side == "source" else self.target_positions)(positions)
        elif kind in ("none", "rotary"):
            encoding = ops.zeros((d_model,), "float32")
        else:
            encoding = SIGNALS[kind](positions, d_model)
        if side == "source" and self.source_bias is not None:
            encoding = encoding + ops.cast(self.source_bias, "float32")
        if side == "target" and self.start_vector is not None:  # at position 0 the embedding is zero
            first = ops.cast(ops.equal(positions, 0), "float32")[..., None]
            encoding = encoding + first * ops.cast(self.start_vector, "float32")
        return encoding
