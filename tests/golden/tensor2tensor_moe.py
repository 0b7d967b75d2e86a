"""Gating of tensor2tensor 1.15.7: writes tensor2tensor_moe.npz, which test_noisy_top_k.py reads.

In the environment of tensor2tensor_step.py, which has TensorFlow 1.15:

    tensor2tensor/bin/python tests/golden/tensor2tensor_moe.py

`noisy_top_k_gating` and `cv_squared` are tensor2tensor's own; the noise is given to them. For each case, the script
stores the inputs, gates, load, the loss sum(gates * values) + cv_squared(importance) + cv_squared(load), and its
gradients.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import numpy as np
import tensorflow as tf
from tensor2tensor.utils import expert_utils

ROWS, D, N = 7, 5, 6
CASES = {"k1": 1, "k2": 2, "k4": 4, "all": N}


def make(k: int, seed: int) -> dict[str, Any]:
    """The arrays of a case."""
    draw = np.random.RandomState(seed)
    shapes = {"x": (ROWS, D), "gate": (D, N), "noise": (D, N), "z": (ROWS, N), "values": (ROWS, N)}
    given = {name: draw.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.constant(given["x"])
        expert_utils.tf.random_normal = lambda shape: tf.constant(given["z"])
        gates, load = expert_utils.noisy_top_k_gating(x, N, True, k=k)
        weights = {v.op.name.split("/")[-1]: v for v in tf.trainable_variables()}
        weights = [weights["w_gate"], weights["w_noise"]]
        loss = tf.reduce_sum(gates * given["values"])
        loss += expert_utils.cv_squared(tf.reduce_sum(gates, 0)) + expert_utils.cv_squared(load)
        gradients = tf.gradients(loss, [x, *weights])
        session.run(tf.global_variables_initializer())
        for variable, name in zip(weights, ("gate", "noise")):  # noqa: B905 (Python 3.7)
            variable.load(given[name], session)
        found = dict(zip(("x", "gate", "noise"), gradients))  # noqa: B905
        fetched = {"gates": gates, "load": load, "loss": loss, **{f"d_{name}": g for name, g in found.items()}}
        return {**given, **session.run(fetched)}


def main() -> None:
    stored = {f"{name}/{key}": array for i, (name, k) in enumerate(CASES.items()) for key, array in make(k, i).items()}
    np.savez_compressed(Path(__file__).with_suffix(".npz"), **stored)


if __name__ == "__main__":
    main()
