"""Thirty splits, drawn at random, of devices, parts and shards of rows: the losses and the masks of one device.

A long test; each split is a process of its own (replica_worker.py), as logical devices are made once.
"""

import random
from pathlib import Path

import numpy as np
import pytest

from t2t_lite.data.store import Store
from tests import commands

pytestmark = pytest.mark.nightly

MODELS = ("transformer", "transformer:packing", "rnn", "convs2s", "bytenet", "transformer_moe")
DRAW = random.Random(47)
SPLITS = [
    (
        MODELS[number % len(MODELS)],
        DRAW.choice((1, 2, 3, 4, 5, 7, 8)),
        DRAW.choice((1, 2, 3, 4)),
        DRAW.choice((1, 2, 4)),
    )
    for number in range(30)
]


def _case(model: str, accumulate: int) -> str:
    return f"float32:0.1:{accumulate}:adam:{model}"


def _train(store: Path, folder: Path, devices: int, shards: int, *cases: str) -> dict[str, np.ndarray]:
    streams = {"out": folder / "out", "err": folder / "err"}
    worker = commands.start(
        "tests.training.replica_worker", store, folder / "o.npz", devices, shards, *cases, **streams
    )
    worker.join(1500)
    assert worker.exitcode == 0, (folder / "err").read_text(encoding="utf-8")
    with np.load(folder / "o.npz", allow_pickle=False) as arrays:
        return dict(arrays)


@pytest.fixture(scope="module")
def on_one_device(toy_store: Store, tmp_path_factory: pytest.TempPathFactory) -> dict[str, np.ndarray]:
    cases = [_case(model, 1) for model in MODELS]
    return _train(toy_store.folder, tmp_path_factory.mktemp("one"), 1, 1, *cases)


@pytest.mark.parametrize(("model", "devices", "accumulate", "shards"), SPLITS)
def test_any_split_gives_the_result_of_one_device(
    on_one_device: dict[str, np.ndarray],
    toy_store: Store,
    tmp_path: Path,
    model: str,
    devices: int,
    accumulate: int,
    shards: int,
) -> None:
    here, one = _case(model, accumulate), _case(model, 1)
    found = _train(toy_store.folder, tmp_path, devices, shards, here)
    assert found[f"{here}/rows_drawn_for"].tolist() == on_one_device[f"{one}/rows_drawn_for"].tolist()
    np.testing.assert_array_equal(found[f"{here}/bits"], on_one_device[f"{one}/bits"])
    assert len(found[f"{here}/bits"]) > 1000
    np.testing.assert_allclose(found[f"{here}/losses"], on_one_device[f"{one}/losses"], rtol=1e-5)
