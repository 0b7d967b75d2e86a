"""Twenty updates that continue a training of tensor2tensor, compared with its own twenty.

tests/golden/tensor2tensor_20_updates.py stored the contents of its graph after 400 updates. It also stored the batches,
losses and learning rates of 20 more updates, and the contents of the graph after them. Here that checkpoint is imported
with its optimizer, and 20 updates on the same batches follow. Dropout is 0.
"""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from t2t_lite import config
from t2t_lite.distributed.devices import Devices, make_strategy
from t2t_lite.importers import t2t_slots, tensor2tensor
from t2t_lite.optimizers.choices import make_optimizer, make_schedule
from t2t_lite.runs.checkpoint import Checkpoints, list_checkpoints
from t2t_lite.runs.record import make_record
from t2t_lite.runs.run_dir import make_model, read_run
from t2t_lite.training.step import TrainStep
from tests import commands
from tests.importers import t2t_golden
from tests.importers.made_up import save

GOLDEN = t2t_golden.FOLDER / "tensor2tensor_20_updates.npz"
V, STEP, UPDATES = 23, 400, 20
SPACES = {"adam": 5, "adafactor": None}  # ids of target spaces
LOSS = {"adam": 5e-6, "adafactor": 2e-5}  # tolerances, in nats per token
MOVED = {"adam": 2e-4, "adafactor": 2e-3}  # tolerances, as a share of the largest move of the weight
SLOTS = {"adam": 5e-5, "adafactor": 2e-5}  # as a share of the slot's largest number; measured: 2.3e-5 and 7e-6


def _save(golden: dict[str, Any], kind: str, folder: Path) -> str:
    arrays = t2t_golden.arrays(golden, kind)
    return save(folder / f"model.ckpt-{int(arrays['global_step'])}", arrays, json.loads(str(golden["hparams"])))


def _imported(golden: dict[str, Any], folder: Path) -> Path:
    """The run that the import command makes."""
    prefix = _save(golden, "before", folder / "there")
    words = ["<pad>", "<EOS>", "UNK", *(f"w{i}" for i in range(3, V))]
    (folder / "vocab.tokens").write_text("".join(f"{word}\n" for word in words))
    flags = [f"--checkpoint={prefix}", f"--vocabulary={folder}/vocab.tokens", "--with_optimizer"]
    done = commands.run("t2t_lite.cli.importer", *flags, f"--output_dir={folder}/run")
    assert done.returncode == 0, done.stderr
    return folder / "run"


def _continue(run: Path, golden: dict[str, Any]) -> tuple[Any, Any, np.ndarray]:
    """Makes the updates here, at tensor2tensor's learning rates; returns the model, its optimizer and the losses.

    The losses lack the labels' entropy, because tensor2tensor subtracts it. tensor2tensor's count of updates begins at
    0, so each of its updates has the learning rate of our previous one.
    """
    spec = read_run(run)
    hparams = config.replace(spec.hparams, dropout=0.0, attention_dropout=0.0, relu_dropout=0.0)
    model = make_model(spec.model, hparams, V, V, True)
    optimizer = make_optimizer(hparams, [weight.value for weight in model.trainable_weights])
    checkpoints = Checkpoints(run, model, optimizer, record=make_record(spec))
    assert checkpoints.load_training(list_checkpoints(run)[-1]) == STEP
    values = config.to_dict(hparams)
    if values["optimizer"] == "adam":  # Adafactor's learning rate does not rise there during the warm-up
        rates = [make_schedule(hparams, values["d_model"])(step) for step in range(STEP, STEP + UPDATES)]
        np.testing.assert_allclose(rates, golden["rates"], rtol=1e-6)
    parts = model, optimizer, make_strategy(Devices(1)), hparams.optimization
    update = TrainStep(*parts, accumulate=1, seed=1, jit=False)
    smoothing = values["label_smoothing"]
    entropy = -(1 - smoothing) * math.log(1 - smoothing) - smoothing * math.log(smoothing / (V - 1))
    losses = []
    for number in range(UPDATES):
        batch = {side: golden[side][number] for side in ("source", "target")}
        update(batch, STEP + number + 1, float(golden["rates"][number]))
        assert update.outcome().applied
        losses.append(update.outcome().loss - entropy)
    return model, optimizer, np.array(losses)


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["adam", "adafactor"])
def test_twenty_updates_are_those_of_tensor2tensor(tmp_path: Path, name: str) -> None:
    """Losses, weights and slots are tensor2tensor's, at its learning rates."""
    golden = t2t_golden.read(GOLDEN, name)
    model, optimizer, losses = _continue(_imported(golden, tmp_path), golden)
    assert np.ptp(golden["losses"]) > 0.5
    np.testing.assert_allclose(losses, golden["losses"], rtol=0, atol=LOSS[name])
    before, after = (
        tensor2tensor.read([_save(golden, kind, tmp_path / kind)], target_space_id=SPACES[name])
        for kind in ("before", "after")
    )
    assert {weight.path for weight in model.trainable_weights} == set(after.weights)
    for weight in model.trainable_weights:
        wanted = after.weights[weight.path]
        moved = np.abs(wanted - before.weights[weight.path]).max()
        assert moved > 1e-5, weight.path
        np.testing.assert_allclose(weight, wanted, rtol=0, atol=MOVED[name] * moved, err_msg=weight.path)
    slots_before, slots = t2t_slots.read(before), t2t_slots.read(after)
    assert slots.step == STEP + UPDATES
    for weight, of_weight in zip(model.trainable_weights, optimizer.slots, strict=True):
        assert of_weight.keys() == slots.arrays[weight.path].keys()
        for slot, variable in of_weight.items():
            array, what = slots.arrays[weight.path][slot], f"{weight.path}/{slot}"
            largest = np.abs(array).max()
            assert np.abs(array - slots_before.arrays[weight.path][slot]).max() > 0.01 * largest > 0, what
            np.testing.assert_allclose(variable, array, rtol=0, atol=SLOTS[name] * largest, err_msg=what)
