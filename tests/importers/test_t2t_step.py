"""A training step of tensor2tensor, compared with ours: tests/golden/tensor2tensor_step.py stored its third one.

Compared are loss, gradients, learning rate, and the weights and slots after the update, all without dropout. The
checkpoint from before the update is imported like any other, with its slots. The update that follows must be the one
that tensor2tensor made.
"""

import json
import math
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import tensorflow as tf

from t2t_lite.errors import DataError, UsageError
from t2t_lite.importers import t2t_model, t2t_slots, tensor2tensor
from t2t_lite.importers.imported import Imported
from t2t_lite.optimizers.adafactor import Adafactor
from t2t_lite.optimizers.choices import make_optimizer
from t2t_lite.schedules.noam import Noam
from t2t_lite.training.gradients import loss_and_gradients
from tests.importers import t2t_golden
from tests.importers.made_up import save, variables

GOLDEN = t2t_golden.FOLDER / "tensor2tensor_step.npz"
SPACE, SPACE_PATH = 5, "transformer/source_bias"
NAMES = ("adam", "unshared", "relative", "adafactor")


class Case(NamedTuple):
    """A case: scalars and ids, and imports of the state before the update, the gradients and the state after it."""

    golden: dict[str, np.ndarray]
    before: Imported
    gradients: Imported
    after: Imported


@pytest.fixture(scope="module", params=NAMES)
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Case:
    golden = t2t_golden.read(GOLDEN, request.param)
    folder = tmp_path_factory.mktemp(request.param)
    hparams = json.loads(str(golden["hparams"]))

    def imported(kind: str) -> Imported:
        prefix = save(folder / kind / "model.ckpt-2", t2t_golden.arrays(golden, kind), hparams)
        return tensor2tensor.read([prefix], target_space_id=SPACE)

    return Case(golden, imported("before"), imported("gradient"), imported("after"))


def _gradients(case: Case) -> tuple[Any, float, list[Any]]:
    """Returns the model, its loss and its gradients, with dropout at 0."""
    model = t2t_model.build(case.before)
    hparams = t2t_model.recipe(case.before.description, case.before.hparams)
    batch = {side: tf.constant(case.golden[side]) for side in ("source", "target")}
    tokens = tf.cast(tf.math.count_nonzero(batch["target"]), tf.float32)
    smoothing = (hparams.label_smoothing, hparams.label_smoothing_over)
    loss, gradients = loss_and_gradients(model, batch, None, tokens, smoothing, groups=0, shards=1, jit=False)
    return model, float(loss), gradients


def _entropy(smoothing: float, vocab_size: int) -> float:
    """The entropy of the smoothed labels, which tensor2tensor subtracts from its loss."""
    others = smoothing / (vocab_size - 1)
    return -(1 - smoothing) * math.log(1 - smoothing) - smoothing * math.log(others)


@pytest.mark.commit
def test_loss_and_gradients(case: Case) -> None:
    model, loss, gradients = _gradients(case)
    entropy = _entropy(case.before.hparams["label_smoothing"], case.before.description.target_vocab_size)
    assert loss - entropy == pytest.approx(float(case.golden["loss"]), abs=2e-6)
    assert {weight.path for weight in model.trainable_weights} == set(case.gradients.weights)
    for weight, gradient in zip(model.trainable_weights, gradients, strict=True):
        wanted = case.gradients.weights[weight.path]
        assert np.abs(wanted).max() > 1e-6 or weight.path.endswith("relative_values"), weight.path
        np.testing.assert_allclose(
            gradient, wanted, rtol=0, atol=2e-6 * max(1, np.abs(wanted).max()), err_msg=weight.path
        )


@pytest.mark.nightly
def test_the_update_with_its_slots(case: Case) -> None:
    """Weights and slots after the update are tensor2tensor's; with Adafactor, the target space is not compared."""
    model, _, gradients = _gradients(case)
    hparams = t2t_model.recipe(case.before.description, case.before.hparams)
    slots, wanted_slots = t2t_slots.read(case.before), t2t_slots.read(case.after)
    assert (slots.optimizer, slots.step, wanted_slots.step) == (hparams.optimizer, 2, 3)
    optimizer = make_optimizer(hparams, [weight.value for weight in model.trainable_weights])
    for weight, of_weight in zip(model.trainable_weights, optimizer.slots, strict=True):
        assert of_weight.keys() == slots.arrays[weight.path].keys()
        for name, variable in of_weight.items():
            variable.assign(slots.arrays[weight.path][name])
    optimizer.apply(gradients, *map(tf.constant, optimizer.numbers(float(case.golden["rate"]), slots.step + 1)))
    for weight, of_weight in zip(model.trainable_weights, optimizer.slots, strict=True):
        if weight.path == SPACE_PATH and isinstance(optimizer, Adafactor):
            continue
        moved = np.abs(case.after.weights[weight.path] - case.before.weights[weight.path]).max()
        assert moved > 1e-4, weight.path
        found, wanted = np.asarray(weight), case.after.weights[weight.path]
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-4 * moved, err_msg=weight.path)
        for name, variable in of_weight.items():
            wanted = wanted_slots.arrays[weight.path][name]
            largest = np.abs(wanted).max()
            np.testing.assert_allclose(
                variable, wanted, rtol=1e-4, atol=1e-5 * largest, err_msg=f"{weight.path}/{name}"
            )


