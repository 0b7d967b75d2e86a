"""Ensemble of trained models: the mean of their probabilities (Sutskever et al., 2014; Jean et al., 2015).

Members may be of any kind, width, depth and precision; their vocabularies have to be the same.

Legend: B sentences, T target length, K hypotheses of a sentence, V target vocabulary, M members.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from keras import ops

from t2t_lite.errors import UsageError
from t2t_lite.models import base

_LOWEST = -3e38  # about float32's lowest; takes the place of the maximum where all M are minus infinity


def log_mean(logits: Sequence[Any]) -> Any:
    """log(1/M sum_m softmax(logits_m)): M arrays [..., V] -> float32 [..., V].

    Computed from log-probabilities, so that a probability too small for float32 keeps its logarithm. Equal logits give
    their log-softmax, to the bit.
    """
    logp = [ops.log_softmax(ops.cast(values, "float32"), axis=-1) for values in logits]
    highest = functools.reduce(ops.maximum, logp, _LOWEST)
    total = sum((ops.exp(values - highest) for values in logp[1:]), ops.exp(logp[0] - highest))
    return highest + ops.log(total / len(logp))


@dataclasses.dataclass(frozen=True)
class EnsembleCost(base.Cost):
    """The sums of the members' costs."""

    costs: tuple[base.Cost, ...]

    def forward_flops(self, source_lengths: Any, target_lengths: Any) -> int:
        return sum(cost.forward_flops(source_lengths, target_lengths) for cost in self.costs)

    def activation_bytes(self, rows: int, source_length: int, target_length: int, bytes_per_value: int) -> int:
        sizes = (rows, source_length, target_length, bytes_per_value)
        return sum(cost.activation_bytes(*sizes) for cost in self.costs)


class Ensemble(base.Model):
    """Several trained models that decode and score as one; it cannot be trained.

    Its logits are log-probabilities, which are also valid logits. What `encode` returns, and `fixed` and `state`
    of `start`, are tuples with an entry for each member. It shows no attention: that of several models has no mean.

    Args:
        models: the members, with their weights. With three or more, the last bit of sums depends on their order.
    """

    def __init__(self, models: Sequence[base.Model]) -> None:
        super().__init__(name="ensemble", autocast=False, dtype="float32")
        self.models = list(models)
        self.built = True

    @classmethod
    def from_hparams(cls, hparams: Any, source_vocab_size: int, target_vocab_size: int, shared: bool) -> NoReturn:
        raise UsageError(_NOT_TRAINED)

    def members(self) -> dict[str, base.Model]:
        """The models by the prefixes "member_1/", "member_2/", ..."""
        return {f"member_{number}/": model for number, model in enumerate(self.models, 1)}

    @property
    def xla_search(self) -> bool:
        return all(model.xla_search for model in self.models)

    @property
    def cost(self) -> EnsembleCost:
        return EnsembleCost(tuple(model.cost for model in self.models))

    def encode(self, batch: Mapping[str, Any], seed: Any = None) -> tuple[Any, ...]:
        return tuple(model.encode(batch, seed) for model in self.models)

    def hidden(self, batch: Mapping[str, Any], seed: Any = None) -> NoReturn:
        raise UsageError(_NOT_TRAINED)

    def output(self) -> NoReturn:  # members have softmax layers of their own
        raise UsageError(_NOT_TRAINED)

    def call(self, batch: Mapping[str, Any], seed: Any = None) -> Any:
        """Returns float32 log-probabilities [B, T, V]."""
        return log_mean([model(batch, seed) for model in self.models])

    def start(self, memory: tuple[Any, ...], beam_size: int, steps: Any) -> tuple[Any, Any, Any]:
        pairs = zip(self.models, memory, strict=True)
        fixed, state, member_steps = zip(*(model.start(own, beam_size, steps) for model, own in pairs), strict=True)

        def step(ids: Any, index: Any, fixed: tuple[Any, ...], state: tuple[Any, ...]) -> tuple[Any, Any]:
            own = zip(member_steps, fixed, state, strict=True)
            logits, new = zip(*(member_step(ids, index, *values) for member_step, *values in own), strict=True)
            return log_mean(logits), new

        return fixed, state, step

    def reorder(self, state: tuple[Any, ...], parents: Any) -> tuple[Any, ...]:
        return tuple(model.reorder(own, parents) for model, own in zip(self.models, state, strict=True))

    def is_full(self, state: tuple[Any, ...]) -> Any:
        full = [model.is_full(own) for model, own in zip(self.models, state, strict=True)]
        return functools.reduce(ops.logical_or, full)

    def renew(self, state: tuple[Any, ...], steps: Any) -> tuple[Any, ...]:
        return tuple(model.renew(own, steps) for model, own in zip(self.models, state, strict=True))


_NOT_TRAINED = (
    "An ensemble decodes, scores and is exported; it is not trained. Train each member as a run of its own with "
    "t2t-lite-trainer."
)
