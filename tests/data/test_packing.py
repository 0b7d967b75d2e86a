"""Packed rows: every pair once, no overlaps, little space wasted."""

import numpy as np
import pytest

from t2t_lite.data.packing import PackedPlan, pack

Array = np.ndarray
WIDTH = 64


def _lengths(pairs: int) -> tuple[Array, Array]:
    random = np.random.default_rng(5)
    source = np.clip(random.lognormal(2.5, 0.6, pairs), 1, 90).astype(np.int32) + 1
    return source, np.clip(source + random.integers(-2, 5, pairs), 1, 90).astype(np.int32)


def _plan(pairs: int = 2000, **changes: int) -> PackedPlan:
    options = {"batch_tokens": 1024, "max_length": WIDTH, "seed": 1} | changes
    return PackedPlan(*_lengths(pairs), **options)


def _rows(plan: PackedPlan, epoch: int = 0) -> list[list[int]]:
    """The pairs in each non-empty row of one epoch, in order."""
    first = epoch * plan.steps_per_epoch + 1
    batches = [plan.batch(step) for step in range(first, first + plan.steps_per_epoch)]
    return [row[row >= 0].tolist() for batch in batches for row in batch.rows if (row >= 0).any()]


@pytest.mark.parametrize("pairs", [1, 3, 7, 2000])
def test_every_pair_comes_exactly_once_per_epoch_in_rows_with_room_for_it(pairs: int) -> None:
    source, target = _lengths(pairs)
    plan = _plan(pairs)
    kept = np.flatnonzero(np.maximum(source, target) <= WIDTH).tolist()
    for epoch in range(2):
        rows = _rows(plan, epoch)
        assert sorted(i for row in rows for i in row) == kept
        for row in rows:
            assert source[row].sum() <= WIDTH
            assert target[row].sum() <= WIDTH


def test_all_batches_have_one_shape_and_empty_places_come_last() -> None:
    plan = _plan()
    batches = [plan.batch(step) for step in range(1, plan.steps_per_epoch + 1)]
    assert {batch.rows.shape[0] for batch in batches} == {1024 // WIDTH}
    assert {(batch.source_length, batch.target_length) for batch in batches} == {(WIDTH, WIDTH)}
    for batch in batches:
        full = batch.rows >= 0
        assert (full[:, :-1] >= full[:, 1:]).all()
        assert batch is batches[-1] or full[:, 0].all()
    assert plan.statistics().waste < 0.12


def test_a_batch_depends_on_the_step_alone_and_epochs_shuffle_the_rows() -> None:
    plan = _plan()
    for step in (plan.steps_per_epoch + 2, 1, plan.steps_per_epoch):
        np.testing.assert_array_equal(plan.batch(step).rows, _plan().batch(step).rows)
    first, second, other = _rows(plan), _rows(plan, 1), _rows(_plan(seed=2))
    assert first != second
    assert sorted(first) == sorted(second)  # the same rows in another order
    assert sorted(first) != sorted(other)


def _pack_slowly(order: Array, source: Array, target: Array, width: int) -> list[list[int]]:
    """First fit, row by row: the first of at most 64 open rows that has room; the fullest one is closed."""
    closed: list[list[int]] = []
    rows: list[list[int]] = []

    def room(row: list[int]) -> tuple[int, int]:
        return width - int(source[row].sum()), width - int(target[row].sum())

    for i in order.tolist():
        fitting = [row for row in rows if room(row)[0] >= source[i] and room(row)[1] >= target[i]]
        if fitting:
            fitting[0].append(i)
            continue
        if len(rows) == 64:
            closed.append(rows.pop(min(range(64), key=lambda n: min(room(rows[n])))))
        rows.append([i])
    return closed + rows


@pytest.mark.parametrize(
    ("pairs", "width", "dtype"), [(1, 64, "i4"), (700, 91, "i4"), (700, 64, "i8"), (120, 4000, "i4")]
)
def test_pack_is_first_fit(pairs: int, width: int, dtype: str) -> None:
    source, target = (lengths.clip(1, width) for lengths in _lengths(pairs))
    order = np.random.default_rng(pairs).permutation(pairs).astype(dtype)
    ids, starts = pack(order, source, target, width)
    assert ids.dtype == order.dtype
    assert [row.tolist() for row in np.split(ids, starts[1:-1])] == _pack_slowly(order, source, target, width)


def test_pack_fills_rows_exactly_and_looks_at_both_sides() -> None:
    source = np.array([6, 6, 4, 5, 1], np.int32)
    target = np.array([6, 2, 6, 5, 10], np.int32)
    # Pair 1 does not fit beside 0 on the source side, nor pair 2 on the target side. Pair 3 fits exactly beside 0.
    # Pair 4 fits beside no other.
    ids, starts = pack(np.arange(5), source, target, 11)
    assert (ids.tolist(), starts.tolist()) == ([0, 3, 1, 2, 4], [0, 2, 4, 5])
