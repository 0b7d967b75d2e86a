"""Updates a second from prepared data at a URL that answers slowly, beside the same data in a folder.

    python benchmarks/remote_data.py --folder=/tmp/remote --rounds=3

The URL is that of a file system of fsspec that waits 50 ms before each answer and sends 100 MB/s in all. The data are
those of toy_ende, in shards of 1 MiB, as a store in shards of 64 MiB is 64 times as large. Rounds alternate between the
folder, the URL with an empty cache that holds all shards, and the URL with one that holds half of them. Updates are
counted from the first to the last line of metrics.jsonl. Beside them stands how long the training loop waited for the
first batch, and for all others, which other work on the machine disturbs less. Losses must be equal to the last bit.
"""

import argparse
import contextlib
import itertools
import json
import os
import shutil
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import fsspec
from fsspec.implementations.local import LocalFileSystem

from t2t_lite.data import pipeline, store_writer
from t2t_lite.data.shards import CACHE

LATENCY, RATE = 0.05, 100e6  # seconds, bytes a second
SHARD, WAITS = 1 << 20, "WAITS"
_batches = pipeline.batches
PROBLEM, NAME = ["--problem=toy_ende", "--problem_options=train_size=400000"], "toy_ende"
HPARAMS = "batch_tokens=512,log_every=20,eval_every=1000000,save_every=1000000,eval_lines=10,d_model=32,d_ff=64"


class SlowFileSystem(LocalFileSystem):
    """The files of this machine, as if they came over a slow network."""

    protocol = "slow"
    _lock, _free = threading.Lock(), 0.0

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        return LocalFileSystem._strip_protocol(str(path).replace("slow://", "file://"))

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **options: Any) -> bytes:
        data = bytes(super().cat_file(path, start, end, **options))
        _wait(len(data))
        return data

    def get_file(self, path1: str, path2: str, **options: Any) -> None:
        super().get_file(path1, path2, **options)
        _wait(os.path.getsize(path2))


def _wait(size: int) -> None:
    """Waits as long as `size` bytes would take, after those that were asked for before."""
    with SlowFileSystem._lock:
        SlowFileSystem._free = max(SlowFileSystem._free, time.monotonic()) + size / RATE
        end = SlowFileSystem._free + LATENCY
    time.sleep(max(end - time.monotonic(), 0))


def main() -> None:
    """The command; see the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--updates", type=int, default=1500)
    args = parser.parse_args()
    data = args.folder.absolute() / "data"
    _command("datagen", *PROBLEM, f"--data_dir={data}")
    size = sum(path.stat().st_size for path in (data / NAME).glob("train.*.ids"))
    print(f"{size:,} bytes of ids in shards of {SHARD:,}")
    places = {
        "folder": (str(data), 0),
        "URL, all in the cache": (f"slow://{data}", 2 * size),
        "URL, half in the cache": (f"slow://{data}", size // 2),
    }
    found: dict[str, list[tuple[float, list[float], list[float]]]] = {name: [] for name in places}
    for _ in range(args.rounds):
        for name, (place, bound) in places.items():
            found[name].append(_train(args.folder, place, bound, args.updates))
            rate, (first, others), _ = found[name][-1]
            waits = f"waited {first:.2f} s for the first batch, {others:.3f} s for the others"
            print(f"{name}: {rate:.2f} updates/s, {waits}", flush=True)
    losses = {json.dumps(loss) for runs in found.values() for *_, loss in runs}
    print(f"losses of all runs: {'equal' if len(losses) == 1 else 'DIFFERENT'}")
    base = statistics.median(rate for rate, *_ in found["folder"])
    for name, runs in found.items():
        rate = statistics.median(rate for rate, *_ in runs)
        print(f"{name}: median {rate:.2f} updates/s, {rate / base - 1:+.1%}")


def _train(folder: Path, place: str, bound: int, updates: int) -> tuple[float, list[float], list[float]]:
    """Returns the updates a second, the waits for the first batch and the others, and the losses."""
    run, cache = folder / "run", folder / "cache"
    for old in (run, cache):
        shutil.rmtree(old, ignore_errors=True)
    environment = {
        **os.environ,
        WAITS: str(folder.absolute() / WAITS),
        "XDG_CACHE_HOME": str(cache.absolute()),
        CACHE: str(bound / 2**30),
    }
    flags = [f"--train_steps={updates}", f"--hparams={HPARAMS}", f"--output_dir={run}", f"--data_dir={place}"]
    _command("trainer", *PROBLEM, *flags, "--quiet", env=environment)
    kept = sum(path.stat().st_size for path in cache.glob("t2t-lite/shards/*"))
    if kept > bound:
        raise SystemExit(f"The cache holds {kept:,} bytes, and its bound is {bound:,}.")
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    lines = [line for line in lines if "flops_per_second" in line]
    pairs = itertools.pairwise(lines)
    between = sum((line["flops"] - before["flops"]) / line["flops_per_second"] for before, line in pairs)
    return (
        (lines[-1]["step"] - lines[0]["step"]) / between,
        json.loads((folder / WAITS).read_text()),
        [line["loss"] for line in lines],
    )


def _command(name: str, *flags: str, env: dict[str, str] | None = None) -> None:
    subprocess.run([sys.executable, __file__, "--as", name, *flags], check=True, env=env, stdout=subprocess.DEVNULL)


def _as_command(name: str, flags: list[str]) -> int:
    """Runs a command of t2t-lite that knows the slow file system, and writes small shards."""
    fsspec.register_implementation("slow", SlowFileSystem)
    store_writer.SHARD = SHARD
    if name == "datagen":
        from t2t_lite.cli import datagen

        return datagen.main(flags)
    pipeline.batches = _timed  # before the trainer imports it
    from t2t_lite.cli import trainer

    return trainer.main(flags)


def _timed(*arguments: Any, **options: Any) -> Generator[pipeline.Batch, None, None]:
    """Yields what `pipeline.batches` does; writes how long its consumer waited."""
    waits = []
    with contextlib.closing(_batches(*arguments, **options)) as stream:
        try:
            while True:
                start = time.perf_counter()
                batch = next(stream)
                waits.append(time.perf_counter() - start)
                yield batch
        finally:
            Path(os.environ[WAITS]).write_text(json.dumps([waits[0], sum(waits[1:])]), encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--as"]:
        sys.exit(_as_command(sys.argv[2], sys.argv[3:]))
    main()
