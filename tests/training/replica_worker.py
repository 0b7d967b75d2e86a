"""Trains small models on N logical CPUs and writes the results; run by test_replicas.py, one process per N.

Usage: python -m tests.training.replica_worker STORE OUT.npz DEVICES SHARDS CASE ...
SHARDS: of rows, in which each device computes a part of a batch, on any machine.
CASE: PRECISION:DROPOUT:ACCUMULATE[:OPTIMIZER:MODEL[:packing]]
"""

import contextlib
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from t2t_lite import config, registry
from t2t_lite.data.pipeline import assemble, make_plan
from t2t_lite.data.store import open_store
from t2t_lite.distributed.devices import Devices, make_strategy
from t2t_lite.groups import BatchGroup
from t2t_lite.layers import dropout as dropout_layer
from t2t_lite.layers import noisy_top_k
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
STEPS = 20
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
BATCH_TOKENS, MAX_LENGTH = 512, 64

Row = tuple[int, ...]  # a seed's two words, the row's number in the global batch, sizes of what is drawn for a row


def main(store_folder: str, out: str, devices: str, shards: str, *cases: str) -> None:
    """Runs the cases one after the other; see the module."""
    if int(shards) > 1:
        assert threads.emulate(int(devices) * int(shards), 1)
    strategy = make_strategy(Devices(int(devices)))
    results: dict[str, Any] = {}
    for case in cases:
        parts = case.split(":")
        precision, dropout, accumulate = parts[:3]
        optimizer, model = parts[3:5] or ("adam", "transformer")
        hparams = recipe(model, float(dropout))
        hparams = config.replace(hparams, precision=precision, optimizer=optimizer, packing=parts[5:] == ["packing"])
        run = train(strategy, store_folder, hparams, int(accumulate))
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
    more: dict[str, Any] = {"r_drop": 5.0, "ema": 0.8} if model == "r_drop" else {}
    return TransformerHParams(num_layers=1, d_model=32, d_ff=64, num_heads=2, dropout=dropout, **more)


@contextlib.contextmanager
def recorded_bits() -> Iterator[dict[Row, int]]:
    """Context whose dict receives a checksum of the random bits that each row of a batch is given, in any graph."""
    draw, rows = dropout_layer.random_bits, {}

    def record(bits: np.ndarray, seed: np.ndarray, axis: int) -> np.ndarray:
        for number, row in enumerate(np.moveaxis(bits, axis, 0)):
            key = (int(seed[0]), int(seed[1]), int(seed[2]) + number, *row.shape)
            assert rows.setdefault(key, zlib.crc32(row.tobytes())) == zlib.crc32(row.tobytes())
        return bits

    def draw_and_record(like: Any, seed: Any, axis: int = 0) -> Any:
        bits = draw(like, seed, axis)
        recorded = tf.numpy_function(lambda *given: record(*given, axis), [bits, seed], tf.uint32)
        return tf.ensure_shape(recorded, bits.shape)

    try:
        dropout_layer.random_bits = noisy_top_k.random_bits = draw_and_record
        yield rows
    finally:
        dropout_layer.random_bits = noisy_top_k.random_bits = draw


def train(
    strategy: tf.distribute.Strategy, store_folder: str, hparams: config.HParams, accumulate: int
) -> dict[str, Any]:
    """Makes some updates; returns losses, norms, final weights and moments, and facts about the batches."""
    store = open_store(store_folder)
    size = store.source_vocabulary.size
    if hparams.model == "transformer" and strategy.num_replicas_in_sync == 2 and not hparams.packing:
        # Layers are computed again for the gradients, which may differ only in rounding.
        hparams = config.replace(hparams, remat=True)
    keras.utils.set_random_seed(1)
    with strategy.scope():
        model = make_model(hparams.model, hparams, size, size, True)
        optimizer = make_optimizer(hparams, [w.value for w in model.trainable_weights])
    packing, parts = hparams.packing, (model, optimizer, strategy, hparams.optimization)
    step = TrainStep(*parts, accumulate=accumulate, seed=1, jit=False, packed=packing)
    split = store.split("train")
    plan = make_plan(split, BatchGroup(batch_tokens=BATCH_TOKENS, max_length=MAX_LENGTH, packing=packing), 1)
    losses, norms, tokens, shapes, empty_rows = [], [], [], [], []
    bits: dict[Row, int] = {}
    with recorded_bits() as drawn:
        for number in range(1, STEPS + 1):
            planned = plan.batch(number)
            batch = assemble(split, planned, packing)
            step(batch, number, RATES[hparams.optimizer])
            outcome = step.outcome()
            losses.append(outcome.loss)
            norms.append(outcome.grad_norm)
            tokens.append(np.count_nonzero(step.split.cut(batch)["target"], axis=(2, 3)).ravel())
            shapes.append([planned.source_length, planned.target_length])
            empty_rows.append(int((planned.rows < 0).sum()))
            bits |= {row: crc for row, crc in drawn.items() if row[2] < len(planned.rows)}
            drawn.clear()
    variables = {w.path: w.value for w in model.weights}
    for i, slots in enumerate(optimizer.slots):
        variables |= {f"{name}/{i}": slot for name, slot in slots.items()}
    if optimizer.ema is not None:
        variables |= {f"ema/{i}": average for i, average in enumerate([*optimizer.ema.averages, optimizer.ema.updates])}
    if optimizer.loss_scale is not None:
        variables |= {f"loss_scale/{name}": variable for name, variable in optimizer.loss_scale.variables.items()}
    copies = {name: strategy.experimental_local_results(variable) for name, variable in variables.items()}
    return {
        "losses": losses,
        "norms": norms,
        "tokens": tokens,
        "shapes": shapes,
        "empty_rows": empty_rows,
        "shards": step._shards,
        "rows_drawn_for": ["/".join(map(str, row)) for row in sorted(bits)],
        "bits": [bits[row] for row in sorted(bits)],
        "copies": {len(each) for each in copies.values()}.pop(),
        "differing_copies": [
            n for n, each in copies.items() if any((c.numpy() != each[0].numpy()).any() for c in each)
        ],
        **{f"variables/{name}": each[0].numpy() for name, each in copies.items()},
    }


if __name__ == "__main__":
    main(*sys.argv[1:])
