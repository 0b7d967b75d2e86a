"""A training step of tensor2tensor's Transformer: writes tensor2tensor_step.npz, which test_t2t_step.py reads.

    python3.7 -m venv tensor2tensor
    tensor2tensor/bin/pip install "pip<24" "setuptools<60" wheel
    tensor2tensor/bin/pip install tensorflow==1.15.5 "protobuf<3.21" "numpy<1.19" "h5py<3"
    tensor2tensor/bin/pip install --no-deps tensor2tensor==1.15.7 "tensorflow-gan==2.0.0" "tensorflow-hub<0.9" \
        "dopamine-rl<4" kfac==0.2.0
    tensor2tensor/bin/pip install "tensorflow-datasets<3.3" tensorflow-probability==0.8.0 "gym<0.18" \
        mesh-tensorflow==0.1.16 tf-slim gin-config "sympy<1.10" future "scipy<1.6" requests tqdm Pillow bz2file pypng \
        oauth2client "google-api-python-client<2" "numpy<1.19" "protobuf<3.21"
    tensor2tensor/bin/python tests/golden/tensor2tensor_step.py

The computation is tensor2tensor's own: its hparams sets at small sizes, its model in training with all dropout at 0,
its loss, its learning rate and its `optimize` (contrib's optimize_loss with LazyAdam or Adafactor). The script makes
two updates and stores everything in the graph ("before"). Then it stores the loss and the gradients of one batch, and
everything in the graph after the update with that batch ("after"). Each of these is a list of [variable's name, shape],
and all numbers in a row.
"""

# ruff: noqa: B905, UP006, UP035 (Python 3.7: zip has no `strict`, and a NamedTuple no list[...])

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Callable, Dict, Iterable, List, NamedTuple

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import numpy as np
import tensorflow.compat.v1 as tf
from tensor2tensor.data_generators import problem_hparams
from tensor2tensor.models import transformer
from tensor2tensor.utils import learning_rate, optimize, registry
from tensorflow.python.autograph.core import ag_ctx

V, SPACE, UPDATES = 23, 5, 2
SMALL = {
    "hidden_size": 8,
    "filter_size": 12,
    "num_hidden_layers": 1,
    "num_heads": 2,
    "symbol_modality_num_shards": 3,
    "max_relative_position": 3,
    "learning_rate_warmup_steps": 2,
}
# Name: set, changes.
CASES = {
    "adam": ("transformer_base", {"num_decoder_layers": 2}),
    "unshared": ("transformer_big_enfr", {}),
    "relative": ("transformer_relative", {}),
    "adafactor": ("transformer_tpu", {"symbol_modality_num_shards": 1}),
}


def batch(draw: np.random.RandomState) -> tuple[np.ndarray, np.ndarray]:
    """Five pairs of 1 to 6 symbols, their end symbol and padding; no symbol is above 15, so some rows are not used."""
    sides = []
    for _ in range(2):
        rows = np.zeros((5, 7), np.int32)
        for row in rows:
            length = draw.randint(1, 7)
            row[:length], row[length] = draw.randint(2, 16, length), 1
        sides.append(rows)
    return sides[0], sides[1]


class Training(NamedTuple):
    """A training in tensor2tensor's graph: its hparams as its trainer writes them, and tensors."""

    written: Dict[str, Any]
    sides: List[Any]
    logits: Any
    loss: Any
    weights: List[Any]
    gradients: List[Any]
    rate: Any
    update: Any
    step: Any


def training(hparams_set: str, changes: Dict[str, Any]) -> Training:
    """Builds a training in the default graph, with all dropout at 0."""
    hparams = registry.hparams(hparams_set)
    for key, value in changes.items():
        if key in hparams:
            hparams.set_hparam(key, value)
    written = {k: v for k, v in hparams.values().items() if isinstance(v, (int, float, str, bool, type(None)))}
    for key in hparams.values():
        if key.endswith("dropout"):
            hparams.set_hparam(key, 0.0)
    problem = problem_hparams.test_problem_hparams(V, V, hparams)
    problem.target_space_id = SPACE
    hparams.problem_hparams = problem
    tf.set_random_seed(1)
    sides = [tf.placeholder(tf.int32, [None, None]) for _ in range(2)]
    features = dict(zip(("inputs", "targets"), (side[:, :, None, None] for side in sides)))
    features["target_space_id"] = tf.constant(SPACE, tf.int32)
    step = tf.train.get_or_create_global_step()
    model = transformer.Transformer(hparams, tf.estimator.ModeKeys.TRAIN, problem)
    with tf.variable_scope("", initializer=tf.uniform_unit_scaling_initializer(2.0)):
        logits, losses = model(features)
    loss = sum(part[0] / part[1] if isinstance(part, tuple) else part for part in losses.values())
    weights = tf.trainable_variables()
    gradients = tf.gradients(loss, weights)
    rate = learning_rate.learning_rate_schedule(hparams)
    update = optimize.optimize(loss, rate, hparams)
    return Training(written, sides, tf.squeeze(logits, [2, 3]), loss, weights, gradients, rate, update, step)


def flat(kind: str, values: Dict[str, Any]) -> Dict[str, np.ndarray]:
    """Arrays by name as a list of [name, shape], and all numbers in a row."""
    return {
        f"{kind}/shapes": np.array(json.dumps([[path, value.shape] for path, value in values.items()])),
        f"{kind}/values": np.concatenate([np.ravel(np.float32(value)) for value in values.values()]),
    }


def make(name: str) -> dict[str, Any]:
    """The arrays of a case."""
    hparams_set, changes = CASES[name]
    with tf.Graph().as_default(), tf.Session() as session:
        made = training(hparams_set, {**SMALL, **changes})
        written, sides, _, loss, weights, gradients, rate, update, step = made
        session.run(tf.global_variables_initializer())
        draw = np.random.RandomState(3)
        for _ in range(UPDATES):
            session.run(update, dict(zip(sides, batch(draw))))
        source, target = batch(draw)
        fed = {sides[0]: source, sides[1]: target}
        everything = {variable.op.name: variable for variable in tf.global_variables()}
        before = session.run(everything)
        found = session.run({"loss": loss, "rate": rate, "step": step}, fed)
        dense = {weight.op.name: tf.convert_to_tensor(g) for weight, g in zip(weights, gradients)}
        of = session.run(dense, fed)
        session.run(update, fed)
        after = session.run(everything)
    sparse = [weight.op.name for weight, g in zip(weights, gradients) if isinstance(g, tf.IndexedSlices)]
    print(name, found, "gradients of rows only:", sparse)
    arrays = {"source": source, "target": target, **found}
    arrays["hparams"] = np.array(json.dumps(written))
    arrays["sparse"] = np.array(sparse, dtype="U")
    for kind, values in (("before", before), ("gradient", of), ("after", after)):
        arrays.update(flat(kind, values))
    return {f"{name}/{path}": np.asarray(value) for path, value in arrays.items()}


def write(script: str, make: Callable[[str], Dict[str, Any]], cases: Iterable[str]) -> None:
    """Writes the arrays of all cases beside a script."""
    tf.logging.set_verbosity(tf.logging.ERROR)
    arrays: Dict[str, Any] = {}
    with ag_ctx.ControlStatusCtx(ag_ctx.Status.DISABLED):  # with AutoGraph, building the graph takes 20 times as long
        for name in cases:
            arrays.update(make(name))
    np.savez_compressed(Path(script).with_suffix(".npz"), **arrays)


if __name__ == "__main__":
    write(__file__, make, CASES)
