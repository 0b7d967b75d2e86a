"""How long from the command to the first update: a new run of `tiny`, and `base` resumed from a checkpoint.

    python benchmarks/first_step.py --rounds=3

Runs whole trainer processes on prepared `toy_ende` data and kills them after their second update. Recipes are
unchanged, except that `base` has batches of 1,024 tokens, so that an update takes seconds. "before" is the time before
the first update, if that takes as long as the second: starting TensorFlow, opening data, building or restoring the
model, tracing, and trying the largest batch.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

LIMITS = {"tiny, new": 15.0, "base, resumed": 8.0}  # seconds
POLL = 0.02
CHECKPOINT = 2  # the update after which `base` is saved
TRAINER = (sys.executable, "-m", "t2t_lite.cli.trainer", "--problem=toy_ende")


def main() -> int:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(description="Times the way to the first update.")
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    late = 0
    with tempfile.TemporaryDirectory(prefix="t2t-lite-first-") as name:
        folder = Path(name)
        data = f"--data_dir={folder / 'data'}"
        subprocess.run([sys.executable, "-m", "t2t_lite.cli.datagen", "--problem=toy_ende", data], check=True)
        base = [data, "--hparams_set=base", f"--hparams=batch_tokens=1024,log_every=1,save_every={CHECKPOINT}"]
        tiny = [data, "--hparams_set=tiny", "--hparams=log_every=1"]
        until(folder / "base", base, CHECKPOINT + 1)  # the one before has been saved
        for case, limit in LIMITS.items():
            times = []
            for i in range(args.rounds):
                is_new = case.startswith("tiny")
                run = folder / (f"tiny {i}" if is_new else "base")
                times.append(until(run, tiny if is_new else base, 2))
            first, second = (statistics.median(column) for column in zip(*times, strict=True))
            late += first > limit
            print(f"{case}: first update after {first:.1f} s (at most {limit:.0f}), before {2 * first - second:.1f} s")
    return 1 if late else 0


def until(run: Path, flags: list[str], updates: int) -> list[float]:
    """Seconds from the start of a trainer to each of its first `updates` updates; then it is killed."""
    metrics, before = run / "metrics.jsonl", 0
    if metrics.exists():
        before = CHECKPOINT
        kept = metrics.read_text(encoding="utf-8").split("\n")[:before]  # a line per update; later ones come again
        metrics.write_text("\n".join([*kept, ""]), encoding="utf-8")
    start = time.perf_counter()
    seen: list[float] = []
    with subprocess.Popen([*TRAINER, f"--output_dir={run}", *flags], stderr=subprocess.PIPE) as process:
        while len(seen) < updates:
            time.sleep(POLL)
            if process.poll() is not None:
                raise SystemExit(f"The trainer ended: {process.stderr.read().decode() if process.stderr else ''}")
            if _last_step(metrics) == before + len(seen) + 1:
                seen.append(time.perf_counter() - start)
        process.kill()
    return seen


def _last_step(metrics: Path) -> int:
    lines = metrics.read_text(encoding="utf-8").split("\n")[:-1] if metrics.exists() else []
    return max((json.loads(line)["step"] for line in lines), default=0)


if __name__ == "__main__":
    sys.exit(main())
