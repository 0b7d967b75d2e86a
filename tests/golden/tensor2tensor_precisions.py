"""tensor2tensor's Transformer in its precisions, and on long sentences: writes tensor2tensor_precisions.npz.

    tensor2tensor/bin/python tests/golden/tensor2tensor_precisions.py

tensor2tensor_step.py says how to make that environment. It also has the model, loss, learning rate and optimizer, which
are tensor2tensor's own. After 60 updates, this script stores everything in the graph, with the type of each variable,
and the logits of a batch. For "long" it stores only the weights, and the logits of one pair of a thousand symbols.
tests/importers/test_t2t_precisions.py imports these models.
"""

# ruff: noqa: B905 (Python 3.7: zip has no `strict`)

from __future__ import annotations

import json
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf
from tensor2tensor_step import SMALL, batch, flat, training, write

UPDATES, LONG = 60, 1000
# Name: set, changes.
CASES = {
    "bfloat16_weights": ("transformer_tpu", {"weight_dtype": "bfloat16", "symbol_modality_num_shards": 1}),
    "bfloat16": ("transformer_tpu_bf16_activation", {"symbol_modality_num_shards": 1}),
    "float16": ("transformer_fairseq_fp16_activation_big", {}),
    "automatic": ("transformer_base", {"gpu_automatic_mixed_precision": True}),
    "multistep": ("transformer_base_multistep8", {}),
    "long": ("transformer_base", {"hidden_size": 64, "filter_size": 32}),
}


def make(name: str) -> dict[str, Any]:
    """The arrays of a case."""
    hparams_set, changes = CASES[name]
    changes = {**SMALL, "learning_rate_warmup_steps": 40, "learning_rate_constant": 0.2, **changes}
    with tf.Graph().as_default(), tf.Session() as session:
        made = training(hparams_set, changes)
        session.run(tf.global_variables_initializer())
        draw = np.random.RandomState(3)
        losses = []
        for _ in range(UPDATES):
            losses.append(session.run((made.loss, made.update), dict(zip(made.sides, batch(draw))))[0])
        pairs = batch(draw)
        kept = tf.global_variables()
        if name == "long":
            kept = tf.trainable_variables()
            pairs = tuple(np.append(draw.randint(2, 16, (1, LONG - 1)), [[1]], 1) for _ in range(2))
        everything = {variable.op.name: variable for variable in kept}
        values, logits = session.run((everything, made.logits), dict(zip(made.sides, pairs)))
    print(name, "losses:", losses[0], losses[-1], "logits:", np.abs(logits).max())
    arrays: dict[str, Any] = {"logits": np.float32(logits), "hparams": np.array(json.dumps(made.written))}
    arrays.update(zip(("source", "target"), np.int32(pairs)))
    arrays["types"] = np.array([variable.dtype.base_dtype.name for variable in everything.values()], dtype="U")
    arrays.update(flat("variables", values))
    return {f"{name}/{path}": value for path, value in arrays.items()}


if __name__ == "__main__":
    write(__file__, make, CASES)
