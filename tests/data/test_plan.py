"""The plan: every pair once per epoch, whatever ran before, in few shapes with little padding."""

import itertools
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from t2t_lite import registry
from t2t_lite.data.buckets import Bucket, assign, choose_buckets, next_bucket, rows_of, split_by
from t2t_lite.data.plan import BucketPlan, PlannedBatch
from t2t_lite.data.prepare import prepare
from t2t_lite.errors import DataError

Array = np.ndarray


def _lengths(pairs: int, seed: int = 0) -> tuple[Array, Array]:
    """Lengths as in real corpora: log-normal, the two sides alike but not equal, a few of them long."""
    random = np.random.default_rng(seed)
    source = np.clip(random.lognormal(2.8, 0.6, pairs), 1, 300)
    target = np.clip(source * random.normal(1.1, 0.2, pairs), 1, 300)
    return source.astype(np.int32) + 1, target.astype(np.int32) + 1


def _plan(pairs: int = 3000, **changes: int) -> BucketPlan:
    options = {"batch_tokens": 2048, "max_length": 100, "seed": 1} | changes
    return BucketPlan(*_lengths(pairs), **options)


def _ids(batch: PlannedBatch) -> list[int]:
    return batch.rows[batch.rows >= 0].tolist()


def _epoch(plan: BucketPlan, number: int = 0) -> list[PlannedBatch]:
    first = number * plan.steps_per_epoch + 1
    return [plan.batch(step) for step in range(first, first + plan.steps_per_epoch)]


# (pairs, batch_tokens): from fewer pairs than rows, through batches of one row, to many batches of many rows.
CASES = [(1, 2048), (4, 2048), (7, 2048), (7, 60), (61, 300), (500, 1500), (3000, 2048), (3000, 20_000)]


@pytest.mark.parametrize(("pairs", "batch_tokens"), CASES)
def test_every_pair_that_is_short_enough_comes_exactly_once_per_epoch(pairs: int, batch_tokens: int) -> None:
    source, target = _lengths(pairs)
    plan = _plan(pairs, batch_tokens=batch_tokens)
    kept = np.flatnonzero(np.maximum(source, target) <= 100).tolist()
    for epoch in range(3):
        ids = [i for batch in _epoch(plan, epoch) for i in _ids(batch)]
        assert sorted(ids) == kept
    statistics = plan.statistics()
    assert (statistics.pairs, statistics.left_out) == (len(kept), pairs - len(kept))
    assert statistics.steps == plan.steps_per_epoch == len(_epoch(plan))


@pytest.mark.parametrize(("pairs", "batch_tokens"), CASES)
def test_a_batch_has_the_rows_and_the_shape_of_a_bucket_and_its_pairs_fit(pairs: int, batch_tokens: int) -> None:
    source, target = _lengths(pairs)
    plan = _plan(pairs, batch_tokens=batch_tokens)
    assert 1 <= len(plan.buckets) <= 16
    kept = plan.statistics().pairs
    with_empty_rows = 0
    for batch in _epoch(plan):
        rows, slots = batch.rows.shape
        assert Bucket(batch.source_length, batch.target_length, rows) in plan.buckets
        assert slots == 1
        assert rows == min(rows_of(max(batch.source_length, batch.target_length), batch_tokens), kept)
        ids = _ids(batch)
        assert source[ids].max() <= batch.source_length
        assert target[ids].max() <= batch.target_length
        assert batch.rows[: len(ids), 0].tolist() == ids  # the empty rows are the last ones
        with_empty_rows += len(ids) < rows
    assert with_empty_rows <= 1


