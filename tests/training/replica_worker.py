"""Trains small models on N logical CPUs and writes the results; run by test_replicas.py, one process per N.

Usage: python -m tests.training.replica_worker STORE OUT.npz DEVICES SHARDS CASE ...
SHARDS: of rows, in which each device computes a micro-batch, on any machine.
CASE: PRECISION:DROPOUT:MICRO_BATCHES[:OPTIMIZER:MODEL]
"""

import sys
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from t2t_lite import config, registry
from t2t_lite.data.pipeline import assemble, make_plan
from t2t_lite.data.store import open_store
from t2t_lite.distributed.devices import Devices, make_strategy
from t2t_lite.models.bytenet_hparams import ByteNetHParams
from t2t_lite.models.convs2s_hparams import ConvS2SHParams
from t2t_lite.models.moe_hparams import MoeHParams
from t2t_lite.models.rnn_hparams import RnnHParams
from t2t_lite.models.transformer_hparams import TransformerHParams
from t2t_lite.models.transformer_moe_hparams import TransformerMoeHParams
from t2t_lite.ops import threads
from t2t_lite.optimizers.choices import make_optimizer
from t2t_lite.runs.run_dir import make_model
from t2t_lite.training.step import TrainStep

GRU = Path(__file__).resolve().parents[2] / "examples" / "my_model" / "gru"
STEPS, STEPS_OF_OTHERS = 20, 8  # of the Transformer, and of other models
RATES = {"adam": 1e-3, "adafactor": 0.02}
RNNS: dict[str, dict[str, Any]] = {
    "rnn": {"num_layers": 1},
    "gnmt": {"num_layers": 3, "encoder": "gnmt", "wiring": "gnmt", "attention_score": "normed_additive"},
    "gnmt_v2": {"num_layers": 3, "encoder": "gnmt", "wiring": "gnmt_v2", "attention_score": "normed_additive"},
    "attention_wrapper": {"num_layers": 1, "encoder": "bi", "wiring": "attention_wrapper"},
    "vinyals": {"num_layers": 1, "encoder": "reversed", "wiring": "vinyals", "share_embeddings": False},
}
BYTENETS: dict[str, Any] = {"bytenet": "paper", "bytenet_t2t": "tensor2tensor"}
# The balance losses weigh 100 times as much as in Shazeer et al., so that an error in them would show.
EXPERTS: dict[str, Any] = {"d_model": 32, "d_ff": 32, "num_experts": 4, "experts_per_token": 2, "balance_weight": 1.0}
PLANNED_FOR = 4  # the batches are those of K = 4 where they are cut into fewer parts


def main(store_folder: str, out: str, devices: str, shards: str, *cases: str) -> None:
    """Runs the cases one after the other; see the module."""
    if int(shards) > 1:
        assert threads.as_on(int(devices) * int(shards), 1)
    strategy = make_strategy(Devices(int(devices)))
    results: dict[str, Any] = {}
    for case in cases:
        precision, dropout, micro_batches, optimizer, model = [*case.split(":"), "adam", "transformer"][:5]
        hparams = recipe(model, float(dropout))
        hparams = config.replace(hparams, precision=precision, optimizer=optimizer)
        run = train(strategy, store_folder, hparams, int(micro_batches))
        results |= {f"{case}/{name}": value for name, value in run.items()}
    np.savez(out, **results)


def recipe(model: str, dropout: float) -> config.HParams:
    """A recipe with sizes of 32; the model of examples/my_model, found as by --usr_dir, has no dropout."""
    if model == "gru":
        registry.load_plugins(str(GRU))
        return config.replace(registry.hparams("gru_tiny"), units=32)
    if model in RNNS:
        return RnnHParams(**RNNS[model], d_model=32, dropout=dropout)
    if model in BYTENETS:
        return ByteNetHParams(num_layers=2, d_model=16, dilations=3, wiring=BYTENETS[model], dropout=dropout)
    if model == "convs2s":
        return ConvS2SHParams(encoder_layers="2x32x3", decoder_layers="2x32x3", d_model=32, d_out=32, dropout=dropout)
    if model == "moe":
        return MoeHParams(**EXPERTS, cells=16, dropout=dropout)
    if model == "transformer_moe":
        return TransformerMoeHParams(**EXPERTS, num_layers=2, num_heads=2, dropout=dropout)
    return TransformerHParams(num_layers=1, d_model=32, d_ff=64, num_heads=2, dropout=dropout)


def train(
    strategy: tf.distribute.Strategy, store_folder: str, hparams: config.HParams, micro_batches: int
) -> dict[str, Any]:
    """Makes some updates; returns losses, norms, final weights and moments, and facts about the batches."""
    store = open_store(store_folder)
    size = store.source_vocabulary.size
    if hparams.model == "transformer" and strategy.num_replicas_in_sync == 2:
        # Layers are computed again for the gradients, which may differ only in rounding.
        hparams = config.replace(hparams, remat=True)
    keras.utils.set_random_seed(1)
    with strategy.scope():
        model = make_model(hparams.model, hparams, size, size, True)
        optimizer = make_optimizer(hparams, [w.value for w in model.trainable_weights])
    options: dict[str, Any] = {"label_smoothing": 0.1, "clip_norm": 0.0, "seed": 1, "jit": False, "fill": True}
    step = TrainStep(model, optimizer, strategy, micro_batches=micro_batches, **options)
    split = store.split("train")
    planned_for = max(PLANNED_FOR, micro_batches)
    plan = make_plan(split, batch_tokens=512, micro_batches=planned_for, max_length=64, packing=False, seed=1)
    losses, norms, tokens, shapes, empty_rows = [], [], [], [], []
    for number in range(1, (STEPS if hparams.model == "transformer" else STEPS_OF_OTHERS) + 1):
        planned = plan.batch(number)
        batch = assemble(split, planned, micro_batches, packing=False)
        step(batch, number, RATES[hparams.optimizer])
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
        "shards": step._blocks,
        "copies": {len(each) for each in copies.values()}.pop(),
        "differing_copies": [
            n for n, each in copies.items() if any((c.numpy() != each[0].numpy()).any() for c in each)
        ],
        **{f"variables/{name}": each[0].numpy() for name, each in copies.items()},
    }


if __name__ == "__main__":
    main(*sys.argv[1:])
