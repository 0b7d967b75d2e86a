"""Makes the same updates with XLA and without on N logical CPUs; run by test_xla.py, one process per N.

Usage: python -m tests.training.xla_worker OUT.npz DEVICES CLIP_NORM
"""

import sys
from collections.abc import Iterator
from typing import Any
from unittest import mock

import keras
import numpy as np
import tensorflow as tf

from t2t_lite.distributed.devices import Devices, make_strategy
from t2t_lite.groups import OptimizerGroup
from t2t_lite.models.transformer import Transformer
from t2t_lite.models.transformer_hparams import TransformerHParams
from t2t_lite.optimizers.adam import Adam
from t2t_lite.training.step import TrainStep

VOCAB, PARTS = 60, 4
SHAPES = ((7, 9), (12, 5))  # source and target lengths, in turn
STEPS = 8
OTHER_RATE = 4  # the update whose learning rate is not the announced one


def main(out: str, devices: str, clip_norm: str) -> None:
    """Writes the results of the updates, by "xla" and "graph"."""
    strategy = make_strategy(Devices(int(devices)))
    results: dict[str, Any] = {}
    for name in ("graph", "xla"):
        found = train(strategy, float(clip_norm), jit=name == "xla")
        results |= {f"{name}/{key}": value for key, value in found.items()}
    np.savez(out, **results)


def train(strategy: tf.distribute.Strategy, clip_norm: float, *, jit: bool) -> dict[str, Any]:
    """Returns losses and norms, weights and moments after STEPS, and whether a bad update changed any of them."""
    keras.utils.set_random_seed(1)
    hparams = TransformerHParams(num_layers=1, d_model=16, d_ff=32, num_heads=2, dropout=0.1)
    with strategy.scope():
        model = Transformer.from_hparams(hparams, VOCAB, VOCAB, shared=True)
        adam = Adam([w.value for w in model.trainable_weights], 0.9, 0.98, 1e-9)
    variables = (*adam.variables, *adam.m, *adam.v)
    accumulate = PARTS // int(strategy.num_replicas_in_sync)
    settings = OptimizerGroup(clip_norm=clip_norm)
    step = TrainStep(model, adam, strategy, settings, accumulate=accumulate, seed=1, jit=jit)
    outcomes, waited_for = [], []
    stream = batches()
    batch = next(stream)
    for number in range(1, STEPS + 1):
        # The coming update is announced, and once made with another learning rate.
        following = (next(stream), 2e-3 if number + 1 == OTHER_RATE else 1e-3) if jit else None
        with mock.patch.object(step, "_copy", wraps=step._copy) as copies:
            before = step(batch, number, 1e-3, following=following)
        waited_for.append(copies.call_count > 0)
        batch = following[0] if following else next(stream)
        assert before.applied == (number > 1)
        outcomes.append(step.outcome())
    good = [v.numpy() for v in variables]
    gamma = next(v for v, w in zip(adam.variables, model.trainable_weights, strict=True) if "gamma" in w.path)
    gamma.assign(np.full(gamma.shape, np.nan, np.float32))
    spoiled = [v.numpy() for v in variables]
    step(batch, STEPS + 1, 1e-3)
    bad = step.outcome()
    kept = all(np.array_equal(v.numpy(), old, equal_nan=True) for v, old in zip(variables, spoiled, strict=True))
    copies = [[c.numpy() for c in strategy.experimental_local_results(v)] for v in variables]
    return {
        "waited_for": waited_for,
        "losses": [outcome.loss for outcome in outcomes],
        "norms": [outcome.grad_norm for outcome in outcomes],
        "applied": [*(outcome.applied for outcome in outcomes), bad.applied],
        "bad_loss": bad.loss,
        "bad_kept": kept,
        "copies_equal": all(np.array_equal(c, each[0], equal_nan=True) for each in copies for c in each),
        **{f"variables/{i}": value for i, value in enumerate(good)},
    }


def batches() -> Iterator[dict[str, np.ndarray]]:
    """Random ids, some rows shorter than others; the shapes take turns."""
    random = np.random.default_rng(3)
    while True:
        for shape in SHAPES:
            batch = {}
            for side, length in zip(("source", "target"), shape, strict=True):
                ids = random.integers(3, VOCAB, (3 * PARTS, length), dtype=np.int32)
                ends = random.integers(1, length + 1, (3 * PARTS, 1))
                batch[side] = np.where(np.arange(length) < ends, ids, 0).astype(np.int32)
            yield batch


if __name__ == "__main__":
    main(*sys.argv[1:])
