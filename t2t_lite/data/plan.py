"""Plan of batches: which pairs form batch N, as a function of (lengths, seed, step) alone, in NumPy.

Every pair is used once per epoch, or as often as language_runs.py says, in an order shuffled over the whole data set.
Pairs of similar lengths share a bucket, whose batches all have one shape. Pairs left over in a bucket move up to the
next larger one, so at most one batch per epoch has empty rows.
"""

import abc
import functools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from t2t_lite.data.buckets import Bucket, assign, batches_per_bucket, choose_buckets, next_bucket, split_by
from t2t_lite.data.plan_index import PlanIndex
from t2t_lite.errors import DataError

Array = np.ndarray
_CHUNK = 1 << 20  # pairs at once


@dataclass(frozen=True)
class PlannedBatch:
    """One global batch.

    rows: int64 [rows, slots] ids of pairs, -1 where empty; one slot per row unless packed.
    source_length, target_length: width of the padded arrays.
    epoch: from 0.
    """

    rows: Array
    source_length: int
    target_length: int
    epoch: int = 0


@dataclass(frozen=True)
class PlanStatistics:
    """Sums over one epoch (section 5.1); tokens are pieces with end symbols, and a place holds a token or padding."""

    pairs: int  # of an epoch, each as often as it is used
    left_out: int  # pairs with a side longer than max_length
    steps: int
    source_tokens: int
    target_tokens: int
    source_places: int
    target_places: int
    shapes: int  # different (rows, source length, target length) of batches

    @property
    def padded_tokens(self) -> int:
        """Places on both sides."""
        return self.source_places + self.target_places

    @property
    def waste(self) -> float:
        """Share of the places that hold padding."""
        return 1 - (self.source_tokens + self.target_tokens) / self.padded_tokens

    def format(self, max_length: int) -> str:
        """Returns a table for people; `max_length` is the recipe's."""
        total = self.pairs + self.left_out
        rows = [
            ("updates per epoch", f"{self.steps:,}"),
            ("sentences per update", f"{self.pairs / self.steps:,.1f}"),
            ("source tokens per update", self._side(self.source_tokens, self.source_places)),
            ("target tokens per update", self._side(self.target_tokens, self.target_places)),
            ("waste", f"{self.waste:.1%} of all places"),
            ("shapes of batches", f"{self.shapes}"),
            ("left out", f"{self.left_out:,} of {total:,} pairs, longer than max_length={max_length}"),
        ]
        return "\n".join(f"  {name:<26}{value}" for name, value in rows)

    def _side(self, tokens: int, places: int) -> str:
        return f"{tokens / self.steps:,.0f} in {places / self.steps:,.0f} places, {1 - tokens / places:.1%} padding"


class Plan(abc.ABC):
    """Batches of one epoch after the other.

    Args:
        source_lengths, target_lengths: int [n], pieces including the end symbol.
        batch_tokens: padded tokens per side and update, at most (section 5.1: about 25,000).
        max_length: pairs with a longer side are left out.
        seed: of the shuffling.
        folder: of the prepared data, in which an index of many millions of pairs is kept; None: there is none.
        fill: share of the lengths that tokens fill on average, of source and target; for the statistics.
        times: int [n], how often an epoch has each pair; None: once.

    Attributes:
        steps_per_epoch: batches of an epoch, the same number in each.
        left_out: how many pairs are left out as too long.

    Raises:
        DataError: no pair is short enough.
    """

    def __init__(
        self,
        source_lengths: Array,
        target_lengths: Array,
        *,
        batch_tokens: int,
        max_length: int,
        seed: int,
        folder: Path | None = None,
        fill: tuple[float, float] = (1.0, 1.0),
        times: Array | None = None,
    ) -> None:
        self._index = PlanIndex(folder, source_lengths, target_lengths, *([] if times is None else [times]))
        self._lengths, self._fill = (source_lengths, target_lengths), fill
        kept = np.flatnonzero((source_lengths <= max_length) & (target_lengths <= max_length))
        if not len(kept):
            raise DataError(
                f"None of the {len(source_lengths)} training pairs has at most max_length={max_length} pieces on both "
                "sides; raise max_length or check the data."
            )
        self._seed = seed
        self.max_length, self.left_out = max_length, len(source_lengths) - len(kept)
        kept = kept if times is None else np.repeat(kept, times[kept])
        self._kept = kept.astype(np.int32) if max(len(kept), len(source_lengths)) < 2**31 else kept
        self._shapes = self._arrange(batch_tokens)
        self.steps_per_epoch = sum(count for count, _ in self._shapes)

    def statistics(self) -> PlanStatistics:
        """Returns the sums over one epoch; they are the same in each."""
        return self._statistics

    def kept_pairs(self) -> Iterator[Array]:
        """Yields the pairs of an epoch, many at once, int [n]; a pair as often as it is used."""
        for start in range(0, len(self._kept), _CHUNK):
            yield self._kept[start : start + _CHUNK]

    def _count_tokens(self, side: int) -> int:
        return sum(int(self._lengths[side][pairs].sum(dtype=np.int64)) for pairs in self.kept_pairs())

    @abc.abstractmethod
    def _arrange(self, batch_tokens: int) -> list[tuple[int, Bucket]]:
        """Prepares what `batch` needs; returns how many batches of each shape an epoch has."""

    @abc.abstractmethod
    def batch(self, step: int) -> PlannedBatch:
        """Returns the batch of update number `step`, from 1."""

    @functools.cached_property
    def _statistics(self) -> PlanStatistics:
        return PlanStatistics(
            pairs=len(self._kept),
            left_out=self.left_out,
            steps=self.steps_per_epoch,
            source_tokens=int(self._fill[0] * self._count_tokens(0)),
            target_tokens=int(self._fill[1] * self._count_tokens(1)),
            source_places=sum(count * shape.rows * shape.source_length for count, shape in self._shapes),
            target_places=sum(count * shape.rows * shape.target_length for count, shape in self._shapes),
            shapes=sum(count > 0 for count, _ in self._shapes),
        )


