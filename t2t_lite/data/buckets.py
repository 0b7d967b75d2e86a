"""Shapes of batches: about a dozen (source length, target length) pairs chosen to waste little padding; pure NumPy."""

from dataclasses import dataclass

import numpy as np

Array = np.ndarray
_SAMPLE = 200_000  # pairs
_CHUNK = 1 << 16  # pairs at once, which fit a processor's cache
_MOST_ALIKE = 1 << 20  # kinds of pairs that are counted
_EVEN, _MANY = 8, 64  # so at most a ninth of the rows is lost


@dataclass(frozen=True)
class Bucket:
    """Batches of `rows` pairs, padded to `source_length` and `target_length` pieces."""

    source_length: int
    target_length: int
    rows: int


def choose_buckets(
    source_lengths: Array, target_lengths: Array, *, batch_tokens: int, number: int = 16
) -> list[Bucket]:
    """Returns at most `number` buckets in ascending order of size; every pair fits the last one.

    Shapes are chosen greedily: first the largest, then repeatedly the one that saves most padding. Each is then chosen
    again, given the others. This is done for `number` and for fewer buckets; the result with the least padding in an
    epoch is returned. With few pairs, many buckets leave many pairs over, which have to move up to larger shapes.

    Args:
        source_lengths, target_lengths: int [n], n >= 1.
        batch_tokens: a bucket's rows times its longer side are at most this (but at least one row).
    """
    # Shapes need only a sample of the lengths, but must hold the longest.
    sample = slice(None, None, max(len(source_lengths) // _SAMPLE, 1))
    sampled = [np.append(side[sample], side.max()) for side in (source_lengths, target_lengths)]
    sources, targets, numbers = _count_alike(source_lengths, target_lengths)
    candidates = []
    for k in range(number, 0, -max(number // 4, 1)):
        shapes = _least_padding(sampled[0], sampled[1], k)
        rows = [min(rows_of(max(shape), batch_tokens), len(source_lengths)) for shape in shapes]
        buckets = [Bucket(s, t, r) for (s, t), r in zip(shapes, rows, strict=True)]
        counts = batches_per_bucket(buckets, assign(sources, targets, buckets), numbers)
        candidates.append((padded_tokens(buckets, counts), buckets))
    return min(candidates, key=lambda candidate: candidate[0])[1]


def assign(source_lengths: Array, target_lengths: Array, buckets: list[Bucket]) -> Array:
    """Returns the index of the first (smallest) bucket that each pair fits, -1 if none. int [n], int [n] -> int8 [n].

    Two lengths between which no bucket has its side are alike, so a small table says the bucket of each pair.
    """
    steps = [np.unique(side) for side in zip(*((b.source_length, b.target_length) for b in buckets), strict=True)]
    table = np.full([len(side) + 1 for side in steps], -1, np.int8)
    for i in reversed(range(len(buckets))):
        fits = np.searchsorted(steps[0], buckets[i].source_length), np.searchsorted(steps[1], buckets[i].target_length)
        table[: fits[0] + 1, : fits[1] + 1] = i
    ranks = [np.searchsorted(side, np.arange(side[-1] + 2)).astype(np.int8) for side in steps]
    index = np.empty(len(source_lengths), np.int8)
    for start in range(0, len(index), _CHUNK):
        part = slice(start, start + _CHUNK)
        of_sides = (
            rank.take(lengths[part], mode="clip")
            for rank, lengths in zip(ranks, (source_lengths, target_lengths), strict=True)
        )
        index[part] = table[*of_sides]
    return index


def split_by(pairs: Array, bucket_of: Array, number: int) -> list[Array]:
    """Returns the pairs of each of `number` buckets, in the order in which they are in `pairs`."""
    ends = [0] * number
    members = [np.empty(np.count_nonzero(bucket_of == i), pairs.dtype) for i in range(number)]
    for start in range(0, len(pairs), _CHUNK):
        part = pairs[start : start + _CHUNK]
        buckets = bucket_of[part]
        part = part[np.argsort(buckets, kind="stable")]  # linear for integers of 8 bits
        taken = 0
        for i, count in enumerate(np.bincount(buckets, minlength=number).tolist()):
            members[i][ends[i] : ends[i] + count] = part[taken : taken + count]
            ends[i] += count
            taken += count
    return members


def next_bucket(buckets: list[Bucket], i: int) -> int | None:
    """Returns the next bucket that can hold all pairs of bucket `i`, or None for the last."""
    least = buckets[i]
    for j, bucket in enumerate(buckets[i + 1 :], start=i + 1):
        if bucket.source_length >= least.source_length and bucket.target_length >= least.target_length:
            return j
    return None


def batches_per_bucket(buckets: list[Bucket], bucket_of: Array, numbers: Array | None = None) -> list[int]:
    """Returns the batches of each bucket in one epoch; pairs left over move to the next larger bucket.

    Args:
        bucket_of: int [n], the bucket of each pair, or of some that are alike, from `assign`.
        numbers: how many pairs are alike, int [n]; None: 1 each.
    """
    left_in = np.zeros(len(buckets), np.int64)
    for start in range(0, len(bucket_of), _CHUNK):
        part = slice(start, start + _CHUNK)
        weights = None if numbers is None else numbers[part]  # sums of float64 are exact below 2 ** 53
        left_in += np.bincount(bucket_of[part], weights, minlength=len(buckets)).astype(np.int64)
    counts = []
    for i, bucket in enumerate(buckets):
        full, left = divmod(int(left_in[i]), bucket.rows)
        above = next_bucket(buckets, i)
        if above is not None:
            left_in[above] += left
            left = 0
        counts.append(full + (left > 0))
    return counts


def _count_alike(source_lengths: Array, target_lengths: Array) -> tuple[Array, Array, Array | None]:
    """Returns the lengths that pairs have, and how many pairs have them; None: one each, as there are very many."""
    width, height = int(source_lengths.max()) + 1, int(target_lengths.max()) + 1
    if width * height > _MOST_ALIKE:
        return source_lengths, target_lengths, None
    counts = np.zeros(width * height, np.int64)
    for start in range(0, len(source_lengths), _MOST_ALIKE):
        part = slice(start, start + _MOST_ALIKE)
        counts += np.bincount(
            source_lengths[part].astype(np.int64) * height + target_lengths[part], minlength=len(counts)
        )
    there = np.flatnonzero(counts)
    return there // height, there % height, counts[there]


def padded_tokens(buckets: list[Bucket], counts: list[int]) -> int:
    """Returns the number of places on both sides, filled or not, in `counts` batches of each bucket."""
    return sum(n * b.rows * (b.source_length + b.target_length) for b, n in zip(buckets, counts, strict=True))


def rows_of(length: int, batch_tokens: int) -> int:
    """Returns how many rows of `length` pieces a batch has, at least one.

    Many rows are a multiple of 8: 2, 4 or 8 devices then share them evenly, and matrix products like such sizes.
    """
    rows = max(batch_tokens // length, 1)
    return rows - rows % _EVEN if rows >= _MANY else rows


def _least_padding(source: Array, target: Array, number: int) -> list[tuple[int, int]]:
    """Returns at most `number` shapes that pad the given pairs little, in ascending order of the sum of their sides."""
    sides = [_bounds(source), _bounds(target)]
    # A pair fits the shapes that its bounds fit, so a grid of bounds stands for all pairs.
    cells, counts = np.unique(
        np.stack([np.searchsorted(sides[0], source), np.searchsorted(sides[1], target)]), axis=1, return_counts=True
    )
    cell_source, cell_target = sides[0][cells[0]], sides[1][cells[1]]
    shapes = np.stack(np.meshgrid(*sides, indexing="ij"), axis=-1).reshape(-1, 2)
    fits = (cell_source <= shapes[:, :1]) & (cell_target <= shapes[:, 1:])
    cost = np.where(fits, shapes.sum(axis=1, keepdims=True), np.inf).astype(np.float32)
    chosen = [len(shapes) - 1]  # the largest
    while len(chosen) < number:
        chosen.append(_best_addition(cost, counts, chosen))
    for position in [*range(1, number)] * 2:
        others = chosen[:position] + chosen[position + 1 :]
        chosen[position] = _best_addition(cost, counts, others)
    distinct = {(int(s), int(t)) for s, t in shapes[chosen]}
    return sorted(distinct, key=lambda shape: (sum(shape), shape))


def _best_addition(cost: Array, counts: Array, chosen: list[int]) -> int:
    """Returns the index of the shape that, together with `chosen`, gives the least padding."""
    now = cost[chosen].min(axis=0)
    return int((np.minimum(cost, now) @ counts).argmin())


def _bounds(lengths: Array, number: int = 40) -> Array:
    """Returns the lengths that a shape may have: all that occur, or about `number` with equal shares of the tokens."""
    values, counts = np.unique(lengths, return_counts=True)
    if len(values) <= number:
        return values
    share = np.cumsum(values * counts) / np.dot(values, counts)
    return values[
        np.unique(np.searchsorted(share, np.linspace(0, 1, number + 1)[1:], side="left").clip(0, len(values) - 1))
    ]