def test_the_learning_rate_is_that_of_the_update_before(case: Case) -> None:
    """tensor2tensor counts updates from 0, so its first update changes nothing; our first one is number 1."""
    hparams = t2t_model.recipe(case.before.description, case.before.hparams)
    assert case.golden["step"] == 2
    if hparams.schedule == "noam":
        rate = Noam(hparams.d_model, hparams.warmup_steps, hparams.learning_rate_factor)
        assert rate(int(case.golden["step"])) == pytest.approx(float(case.golden["rate"]), rel=1e-6)
    else:  # Adafactor
        assert hparams.learning_rate == pytest.approx(float(case.golden["rate"]), rel=1e-6)


def test_only_relative_positions_have_gradients_of_rows(case: Case) -> None:
    """No other weights have them. LazyAdam moves only the rows that a gradient names, so for the others it is Adam."""
    sparse = case.golden["sparse"].tolist()
    assert all("relative_positions" in name for name in sparse)
    assert len(sparse) == (4 if case.before.description.max_relative_position else 0)
    embedding = case.gradients.weights["transformer/target_embedding/table"]
    assert embedding.any(axis=1).all() or not case.before.description.share_embeddings


def test_adafactors_slots_of_shards_are_those_of_the_whole_table(tmp_path: Path) -> None:
    arrays, draw = variables(), np.random.default_rng(0)
    tables, slots = [], {}
    for name in list(arrays):
        array = arrays[name]
        square = np.float32(draw.uniform(1, 2, array.shape))
        if array.ndim == 2:
            slots |= {f"training/{name}/Adafactor": square.mean(1), f"training/{name}/Adafactor_1": square.mean(0)}
        elif array.ndim == 1:
            slots[f"training/{name}/Adafactor"] = square
        if "symbol_modality" in name:
            tables.append(square)
    imported = tensor2tensor.read([save(tmp_path / "model.ckpt-100", arrays | slots)], target_space_id=SPACE)
    found = t2t_slots.read(imported)
    assert (found.optimizer, found.step) == ("adafactor", 100)
    whole, table = np.concatenate(tables), found.arrays["transformer/target_embedding/table"]
    np.testing.assert_allclose(table["rows"], whole.mean(1), rtol=1e-6)
    np.testing.assert_allclose(table["columns"], whole.mean(0), rtol=1e-6)
    assert found.arrays.keys() == imported.weights.keys()


def test_slots_that_cannot_be_taken_over(tmp_path: Path) -> None:
    arrays = variables()
    with pytest.raises(UsageError, match="the checkpoint has no slots of an optimizer"):
        t2t_slots.read(_read(tmp_path / "a", arrays))
    adam = {f"training/{name}/{end}": a for name, a in arrays.items() if a.ndim for end in ("Adam", "Adam_1")}
    momentum = {f"training/{name}/Momentum": a for name, a in arrays.items() if a.ndim}
    with pytest.raises(DataError, match="neither adam nor Adafactor: its slots are named Momentum"):
        t2t_slots.read(_read(tmp_path / "b", arrays | momentum))
    del adam["training/transformer/body/encoder/layer_0/ffn/conv1/bias/Adam_1"]
    with pytest.raises(DataError, match=r"has slots of adam, but not transformer/.*/conv1/bias/Adam_1\."):
        t2t_slots.read(_read(tmp_path / "c", arrays | adam))
    apart = arrays | {name.replace("/shared/", "/softmax/"): a for name, a in arrays.items()}  # shared_embedding=True
    adam = {f"training/{name}/{end}": a for name, a in apart.items() if a.ndim for end in ("Adam", "Adam_1")}
    with pytest.raises(DataError, match=r"source and target share a table, but not with the softmax, .* alone can"):
        t2t_slots.read(_read(tmp_path / "d", apart | adam))
    first = save(tmp_path / "e" / "model.ckpt-1", arrays | momentum)
    mean = tensor2tensor.read([first, save(tmp_path / "e" / "model.ckpt-2", arrays | momentum)], target_space_id=SPACE)
    with pytest.raises(UsageError, match="continues from one checkpoint, and the weights are the mean of several"):
        t2t_slots.read(mean)


def _read(folder: Path, arrays: dict[str, Any]) -> Imported:
    return tensor2tensor.read([save(folder / "model.ckpt-1", arrays)], target_space_id=SPACE)
