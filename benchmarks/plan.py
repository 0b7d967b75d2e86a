"""Time and memory of planning batches for as many pairs as in WMT14 English-French (section 5.1).

    python benchmarks/plan.py --pairs=36000000
    python benchmarks/plan.py --pairs=36000000 --packing

Lengths are drawn (log-normal, about those of WMT14), and held as in a prepared store. Times are of the processor.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from t2t_lite.data.packing import PackedPlan
from t2t_lite.data.plan import BucketPlan

CHUNK = 1_000_000


def main() -> None:
    """The command; see the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=36_000_000)
    parser.add_argument("--packing", action="store_true")
    args = parser.parse_args()
    source, target = _lengths(args.pairs)
    print(f"{args.pairs:,} pairs; their lengths, and Python: {_peak():,.0f} MiB")
    what, kind = ("packing", PackedPlan) if args.packing else ("choosing shapes", BucketPlan)
    plan = _timed(what, lambda: kind(source, target, batch_tokens=25_000, max_length=256, seed=1))
    steps = plan.steps_per_epoch
    for what, step in (("first step", 1), ("any step", steps // 2), ("first step of another epoch", 3 * steps + 1)):
        _timed(what, lambda step=step: plan.batch(step))


def _lengths(pairs: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(1)
    source, target = np.empty(pairs, np.int32), np.empty(pairs, np.int32)
    for start in range(0, pairs, CHUNK):
        log = random.normal(3.2, 0.6, min(CHUNK, pairs - start))
        source[start : start + CHUNK] = np.exp(log).clip(1, 900)
        target[start : start + CHUNK] = np.exp(log + random.normal(0.1, 0.15, len(log))).clip(1, 900)
    return source, target


def _timed(what: str, make: Callable[[], Any]) -> Any:
    start = time.process_time()
    made = make()
    print(f"{what}: {time.process_time() - start:.3f} s, peak so far {_peak():,.0f} MiB", flush=True)
    return made


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10


if __name__ == "__main__":
    main()
