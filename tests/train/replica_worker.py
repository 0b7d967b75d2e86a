"""Trains a small model on N logical CPUs and writes what came of it; run by test_replicas.py, one process per N.

Usage: python -m tests.train.replica_worker STORE OUT.npz DEVICES PRECISION:DROPOUT:MICRO_BATCHES[:OPTIMIZER][:rnn] ...
"""

import sys
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from t2t_lite.data.pipeline import assemble, make_plan
from t2t_lite.data.store import open_store
from t2t_lite.models.rnn import Rnn
from t2t_lite.models.rnn_hparams import RnnHParams
from t2t_lite.models.transformer import Transformer
from t2t_lite.models.transformer_hparams import TransformerHParams
from t2t_lite.train.choices import make_optimizer
from t2t_lite.train.devices import Devices, make_strategy
from t2t_lite.train.step import TrainStep

STEPS = 20
RATES = {"adam": 1e-3, "adafactor": 0.02}
PLANNED_FOR = 4  # the batches are those of K = 4, however they are cut


def main(store_folder: str, out: str, devices: str, *cases: str) -> None:
    """Runs the cases one after the other; see the module."""
    strategy = make_strategy(Devices(int(devices)))
    results: dict[str, Any] = {}
    for case in cases:
        precision, dropout, micro_batches, *more = case.split(":")
        rnn, (optimizer, *_) = "rnn" in more, [*(name for name in more if name != "rnn"), "adam"]
        run = train(strategy, store_folder, precision, float(dropout), int(micro_batches), optimizer, rnn=rnn)
        results |= {f"{case}/{name}": value for name, value in run.items()}
    np.savez(out, **results)


def train(
    strategy: tf.distribute.Strategy,
    store_folder: str,
    precision: str,
    dropout: float,
    micro_batches: int,
    optimizer_name: str,
    *,
    rnn: bool,
) -> dict[str, Any]:
    """Makes STEPS updates; returns losses, norms, final weights and moments, and facts about the batches."""
    store = open_store(store_folder)
    size = store.source_vocabulary.size
    # On two devices layers are computed again for the gradients, which changes no more than their number does.
    remat = strategy.num_replicas_in_sync == 2
    sizes = {"num_layers": 1, "d_model": 32, "d_ff": 64, "num_heads": 2}
    hparams = TransformerHParams(**sizes, dropout=dropout, precision=precision, remat=remat, optimizer=optimizer_name)
    if rnn:
        hparams = RnnHParams(num_layers=1, d_model=32, dropout=dropout, precision=precision, optimizer=optimizer_name)
    keras.utils.set_random_seed(1)
    with strategy.scope():
        model = (Rnn if rnn else Transformer).from_hparams(hparams, size, size, shared=True)
        optimizer = make_optimizer(hparams, [w.value for w in model.trainable_weights])
    options: dict[str, Any] = {"label_smoothing": 0.1, "clip_norm": 0.0, "seed": 1, "jit": False, "fill": True}
    step = TrainStep(model, optimizer, strategy, micro_batches=micro_batches, **options)
    split = store.split("train")
    plan = make_plan(split, batch_tokens=512, micro_batches=PLANNED_FOR, max_length=64, packing=False, seed=1)
    losses, norms, tokens, shapes, empty_rows = [], [], [], [], []
    for number in range(1, STEPS + 1):
        planned = plan.batch(number)
        batch = assemble(split, planned, micro_batches, packing=False)
        step(batch, number, RATES[optimizer_name])
        outcome = step.outcome()
        losses.append(outcome.loss)
        norms.append(outcome.grad_norm)
        tokens.append(np.count_nonzero(batch["target"], axis=(1, 2)))
        shapes.append([planned.source_length, planned.target_length])
        empty_rows.append(int((planned.rows < 0).sum()))
    variables = {w.path: w.value for w in model.weights}
    for i, slots in enumerate(optimizer.slots):
        variables |= {f"{name}/{i}": slot for name, slot in slots.items()}
    copies = {name: strategy.experimental_local_results(variable) for name, variable in variables.items()}
    return {
        "losses": losses,
        "norms": norms,
        "tokens": tokens,
        "shapes": shapes,
        "empty_rows": empty_rows,
        "copies": {len(each) for each in copies.values()}.pop(),
        "differing_copies": [
            n for n, each in copies.items() if any((c.numpy() != each[0].numpy()).any() for c in each)
        ],
        **{f"variables/{name}": each[0].numpy() for name, each in copies.items()},
    }


if __name__ == "__main__":
    main(*sys.argv[1:])