def test_rows_fill_batch_tokens_and_many_of_them_are_a_multiple_of_8() -> None:
    for batch_tokens in (1, 100, 2048, 25_000):
        for length in range(1, 300):
            rows, most = rows_of(length, batch_tokens), max(batch_tokens // length, 1)
            assert rows == most if most < 64 else rows % 8 == 0 and most - 8 < rows <= most


def test_a_batch_depends_on_the_step_alone() -> None:
    plan = _plan(500)
    forwards = [plan.batch(step) for step in range(1, 3 * plan.steps_per_epoch + 1)]
    for step in (2 * plan.steps_per_epoch + 3, 1, plan.steps_per_epoch, plan.steps_per_epoch + 1, 2):
        fresh, again, before = _plan(500).batch(step), plan.batch(step), forwards[step - 1]
        for batch in (fresh, again):
            np.testing.assert_array_equal(batch.rows, before.rows)
            assert (batch.source_length, batch.target_length) == (before.source_length, before.target_length)


def test_each_epoch_and_seed_shuffles_pairs_and_shapes() -> None:
    first, second, other = _epoch(_plan()), _epoch(_plan(), 1), _epoch(_plan(seed=2))
    for batches in (second, other):
        assert [_ids(batch) for batch in batches] != [_ids(batch) for batch in first]
        assert [batch.source_length for batch in batches] != [batch.source_length for batch in first]
        # Not only the order of the batches changes: almost no batch holds the same pairs as before.
        together = {frozenset(_ids(batch)) for batch in first} & {frozenset(_ids(batch)) for batch in batches}
        assert len(together) <= 1
    # Shapes are mixed. Sorted order would give one run of equal lengths per bucket.
    lengths = [batch.source_length for batch in first]
    assert sum(a != b for a, b in itertools.pairwise(lengths)) > len(lengths) / 2


def test_max_length_leaves_out_pairs_with_either_side_longer() -> None:
    source = np.array([5, 11, 5, 10], np.int32)
    target = np.array([5, 5, 11, 10], np.int32)
    plan = BucketPlan(source, target, batch_tokens=100, max_length=10, seed=1)
    assert sorted(i for batch in _epoch(plan) for i in _ids(batch)) == [0, 3]
    assert plan.statistics().left_out == 2


def test_no_pair_short_enough_is_an_error() -> None:
    lengths = np.array([5, 6, 7], np.int32)
    with pytest.raises(DataError, match="None of the 3 training pairs has at most max_length=4 pieces on both sides"):
        BucketPlan(lengths, lengths, batch_tokens=100, max_length=4, seed=1)


def test_buckets_hold_all_pairs_each_in_the_smallest_that_fits() -> None:
    source, target = _lengths(2000, seed=3)
    buckets = choose_buckets(source, target, batch_tokens=4096)
    sizes = [b.source_length + b.target_length for b in buckets]
    assert sizes == sorted(sizes)
    assert (buckets[-1].source_length, buckets[-1].target_length) == (source.max(), target.max())
    chosen = assign(source, target, buckets)
    for s, t, index in zip(source, target, chosen, strict=True):
        fitting = [i for i, b in enumerate(buckets) if s <= b.source_length and t <= b.target_length]
        assert index == fitting[0]
    assert next_bucket(buckets, len(buckets) - 1) is None
    # Every bucket but the last passes its leftover pairs on, so only the last can have empty rows.
    for i in range(len(buckets) - 1):
        above = next_bucket(buckets, i)
        assert above is not None
        assert above > i


def test_pairs_are_split_by_bucket_in_their_order() -> None:
    random = np.random.default_rng(1)
    pairs, bucket_of = random.permutation(150_000).astype(np.int32), random.integers(0, 5, 150_000).astype(np.int8)
    for i, members in enumerate(split_by(pairs, bucket_of, 6)):
        np.testing.assert_array_equal(members, pairs[bucket_of[pairs] == i])


@pytest.mark.nightly
def test_multi30k_wastes_little(shared_data: Callable[[str], Path], tmp_path: Path) -> None:
    folder = shared_data("multi30k") / "tok"
    problem = registry.problem("text2text", source_dir=str(folder), languages="en-de")
    store = prepare(problem, tmp_path, num_workers=2)
    hparams = registry.hparams("multi30k")
    split = store.split("train")
    plan = BucketPlan(
        split.source.lengths,
        split.target.lengths,
        batch_tokens=hparams.batch_tokens,
        max_length=hparams.max_length,
        seed=hparams.seed,
    )
    statistics = plan.statistics()
    assert statistics.pairs + statistics.left_out == len(split) == 29_000
    assert statistics.waste < 0.12, statistics
    assert len({(b.source_length, b.target_length) for b in plan.buckets}) <= 16
