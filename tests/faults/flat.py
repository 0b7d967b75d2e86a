"""Samples memory, open files, threads and files of a long training, and of a demo that is asked all the time.

Usage: python -m tests.faults.flat --updates=100000
       python -m tests.faults.flat --demo_minutes=60

The training makes tiny updates, with a checkpoint after every 200th and an evaluation after every 10,000th. The demo
(t2t-lite-demo) gets good requests from four clients, whose answers must be those to the lines alone, and bad ones from
another. Both are flat if between the second and the last fifth of the samples memory grew by at most `MEGABYTES`, and
nothing else did.
"""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import json
import os
import random
import statistics
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tests import commands
from tests.faults.material import LARGE, SMALL, write_corpus
from tests.faults.workers import metrics

MEGABYTES = 20.0
_RECIPE = (
    "num_layers=1,d_model=8,d_ff=8,num_heads=1,batch_tokens=64,max_length=64,beam_size=1,extra_length=2,log_every=50,"
    "save_every=200,keep_checkpoints=3,average_checkpoints=3,eval_lines=4,eval_every=10000,train_steps={steps}"
)
_CLIENTS = 4
_BAD = (b"", b"{", b"[]", b"{}", b'{"text": 1}', b'{"text": ["x"]}', b'{"text": null}', b"\xff" * 9)


class Sample(NamedTuple):
    """A look at a process: updates or requests so far; resident memory; the numbers of what it has open."""

    done: int
    megabytes: float
    open_files: int
    threads: int
    files: int


def look(pid: int, done: int, folder: Path) -> Sample:
    """Samples a process, and counts the files below its folder."""
    proc = Path(f"/proc/{pid}")
    status = dict(line.split(":", 1) for line in (proc / "status").read_text().splitlines())
    files = sum(len(names) for _, _, names in os.walk(folder))
    kilobytes, threads = int(status["VmRSS"].split()[0]), int(status["Threads"])
    return Sample(done, kilobytes / 1024, len(os.listdir(proc / "fd")), threads, files)


def watch(process: commands.BaseProcess, done: Callable[[], int], folder: Path, seconds: float) -> list[Sample]:
    """Samples a process every so many seconds until it ends."""
    samples: list[Sample] = []
    while process.exitcode is None:
        try:
            samples.append(look(process.pid or 0, done(), folder))
        except (OSError, KeyError):  # it has just ended
            break
        process.join(seconds)
    return samples


def growth(samples: list[Sample]) -> dict[str, float]:
    """By how much each number grew from the second fifth of the samples to the last.

    Of memory and files medians, since a file that is being written is there in some samples; else maxima.
    """
    fifth = len(samples) // 5
    early, late = samples[fifth : 2 * fifth], samples[-fifth:]
    of = {"megabytes": statistics.median, "open_files": max, "threads": max, "files": statistics.median}
    return {
        name: typical(getattr(s, name) for s in late) - typical(getattr(s, name) for s in early)
        for name, typical in of.items()
    }


def is_flat(grown: dict[str, float]) -> bool:
    return all(by <= (MEGABYTES if name == "megabytes" else 0) for name, by in grown.items())


def train(folder: Path, updates: int, seconds: float = 2.0) -> list[Sample]:
    """Trains in `folder`; returns the samples of the updates, without start and end."""
    corpus, run = write_corpus(folder / "corpus", LARGE[:2000], SMALL[:10]), folder / "run"
    flags = [*corpus, "--hparams_set=tiny", f"--hparams={_RECIPE.format(steps=updates)}", f"--output_dir={run}"]
    process = commands.start("t2t_lite.cli.trainer", *flags, out=folder / "out", err=folder / "err")
    samples = watch(process, lambda: _last_step(run), run, seconds)
    process.join()
    if process.exitcode != 0:
        raise SystemExit((folder / "err").read_text())
    assert max(line["step"] for line in metrics(run)) == updates
    return [sample for sample in samples if 0 < sample.done < updates]


def _last_step(run: Path) -> int:
    path = run / "metrics.jsonl"
    if not path.exists():
        return 0
    with open(path, "rb") as file:
        file.seek(max(path.stat().st_size - 2000, 0))
        lines = [line for line in file.read().split(b"\n")[:-1] if line.startswith(b'{"step"')]
    return int(json.loads(lines[-1])["step"]) if lines else 0


