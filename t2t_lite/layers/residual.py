"""The residual connection and layer normalisation around each sub-layer (section 3.1)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from t2t_lite.layers.dropout import Dropout
from t2t_lite.layers.layer_norm import EPSILON, LayerNorm
from t2t_lite.layers.no_build_trace import NoBuildTrace


@keras.saving.register_keras_serializable("t2t_lite")
class Residual(NoBuildTrace, keras.layers.Layer):
    """LayerNorm(x + Dropout(Sublayer(x))) (sections 3.1 and 5.4), or x + Dropout(Sublayer(LayerNorm(x))).

    Args:
        norm: "post", as the paper writes it; "pre", as tensor2tensor later did; or "deep", LayerNorm(alpha x +
            Dropout(Sublayer(x))), the DeepNorm of Wang et al. (2022).
        dropout: P_drop, on the sub-layer's output before it is added.
        epsilon: of layer normalisation.
        alpha: of DeepNorm.

    Call arguments:
        x: [B, T, d_model].
        sublayer: function of [B, T, d_model] to the same shape.
        seed: int32 [3], or None for inference.

    Returns:
        [B, T, d_model].
    """

    def __init__(self, norm: str, dropout: float, epsilon: float = EPSILON, alpha: float = 1.0, **kwargs: Any) -> None:
        super().__init__(autocast=False, **kwargs)
        self.norm_first, self.alpha = norm == "pre", alpha if norm == "deep" else None
        self.layer_norm = LayerNorm(epsilon, name="layer_norm", dtype=self.dtype_policy.name)
        self.dropout = Dropout(dropout, name="dropout")

    def call(self, x: Any, sublayer: Callable[[Any], Any], seed: Any = None) -> Any:
        if self.norm_first:
            return x + self.dropout(sublayer(self.layer_norm(x)), seed=seed)
        kept = x if self.alpha is None else x * ops.cast(self.alpha, x.dtype)
        return self.layer_norm(kept + self.dropout(sublayer(x), seed=seed))
