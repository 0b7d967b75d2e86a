"""Alignments of outputs with their sources: weights of the head of cross-attention that was trained to be one.

They are over pieces, end symbols included, as Marian's are.

Legend: B sentences, S source length, T target length.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import tensorflow as tf

from t2t_lite.errors import UsageError
from t2t_lite.ids import PAD
from t2t_lite.layers.recording import record

FORMS = ("hard", "soft")


@dataclasses.dataclass(frozen=True, eq=False)
class Alignment:
    """Alignment of an output, or of a blank one, without pieces.

    source, target: the pieces [S] and [T].
    weights: float32 [T, S]; row t is the distribution over the source from which target t was predicted.
    """

    source: list[str]
    target: list[str]
    weights: np.ndarray

    def links(self) -> list[tuple[int, int]]:
        """Returns (source, target) of each target piece and the source piece of its largest weight, in order."""
        if not self.target:
            return []
        return sorted(zip(self.weights.argmax(1).tolist(), range(len(self.target)), strict=True))

    def format(self, form: str) -> str:
        """Returns a text as Marian writes it.

        Args:
            form: "hard": links i-j, with a space between them (Pharaoh); or "soft": for each target piece its weights
                with commas, and a space between target pieces.
        """
        if form == "hard":
            return " ".join(f"{i}-{j}" for i, j in self.links())
        return " ".join(",".join(f"{weight:.6g}" for weight in row) for row in self.weights.tolist())

    def rounded(self) -> list[list[float]]:
        """Returns the weights with six digits, as the soft form has them."""
        return [[float(f"{weight:.6g}") for weight in row] for row in self.weights.tolist()]


BLANK = Alignment([], [], np.zeros((0, 0), np.float32))


def check_aligns(model: Any) -> None:
    """Raises UsageError if no head of the model is an alignment."""
    if model.alignment_attention is None:
        name = type(model).__name__
        raise UsageError(
            f"This {name} gives no alignments: no head of its attention was trained to be one. Transformers have them "
            "that were trained with guided_alignment, or that Marian trained as transformer-align; docs/alignments.md "
            "describes both."
        )


def align(model: Any, source: Any, target: Any) -> Any:
    """int32 [B, S], int32 [B, T], both padded -> the weights, float32 [B, T, S], zeros where there is padding.

    Args:
        model: a `models.base.Model` with an `alignment_attention`.
    """
    with record([model.alignment_attention]) as seen:
        model.hidden({"source": source, "target": target})
    real = tf.cast(tf.not_equal(target, PAD), tf.float32)
    return seen[0][:, 0] * real[:, :, None]