class BucketPlan(Plan):
    """Batches of pairs with similar lengths."""

    def _arrange(self, batch_tokens: int) -> list[tuple[int, Bucket]]:
        self._key = {"seed": self._seed, "max_length": self.max_length, "batch_tokens": batch_tokens}
        (table,) = self._index.get("shapes", self._key, lambda: self._choose_shapes(batch_tokens))
        shapes = table.reshape(-1, 4).tolist()
        self._counts = [count for *_, count in shapes]
        self.buckets = [Bucket(*sizes) for *sizes, _ in shapes]
        self._epoch: tuple[int, list[Array], Array] | None = None
        return list(zip(self._counts, self.buckets, strict=True))

    def _choose_shapes(self, batch_tokens: int) -> list[Array]:
        """The sizes of each bucket, and its batches in an epoch, one after the other."""
        source, target = (lengths[self._kept] for lengths in self._lengths)
        buckets = choose_buckets(source, target, batch_tokens=batch_tokens)
        counts = batches_per_bucket(buckets, assign(source, target, buckets))
        sizes = [(b.source_length, b.target_length, b.rows, n) for b, n in zip(buckets, counts, strict=True)]
        return [np.array(sizes, np.int64).reshape(-1)]

    @functools.cached_property
    def _bucket_of(self) -> Array:
        source, target = (lengths[self._kept] for lengths in self._lengths)
        return assign(source, target, self.buckets)

    def batch(self, step: int) -> PlannedBatch:
        epoch, index = divmod(step - 1, self.steps_per_epoch)
        members, order = self._shuffle(epoch)
        b, n = order[index]
        bucket = self.buckets[b]
        rows = np.full(bucket.rows, -1, np.int64)
        ids = members[b][n * bucket.rows : (n + 1) * bucket.rows]
        rows[: len(ids)] = self._kept[ids]
        return PlannedBatch(rows[:, None], bucket.source_length, bucket.target_length, epoch)

    def _shuffle(self, epoch: int) -> tuple[list[Array], Array]:
        """Members of each bucket in this epoch's order, and the (bucket, number) of each batch of the epoch."""
        if self._epoch is None or self._epoch[0] != epoch:
            self._epoch = None  # otherwise two epochs would be in memory
            *members, order = self._index.get("epoch", self._key, lambda: self._compute_epoch(epoch), epoch)
            self._epoch = (epoch, members, order.reshape(-1, 2))
        return self._epoch[1], self._epoch[2]

    def _compute_epoch(self, epoch: int) -> list[Array]:
        """The members of each bucket, and the (bucket, number) of each batch one after the other."""
        random = np.random.default_rng([self._seed, epoch])
        shuffled = np.arange(len(self._kept), dtype=self._kept.dtype)
        random.shuffle(shuffled)
        members = split_by(shuffled, self._bucket_of, len(self.buckets))
        for i, bucket in enumerate(self.buckets):
            above = next_bucket(self.buckets, i)
            if above is not None:
                full = len(members[i]) // bucket.rows * bucket.rows
                # They go before the larger bucket's own pairs, so that they do not move up again.
                members[above] = np.concatenate([members[i][full:], members[above]])
                members[i] = members[i][:full]
        order = np.array([(b, n) for b, count in enumerate(self._counts) for n in range(count)])
        random.shuffle(order)
        return [*members, order.reshape(-1)]
