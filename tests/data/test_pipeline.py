"""Planned batches to arrays: equal to a plain loop; errors reach the consumer; the thread ends."""

import threading
import time
from pathlib import Path

import numpy as np
import pytest

from t2t_lite.data.pipeline import assemble, batches, make_plan
from t2t_lite.data.plan import PlannedBatch
from t2t_lite.data.store import Tokens, TokenSplit
from t2t_lite.groups import BatchGroup

PAIRS = 301
OPTIONS = {"batch_tokens": 240, "max_length": 40}


def _tokens(random: np.random.Generator) -> Tokens:
    lengths = random.integers(1, 45, PAIRS)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    ids = random.integers(3, 1000, offsets[-1]).astype("<u2")
    ids[offsets[1:] - 1] = 1  # each ends with EOS
    return Tokens(ids, offsets, 1000, Path("train.source.ids"))


@pytest.fixture(scope="module")
def split() -> TokenSplit:
    random = np.random.default_rng(7)
    return TokenSplit(_tokens(random), _tokens(random))


def _slowly(split: TokenSplit, planned: PlannedBatch) -> dict[str, np.ndarray]:
    """What `assemble` should give."""
    arrays = {}
    for name, tokens, length in (
        ("source", split.source, planned.source_length),
        ("target", split.target, planned.target_length),
    ):
        ids, segments, positions = np.zeros((3, len(planned.rows), length), np.int32)
        for r, pairs in enumerate(planned.rows):
            column = 0
            for slot, pair in enumerate(pairs):
                if pair < 0:
                    continue
                for position, symbol in enumerate(tokens[pair]):
                    assert not segments[r, column], "two pairs in one place"
                    ids[r, column], segments[r, column], positions[r, column] = symbol, slot + 1, position
                    column += 1
        arrays |= {name: ids, f"{name}_segment": segments, f"{name}_position": positions}
    return arrays


@pytest.mark.parametrize("packing", [False, True])
def test_assemble_equals_a_plain_loop(split: TokenSplit, packing: bool) -> None:
    plan = make_plan(split, BatchGroup(packing=packing, **OPTIONS), 1)
    assert plan.steps_per_epoch > 10
    with_empty_rows = shared_rows = 0
    for step in range(1, plan.steps_per_epoch + 1):
        planned = plan.batch(step)
        with_empty_rows += bool((planned.rows[:, 0] < 0).any())
        shared_rows += bool((planned.rows >= 0).sum(axis=1).max() > 1)
        batch = assemble(split, planned, packing)
        expected = _slowly(split, planned)
        assert set(batch) == (set(expected) if packing else {"source", "target"})
        for name, array in batch.items():
            assert array.dtype == np.int32
            np.testing.assert_array_equal(array, expected[name], err_msg=f"{name}, step {step}")
    assert with_empty_rows == 1
    assert bool(shared_rows) == packing


def _stream_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "t2t-lite-batches"]


@pytest.mark.parametrize("first_step", [1, 17])
def test_batches_come_in_order_from_the_first_step_past_the_end_of_an_epoch(split: TokenSplit, first_step: int) -> None:
    plan = make_plan(split, BatchGroup(**OPTIONS), 1)
    stream = batches(split, plan, packing=False, first_step=first_step)
    unshared = make_plan(split, BatchGroup(**OPTIONS), 1)  # the stream's thread is using `plan`
    for step in range(first_step, first_step + plan.steps_per_epoch + 5):
        expected = assemble(split, unshared.batch(step), packing=False)
        for name, array in next(stream).items():
            np.testing.assert_array_equal(array, expected[name])
    stream.close()
    assert _stream_threads() == []


def test_batches_are_made_ahead_but_not_without_bound_and_closing_ends_the_thread(split: TokenSplit) -> None:
    made = []

    class Watched:
        steps_per_epoch = 1

        def batch(self, step: int) -> PlannedBatch:
            made.append(step)
            return PlannedBatch(np.arange(4, dtype=np.int64)[:, None], 45, 45)

    stream = batches(split, Watched(), packing=False, first_step=1)
    assert _stream_threads() == []  # nothing is read before it is asked for
    next(stream)
    deadline = time.monotonic() + 5
    while len(made) < 3 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert len(made) >= 3
    time.sleep(0.2)
    assert made == list(range(1, len(made) + 1))
    assert len(made) <= 8
    assert len(_stream_threads()) == 1
    stream.close()
    assert _stream_threads() == []


def test_an_error_reaches_the_consumer_after_the_batches_before_it_and_ends_the_thread(split: TokenSplit) -> None:
    class Fails:
        steps_per_epoch = 10

        def batch(self, step: int) -> PlannedBatch:
            if step == 3:
                raise OSError("the disk is gone")
            return PlannedBatch(np.arange(4, dtype=np.int64)[:, None], 45, 45)

    stream = batches(split, Fails(), packing=False, first_step=1)
    next(stream)
    next(stream)
    with pytest.raises(OSError, match="the disk is gone"):
        next(stream)
    assert _stream_threads() == []
