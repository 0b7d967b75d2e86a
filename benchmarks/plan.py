"""Time and memory of planning batches for made-up prepared data of many pairs.

    python benchmarks/plan.py --folder=/tmp/many --pairs=100000000
    python benchmarks/plan.py --folder=/tmp/many --pairs=100000000 --packing --at=0.5

The first command with a folder makes the data there: lengths are drawn (log-normal, about those of WMT14), offsets take
16 bytes a pair, and files of ids are sparse, without a text. The first start makes the index of a plan, and later ones
read it. `--at` is the place in the epoch, from 0 to 1, of the first batch. Seconds are of the clock and, after the
slash, of the processor.
"""

import argparse
import json
import multiprocessing
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from t2t_lite.data.pipeline import make_plan
from t2t_lite.data.store import FORMAT, MANIFEST, SIDES, open_store
from t2t_lite.files import sha256_of
from t2t_lite.groups import BatchGroup
from t2t_lite.text.vocabulary_training import train_vocabulary

CHUNK = 1_000_000


def main() -> None:
    """The command; see the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--pairs", type=int, default=36_000_000)
    parser.add_argument("--packing", action="store_true")
    parser.add_argument("--at", type=float, default=0.0)
    parser.add_argument("--epoch", type=int, default=1)
    args = parser.parse_args()
    if not (args.folder / MANIFEST).exists():
        writer = multiprocessing.get_context("spawn").Process(target=_make_store, args=(args.folder, args.pairs))
        writer.start()
        writer.join()
    print(f"Python alone: {_peak():,.0f} MiB")
    split = _timed("lengths", lambda: open_store(args.folder).split("train"))
    batch = BatchGroup(batch_tokens=25_000, max_length=256, packing=args.packing)
    plan = _timed("plan", lambda: make_plan(split, batch, 1))
    steps = plan.steps_per_epoch
    step = (args.epoch - 1) * steps + 1 + int(args.at * (steps - 1))
    _timed(f"batch {step:,} of {steps:,} an epoch", lambda: plan.batch(step))
    _timed("the next batch", lambda: plan.batch(step + 1))
    _timed("statistics", lambda: plan.statistics())


def _make_store(folder: Path, pairs: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    random, ends = np.random.default_rng(1), dict.fromkeys(SIDES, 0)
    (folder / "vocabulary.model").write_bytes(train_vocabulary(["a b c"], size=20).data)
    files = {side: folder / f"train.{side}.offsets" for side in SIDES}
    for file in files.values():
        file.write_bytes(bytes(8))
    for start in range(0, pairs, CHUNK):
        log = random.normal(3.2, 0.6, min(CHUNK, pairs - start))
        for side, lengths in (("source", log), ("target", log + random.normal(0.1, 0.15, len(log)))):
            offsets = ends[side] + np.cumsum(np.exp(lengths).clip(1, 900).astype(np.int64))
            with open(files[side], "ab") as file:
                file.write(offsets.tobytes())
            ends[side] = int(offsets[-1])
    for side in SIDES:
        with open(folder / f"train.{side}.ids", "wb") as ids:
            ids.truncate(2 * ends[side])
    facts = {side: {"dtype": "<u2", "ids": ends[side]} for side in SIDES}
    sizes = {path.name: {"bytes": path.stat().st_size, "sha256": sha256_of(path)} for path in folder.glob("voc*")}
    sizes |= {path.name: {"bytes": path.stat().st_size, "sha256": "made up"} for path in folder.glob("train*")}
    manifest = {
        "format": FORMAT,
        "settings": {},
        "vocabularies": dict.fromkeys(SIDES, "vocabulary.model"),
        "splits": {"train": {"pairs": pairs, "text": False, **facts}},
        "files": sizes,
    }
    (folder / MANIFEST).write_text(json.dumps(manifest), encoding="utf-8")


def _timed(what: str, make: Callable[[], Any]) -> Any:
    clock, processor = time.perf_counter(), time.process_time()
    made = make()
    seconds = f"{time.perf_counter() - clock:.2f} / {time.process_time() - processor:.2f} s"
    print(f"{what}: {seconds}, peak so far {_peak():,.0f} MiB", flush=True)
    return made


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10


if __name__ == "__main__":
    main()
