"""Models of tensor2tensor 1.2.9 (November 2017): writes tensor2tensor_2017.npz, which test_t2t_2017.py reads.

In the environment of tensor2tensor_step.py, which has TensorFlow 1.15:

    tensor2tensor/bin/pip install --no-deps --target=t2t_2017 tensor2tensor==1.2.9
    PYTHONPATH=t2t_2017 tensor2tensor/bin/python tests/golden/tensor2tensor_2017.py

It is the last release whose attention has biases. The model, its hparams sets and its loss are tensor2tensor's own.
After 60 updates of Adam on random pairs, no bias and no norm is trivial. For each model, the script stores the
variables, by name, and the logits of a batch.
"""

# ruff: noqa: B905 (zip has no `strict` in Python 3.7)

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import numpy as np
import tensorflow as tf
from tensor2tensor.data_generators import problem_hparams
from tensor2tensor.models import transformer
from tensor2tensor.utils import expert_utils, registry

V, SPACE, UPDATES = 23, 8, 60
SMALL = {"hidden_size": 8, "filter_size": 12, "num_hidden_layers": 2, "num_heads": 2}
CASES = {"post": "transformer_base_v1", "pre": "transformer_base_v2"}


def batch(draw: np.random.RandomState) -> tuple[np.ndarray, np.ndarray]:
    """Five pairs of 1 to 6 symbols, their end symbol and padding."""
    sides = []
    for _ in range(2):
        rows = np.zeros((5, 7), np.int32)
        for row in rows:
            length = draw.randint(1, 7)
            row[:length], row[length] = draw.randint(2, V, length), 1
        sides.append(rows)
    return sides[0], sides[1]


def make(name: str) -> dict[str, Any]:
    """The arrays of a case."""
    hparams = registry.hparams(CASES[name])()
    for key, value in SMALL.items():
        setattr(hparams, key, value)
    written = {k: v for k, v in hparams.values().items() if isinstance(v, (int, float, str, bool, type(None)))}
    for key in hparams.values():
        if key.endswith("dropout"):
            setattr(hparams, key, 0.0)
    problem = problem_hparams.test_problem_hparams(V, V)
    hparams.problems = [problem]
    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(1)
        sides = [tf.placeholder(tf.int32, [None, None]) for _ in range(2)]
        features = dict(zip(("inputs", "targets"), (side[:, :, None, None] for side in sides)))
        features["target_space_id"] = tf.constant(SPACE, tf.int32)
        parallelism = expert_utils.Parallelism([""], reuse=True)  # as its trainer makes it
        model = transformer.Transformer(hparams, tf.estimator.ModeKeys.TRAIN, problem, data_parallelism=parallelism)
        with tf.variable_scope("", initializer=tf.uniform_unit_scaling_initializer()):
            (logits,), losses = model.model_fn(features)
        weights = tf.trainable_variables()
        update = tf.train.AdamOptimizer(1e-2).minimize(sum(losses.values()))
        session.run(tf.global_variables_initializer())
        draw = np.random.RandomState(3)
        for _ in range(UPDATES):
            session.run(update, dict(zip(sides, batch(draw))))
        source, target = batch(draw)
        values = session.run({weight.op.name: weight for weight in weights})
        found = session.run(tf.squeeze(logits, [2, 3]), dict(zip(sides, (source, target))))
    print(name, len(values), "variables")
    arrays = {"source": source, "target": target, "logits": found, "hparams": np.array(json.dumps(written))}
    arrays["shapes"] = np.array(json.dumps([[path, value.shape] for path, value in values.items()]))
    arrays["values"] = np.concatenate([np.ravel(value) for value in values.values()])
    return {f"{name}/{path}": np.asarray(value) for path, value in arrays.items()}


def main() -> None:
    """Writes the file beside this one."""
    tf.logging.set_verbosity(tf.logging.ERROR)
    name_scope = tf.name_scope
    tf.name_scope = lambda name, values=None: name_scope(name)  # later releases take `values` only as a keyword
    arrays: dict[str, Any] = {}
    for name in CASES:
        arrays.update(make(name))
    np.savez_compressed(Path(__file__).with_suffix(".npz"), **arrays)


if __name__ == "__main__":
    main()
