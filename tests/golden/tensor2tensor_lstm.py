"""tensor2tensor's LSTMs with attention: writes tensor2tensor_lstm.npz, which tests/models/test_golden.py reads.

    tensor2tensor/bin/python tests/golden/tensor2tensor_lstm.py

tensor2tensor_step.py says how to install tensor2tensor 1.15.7. The computation is tensor2tensor's own, on TensorFlow
1.15.5: its hparams sets at a small size, its embeddings, network (contrib's AttentionWrapper) and softmax layer, and
TensorFlow's gradients, of the sum of all logits, each times a fixed number. "both_ways" is lstm_attention with the
encoder that reads both ways, "luong" lstm_luong_attention. Weights and gradients are stored under the names of our
checkpoints. Attention reads padding in tensor2tensor, but not in ours, so here no source has padding. An LSTM's matrix
is that of [symbol; attentional vector; output before], its gates are i, g, f and o, and the attentional vector is made
of [query; context]: parts are stored as ours are ordered.
"""

# ruff: noqa: B905 (zip has no `strict` in Python 3.7)

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from tensor2tensor.models import lstm
from tensor2tensor_bytenet import EMBEDDINGS, PUBLISHED_V, SOURCE, TARGET, V, ag_ctx, make_logits, tf

UNITS = 6
SMALL = {"hidden_size": UNITS, "attention_layer_size": UNITS, "symbol_modality_num_shards": 1}
CASES = {
    "both_ways": ("lstm_attention", lstm.LSTMSeq2seqAttentionBidirectionalEncoder),
    "luong": ("lstm_luong_attention", lstm.LSTMSeq2seqAttention),
}
ATTENTION = {"memory_layer": "keys", "query_layer": "query", "attention_layer": "combined"}


def ours(name: str, array: np.ndarray) -> dict[str, np.ndarray]:
    """A variable or its gradient by its names in our checkpoints."""
    parts = name.split("/")
    for theirs, path in EMBEDDINGS.items():
        if theirs in parts:
            return {f"{path}/table": array}
    if parts[-1] == "attention_v":
        return {"decoder/attention/vector": array[:, None]}
    if parts[-2] in ATTENTION:
        if parts[-2] == "attention_layer":
            query, context = np.split(array, 2)
            array = np.concatenate([context, query])
        return {f"decoder/attention/{ATTENTION[parts[-2]]}/kernel": array}
    side, layer = "encoder" if "encoder" in parts else "decoder", parts[-3].replace("cell", "layer")
    path = f"{side}/{layer.replace('layer', 'backward') if 'bw' in parts else layer}"
    i, g, f, o = np.split(array, 4, -1)
    array = np.concatenate([i, f, g, o], -1)
    if parts[-1] == "bias":
        return {f"{path}/bias": array}
    units = array.shape[1] // 4
    found = {f"{path}/recurrent_kernel": array[-units:], f"{path}/kernel": array[:-units]}
    if (side, layer) == ("decoder", "layer_0"):
        found[f"{path}/kernel"], found["decoder/feed/kernel"] = np.split(array[:-units], 2)
    return found


def main() -> None:
    """Writes the file beside this one."""
    tf.logging.set_verbosity(tf.logging.ERROR)
    draw = np.random.RandomState(1)
    source, target = np.array(SOURCE, np.int32), np.array(TARGET, np.int32)
    factors = draw.standard_normal((*target.shape, V)) * (target > 0)[:, :, None]
    arrays: dict[str, Any] = {"source": source, "target": target, "factors": factors.astype(np.float32)}
    for name, case in CASES.items():
        with tf.Graph().as_default():
            make_logits(PUBLISHED_V, [tf.zeros([1, 5], tf.int32)] * 2, {}, *case)
            sizes = [variable.shape.num_elements() for variable in tf.trainable_variables()]
            arrays[f"{name}/parameters"] = np.array(sum(sizes), np.int64)
        with tf.Graph().as_default(), tf.Session() as session:
            logits = make_logits(V, [tf.constant(source), tf.constant(target)], SMALL, *case)
            variables = tf.trainable_variables()
            gradients = tf.gradients(tf.reduce_sum(logits * arrays["factors"]), variables)
            for variable in variables:
                variable.load(draw.uniform(-1.5, 1.5, variable.shape.as_list()).astype(np.float32), session)
            dense = [tf.convert_to_tensor(gradient) for gradient in gradients]
            found = session.run({"logits": logits, "weights": variables, "gradients": dense})
        arrays[f"{name}/logits"] = found["logits"]
        for kind in ("weights", "gradients"):
            for variable, array in zip(variables, found[kind]):
                for path, part in ours(variable.op.name, array).items():
                    arrays[f"{name}/{kind}/{path}"] = part
    np.savez_compressed(Path(__file__).with_suffix(".npz"), **arrays)


if __name__ == "__main__":
    with ag_ctx.ControlStatusCtx(ag_ctx.Status.DISABLED):
        main()
