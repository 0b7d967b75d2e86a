"""Training pairs that each epoch cuts into other pieces (text/subword_sampling.py).

The plan of batches stays a function of lengths, seed and epoch: a pair has room for most of what may be drawn for it,
always the same. A side for which more is drawn is cut as without sampling in that epoch, and so is never longer than
max_length. What is drawn for a side is a function of seed, epoch and pair.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from t2t_lite.data.language_runs import repetitions
from t2t_lite.data.plan import PlannedBatch
from t2t_lite.data.store import SIDES, Store, Tokens, TokenSplit
from t2t_lite.errors import UsageError
from t2t_lite.groups import BatchGroup
from t2t_lite.text.subword_sampling import SubwordSampler, hash_numbers, make_sampler

Array = np.ndarray

_SAMPLE = 4_000  # pairs for which is drawn how much longer they become
_FIT = 0.99  # share of the draws for which there is room


def training_split(store: Store, batch: BatchGroup, seed: int) -> TokenSplit:
    """Returns the training pairs as a recipe reads them; UsageError as `make_sampler` and `repetitions`.

    Args:
        seed: of the run.
    """
    split = store.split("train")
    if batch.sampling_temperature != 1:
        runs = store.manifest["splits"]["train"].get("languages")
        split = dataclasses.replace(split, times=repetitions(runs, batch.sampling_temperature))
    if not batch.bpe_dropout:
        return split
    if split.read_at_once is not None:
        raise UsageError(
            "bpe_dropout cuts pairs that are on this machine: copy the prepared data here, and give its --data_dir."
        )
    vocabularies = dict(zip(SIDES, (store.source_vocabulary, store.target_vocabulary), strict=True))
    samplers = [make_sampler(vocabulary, side, batch.bpe_dropout) for side, vocabulary in vocabularies.items()]
    chosen = np.linspace(0, len(split) - 1, min(len(split), _SAMPLE)).astype(np.int64)
    growth, room = [], []
    for number, (tokens, sampler) in enumerate(zip((split.source, split.target), samplers, strict=True)):
        before, drawn = tokens.lengths[chosen], _draw(tokens, sampler, chosen, (seed, 0, number))[1]
        growth.append(float(drawn.sum() / before.sum()))
        # The mean grows with the length, and the deviation with its root.
        margin = np.quantile((drawn - growth[-1] * before) / np.sqrt(before), _FIT)
        every = np.arange(int(tokens.lengths.max()) + 1)
        most = np.minimum(np.ceil(growth[-1] * every + margin * np.sqrt(every)), batch.max_length)
        room.append(np.maximum(most, every).astype(np.int32)[tokens.lengths])
    given: dict[str, Any] = {field.name: getattr(split, field.name) for field in dataclasses.fields(TokenSplit)}
    return SampledSplit(**given, samplers=tuple(samplers), seed=seed, growth=tuple(growth), room=tuple(room))


@dataclasses.dataclass(frozen=True, kw_only=True)
class SampledSplit(TokenSplit):
    """As `TokenSplit`; its tokens are those without sampling, and `cut` gives those of an epoch.

    Attributes:
        growth: how many times as many pieces there are on average, of source and target.
        room: int32 [n], the most pieces of a pair that are taken as they are drawn, of source and target.
    """

    samplers: tuple[SubwordSampler, ...]
    seed: int
    growth: tuple[float, ...]
    room: tuple[Array, ...]

    @property
    def lengths(self) -> tuple[Array, Array]:
        return self.room[0], self.room[1]

    @property
    def fill(self) -> tuple[float, float]:
        every = super().lengths
        source, target = (
            growth * float(lengths.sum(dtype=np.int64) / room.sum(dtype=np.int64))
            for growth, lengths, room in zip(self.growth, every, self.room, strict=True)
        )
        return source, target

    def expected_lengths(self, pairs: Array) -> tuple[Array, Array]:
        source, target = (
            np.rint(growth * lengths).astype(np.int32)
            for growth, lengths in zip(self.growth, super().expected_lengths(pairs), strict=True)
        )
        return source, target

    def cut(self, planned: PlannedBatch) -> tuple[TokenSplit, PlannedBatch]:
        filled = planned.rows >= 0
        pairs, rows = planned.rows[filled], planned.rows.copy()
        rows[filled] = np.arange(len(pairs))
        sides = [
            _cut(tokens, sampler, pairs, (self.seed, planned.epoch, side), room[pairs])
            for side, (tokens, sampler, room) in enumerate(
                zip((self.source, self.target), self.samplers, self.room, strict=True)
            )
        ]
        weights = None if self.weights is None else self.weights[pairs]
        return TokenSplit(sides[0], sides[1], weights=weights), dataclasses.replace(planned, rows=rows)

    @property
    def remark(self) -> str:
        source, target = self.growth
        return (
            f"bpe_dropout: {source:.2f} times as many source and {target:.2f} times as many target pieces; rows have "
            f"room for {_FIT:.0%} of what is drawn, and the rest is cut as without it"
        )


def _draw(tokens: Tokens, sampler: SubwordSampler, pairs: Array, key: tuple[int, int, int]) -> tuple[Array, Array]:
    """Returns ids and lengths of pairs as they are drawn; `key`: seed, epoch, and 0 or 1 for the side."""
    seed = np.zeros(1, np.uint64)
    for number in key:
        seed = hash_numbers(np.array([number]), seed)
    return sampler.draw(tokens.take(pairs), tokens.lengths[pairs], hash_numbers(pairs, seed))


def _cut(tokens: Tokens, sampler: SubwordSampler, pairs: Array, key: tuple[int, int, int], room: Array) -> Tokens:
    """Returns the tokens of pairs as they are drawn or, where these are more than `room` [pairs], as they are."""
    drawn, lengths = _draw(tokens, sampler, pairs, key)
    both = _join(tokens, [drawn, tokens.take(pairs)], [lengths, tokens.lengths[pairs]])
    chosen = np.arange(len(pairs)) + np.where(lengths <= room, 0, len(pairs))
    return _join(tokens, [both.take(chosen)], [both.lengths[chosen]])


def _join(like: Tokens, ids: list[Array], lengths: list[Array]) -> Tokens:
    offsets = np.cumsum(np.concatenate([[0], *lengths]), dtype=np.int64)
    return Tokens(np.concatenate(ids), offsets, like.size, like.path)
