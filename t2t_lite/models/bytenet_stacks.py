"""The encoder and the decoder of `bytenet`: residual blocks of dilated convolutions one above the other.

With `wiring=paper` (Kalchbrenner et al., 2016) there are 2 d channels between blocks. A block goes from 2 d to d, over
k positions r apart, and back to 2 d. The paper leaves the rest open. Here the encoder's columns are normalised and
added to the target's embeddings. The softmax layer, a convolution of width 1 like others, is given a ReLU of normalised
inputs.

With `wiring=tensor2tensor` (models/bytenet.py of tensor2tensor 1.15.7) there are d channels everywhere. A block has all
dilations, one after the other. A column and an embedding are concatenated and go through a convolution over the k
positions that end there. The softmax layer is given the last block's outputs.

Legend: B sentences, S columns, T target length, K hypotheses of a sentence, C channels between blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from t2t_lite.layers.dilated_convolution import DilatedConvolution
from t2t_lite.layers.dropout import fold_in
from t2t_lite.layers.layer_norm import LayerNorm
from t2t_lite.layers.residual_block import ResidualBlock, Size, Widen
from t2t_lite.models.bytenet_hparams import ByteNetHParams
from t2t_lite.models.recipe_layer import RecipeLayer


class _Blocks(RecipeLayer):
    """The blocks of a recipe.

    Attributes:
        paper: whether the wiring is `paper`.
        channels: C.
    """

    def __init__(self, hparams: ByteNetHParams, **kwargs: Any) -> None:
        super().__init__(hparams, **kwargs)
        d, k, n = hparams.d_model, hparams.kernel_width, hparams.dilations
        self.paper = hparams.wiring == "paper"
        self.channels = 2 * d if self.paper else d
        if self.paper:
            sizes = [[Size(2 * d, d), Size(d, d, k, 2 ** (i % n)), Size(d, 2 * d)] for i in range(hparams.num_layers)]
        else:
            sizes = [[Size(d, d, k, 2**i) for i in range(n)]] * hparams.num_layers
        self.blocks = [
            ResidualBlock(each, hparams.dropout, not self.paper, dtype=self.dtype_policy.name, name=f"block_{i}")
            for i, each in enumerate(sizes)
        ]
        self.norm = LayerNorm(dtype=self.dtype_policy.name, name="norm") if self.paper else None

    def build(self, input_shape: Any = None) -> None:
        for block in self.blocks:
            block.build()
        if self.norm is not None:
            self.norm.build((None, self.channels))

    def convolutions(self) -> list[DilatedConvolution]:
        return [convolution for block in self.blocks for convolution in block.convolutions]

    def _through(self, x: Any, widen: Widen, seed: Any) -> Any:
        for i, block in enumerate(self.blocks):
            x = block(x, widen=widen, seed=fold_in(seed, i))
        return x if self.norm is None else self.norm(x)


@keras.saving.register_keras_serializable("t2t_lite")
class ByteNetEncoder(_Blocks):
    """Reads the source in both directions; wide convolutions see zeros outside of a sentence's columns.

    Call arguments:
        x: [B, S, C].
        there: [B, S, 1], 1 at a sentence's columns and 0 elsewhere, in the layer's precision.
        seed: int32 [3], or None for inference.

    Returns:
        [B, S, C], zeros outside of a sentence's columns.
    """

    def call(self, x: Any, there: Any, seed: Any = None) -> Any:
        def widen(convolution: DilatedConvolution, x: Any) -> Any:
            left = convolution.span // 2
            return ops.pad(x * there, ((0, 0), (left, convolution.span - left), (0, 0))) if convolution.span else x

        return self._through(x, widen, seed) * there


@keras.saving.register_keras_serializable("t2t_lite")
class ByteNetDecoder(_Blocks):
    """Reads the symbols before each position and the encoder's column at it.

    A state is a list of the last (k - 1) r inputs, [B, K, (k - 1) r, I], of each convolution with k > 1.

    Call arguments:
        columns: of the encoder, [B, T, C].
        embedded: the symbols before each position, [B, T, C].
        seed: int32 [3], or None for inference.

    Returns:
        What the softmax layer is given, [B, T, C].
    """

    def __init__(self, hparams: ByteNetHParams, **kwargs: Any) -> None:
        super().__init__(hparams, **kwargs)
        policy, c = self.dtype_policy.name, self.channels
        self.join: Any = None
        self.join_norm: Any = None
        if not self.paper:
            self.join = DilatedConvolution(2 * c, c, hparams.kernel_width, bias=False, dtype=policy, name="join")
            self.join_norm = LayerNorm(dtype=policy, name="join_norm")

    def build(self, input_shape: Any = None) -> None:
        super().build()
        if self.join is not None:
            self.join.build()
            self.join_norm.build((None, self.channels))

    def convolutions(self) -> list[DilatedConvolution]:
        return [*([self.join] if self.join is not None else []), *super().convolutions()]

    def call(self, columns: Any, embedded: Any, seed: Any = None) -> Any:
        def widen(convolution: DilatedConvolution, x: Any) -> Any:
            return ops.pad(x, ((0, 0), (convolution.span, 0), (0, 0))) if convolution.span else x

        return self._join(columns, embedded, widen, seed)

    def first(self, sentences: Any, beam_size: int) -> list[Any]:
        """Returns the state before the first position: zeros."""
        return [
            ops.zeros((sentences, beam_size, convolution.span, convolution.inputs), self.compute_dtype)
            for convolution in self.convolutions()
            if convolution.span
        ]

    def position(self, column: Any, embedded: Any, state: Sequence[Any]) -> tuple[Any, list[Any]]:
        """One position of a search: column [B, C] and embedded [B, K, C] -> [B, K, C], and the state after it."""
        before, after = iter(state), []

        def widen(convolution: DilatedConvolution, x: Any) -> Any:
            if not convolution.span:
                return x
            window = ops.concatenate([next(before), x], 2)
            after.append(window[:, :, 1:])
            return window

        columns = ops.broadcast_to(column[:, None], ops.shape(embedded))
        return self._join(columns[:, :, None], embedded[:, :, None], widen, None)[:, :, 0], after

    def _join(self, columns: Any, embedded: Any, widen: Widen, seed: Any) -> Any:
        if self.join is None:
            return ops.relu(self._through(columns + embedded, widen, seed))
        both = ops.relu(ops.concatenate([columns, embedded], -1))
        return self._through(self.join_norm(self.join(widen(self.join, both))), widen, seed)
