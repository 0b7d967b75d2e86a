"""The losses that keep experts equally busy (Shazeer et al., 2017, section 4 and appendix A)."""

from __future__ import annotations

import abc
import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

from keras import ops

from t2t_lite.ids import PAD
from t2t_lite.layers.mixture_of_experts import MixtureOfExperts
from t2t_lite.layers.noisy_top_k import cv_squared
from t2t_lite.layers.recording import record
from t2t_lite.models.base import Model


class Balance(Model):
    """A model with experts: its further loss is w CV(importance)^2 + w CV(load)^2, summed over all mixtures.

    An expert's importance is the sum of its weights. Its load is the sum of the probabilities that it is asked. Both
    sums are over the real symbols of a group of rows, without padding.

    Attributes:
        balance_weight: w, for importance and for load.
    """

    balance_weight: float

    @abc.abstractmethod
    def mixtures(self) -> Mapping[str, Sequence[MixtureOfExperts]]:
        """Returns the layers with experts, in the order of their calls, by what they read: "source" or "target"."""

    def hidden_and_sums(self, batch: Mapping[str, Any], seed: Any = None) -> tuple[Any, Any]:
        """Returns `hidden`, and importance and load of each mixture's experts, float32 [B, L, 2, n]."""
        with contextlib.ExitStack() as stack:
            seen = {side: stack.enter_context(record(layers)) for side, layers in self.mixtures().items()}
            hidden = self.hidden(batch, seed)
        sums = []
        for side, calls in seen.items():
            real = ops.cast(batch[side] != PAD, "float32")[..., None]
            sums += [ops.stack([ops.sum(real * x, 1) for x in (gates.shares, gates.load)], 1) for gates in calls]
        return hidden, ops.stack(sums, 1)

    def further_loss(self, sums: Any) -> Any:
        return self.balance_weight * ops.sum(cv_squared(sums), (1, 2))
