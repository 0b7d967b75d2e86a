"""ByteNet (Kalchbrenner et al., 2016): dilated convolutions, and a decoder that unfolds over the encoder's columns.

There is no attention: position t of the target reads column t of the source. So a symbol can depend only on symbols
that the convolutions reach from there. This suits languages with much the same word order.

Legend: B sentences, S source length, C columns, T target length, K hypotheses of a sentence.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
from keras import ops

from t2t_lite.layers.dilated_convolution import DilatedConvolution
from t2t_lite.layers.dropout import fold_in
from t2t_lite.layers.embedding import Embedding
from t2t_lite.models import base
from t2t_lite.models.bytenet_hparams import ByteNetHParams
from t2t_lite.models.bytenet_stacks import ByteNetDecoder, ByteNetEncoder
from t2t_lite.models.cost import CostPerSymbol
from t2t_lite.registry import register_model


@dataclasses.dataclass(frozen=True)
class Unfolding:
    """How many columns the encoder makes of n symbols: a n + b, rounded up (section 3.2).

    Args:
        factor: a, in whole thousandths, so that lengths are computed in integers and are the same everywhere.
        extra: b.
    """

    factor: float
    extra: int

    def columns(self, symbols: Any) -> Any:
        """int [...] -> int [...]."""
        return -(-symbols * round(1000 * self.factor) // 1000) + self.extra


@register_model("bytenet")
class ByteNet(base.Model):
    """ByteNet, without recurrence: training computes all positions at once.

    The number of a sentence's columns depends on its own length alone, not on padding. Beyond them the convolutions and
    the decoder see zeros.

    Args:
        hparams: the recipe.
        source_vocab_size, target_vocab_size: rows of the tables; source, target and softmax have one each.
    """

    def __init__(
        self, hparams: ByteNetHParams, source_vocab_size: int, target_vocab_size: int, shared: bool = False
    ) -> None:
        super().__init__(hparams, source_vocab_size, target_vocab_size, shared, name="bytenet", autocast=False)
        self.encoder = ByteNetEncoder(hparams, dtype=self.dtype_policy.name, name="encoder")
        self.decoder = ByteNetDecoder(hparams, dtype=self.dtype_policy.name, name="decoder")

        def table(vocab_size: int, name: str) -> Embedding:
            return Embedding(vocab_size, self.encoder.channels, self.compute_dtype, name=name)

        self.source_embedding = table(source_vocab_size, "source_embedding")
        self.target_embedding = table(target_vocab_size, "target_embedding")
        self.softmax = table(target_vocab_size, "softmax")
        self.unfolding = Unfolding(hparams.unfold_factor, hparams.unfold_extra)
        self.build(None)

    def build(self, input_shape: Any) -> None:
        part: Any
        for part in (self.source_embedding, self.target_embedding, self.softmax, self.encoder, self.decoder):
            part.build(None)

    @classmethod
    def from_hparams(
        cls, hparams: ByteNetHParams, source_vocab_size: int, target_vocab_size: int, shared: bool
    ) -> ByteNet:
        return cls(hparams, source_vocab_size, target_vocab_size, shared)

    @property
    def cost(self) -> ByteNetCost:
        """Arithmetic and memory.

        Values kept: for each convolution its inputs, normalised and after the ReLU, its window and its outputs; for the
        softmax layer logits, probabilities and gradient.
        """

        def values(convolutions: list[DilatedConvolution]) -> int:
            return sum((2 + c.width * (c.width > 1)) * c.inputs + c.outputs for c in convolutions)

        source, target = self.encoder.convolutions(), self.decoder.convolutions()
        vocab_size, size = self.softmax.table.shape
        return ByteNetCost(
            source=2 * sum(convolution.size for convolution in source),
            target=2 * (sum(convolution.size for convolution in target) + vocab_size * size),
            source_values=values(source),
            target_values=values(target) + 3 * vocab_size,
            unfolding=self.unfolding,
        )

    def output(self) -> tuple[Any, Any]:
        return self.softmax.table, None

    def encode(self, batch: Mapping[str, Any], seed: Any = None) -> Any:
        """Reads the source; returns the encoder's columns [B, C, channels], where C is their number for S symbols."""
        source = batch["source"]
        sentences, length = ops.shape(source)
        columns = self.unfolding.columns(length)
        empty = ops.zeros((sentences, columns - length), source.dtype)
        embedded = self.source_embedding(ops.concatenate([source, empty], 1))
        own = self.unfolding.columns(ops.cast(ops.count_nonzero(source, axis=1), "int32"))
        there = ops.cast(ops.arange(columns) < own[:, None], self.compute_dtype)[..., None]
        return self.encoder(embedded, there, seed=seed)

    def hidden(self, batch: Mapping[str, Any], seed: Any = None) -> Any:
        columns, target = self.encode(batch, fold_in(seed, 0)), batch["target"]
        length = ops.shape(target)[1]
        columns = ops.pad(columns, ((0, 0), (0, length), (0, 0)))[:, :length]
        shifted = ops.pad(target[:, :-1], ((0, 0), (1, 0)))
        return self.decoder(columns, self.target_embedding(shifted), seed=fold_in(seed, 1))

    def start(self, memory: Any, beam_size: int, steps: Any) -> tuple[Any, Any, Any]:
        fixed = ops.pad(memory, ((0, 0), (0, 1), (0, 0)))  # what positions beyond the last column read

        def step(ids: Any, index: Any, fixed: Any, state: Any) -> tuple[Any, Any]:
            column = ops.take(fixed, ops.minimum(index, ops.shape(fixed)[1] - 1), axis=1)
            hidden, state = self.decoder.position(column, self.target_embedding(ids), state)
            return self.logits(hidden), state

        return fixed, self.decoder.first(ops.shape(memory)[0], beam_size), step


@dataclasses.dataclass(frozen=True)
class ByteNetCost(CostPerSymbol):
    """The cost, where `source` and `source_values` are those of one column of the encoder.

    Args:
        unfolding: how many columns the source has.
    """

    unfolding: Unfolding = Unfolding(1, 0)

    def forward_flops(self, source_lengths: Any, target_lengths: Any) -> int:
        symbols = np.asarray(source_lengths, np.int64)
        columns = np.where(symbols > 0, self.unfolding.columns(symbols), 0)  # an empty row of a batch has none
        return super().forward_flops(columns, target_lengths)

    def activation_bytes(self, rows: int, source_length: int, target_length: int, bytes_per_value: int) -> int:
        columns = self.unfolding.columns(source_length)
        return super().activation_bytes(rows, columns, target_length, bytes_per_value)
