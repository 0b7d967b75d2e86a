"""Index of a plan: the batches are the same with it as without, and a file that does not fit is replaced."""

import time
from pathlib import Path

import numpy as np
import pytest

from t2t_lite.data import packing, plan, plan_index
from t2t_lite.data.packing import PackedPlan
from t2t_lite.data.plan import BucketPlan, Plan

_TICK = 0.02  # seconds, longer than the resolution of a file's times

Array = np.ndarray


@pytest.fixture(autouse=True)
def few_pairs_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_index, "LEAST", 100)


def _plan(kind: type[Plan], folder: Path | None, seed: int = 1, pairs: int = 400, batch_tokens: int = 500) -> Plan:
    lengths = np.random.default_rng(pairs).integers(1, 50, (2, pairs)).astype(np.int32)
    return kind(*lengths, batch_tokens=batch_tokens, max_length=45, seed=seed, folder=folder)


def _rows(plan: Plan) -> list[list[list[int]]]:
    steps = (1, plan.steps_per_epoch, plan.steps_per_epoch + 1, 2 * plan.steps_per_epoch + 2)
    return [plan.batch(step).rows.tolist() for step in steps]


@pytest.mark.parametrize("kind", [BucketPlan, PackedPlan])
def test_batches_are_the_same_with_an_index(tmp_path: Path, kind: type[Plan]) -> None:
    for changes in ({}, {"seed": 2}, {"pairs": 401}, {"batch_tokens": 900}):
        wanted = _rows(_plan(kind, None, **changes))
        for _ in range(2):
            assert _rows(_plan(kind, tmp_path, **changes)) == wanted


def test_plans_keep_their_files_an_epoch_replaces_the_one_before_and_the_last_used_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan_index, "MOST", 4)
    first = _plan(BucketPlan, tmp_path)
    first.batch(1)
    files = {path.name for path in tmp_path.iterdir()}
    assert sorted(name[:11] for name in files) == ["plan-epoch-", "plan-shapes"]
    first.batch(first.steps_per_epoch + 1)
    assert {path.name for path in tmp_path.iterdir()} == files
    _plan(BucketPlan, tmp_path, seed=2).batch(1)
    assert len(list(tmp_path.iterdir())) == 4
    time.sleep(_TICK)
    _plan(BucketPlan, tmp_path).batch(first.steps_per_epoch + 1)  # used again
    time.sleep(_TICK)
    _plan(BucketPlan, tmp_path, seed=3).batch(1)
    assert len(list(tmp_path.iterdir())) == 4
    assert files < {path.name for path in tmp_path.iterdir()}


def test_shapes_are_chosen_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = _rows(_plan(BucketPlan, tmp_path))
    monkeypatch.delattr(plan, "choose_buckets")
    monkeypatch.delattr(plan, "batches_per_bucket")
    assert _rows(_plan(BucketPlan, tmp_path)) == wanted


def test_rows_are_packed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = _rows(_plan(PackedPlan, tmp_path))
    monkeypatch.delattr(packing, "pack")
    assert _rows(_plan(PackedPlan, tmp_path)) == wanted
    with pytest.raises(NameError):
        _plan(PackedPlan, tmp_path, seed=2)


@pytest.mark.parametrize("place", [0, 3, 200, -1])
def test_a_damaged_file_is_computed_again(tmp_path: Path, place: int) -> None:
    wanted = _rows(_plan(PackedPlan, tmp_path))
    (path,) = tmp_path.iterdir()
    whole = path.read_bytes()
    damaged = bytearray(whole)
    damaged[place] ^= 1
    for data in (bytes(damaged), whole[:100], b""):
        path.write_bytes(data)
        assert _rows(_plan(PackedPlan, tmp_path)) == wanted
        assert path.read_bytes() == whole


def test_few_pairs_have_no_file_and_a_folder_that_is_gone_does_no_harm(tmp_path: Path) -> None:
    assert _rows(_plan(PackedPlan, tmp_path, pairs=90)) == _rows(_plan(PackedPlan, None, pairs=90))
    assert _rows(_plan(BucketPlan, tmp_path / "gone")) == _rows(_plan(BucketPlan, None))
    assert list(tmp_path.iterdir()) == []
