"""FLOPs of a training, counted pair by pair in any layout of the pairs, and FLOPs per second of the devices."""

import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from unittest import mock

import numpy as np
import pytest
import tensorflow as tf

from t2t_lite import config
from t2t_lite.config import HParams
from t2t_lite.data.pipeline import assemble, make_plan
from t2t_lite.data.store import Store
from t2t_lite.distributed.devices import Devices, make_strategy
from t2t_lite.groups import BatchGroup
from t2t_lite.models.transformer_cost import TransformerCost
from t2t_lite.models.transformer_hparams import TransformerHParams
from t2t_lite.ops import threads
from t2t_lite.runs.run_dir import RunSpec
from t2t_lite.runs.utilisation import device_flops_per_second, pair_lengths, planned_flops
from t2t_lite.training.describe import describe

COST = TransformerCost(TransformerHParams(num_layers=2, d_model=16, d_ff=32, num_heads=2), target_vocab_size=800)
RECIPE: dict[str, Any] = {"batch_tokens": 256, "max_length": 64}


@pytest.mark.parametrize("packing", [False, True])
def test_the_plan_foretells_what_the_batches_count(toy_store: Store, packing: bool) -> None:
    """Checks two and a half epochs. So a run that goes on from step N knows the FLOPs of the steps before."""
    split = toy_store.split("train")
    plan = make_plan(split, BatchGroup(packing=packing, **RECIPE), 1)
    total, totals = 0, [0]
    for step in range(1, 5 * plan.steps_per_epoch // 2):
        total += COST.training_flops(*pair_lengths(assemble(split, plan.batch(step), packing=packing)))
        if step % 7 == 0 or step % plan.steps_per_epoch < 2:
            assert planned_flops(COST, split, plan, step) == total
        totals.append(total)
    for step, after in [(0, 0), (len(totals) - 1, 5), (plan.steps_per_epoch + 3, plan.steps_per_epoch - 2), (9, 4)]:
        assert planned_flops(COST, split, plan, step, after) == totals[step] - totals[after]


def test_the_devices_speed_is_that_of_matrix_products() -> None:
    """Compares only the order of magnitude with NumPy's speed, as others use the same machine."""
    start = time.perf_counter()
    speed = device_flops_per_second(make_strategy(Devices(1)), "float32")
    assert time.perf_counter() - start < 30
    if tf.config.list_physical_devices("GPU"):
        assert speed > 1e11
        return
    a, seconds = np.ones((1024, 1024), np.float32), []
    for _ in range(8):
        start = time.perf_counter()
        a @ a
        seconds.append(time.perf_counter() - start)
    numpys = 2 * 1024**3 / min(seconds)
    assert 0.02 < speed / numpys < 50


@pytest.mark.commit
@pytest.mark.skipif(bool(tf.config.list_physical_devices("GPU")), reason="a GPU takes one product after the other")
def test_on_cpus_the_reference_is_the_sum_of_products_that_run_at_the_same_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Training runs one operation on each processor; relative to the speed of one, utilisation was up to 158%."""
    rates: list[float] = []
    begun = threading.Barrier(3, timeout=60)

    def parallel_map(function: Callable[[int], float], items: Iterable[int]) -> Iterator[float]:
        def rate(item: int) -> float:
            begun.wait()  # fails unless all three run
            return function(item)

        with ThreadPoolExecutor(3) as pool:
            rates.extend(pool.map(rate, items))
        return iter(rates)

    monkeypatch.setattr(threads, "num_parallel", lambda: 3)
    monkeypatch.setattr(threads, "parallel_map", parallel_map)
    assert device_flops_per_second(make_strategy(Devices(1)), "float32") == sum(rates)
    assert len(rates) == 3


@pytest.mark.skipif(bool(tf.config.list_physical_devices("GPU")), reason="GPUs are counted one by one")
@pytest.mark.parametrize(
    ("addresses", "machines"),
    [(["a:1", "b:1"], 2), (["a:1", "a:2", "b:1"], 2), (["127.0.0.1:1", "127.0.0.1:2"], 1), (["[::1]:1", "[::2]:1"], 2)],
)
def test_on_cpus_each_machine_of_a_cluster_counts_once(
    addresses: list[str], machines: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": 0}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(cluster))
    monkeypatch.setattr(threads, "parallel_map", lambda *_: [3.0, 4.0])
    several = mock.Mock(spec=tf.distribute.MultiWorkerMirroredStrategy)
    assert device_flops_per_second(several, "float32") == 7 * machines
    assert device_flops_per_second(tf.distribute.get_strategy(), "float32") == 7  # as --describe asks


@pytest.mark.commit
def test_describe_shows_the_flops_of_the_whole_training(toy_store: Store, small_hparams: HParams) -> None:
    split = toy_store.split("train")
    plan = make_plan(split, BatchGroup(**RECIPE), 1)
    hparams = config.replace(small_hparams, **RECIPE, train_steps=3 * plan.steps_per_epoch)
    spec = RunSpec("toy_ende", {"train_size": 240}, str(toy_store.folder.parent), None, "small", "transformer", hparams)
    vocab_size = toy_store.target_vocabulary.size
    cost = TransformerCost(
        TransformerHParams(num_layers=1, d_model=16, d_ff=32, num_heads=2), target_vocab_size=vocab_size
    )
    flops = 3 * cost.training_flops(split.source.lengths, split.target.lengths)
    assert f"\n  the whole training: {flops:.2e} FLOP on real tokens\n" in describe(spec, "unused", Devices()).text
