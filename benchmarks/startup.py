"""How soon the commands answer where no TensorFlow is needed: medians of 5 whole processes, in seconds.

    python benchmarks/startup.py

The exit status is 1 if one takes longer than the limit on this machine.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

LIMIT = 0.5  # seconds
REPEATS = 5
COMMANDS = ("trainer", "datagen", "decoder", "eval", "avg_checkpoints", "importer")
NAMES = ("--problem=toy_endee", "--output_dir=runs/none")

CASES: dict[str, tuple[str, ...]] = {
    **{f"{command} --help": (command, "--help") for command in COMMANDS},
    "trainer --registry_help": ("trainer", "--registry_help"),
    "trainer, unknown problem": ("trainer", *NAMES),
    "trainer, unknown hparams set": ("trainer", "--problem=toy_ende", "--hparams_set=tinny", "--output_dir=runs/none"),
    "trainer, unknown hparam": ("trainer", "--problem=toy_ende", "--hparams=dropuot=0", "--output_dir=runs/none"),
    "datagen, unknown problem": ("datagen", "--problem=toy_endee", "--data_dir=runs/none"),
    "decoder, no run": ("decoder", "--output_dir=runs/none"),
    "eval, no run": ("eval", "--output_dir=runs/none"),
    "avg_checkpoints, no run": ("avg_checkpoints", "--output_dir=runs/none"),
}


def seconds(command: str, *flags: str) -> float:
    """Wall time of one whole process."""
    arguments = [sys.executable, "-m", f"t2t_lite.cli.{command}", *flags]
    start = time.perf_counter()
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    taken = time.perf_counter() - start
    if not (done.stdout.strip() if done.returncode == 0 else "error: " in done.stderr):
        raise SystemExit(f"{' '.join(arguments)} did not answer:\n{done.stderr}")
    return taken


def main() -> int:
    width = max(map(len, CASES))
    slow = 0
    for name, arguments in CASES.items():
        seconds(*arguments)  # the first one reads the files from disk
        median = statistics.median(seconds(*arguments) for _ in range(REPEATS))
        slow += median > LIMIT
        print(f"{name:<{width}}  {median:.2f}{'  over ' + str(LIMIT) if median > LIMIT else ''}", flush=True)
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
