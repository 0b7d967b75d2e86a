"""A small model of each of tensor2tensor's hparams sets whose name begins with transformer_.

    tensor2tensor/bin/python tests/golden/tensor2tensor_all_sets.py FOLDER
    python -m tests.importers.all_sets FOLDER

tensor2tensor_step.py says how to make that environment, and has the model and its training. For each set, the first
command writes FOLDER/SET with a checkpoint after three updates, hparams.json, and pairs with their logits. Sets of
models other than `transformer` lack a setting that it needs; the command prints their names. It takes a quarter of an
hour. The second command imports them all. Nothing of this is stored here.
"""

# ruff: noqa: B905 (Python 3.7: zip has no `strict`)

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import tensorflow.compat.v1 as tf
from tensor2tensor.utils import registry
from tensor2tensor_step import SMALL, batch, training
from tensorflow.python.autograph.core import ag_ctx

UPDATES = 3
CHANGES = {**SMALL, "num_encoder_layers": 0, "num_decoder_layers": 0}


def make(name: str, folder: Path) -> None:
    """Writes all files of a set."""
    with tf.Graph().as_default(), tf.Session() as session:
        made = training(name, CHANGES)
        session.run(tf.global_variables_initializer())
        draw = np.random.RandomState(3)
        for _ in range(UPDATES):
            session.run((made.loss, made.update), dict(zip(made.sides, batch(draw))))
        pairs = batch(draw)
        logits = session.run(made.logits, dict(zip(made.sides, pairs)))
        folder.mkdir(parents=True)
        tf.train.Saver().save(session, str(folder / "model.ckpt"), global_step=made.step, write_meta_graph=False)
    np.savez(folder / "golden.npz", source=pairs[0], target=pairs[1], logits=np.float32(logits))
    (folder / "hparams.json").write_text(json.dumps(made.written))


def main() -> None:
    """Makes all sets, and prints the names of those of another model."""
    tf.logging.set_verbosity(tf.logging.ERROR)
    with ag_ctx.ControlStatusCtx(ag_ctx.Status.DISABLED):  # with AutoGraph, building the graph takes 20 times as long
        for name in registry.list_hparams():
            if name.startswith("transformer_"):
                try:
                    make(name, Path(sys.argv[1]) / name)
                except (AttributeError, ValueError) as error:
                    print(f"{name}: not made: {error}", flush=True)


if __name__ == "__main__":
    main()
