"""Noisy top-k gating: which experts a position is given to, and with what weights (Shazeer et al., 2017, section 2.1).

Legend: D width, n experts, k of them for a position.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import keras
import numpy as np
from keras import ops

from t2t_lite.layers.dropout import draw_seed, random_bits
from t2t_lite.layers.matmul import matmul

NOISE_FLOOR = 1e-2  # tensor2tensor's; without it the noise could die out, and the load would have no gradient
_BITS = 23  # with one more, the largest would be infinite: TensorFlow halves 1 + x, which rounds to 1


class Gates(NamedTuple):
    """What gating gives for each position.

    experts: int32 [..., k], the ones that are asked, best first.
    weights: float32 [..., k], above 0, with the sum 1.
    shares: float32 [..., n], the weights of all experts, G(x); 0 for those that are not asked. Their sums are the
        importance of the experts.
    load: float32 [..., n], P(x): the probability that an expert is asked if its noise is drawn once more; without
        noise it is 1 or 0. Its sums are a smooth stand-in for how many positions each expert gets.
    """

    experts: Any
    weights: Any
    shares: Any
    load: Any


@keras.saving.register_keras_serializable("t2t_lite")
class NoisyTopK(keras.layers.Layer):
    """H = x W_g + z (softplus(x W_noise) + 0.01), z ~ N(0, 1); weights are the softmax of the k largest.

    Equations (3) to (5), in float32. W_g and W_noise start at zero (appendix A), so at first the choice is random.

    Args:
        num_experts: n.
        experts_per_token: k, at most n.

    Call arguments:
        x: [B, T, D].
        seed: int32 [3], see `random_bits`, or None for inference, which has no noise; in Keras' `fit` it is drawn.

    Returns:
        `Gates` of [B, T].
    """

    FLOAT32: ClassVar = ("kernel", "noise_kernel")

    def __init__(self, num_experts: int, experts_per_token: int, **kwargs: Any) -> None:
        super().__init__(autocast=False, **kwargs)
        self.num_experts, self.experts_per_token = num_experts, experts_per_token

    def build(self, x_shape: tuple[int | None, ...]) -> None:
        shape = (x_shape[-1], self.num_experts)
        self.kernel = self.add_weight(name="kernel", shape=shape, initializer="zeros")
        self.noise_kernel = self.add_weight(name="noise_kernel", shape=shape, initializer="zeros")

    def call(self, x: Any, seed: Any = None, training: bool | None = None) -> Gates:
        seed = draw_seed() if seed is None and training else seed
        x = ops.cast(x, "float32")
        clean, scale = matmul(x, self.kernel), None
        noisy = clean
        if seed is not None:
            scale = ops.softplus(matmul(x, self.noise_kernel)) + NOISE_FLOOR
            noisy = clean + standard_normal(clean, seed) * scale
        return top_k_gates(clean, noisy, scale, self.experts_per_token)


def top_k_gates(clean: Any, noisy: Any, scale: Any, k: int) -> Gates:
    """Equations (4), (5) and, in appendix A, (8) and (9).

    Args:
        clean, noisy: [..., n], x W_g without and with noise.
        scale: [..., n], standard deviation of the noise; None: there is none.
    """
    n = noisy.shape[-1]
    best, experts = ops.top_k(noisy, min(k + 1, n))
    experts = ops.cast(experts[..., :k], "int32")
    # The softmax; Keras' own warns where k is 1.
    weights = ops.exp(best[..., :k] - ops.logsumexp(best[..., :k], axis=-1, keepdims=True))
    asked = ops.one_hot(experts, n, dtype="float32")
    shares = ops.sum(weights[..., None] * asked, axis=-2)
    if scale is None or k == n:
        return Gates(experts, weights, shares, ops.sum(asked, axis=-2))
    last, next_best = best[..., k - 1 : k], best[..., k:]
    # The k-th largest of the others: an asked expert must stay above the next best, any other must reach the last.
    threshold = ops.where(noisy > next_best, next_best, last)
    load = 0.5 * (1 + ops.erf((clean - threshold) / (2**0.5 * scale)))
    return Gates(experts, weights, shares, load)


def standard_normal(like: Any, seed: Any) -> Any:
    """Draws float32 from N(0, 1) in the shape of `like`, rows first."""
    drawn = ops.cast(ops.right_shift(random_bits(like, seed), np.uint32(32 - _BITS)), "int32")
    odd = 2 * drawn + (1 - 2**_BITS)  # odd, so that the quotient is never -1, 0 or 1
    return 2**0.5 * ops.erfinv(ops.cast(odd, "float32") / 2**_BITS)


def cv_squared(x: Any) -> Any:
    """The squared coefficient of variation, variance / mean^2, over the last axis; 0 for zeros."""
    mean = ops.mean(x, axis=-1, keepdims=True)
    variance = ops.mean(ops.square(x - mean), axis=-1)
    return variance / (ops.square(mean[..., 0]) + 1e-10)
