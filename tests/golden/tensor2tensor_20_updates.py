"""Twenty updates of tensor2tensor's Transformer: writes tensor2tensor_20_updates.npz.

    tensor2tensor/bin/python tests/golden/tensor2tensor_20_updates.py

tensor2tensor_step.py says how to make that environment. It also has the model, loss, learning rate and optimizer, which
are tensor2tensor's own. This script makes 400 updates, on eight batches in turn, and stores everything in the graph
("before"). Then it makes 20 more; it stores their batches, losses and learning rates, and everything in the graph after
them ("after"). tests/importers/test_t2t_continued.py makes the same 20 updates.
"""

# ruff: noqa: B905 (Python 3.7: zip has no `strict`)

from __future__ import annotations

import json
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf
from tensor2tensor_step import SMALL, batch, flat, training, write

BEFORE, UPDATES, BATCHES = 400, 20, 8
# Name: set, changes.
CASES = {
    "adam": ("transformer_base", {"learning_rate_warmup_steps": 100, "learning_rate_constant": 0.2}),
    "adafactor": (
        "transformer_tpu",
        {"symbol_modality_num_shards": 1, "use_target_space_embedding": False, "learning_rate_warmup_steps": 10000},
    ),
}


def make(name: str) -> dict[str, Any]:
    """The arrays of a case."""
    hparams_set, changes = CASES[name]
    with tf.Graph().as_default(), tf.Session() as session:
        made = training(hparams_set, {**SMALL, **changes})
        session.run(tf.global_variables_initializer())
        draw = np.random.RandomState(3)
        batches = [batch(draw) for _ in range(BATCHES)]
        everything = {variable.op.name: variable for variable in tf.global_variables()}

        def update(number: int) -> tuple[float, float]:
            loss, rate, _ = session.run(
                (made.loss, made.rate, made.update), dict(zip(made.sides, batches[number % BATCHES]))
            )
            return loss, rate

        first = [update(number)[0] for number in range(BEFORE)]
        before = session.run(everything)
        losses, rates = zip(*(update(number) for number in range(BEFORE, BEFORE + UPDATES)))
        after = session.run(everything)
    print(name, "losses:", first[0], first[-1], losses, "rates:", rates[0], rates[-1])
    arrays: dict[str, Any] = {"losses": np.array(losses), "rates": np.array(rates)}
    arrays["hparams"] = np.array(json.dumps(made.written))
    for index, side in enumerate(("source", "target")):
        arrays[side] = np.array([batches[number % BATCHES][index] for number in range(BEFORE, BEFORE + UPDATES)])
    arrays.update(flat("before", before))
    arrays.update(flat("after", after))
    return {f"{name}/{path}": value for path, value in arrays.items()}


if __name__ == "__main__":
    write(__file__, make, CASES)
