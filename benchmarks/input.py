"""How fast batches are made, from files that are not in the page cache: target tokens a second, and the plan's time.

    python benchmarks/input.py --pairs=2000000

Random ids and offsets are written to files as in a prepared store (lengths about those of WMT14), and their pages are
dropped from the cache. A separate process then maps them, plans an epoch of `base` and takes batches from the
pipeline's thread.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from t2t_lite import config, registry
from t2t_lite.data.pipeline import batches, make_plan
from t2t_lite.data.store import Tokens, TokenSplit

VOCAB_SIZE, SIDES = 37_000, ("source", "target")


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(description="Times the making of batches from a cold page cache.")
    parser.add_argument("--pairs", type=int, default=2_000_000)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", help=argparse.SUPPRESS)  # of the process that is measured
    parser.add_argument("--packing", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.folder:
        print(json.dumps(measured(Path(args.folder), args.steps, args.packing)))
        return
    with tempfile.TemporaryDirectory(prefix="t2t-lite-input-") as name:
        draw_pairs(Path(name), args.pairs)
        for _ in range(args.rounds):
            for packing in ([], ["--packing"]):
                _give_up_pages(Path(name))
                command = [sys.executable, __file__, f"--folder={name}", f"--steps={args.steps}", *packing]
                found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
                print(f"{'packed' if packing else 'buckets'}: {found}", flush=True)


def measured(folder: Path, steps: int, packing: bool) -> dict[str, float]:
    """Maps the files, plans and takes batches."""
    start = time.perf_counter()
    split = open_pairs(folder)
    hparams = config.replace(registry.hparams("base"), packing=packing)
    plan = make_plan(split, hparams.batch, hparams.seed)
    taken = batches(split, plan, packing=packing, first_step=1)
    next(taken)
    first = time.perf_counter()
    tokens = sum(np.count_nonzero(next(taken)["target"]) for _ in range(steps))
    seconds = time.perf_counter() - first
    taken.close()
    return {
        "seconds to the first batch": round(first - start, 2),
        "target tokens/s": round(tokens / seconds),
        "steps/s": round(steps / seconds, 1),
    }


def open_pairs(folder: Path) -> TokenSplit:
    """Maps what `draw_pairs` has written."""
    sides = []
    for side in SIDES:
        ids, offsets = (folder / f"{side}.{kind}.npy" for kind in ("ids", "offsets"))
        sides.append(Tokens(np.load(ids, "r"), np.load(offsets, "r"), VOCAB_SIZE, ids))
    return TokenSplit(*sides)


def draw_pairs(folder: Path, pairs: int) -> None:
    """Writes ids and offsets of random pairs as a prepared store holds them, of lengths about those of WMT14."""
    draw = np.random.default_rng(1)
    log = draw.normal(3.2, 0.6, pairs)
    for side, factor in zip(SIDES, (0.0, 0.1), strict=True):
        lengths = np.exp(log + draw.normal(factor, 0.15, pairs)).clip(1, 900).astype(np.int64)
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        np.save(folder / f"{side}.offsets.npy", offsets)
        np.save(folder / f"{side}.ids.npy", draw.integers(2, VOCAB_SIZE, offsets[-1], dtype=np.uint16))


def _give_up_pages(folder: Path) -> None:
    for path in folder.iterdir():
        with open(path, "rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


if __name__ == "__main__":
    main()
