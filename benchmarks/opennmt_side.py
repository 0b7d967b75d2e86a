"""OpenNMT-tf's training step for beside_peers.py, which runs this script in OpenNMT-tf's own environment.

Its argument is the work in JSON. Each line of standard input asks for one step; the answer is the seconds it took.
"""

import json
import os
import sys
import tempfile
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")


def main() -> None:
    """Answers requests until standard input ends."""
    work = json.loads(sys.argv[1])
    step = training_step(**work)
    for _ in sys.stdin:
        began = time.perf_counter()
        loss = step()
        print("seconds", time.perf_counter() - began, loss, flush=True)


def training_step(
    *, layers, d_model, d_ff, heads, vocab_size, rows, source_length, target_length, precision, threads
):  # the environment's Python has other packages than ours: no type of ours is known here
    """Returns a call that trains one step of random pieces without padding, and returns the loss."""
    import numpy as np
    import opennmt
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(threads)
    if precision == "bfloat16":
        tf.keras.mixed_precision.set_global_policy("mixed_bfloat16")
    special = ["<blank>", "<s>", "</s>"]
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as vocabulary:
        pieces = [f"w{i}" for i in range(vocab_size - len(special) - 1)]  # OpenNMT-tf adds one for unknown pieces
        vocabulary.write("\n".join([*special, *pieces, ""]))
        vocabulary.flush()
        model = opennmt.models.Transformer(
            num_layers=layers,
            num_units=d_model,
            num_heads=heads,
            ffn_inner_dim=d_ff,
            share_embeddings=opennmt.models.EmbeddingsSharingLevel.ALL,
        )
        settings = {
            "optimizer": "Adam",
            "optimizer_params": {"beta_1": 0.9, "beta_2": 0.98},
            "learning_rate": 1e-4,
            "label_smoothing": 0.1,
            "average_loss_in_time": True,
        }
        files = {"source_vocabulary": vocabulary.name, "target_vocabulary": vocabulary.name}
        model.initialize(files, params=settings)
    optimizer = model.get_optimizer()
    model.create_variables(optimizer=optimizer)
    random = np.random.default_rng(1)
    source, target = (random.integers(4, vocab_size, (rows, n)) for n in (source_length, target_length))
    start = np.ones((rows, 1), np.int64)
    features = {"ids": tf.constant(source, tf.int64), "length": tf.fill([rows], source_length)}
    labels = {
        "ids": tf.constant(np.concatenate([start, target[:, :-1]], 1), tf.int64),
        "ids_out": tf.constant(target, tf.int64),
        "length": tf.fill([rows], target_length),
    }
    train = tf.function(lambda: model.train(features, labels, optimizer))
    return lambda: float(train())


if __name__ == "__main__":
    main()
