"""Compares how far processes that train together drift from one process with how far rounding alone drifts.

Usage: python -m tests.faults.rounding [--optimizer=adam]

Four runs start from the same weights: one on one process; one whose start has one weight moved by 1e-7; one on two
devices of one process; and one on two processes. A table has the largest difference of a weight from the first after
some updates. Adam divides a gradient by its size, so a rounding of one that is near zero may move a weight by the whole
learning rate: there the differences grow. They are rounding if those of several devices begin as small as that of the
moved weight, and are never much larger.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tests.faults.elastic import tensors
from tests.faults.material import LARGE, SMALL, write_corpus
from tests.faults.workers import Job

MOVED = 1e-7
FIRST = (1, 2, 5)
LATER = (10, 50, 100, 120, 140, 160, 180, 200, 400, 600)
_HPARAMS = (
    "num_layers=1,d_model=32,d_ff=32,num_heads=2,dropout=0.1,batch_tokens=1024,log_every=100,eval_every={steps},"
    "eval_lines=4,train_steps={steps},save_every={every},keep_checkpoints=100,average_checkpoints=1,beam_size=1,"
    "extra_length=2"
)
# Plain gradient descent, as in elastic.py.
_DESCENT = ",optimizer=sgd,schedule=constant,learning_rate=0.1,learning_rate_factor=1.0"

Differences = dict[str, dict[int, float]]


def train_all(folder: Path, shown: Sequence[int], optimizer: str) -> Differences:
    """Returns the largest difference of a weight from the training on one process, by run and by step."""
    folder.mkdir()
    flags = [*write_corpus(folder / "corpus", LARGE[:2000], SMALL[:10]), "--hparams_set=tiny", "--num_workers=1"]
    flags += [f"--data_dir={folder}/data"]
    more = "" if optimizer == "adam" else _DESCENT
    _train(folder / "start", 1, *flags, f"--hparams={_HPARAMS.format(steps=1, every=1)}{more}")
    shutil.copytree(folder / "start", folder / "moved")
    start, moved = (folder / run / "checkpoints/model-1" for run in ("start", "moved"))
    _move_one(start, moved)
    flags += [f"--hparams={_HPARAMS.format(steps=shown[-1], every=shown[0])}{more}"]
    from_start = f"--warm_start_from={start}"
    _train(folder / "one", 1, *flags, from_start)
    expected = {step: _weights(folder / "one", step) for step in shown}
    found: Differences = {}
    for name, processes, own in (
        ("one weight moved", 1, (f"--warm_start_from={moved}",)),
        ("2 devices", 1, (from_start, "--devices=2")),
        ("2 processes", 2, (from_start,)),
    ):
        run = folder / name.replace(" ", "_")
        _train(run, processes, *flags, *own)
        found[name] = {step: _difference(_weights(run, step), expected[step]) for step in shown}
    return found


def _train(run: Path, processes: int, *flags: str) -> None:
    job = Job(run, processes, *flags)
    statuses = job.end(1200)
    if statuses != [0] * processes:
        raise RuntimeError(f"{run.name}: {statuses}\n{job.errors()[0][-3000:]}")


def _move_one(path: Path, moved: Path) -> None:
    """Writes a copy of a checkpoint in which the first weight of the encoder's largest array is moved."""
    import tensorflow as tf

    reader = tf.train.load_checkpoint(str(path))
    values = {name: np.array(reader.get_tensor(name)) for name in reader.get_variable_to_shape_map()}
    largest = max(
        (name for name in values if name.startswith("weights/") and "encoder" in name),
        key=lambda name: values[name].size,
    )
    values[largest].flat[0] += np.float32(MOVED)
    tf.raw_ops.SaveV2(
        prefix=str(moved),
        tensor_names=list(values),
        shape_and_slices=[""] * len(values),
        tensors=[tf.constant(value) for value in values.values()],
    )


def _weights(run: Path, step: int) -> dict[str, np.ndarray]:
    return {name: value for name, value in tensors(run, step).items() if name.startswith("weights/")}


def _difference(found: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> float:
    return max(float(np.abs(found[name] - value).max()) for name, value in expected.items())


def main() -> None:
    """The command; see the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--optimizer", choices=("adam", "sgd"), default="adam")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        first = train_all(Path(folder, "first"), FIRST, args.optimizer)
        later = train_all(Path(folder, "later"), LATER, args.optimizer)
    found = {name: first[name] | later[name] for name in first}
    print(f"| updates | {' | '.join(found)} |")
    print("| ---: " * (len(found) + 1) + "|")
    for step in next(iter(found.values())):
        print(f"| {step} | {' | '.join(f'{each[step]:.1e}' for each in found.values())} |")


if __name__ == "__main__":
    main()
