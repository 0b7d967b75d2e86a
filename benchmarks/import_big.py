"""Imports a large checkpoint of tensor2tensor, made here of random numbers: seconds, and the most memory.

Usage: python benchmarks/import_big.py --folder=EMPTY --rounds=3

It is a transformer_big with 12 + 6 layers and 33,708 words, as CUBBITT's models are: 286,358,528 parameters, 1.15 GB.
The last run stays in FOLDER/run, for t2t-lite-decoder and t2t-lite-exporter.
"""

import argparse
import json
import math
import multiprocessing
import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

D, F, V, SHARDS, LAYERS = 1024, 4096, 33708, 16, {"encoder": 12, "decoder": 6}
HPARAMS = {
    "num_heads": 16,
    "hidden_size": D,
    "filter_size": F,
    "num_encoder_layers": LAYERS["encoder"],
    "num_decoder_layers": LAYERS["decoder"],
    "layer_preprocess_sequence": "n",
    "layer_postprocess_sequence": "da",
}


def shapes() -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yields each variable's name, as tensor2tensor 1.15 writes it, and its shape."""
    body = "transformer/body"
    for stack, number in LAYERS.items():
        norms = [f"{body}/{stack}"]
        for layer in range(number):
            start = f"{body}/{stack}/layer_{layer}"
            parts = ["self_attention"] + ["encdec_attention"] * (stack == "decoder")
            norms += [f"{start}/{part}" for part in (*parts, "ffn")]
            for part in parts:
                for matrix in ("q", "k", "v", "output_transform"):
                    yield f"{start}/{part}/multihead_attention/{matrix}/kernel", (D, D)
            for conv, shape in (("conv1", (D, F)), ("conv2", (F, D))):
                yield f"{start}/ffn/{conv}/kernel", shape
                yield f"{start}/ffn/{conv}/bias", shape[1:]
        for norm in norms:
            for name in ("scale", "bias"):
                yield f"{norm}/layer_prepostprocess/layer_norm/layer_norm_{name}", (D,)
    yield f"{body}/target_space_embedding/kernel", (32, D)
    for i in range(SHARDS):
        yield f"transformer/symbol_modality_{V}_{D}/shared/weights_{i}", (V // SHARDS + (i < V % SHARDS), D)


def make(folder: Path) -> None:
    """Writes checkpoint, hparams.json and vocabulary."""
    import tensorflow as tf

    folder.mkdir(parents=True)
    generator = np.random.default_rng(1)
    arrays = {
        name: np.float32(name.endswith("scale"))  # of norms; biases are near 0
        + generator.standard_normal(shape, np.float32) * np.float32(D**-0.5)
        for name, shape in shapes()
    }
    tf.raw_ops.SaveV2(
        prefix=str(folder / "model.ckpt-100"),
        tensor_names=list(arrays),
        shape_and_slices=[""] * len(arrays),
        tensors=[tf.constant(array) for array in arrays.values()],
    )
    (folder / "hparams.json").write_text(json.dumps(HPARAMS))
    words = ["<pad>", "<EOS>", "UNK", *(f"w{i}" for i in range(3, V))]
    (folder / "vocab.tokens").write_text("".join(f"{word}\n" for word in words))


def main() -> None:
    """The command; see the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    there, run = args.folder / "there", args.folder / "run"
    # In its own process: the peak memory of a child includes what its parent held when the child was made.
    maker = multiprocessing.get_context("spawn").Process(target=make, args=(there,))
    maker.start()
    maker.join()
    size = 4 * sum(math.prod(shape) for _, shape in shapes())
    flags = [f"--checkpoint={there}", f"--vocabulary={there}/vocab.tokens", f"--output_dir={run}"]
    for _ in range(args.rounds):
        shutil.rmtree(run, ignore_errors=True)
        start = time.perf_counter()
        process = subprocess.Popen([sys.executable, "-m", "t2t_lite.cli.importer", *flags], stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)  # of this process alone
        seconds, memory = time.perf_counter() - start, _bytes(usage)
        print(
            f"status {os.waitstatus_to_exitcode(status)}: {seconds:.1f} s, {memory / 1e9:.2f} GB, "
            f"{memory / size:.2f} times the weights' {size / 1e9:.2f} GB",
            flush=True,
        )


def _bytes(usage: resource.struct_rusage) -> int:
    return usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)


if __name__ == "__main__":
    main()
