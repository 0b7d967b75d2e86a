"""tensor2tensor's ByteNet: writes tensor2tensor_bytenet.npz, which tests/models/test_golden.py reads.

    tensor2tensor/bin/python tests/golden/tensor2tensor_bytenet.py

tensor2tensor_step.py says how to install tensor2tensor. The computation is tensor2tensor's own: its hparams set at a
small size, its embeddings, network and softmax layer, and TensorFlow's gradients. Weights and gradients are stored
under the names of our checkpoints. Before its network begins, tensor2tensor pads the source to one and a half times as
many symbols, then both sides to a multiple of 50. The network reads all of these columns. A sentence has the same
columns alone as in a batch only if all sources have one length, so here all sources have 5 symbols, and 50 columns.
Sources that are padded or longer cannot be compared.
"""

# ruff: noqa: B905 (zip has no `strict` in Python 3.7)

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import numpy as np
import tensorflow.compat.v1 as tf
from tensor2tensor.data_generators import problem_hparams
from tensor2tensor.models import bytenet
from tensor2tensor.utils import registry
from tensorflow.python.autograph.core import ag_ctx

V, PUBLISHED_V = 13, 1000
SMALL = {"hidden_size": 8, "num_hidden_layers": 3, "num_block_repeat": 2, "symbol_modality_num_shards": 1}
SOURCE = [[5, 9, 3, 12, 1], [7, 7, 2, 4, 1], [2, 11, 8, 3, 1]]
TARGET = [[4, 8, 2, 1, 0, 0, 0], [6, 5, 4, 3, 9, 10, 1], [1, 0, 0, 0, 0, 0, 0]]
EMBEDDINGS = {"input_emb": "source_embedding", "target_emb": "target_embedding", "softmax": "softmax"}
LAYER_NORM = {"layer_norm_scale": "gamma", "layer_norm_bias": "beta"}


def make_logits(
    vocab_size: int, sides: list[Any], changes: dict[str, Any], name: str = "bytenet_base", model: Any = bytenet.ByteNet
) -> Any:
    """Logits [B, T, V], T as tensor2tensor pads it; nothing is dropped.

    Args:
        sides: ids of source and target, [B, S] and [B, T].
        changes: to the hparams set `name`.
    """
    hparams = registry.hparams(name)
    for name, value in changes.items():
        hparams.set_hparam(name, value)
    for name in hparams.values():
        if name.endswith("dropout"):
            hparams.set_hparam(name, 0.0)
    problem = problem_hparams.test_problem_hparams(vocab_size, vocab_size, hparams)
    hparams.problem_hparams = problem
    features = dict(zip(("inputs", "targets"), (side[:, :, None, None] for side in sides)))
    features["target_space_id"] = tf.constant(0, tf.int32)
    return model(hparams, tf.estimator.ModeKeys.TRAIN, problem)(features)[0][:, :, 0, 0]


def our_name(name: str) -> str:
    """Our name for a variable such as byte_net/body/bytenet/encoder/repeat_0/lnorm/layer_norm_scale."""
    parts = name.split("/")
    for theirs, ours in EMBEDDINGS.items():
        if theirs in parts:
            return f"{ours}/table"
    where, kind = parts[parts.index("bytenet") + 1 :], LAYER_NORM.get(parts[-1], "kernel")
    if where[0] == "conv_block":
        return f"decoder/{'join' if kind == 'kernel' else 'join_norm'}/{kind}"
    block = f"{where[0]}/{where[1].replace('repeat', 'block')}"
    if where[2] == "lnorm":
        return f"{block}/norm_0/{kind}"
    number = int(re.findall("[0-9]+", where[3])[0])
    if kind == "kernel":
        return f"{block}/convolution_{number}/{kind}"
    last = number == SMALL["num_hidden_layers"] - 1
    return f"{block}/{'last_norm' if last else f'norm_{number + 1}'}/{kind}"


def main() -> None:
    """Writes the file beside this one."""
    tf.logging.set_verbosity(tf.logging.ERROR)
    draw = np.random.RandomState(1)
    source, target = np.array(SOURCE, np.int32), np.array(TARGET, np.int32)
    factors = draw.standard_normal((*target.shape, V)) * (target > 0)[:, :, None]
    arrays: dict[str, Any] = {"source": source, "target": target, "factors": factors}
    with tf.Graph().as_default():
        make_logits(PUBLISHED_V, [tf.zeros([1, 5], tf.int32)] * 2, {})
        sizes = [variable.shape.num_elements() for variable in tf.trainable_variables()]
        arrays["parameters"] = np.array(sum(sizes), np.int64)
    with tf.Graph().as_default(), tf.Session() as session:
        logits = make_logits(V, [tf.constant(source), tf.constant(target)], SMALL)[:, : target.shape[1]]
        variables = tf.trainable_variables()
        gradients = tf.gradients(tf.reduce_sum(logits * tf.constant(factors, tf.float32)), variables)
        for variable in variables:
            size = tuple(variable.shape.as_list())
            offset = 1.0 if variable.op.name.endswith("scale") else 0.0
            deviation = 0.2 if len(size) == 1 else np.prod(size[:-1]) ** -0.5
            value = np.float32(offset + deviation * draw.standard_normal(size))
            variable.load(value.astype(np.float32), session)
        dense = [tf.convert_to_tensor(gradient) for gradient in gradients]
        found = session.run({"logits": logits, "weights": variables, "gradients": dense})
        arrays["logits"] = found["logits"]
        for kind in ("weights", "gradients"):
            for variable, array in zip(variables, found[kind]):
                path = our_name(variable.op.name)
                flat = array if len(array.shape) < 3 else array.reshape(-1, array.shape[-1])  # [k, 1, I, O]
                arrays[f"{kind}/{path}"] = flat
    np.savez_compressed(Path(__file__).with_suffix(".npz"), **arrays)


if __name__ == "__main__":
    with ag_ctx.ControlStatusCtx(ag_ctx.Status.DISABLED):
        main()
