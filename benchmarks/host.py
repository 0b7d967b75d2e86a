"""What a GPU would wait for in training, seen without one: programs to compile, operations, bytes, the host's time.

    python benchmarks/host.py

The recipe is `base`: updates of 25,000 tokens, of random pairs with lengths about those of WMT14.
The work on a batch before and after its update is timed while a device would be busy for --device_ms. The graph of an
update is compiled with XLA as for a GPU, and timed. Its programs take and return the same things as the real ones, at
hardly any width, and compute almost nothing: what is left is the time in which the host hands the programs over.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from input import SIDES, VOCAB_SIZE, draw_pairs, open_pairs

from t2t_lite import config, registry
from t2t_lite.data.pipeline import batches, make_plan
from t2t_lite.distributed.tensorflow_loading import load_tensorflow

PAIRS, SMALL_VOCABULARY = 200_000, 100
LITTLE: dict[str, Any] = {"d_model": 8, "d_ff": 8, "num_heads": 1}  # in place of base's 512, 2,048 and 8
CALLS, SEEN = 50, 2_000  # updates that are timed, batches whose shapes are counted


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(description="What a GPU would wait for in training, seen without one.")
    parser.add_argument("--steps", type=int, default=200, help="batches")
    parser.add_argument("--device_ms", type=float, default=25.0, help="what an update takes on the device")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="t2t-lite-host-") as name:
        folder = Path(name)
        draw_pairs(folder, PAIRS)
        os.environ["XLA_FLAGS"] = f"--xla_dump_to={folder / 'xla'} --xla_dump_hlo_as_text"
        load_tensorflow()
        measure_batches(folder, args.steps, args.device_ms / 1000)
        measure_handing_over()
        measure_programs(folder)


def stream(folder: Path) -> Iterator[dict[str, np.ndarray]]:
    """The batches of `base`, as the trainer's thread makes them."""
    hparams = registry.hparams("base")
    split = open_pairs(folder)
    plan = make_plan(split, hparams.batch, hparams.seed)
    return batches(split, plan, packing=hparams.packing, first_step=1)


def measure_batches(folder: Path, steps: int, device_seconds: float) -> None:
    """Prints the bytes and times of the input and of the report."""
    from t2t_lite.models.transformer_cost import TransformerCost
    from t2t_lite.runs.metrics_log import Report

    hparams = registry.hparams("base")
    cost = TransformerCost(hparams, VOCAB_SIZE)
    report = Report(folder, 1, steps, cost=cost, flops=0, device_flops_per_second=1e15, quiet=True)
    taken, waited, reported, moved = stream(folder), [], [], []
    for number in range(1, steps + 1):
        seconds, batch = timed(lambda: next(taken))
        waited.append(seconds)
        reported.append(timed(lambda: report.add(number, batch, 1.0, 1.0, 1e-4))[0])  # noqa: B023
        moved.append(sum(array.nbytes for array in batch.values()))
        time.sleep(device_seconds)
    report.close()
    print(f"token ids of an update: {in_words([n / 1000 for n in moved])} KB")
    print(f"waiting for a batch: {in_words([1000 * s for s in waited[1:]])} ms; the first {1000 * waited[0]:.0f} ms")
    print(f"report of an update: {in_words([1000 * s for s in reported])} ms")


def measure_programs(folder: Path) -> None:
    """Prints how many programs XLA compiles, for one layer of each kind; more layers do not change the number."""
    from t2t_lite.training.step import TrainStep

    step = little_step(TrainStep, num_layers=1)
    shapes: dict[tuple[int, ...], dict[str, np.ndarray]] = {}
    for batch, _ in zip(stream(folder), range(SEEN), strict=False):
        one_row = {side: np.minimum(ids[:1], SMALL_VOCABULARY - 1) for side, ids in batch.items()}
        shapes.setdefault(tuple(ids.shape[1] for ids in batch.values()), one_row)
    numbers = [compiled(folder)]
    for number in (1, 2):
        for batch in shapes.values():
            step(batch, number, 1e-4)
        numbers.append(compiled(folder))
    new, again = numbers[1] - numbers[0], numbers[2] - numbers[1]
    print(f"{len(shapes)} shapes in {SEEN:,} batches: {new} programs, {again} more when they come again")
    print(f"graphs traced: {step._step.experimental_get_tracing_count()}")


def measure_handing_over() -> None:
    """Prints how long the host takes for the graph of an update whose programs compute almost nothing."""
    import tensorflow as tf

    from t2t_lite.training.step import TrainStep

    class Nothing(TrainStep):
        """Reads all weights and ids, and gives gradients of zero."""

        def _gradients_of(self, rows: Any, seed: Any, part: Any, tokens: Any) -> tuple[Any, list[Any]]:
            used = tf.reduce_sum(rows["source"]) + tf.reduce_sum(rows["target"]) + seed[0] + part
            return tf.cast(used, tf.float32) * tokens, [0.0 * v for v in self._optimizer.variables]

    step = little_step(Nothing, num_layers=registry.hparams("base").num_layers)
    batch = {side: np.ones((1, 2), np.int32) for side in SIDES}
    calls = [1000 * timed(lambda: step(batch, number, 1e-4))[0] for number in range(1, CALLS + 6)]  # noqa: B023
    print(f"handing an update over: {in_words(calls[5:])} ms")


def little_step(kind: Any, num_layers: int) -> Any:
    """A training step of `base` with the LITTLE sizes, compiled with XLA."""
    from t2t_lite.distributed.devices import Devices, make_strategy
    from t2t_lite.optimizers.adam import Adam

    hparams = config.replace(registry.hparams("base"), num_layers=num_layers, **LITTLE)
    strategy = make_strategy(Devices(1))
    with strategy.scope():
        model: Any = registry.MODELS.get("transformer")
        model = model.from_hparams(hparams, SMALL_VOCABULARY, SMALL_VOCABULARY, True)
        optimizer = Adam([w.value for w in model.trainable_weights], 0.9, 0.98, 1e-9)
    return kind(model, optimizer, strategy, hparams.optimization, accumulate=1, seed=1, jit=True)


def compiled(folder: Path) -> int:
    """How many programs XLA has compiled so far."""
    return len(list((folder / "xla").glob("*.before_optimizations.txt")))


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = call()
    return time.perf_counter() - start, result


def in_words(numbers: list[float]) -> str:
    return f"{statistics.median(numbers):.3g} ({min(numbers):.3g} to {max(numbers):.3g})"


if __name__ == "__main__":
    main()