def ask_demo(folder: Path, seconds: float) -> tuple[list[Sample], collections.Counter[str]]:
    """Asks a demo of a small run; returns the samples, and how many answers were right, wrong, refused or failed."""
    corpus, run = write_corpus(folder / "corpus", LARGE[:500], SMALL[:10]), folder / "run"
    flags = [*corpus, "--hparams_set=tiny", f"--hparams={_RECIPE.format(steps=200)}", f"--output_dir={run}"]
    assert commands.run("t2t_lite.cli.trainer", *flags).returncode == 0
    out = folder / "address"
    os.mkfifo(out)
    process = commands.start("t2t_lite.cli.demo", f"--output_dir={run}", "--port=0", out=out, err=folder / "err")
    counts: collections.Counter[str] = collections.Counter()
    try:
        with open(out, encoding="utf-8") as lines, concurrent.futures.ThreadPoolExecutor(_CLIENTS + 1) as pool:
            url = f"{lines.readline().strip()}translate"
            expected = {line: _ask(url, line)[0] for line in SMALL[:20]}
            end = time.monotonic() + seconds
            tasks = [pool.submit(_good, url, expected, seed, end, counts) for seed in range(_CLIENTS)]
            tasks.append(pool.submit(_bad, url, end, counts))
            samples = []
            while time.monotonic() < end:
                samples.append(look(process.pid or 0, counts.total(), run))
                time.sleep(1)
            for task in tasks:
                task.result()
    finally:
        process.kill()
        process.join()
    counts["tracebacks"] = (folder / "err").read_text(encoding="utf-8", errors="replace").count("Traceback")
    return samples, counts


def _ask(url: str, text: str) -> list[str]:
    request = urllib.request.Request(url, json.dumps({"text": text}).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return [hypotheses[0]["text"] for hypotheses in json.load(answer)["outputs"]]


def _good(url: str, expected: dict[str, str], seed: int, end: float, counts: collections.Counter[str]) -> None:
    draw = random.Random(seed)
    while time.monotonic() < end:
        lines = draw.sample(list(expected), draw.randrange(1, 5))
        try:
            right = _ask(url, "\n".join(lines)) == [expected[line] for line in lines]
            counts["right" if right else "wrong"] += 1
        except OSError:
            counts["failed"] += 1


def _bad(url: str, end: float, counts: collections.Counter[str]) -> None:
    draw = random.Random(9)
    while time.monotonic() < end:
        request = urllib.request.Request(url, draw.choice(_BAD), {"Content-Type": "application/json"})
        try:
            urllib.request.urlopen(request, timeout=60).close()
            counts["bad and taken"] += 1
        except urllib.error.HTTPError as error:
            counts["refused" if error.code < 500 else "failed"] += 1
        time.sleep(0.05)


def main() -> None:
    """The command; see the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--updates", type=int)
    what.add_argument("--demo_minutes", type=float)
    args = parser.parse_args()
    counts: collections.Counter[str] = collections.Counter()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        if args.updates:
            samples = train(Path(folder), args.updates)
        else:
            samples, counts = ask_demo(Path(folder), 60 * args.demo_minutes)
    print(f"{time.monotonic() - began:.0f} s, {len(samples)} samples")
    print(f"| {'updates' if args.updates else 'requests'} | MB | open files | threads | files of the run |")
    print("| ---: " * 5 + "|")
    for sample in [*samples[:: max(len(samples) // 10, 1)], samples[-1]]:
        print(f"| {sample.done:,} | {sample.megabytes:.0f} | {' | '.join(map(str, sample[2:]))} |")
    grown = growth(samples)
    print("growth from the second fifth to the last:", ", ".join(f"{name} {by:+g}" for name, by in grown.items()))
    print(*(f"{kind}: {number:,}" for kind, number in counts.items()), sep=", ")
    raise SystemExit(0 if is_flat(grown) and not (counts["wrong"] or counts["failed"] or counts["tracebacks"]) else 1)


if __name__ == "__main__":
    main()
