"""float16 with its loss scale: close to float32, and an overflow lowers the scale and nothing else."""

import math
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from t2t_lite import config
from t2t_lite.config import HParams
from t2t_lite.data.store import Store
from t2t_lite.distributed.devices import Devices, make_strategy
from t2t_lite.errors import TrainingError
from t2t_lite.optimizers import loss_scale
from t2t_lite.optimizers.choices import make_optimizer
from t2t_lite.optimizers.loss_scale import LossScale
from t2t_lite.runs.checkpoint import find
from t2t_lite.runs.metrics_log import read_metrics
from t2t_lite.runs.run_dir import RunSpec, make_model
from t2t_lite.training.step import StepResult, TrainStep
from t2t_lite.training.trainer import Trainer
from tests.checkpoints import assert_same_bits, tensors
from tests.families import VARIANTS
from tests.training.xla_worker import VOCAB, batches

OVERFLOWS = 2.0**40  # a scale with which the gradients overflow
STEPS = 20
FAMILIES = (
    "transformer/post",
    "rnn/general",
    "convs2s/one_size",
    "transformer_moe/plain",
)  # the scale falls in bytenet


class Setup:
    """A model, its optimizer and its step."""

    def __init__(self, hparams: HParams, *, jit: bool = False) -> None:
        keras.utils.set_random_seed(1)
        self.model = make_model(hparams.model, hparams, VOCAB, VOCAB, True)
        self.optimizer = make_optimizer(hparams, [w.value for w in self.model.trainable_weights])
        parts = (self.model, self.optimizer, make_strategy(Devices(1)), hparams.optimization)
        self.step = TrainStep(*parts, accumulate=1, seed=1, jit=jit)
        self.stream, self.made = batches(), 0

    def update(self, rate: float = 1e-3, **how: Any) -> StepResult:
        self.made += 1
        self.step(next(self.stream), self.made, rate, **how)
        return self.step.outcome()

    def scale(self) -> tf.Variable:
        assert self.optimizer.loss_scale is not None
        return self.optimizer.loss_scale.variables["scale"]

    def state(self) -> list[np.ndarray]:
        slots = [slot for slots in self.optimizer.slots for slot in slots.values()]
        return [variable.numpy() for variable in (*self.optimizer.variables, *slots)]


@pytest.mark.nightly
@pytest.mark.parametrize("name", FAMILIES)
def test_updates_are_close_to_those_in_float32(name: str) -> None:
    """Each begins with the weights of float32: a ReLU that rounding switches would soon lead elsewhere."""
    hparams = config.replace(VARIANTS[name], dropout=0.1, optimizer="sgd")
    exact, half = Setup(hparams), Setup(config.replace(hparams, precision="float16"))
    ours, theirs = [], []
    for _ in range(STEPS):
        for weight, value in zip(half.model.weights, exact.model.weights, strict=True):
            weight.assign(value)
        ours.append(half.update(0.1))
        theirs.append(exact.update(0.1))
    np.testing.assert_allclose([r.loss for r in ours], [r.loss for r in theirs], rtol=5e-4)
    np.testing.assert_allclose([r.grad_norm for r in ours], [r.grad_norm for r in theirs], rtol=2e-2)
    assert {r.loss_scale for r in ours} == {2.0**15}
    assert {r.loss_scale for r in theirs} == {0.0}


@pytest.mark.commit("graph")
@pytest.mark.parametrize("jit", [False, True], ids=["graph", "xla"])
def test_an_overflow_lowers_the_scale_and_changes_no_weight_until_it_fits(small_hparams: HParams, *, jit: bool) -> None:
    setup = Setup(config.replace(small_hparams, precision="float16"), jit=jit)
    setup.scale().assign(OVERFLOWS)
    before, scale = setup.state(), OVERFLOWS
    # Even if no bad batch is tolerated, the update after an overflow is made.
    while not math.isfinite((outcome := setup.update(after_bad=False)).grad_norm):
        scale /= 2
        assert math.isfinite(outcome.loss)
        assert (outcome.applied, outcome.loss_scale, setup.scale().numpy()) == (1, scale, scale)
        for old, new in zip(before, setup.state(), strict=True):
            np.testing.assert_array_equal(new, old)
    assert 2.0**12 < scale < OVERFLOWS / 2
    assert (outcome.applied, outcome.loss_scale) == (1, scale)
    assert outcome.grad_norm < 100  # of the loss without the scale
    assert all((new != old).any() for old, new in zip(before, setup.state(), strict=True))


