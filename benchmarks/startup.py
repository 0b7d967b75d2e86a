"""How soon commands answer: medians of whole processes, in seconds.

    python benchmarks/startup.py
    python benchmarks/startup.py --whole

By default: what needs no TensorFlow. With --whole: the decoder's first line, and its end, of a run of `tiny` and one of
`multi30k`, trained on toy data for a few updates. Outputs are at most as long as their sources, as those of a trained
model are. "first start" is one without a traced graph and compiled modules in the cache. `first_step.py` times a
trainer that resumes, `serving.py` the load of an export, and `phases.py` shows where the time goes.

The exit status is 1 if one takes longer than the limit on this machine.
"""

from __future__ import annotations

import argparse
import itertools
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

LIMIT = 0.5  # seconds, without TensorFlow
LIMITS = {1: 4.0, 1000: 6.0}  # seconds of the decoder by lines: to the first one, to the last one
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
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(description="Times whole commands.")
    parser.add_argument("--whole", action="store_true", help="the decoder, which loads TensorFlow")
    args = parser.parse_args()
    if args.whole:
        with tempfile.TemporaryDirectory(prefix="t2t-lite-startup-") as folder:
            return _time_decoder(Path(folder))
    width = max(map(len, CASES))
    slow = 0
    for name, arguments in CASES.items():
        seconds(*arguments)  # the first one reads the files from disk
        median = statistics.median(seconds(*arguments) for _ in range(REPEATS))
        slow += median > LIMIT
        print(f"{name:<{width}}  {median:.2f}{'  over ' + str(LIMIT) if median > LIMIT else ''}", flush=True)
    return 1 if slow else 0


def _time_decoder(folder: Path) -> int:
    from t2t_lite import registry

    environment = {
        **os.environ,
        "XDG_CACHE_HOME": str(folder / "cache"),
        "PYTHONPYCACHEPREFIX": str(folder / "modules"),
    }
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    sources = [source for source, _ in itertools.islice(registry.problem("toy_ende").samples("train"), 1000)]
    for number in LIMITS:
        (folder / f"{number}.txt").write_text("".join(f"{line}\n" for line in sources[:number]), encoding="utf-8")
    slow = 0
    for name in ("tiny", "multi30k"):
        run = [f"--output_dir={folder / name}"]
        recipe = [f"--hparams_set={name}", "--hparams=train_steps=20,eval_every=1000", f"--data_dir={folder / 'data'}"]
        train = [sys.executable, "-m", "t2t_lite.cli.trainer", "--problem=toy_ende", *run, *recipe]
        subprocess.run(train, env=environment, check=True, capture_output=True)
        for number, limit in LIMITS.items():
            command = [sys.executable, "-m", "t2t_lite.cli.decoder", *run, "--extra_length=0"]
            command.append(f"--input={folder / f'{number}.txt'}")
            first, *others = (_until_line_and_end(command, environment) for _ in range(REPEATS + 1))
            line, end = (statistics.median(column) for column in zip(*others, strict=True))
            late = (line if number == 1 else end) > limit
            slow += late
            print(
                f"decoder, {name}, {number} lines: first line {line:.2f}, end {end:.2f}; first start {first[1]:.2f}"
                f"{f'  over {limit}' if late else ''}",
                flush=True,
            )
    return 1 if slow else 0


def _until_line_and_end(command: list[str], environment: dict[str, str]) -> tuple[float, float]:
    """Seconds from the start of a process to its first line, and to its end."""
    start = time.perf_counter()
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        first = time.perf_counter() - start
        process.stdout.read()
    if process.returncode or not line:
        raise SystemExit(f"{' '.join(command)} wrote nothing.")
    return first, time.perf_counter() - start


if __name__ == "__main__":
    sys.exit(main())
