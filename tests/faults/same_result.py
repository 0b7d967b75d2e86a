"""Trains one recipe on several numbers of processes, devices and parts, and prints by how much the results differ.

Usage: python -m tests.faults.same_result --source_dir=multi30k --languages=en-de

Each training makes 30 updates, with dropout: on one process with 1, 2, 3 and 4 devices, and on two processes with 1 and
2 devices each, some of them with several parts of each share. The devices are logical CPUs. The differences are those
from one process with one device: relative for losses, absolute for weights.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from t2t_lite.runs.checkpoint_files import list_whole
from tests.faults.workers import Job, metrics

STEPS = 30
LOSS, WEIGHTS = 1e-5, 1e-4
SHAPES = (
    (1, 1, 1),
    (1, 1, 4),
    (1, 2, 1),
    (1, 3, 2),
    (1, 4, 1),
    (2, 1, 3),
    (2, 2, 1),
)  # processes, devices of each, parts
_HPARAMS = (
    f"train_steps={STEPS},log_every=1,eval_every={STEPS},eval_lines=8,save_every=0,average_checkpoints=1,beam_size=1"
)


def main() -> None:
    """The command; see the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source_dir", required=True, help="train.en, train.de, dev.en, ...")
    parser.add_argument("--languages", default="en-de")
    parser.add_argument("--hparams_set", default="multi30k")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        flags = ["--problem=text2text", f"--source_dir={args.source_dir}", f"--languages={args.languages}"]
        flags += [f"--data_dir={folder}/data"]
        subprocess.run([sys.executable, "-m", "t2t_lite.cli.datagen", *flags], check=True)
        flags += [f"--hparams_set={args.hparams_set}", f"--hparams={_HPARAMS}"]
        runs = {shape: _train(Path(folder, "run{}x{}x{}".format(*shape)), *shape, *flags) for shape in SHAPES}
    losses, weights = runs[1, 1, 1]
    print(f"loss of update 1: {losses[0]:.4f}, of update {STEPS}: {losses[-1]:.4f}")
    print("| processes | devices of each | parts | largest difference of a loss | of a weight |\n|---|---|---|---|---|")
    good = True
    for (processes, devices, parts), (its_losses, its_weights) in runs.items():
        loss = float(np.abs(its_losses / losses - 1).max())
        weight = max(float(np.abs(value - weights[name]).max()) for name, value in its_weights.items())
        good &= loss <= LOSS and weight <= WEIGHTS
        print(f"| {processes} | {devices} | {parts} | {loss:.1e} | {weight:.1e} |")
    raise SystemExit(0 if good else 1)


def _train(
    run: Path, processes: int, devices: int, parts: int, *flags: str
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Losses of the updates, and the last weights."""
    import tensorflow as tf

    job = Job(run, processes, *flags, f"--devices={devices}", f"--accumulate={parts}")
    if set(job.end(1800)) != {0}:
        raise SystemExit(json.dumps(job.errors(), indent=1))
    losses = np.array([line["loss"] for line in metrics(run) if "loss" in line])
    reader = tf.train.load_checkpoint(list_whole(run / "checkpoints")[-1])
    names = [name for name in reader.get_variable_to_shape_map() if name.startswith("weights/")]
    return losses, {name: reader.get_tensor(name) for name in names}


if __name__ == "__main__":
    main()