@pytest.mark.commit
def test_the_scale_doubles_after_2000_good_updates_and_halves_down_to_1() -> None:
    scale = LossScale()
    update = tf.function(scale.update, autograph=False)

    def after(finite: bool, condition: bool, good: float, value: float) -> tuple[bool, float, float]:
        scale.variables["scale"].assign(value)
        scale.variables["good_updates"].assign(good)
        lowered, new = update(tf.constant(finite), tf.constant(condition))
        assert new.numpy() == scale.value().numpy()
        return bool(lowered), float(new), float(scale.variables["good_updates"].numpy())

    assert after(True, True, 1998, 8) == (False, 8, 1999)
    assert after(True, True, 1999, 8) == (False, 16, 0)
    assert after(False, True, 1999, 8) == (True, 4, 0)
    assert after(False, True, 5, 1) == (False, 1, 0)  # so the batch is bad
    assert after(False, False, 5, 8) == (False, 8, 5)


def _trainer(folder: Path, store: Store, hparams: HParams, steps: int) -> Trainer:
    hparams = config.replace(
        hparams,
        precision="float16",
        dropout=0.1,
        train_steps=steps,
        log_every=1,
        eval_every=1000,
        eval_lines=1,
        extra_length=1,
        beam_size=1,
        save_every=6,
    )
    spec = RunSpec("toy_ende", {"train_size": 240}, str(store.folder.parent), None, "tiny", "transformer", hparams)
    trainer = Trainer(folder, spec, store, Devices(1))
    trainer.begin()
    return trainer


@pytest.mark.nightly
def test_a_run_that_resumes_while_the_scale_falls_is_the_uninterrupted_one(
    toy_store: Store,
    small_hparams: HParams,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(loss_scale, "_FIRST", OVERFLOWS)
    monkeypatch.setattr(loss_scale, "_INTERVAL", 4.0)
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    _trainer(whole, toy_store, small_hparams, 36).run()
    for steps in (6, 30, 36):
        _trainer(parts, toy_store, small_hparams, steps).run()
    assert_same_bits(tensors(parts, 36), tensors(whole, 36))
    saved = tf.train.load_checkpoint(find(whole, "6"))
    assert saved.get_tensor("loss_scale/scale/.ATTRIBUTES/VARIABLE_VALUE") == OVERFLOWS / 2**6
    lines = [line for line in read_metrics(whole) if "loss_scale" in line]
    assert [line["step"] for line in lines] == list(range(1, 37))
    left_out = [line for line in lines if "loss" not in line]
    assert [line["loss_scale"] for line in left_out[:3]] == [2.0**39, 2.0**38, 2.0**37]
    assert 6 < len(left_out) < 36
    trained = [line["loss_scale"] for line in lines if "loss" in line]
    assert max(trained) > trained[0]  # it doubled again
    assert (
        f"step 1: a gradient was too large for float16. The update is left out; the loss scale is {2.0**39:,g} now."
        in (capsys.readouterr().out)
    )


@pytest.mark.nightly
def test_an_overflow_at_the_smallest_scale_is_a_bad_batch(
    toy_store: Store, small_hparams: HParams, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loss_scale, "_FIRST", OVERFLOWS)
    monkeypatch.setattr(loss_scale, "_LEAST", OVERFLOWS / 2)
    with pytest.raises(
        TrainingError, match=r"^Step 2: the loss is \d.* and the gradient's norm (nan|inf)\. The update.* In float16"
    ):
        _trainer(tmp_path, toy_store, small_hparams, 6).run()
