"""Tokens per second and model-FLOP utilisation of one training step, beside this machine's matrix products.

    python benchmarks/train_step.py --hparams_set=base --precision=float32

Random token ids without padding, so that every place counts. Training steps and matrix products alternate, so that both
see the same machine; medians over the rounds. Utilisation = (FLOPs of the model's matrix products, forward and twice
that backward) / time / (best rate of the products measured beside it). One line of text, or --json. On a GPU a round is
ten steps, each handed over while the one before is computed, as the trainer does; the line also says the most memory
that the steps took, and the seconds before the first step was done, which are those of compilation.

    python benchmarks/train_step.py --hparams_set=base --precision=bfloat16 --rows=784 --accumulate=8 --jit=on
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

from t2t_lite import config, registry
from t2t_lite.distributed.tensorflow_loading import load_tensorflow
from t2t_lite.ops import threads

# rows x (source + target) pieces and the vocabulary of each workload; "base" is the one the peers were timed on.
WORKLOADS = {"base": (32, 32, 32, 37000), "tiny": (64, 32, 32, 800), "multi30k": (400, 20, 20, 8000)}
WORKLOADS["big"] = WORKLOADS["base"]
PRODUCTS = ((1024, 512, 512), (1024, 512, 2048), (1024, 2048, 512), (2048, 2048, 2048))  # m, k, n
GPU_PRODUCTS = ((8192, 512, 2048), (8192, 8192, 8192))
FLOPS, GPU_FLOPS = 2e10, 2e13  # of the products that are timed together
GPU_STEPS = 10  # of a round


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(description="Times one training step beside this machine's matrix products.")
    parser.add_argument("--hparams_set", choices=sorted(WORKLOADS), default="base")
    parser.add_argument("--precision", choices=("float32", "bfloat16"), default="float32")
    parser.add_argument("--rows", type=int, default=0, help="of a batch; default: the workload's")
    parser.add_argument("--accumulate", type=int, default=1, help="parts of a batch, computed one after the other")
    parser.add_argument("--jit", choices=("auto", "on", "off"), default="auto", help="XLA; auto: on GPUs")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    load_tensorflow()
    from t2t_lite.distributed.devices import on_gpus

    hparams = config.replace(registry.hparams(args.hparams_set), precision=args.precision)
    rows, source_length, target_length, vocab_size = WORKLOADS[args.hparams_set]
    rows = args.rows or rows
    step, cost = training_step(hparams, (rows, source_length, target_length, vocab_size), args.accumulate, args.jit)
    batch_tokens, flops = rows * target_length, rows * cost.training_flops(source_length, target_length)
    products = matrix_products(args.precision)
    first = seconds_of(step)
    for warm in (step, *(call for call, _ in products)):
        warm()
    steps, rates = [], []
    together = GPU_STEPS if on_gpus() else 1
    for _ in range(args.rounds):
        steps.append(seconds_of(lambda: step(times=together)) / together)
        rates.append(max(work / seconds_of(call) for call, work in products))
    seconds, peak = statistics.median(steps), statistics.median(rates)
    result = {
        "workload": args.hparams_set,
        "precision": args.precision,
        "accumulate": args.accumulate,
        "seconds_per_step": [round(x, 4) for x in (seconds, min(steps), max(steps))],
        "target_tokens_per_second": round(batch_tokens / seconds, 1),
        "model_gflops": round(flops / seconds / 1e9, 1),
        "product_gflops": round(peak / 1e9, 1),
        "utilisation": round(flops / seconds / peak, 3),
        "seconds_of_first_step": round(first, 1),
        "peak_gb": peak_memory(),
    }
    if args.json:
        print(json.dumps(result))
    else:
        print(
            f"{args.hparams_set} {args.precision}: {seconds:.3f} s a step ({min(steps):.3f} to {max(steps):.3f}), "
            f"{result['target_tokens_per_second']:,} target tokens/s, {result['model_gflops']} GFLOP/s of "
            f"{result['product_gflops']} in matrix products: {result['utilisation']:.0%}; first step {first:.1f} s"
            + (f", {result['peak_gb']:.2f} GB" if result["peak_gb"] else "")
        )


def peak_memory() -> float | None:
    """The most memory that the GPU has given so far, in GB; None without a GPU."""
    import tensorflow as tf

    gpu = bool(tf.config.list_physical_devices("GPU"))
    return round(tf.config.experimental.get_memory_info("GPU:0")["peak"] / 1e9, 3) if gpu else None


def training_step(
    hparams: config.HParams, shape: tuple[int, int, int, int], accumulate: int, jit: str = "auto"
) -> tuple[Callable[..., Any], Any]:
    """Returns (a call that trains `times` steps, on all positions or the first `length`, and waits; its `Cost`)."""
    import numpy as np

    from t2t_lite.distributed.devices import Devices, make_strategy, on_gpus, share_processors, use_jit
    from t2t_lite.groups import OptimizerGroup
    from t2t_lite.optimizers.adam import Adam
    from t2t_lite.training.step import TrainStep

    rows, source_length, target_length, vocab_size = shape
    share_processors(rows, jit)
    strategy = make_strategy(Devices())
    with strategy.scope():
        model: Any = registry.MODELS.get("transformer")
        model = model.from_hparams(hparams, vocab_size, vocab_size, True)
        optimizer = Adam([w.value for w in model.trainable_weights], 0.9, 0.98, 1e-9)
    how = {"accumulate": accumulate, "seed": 1, "jit": use_jit(jit)}
    step = TrainStep(model, optimizer, strategy, OptimizerGroup(), **how)
    random = np.random.default_rng(1)
    batch = {
        side: random.integers(4, vocab_size, (rows, length), dtype=np.int32)
        for side, length in (("source", source_length), ("target", target_length))
    }

    numbers = itertools.count(1)

    def call(length: int | None = None, times: int = 1) -> float:
        part = {side: ids[:, :length] for side, ids in batch.items()} if length else batch
        following = (part, 1e-4) if on_gpus() else None
        for _ in range(times):
            step(part, next(numbers), 1e-4, following=following)
        return step.outcome().loss

    return call, model.cost


def beside(function: Callable[[int], Any]) -> list[Any]:
    """Makes as many calls of `function` at the same time as operations run at a time."""
    return list(threads.parallel_map(function, range(threads.num_parallel())))


def matrix_products(precision: str) -> list[tuple[Callable[[], Any], float]]:
    """Returns (a call that multiplies and waits, its FLOPs) for each of PRODUCTS, on a GPU of GPU_PRODUCTS."""
    import tensorflow as tf

    calls: list[tuple[Callable[[], Any], float]] = []
    sizes, least = (GPU_PRODUCTS, GPU_FLOPS) if tf.config.list_physical_devices("GPU") else (PRODUCTS, FLOPS)
    for m, k, n in sizes:
        a, b = (tf.cast(tf.random.normal(shape), precision) for shape in ((m, k), (k, n)))
        repeats = max(1, int(least / (2 * m * k * n)))

        @tf.function
        def product(a: Any, b: Any) -> Any:
            return tf.matmul(a, b)

        def multiply(_: int, product: Any = product, a: Any = a, b: Any = b, repeats: int = repeats) -> float:
            for _ in range(repeats):
                c = product(a, b)
            return float(c[0, 0])

        calls.append((lambda multiply=multiply: beside(multiply), 2.0 * m * k * n * repeats * threads.num_parallel()))
    return calls


def seconds_of(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
