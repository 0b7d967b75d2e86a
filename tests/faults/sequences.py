"""Sends sequences of signals at critical moments, and compares what the runs end with.

Usage: python -m tests.faults.sequences --runs=200 --seed=1

A small training (tests/faults/kills.py) gets SIGTERM, SIGINT or SIGHUP as an evaluation begins and is started again.
Then it is killed (SIGKILL) at a system call that it makes while it writes the best weights, the mean, a checkpoint,
the metrics or another of its files. It may be killed in this way a second time. Then it runs to its end. Every second
run is exported, killed during the export, and exported again. The seed of a run decides all of this. The result of the
run is compared with that of an undisturbed run, bit for bit.

The signals come from an audit hook of the process itself, so that they hit the call they are meant for. An evaluation
opens no file as it begins; there the process raises an audit event of its own.
"""

import argparse
import collections
import contextlib
import dataclasses
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from t2t_lite import progress
from t2t_lite.export.export_folder import versions
from tests import commands
from tests.faults.kills import FLAGS, digest
from tests.faults.material import LARGE, SMALL, write_corpus

# What an evaluation shows as it begins (`announce`). There are up to five of dev, including those at the end.
EVALUATION, EVALUATIONS = "translating dev", 5
STOPS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
# What a process writes when it is killed: part of a path that its system calls name, and how many such calls it makes.
TARGETS = {
    "best": (".best.partial", 6),
    "best, in place": ("/best", 12),
    "averaged": (".averaged.partial", 4),
    "averaged, in place": ("/averaged", 8),
    "checkpoints": (".checkpoints.partial", 60),
    "metrics.jsonl": ("metrics.jsonl", 40),
    "default_weights.json": ("default_weights.json", 4),
    "run.json": ("run.json", 6),
    "problem.json": ("problem.json", 6),
    "hparams.json": ("hparams.json", 6),
    "vocabulary.model": ("/run/vocabulary.model", 4),
    "dev.scores.json": ("dev.scores.json", 6),
    "dev.hyp.txt": ("dev.hyp.txt", 4),
}
EXPORT = ("export", 40)
SHOWN = "tests.shown"
EVENTS = ("open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.listdir", "shutil.rmtree", SHOWN)
MODULE = "tests.faults.sequences"


@dataclasses.dataclass(frozen=True)
class Start:
    """One start of a command: `signal` comes at call number `call` that names `path`; if that is 0, none comes."""

    signal: int = 0
    path: str = ""
    call: int = 0


@dataclasses.dataclass
class StepResult:
    """Counts over all sequences; `faults` counts everything that went wrong."""

    kills: collections.Counter[str]
    runs: int = 0
    stops: int = 0
    endless: int = 0
    wrong: int = 0
    faults: int = 0


def plan(seed: int) -> Iterator[tuple[str, Start]]:
    """Yields (target, start) for each start of the trainer except the last, which gets no signal."""
    draw = random.Random(seed)
    yield "evaluation", Start(draw.choice(STOPS), EVALUATION, draw.randint(1, EVALUATIONS))
    for _ in range(draw.randint(1, 2)):
        name = draw.choice([*TARGETS, "best", "best, in place", "averaged"])
        path, calls = TARGETS[name]
        yield name, Start(signal.SIGKILL, path, draw.randint(1, calls))


def try_sequences(folder: Path, seeds: range) -> StepResult:
    """Makes one undisturbed run in `folder`, and one for each seed."""
    corpus = write_corpus(folder / "corpus", LARGE[:500], SMALL[:10])
    digests: dict[int, str] = {}  # of undisturbed runs
    outcome = StepResult(collections.Counter())
    with contextlib.suppress(KeyboardInterrupt):  # the counts so far are printed
        for seed in seeds:
            faults, start = outcome.faults, time.monotonic()
            _try_one(folder, corpus, seed, digests, outcome)
            outcome.runs += 1
            if faults == outcome.faults:
                print(f"seed {seed}: the same numbers, after {time.monotonic() - start:.0f} s", flush=True)
    return outcome


def _try_one(folder: Path, corpus: list[str], seed: int, digests: dict[int, str], outcome: StepResult) -> None:
    """Makes the run of a seed, and its exports; `digests` holds those of undisturbed runs, by their eval_every."""
    run = folder / str(seed) / "run"
    every = (15, 40)[seed // 2 % 2]  # if there is only one evaluation, its weights are the best ones
    flags = [*corpus, *(flag.replace("eval_every=15", f"eval_every={every}") for flag in FLAGS)]
    if every not in digests:
        undisturbed = folder / f"every{every}" / "run"
        _run("trainer", undisturbed, flags, Start())
        digests[every] = digest(undisturbed)
    for name, start in plan(seed):
        status = _run("trainer", run, flags, start)
        outcome.stops += status == 128 + start.signal
        outcome.kills[name] += status == -start.signal
        if status not in (0, 128 + start.signal, -start.signal):
            _note_fault(outcome, seed, f"ended with status {status}", run)
    if _run("trainer", run, flags, Start()) != 0:
        outcome.endless += 1
        _note_fault(outcome, seed, "does not come to its end", run)
    elif digest(run) != digests[every]:
        outcome.wrong += 1
        _note_fault(outcome, seed, "ended with other numbers", run)
    elif seed % 2:
        _export(run, seed, outcome)
    shutil.rmtree(run.parent, ignore_errors=True)


def _export(run: Path, seed: int, outcome: StepResult) -> None:
    """Kills an export of the run at one of its calls, and exports again; then there are one or two whole versions."""
    call = random.Random(seed).randint(1, EXPORT[1])
    killed = _run("exporter", run, [], Start(signal.SIGKILL, EXPORT[0], call)) == -signal.SIGKILL
    outcome.kills["export"] += killed
    whole = len(versions(str(run / "export")))
    if _run("exporter", run, [], Start()) != 0 or len(versions(str(run / "export"))) != whole + 1:
        outcome.endless += 1
        _note_fault(outcome, seed, "cannot be exported", run)


def _note_fault(outcome: StepResult, seed: int, what: str, run: Path) -> None:
    outcome.faults += 1
    errors = run.with_suffix(".err").read_text(errors="replace").strip().split("\n")[-1]
    print(f"seed {seed}: {what}: {errors}", flush=True)


def _run(command: str, run: Path, flags: list[str], start: Start) -> int | None:
    """Runs a command on the run to its end; returns its exit status, below 0 for a signal."""
    run.parent.mkdir(exist_ok=True)
    streams = {"out": run.with_suffix(".out"), "err": run.with_suffix(".err")}
    aim = [str(int(start.signal)), start.path, str(start.call)]
    process = commands.start(MODULE, *aim, command, f"--output_dir={run}", *flags, **streams)
    try:
        process.join(300)
        return process.exitcode
    finally:  # too slow, or Ctrl-C
        if process.exitcode is None:
            process.kill()
            process.join()


def aimed(number: int, path: str, call: int) -> None:
    """Makes this process receive the signal at call number `call` of those that name `path`."""
    seen = 0

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal seen
        if event in EVENTS and any(path in argument for argument in map(str, arguments[:2])):
            seen += 1
            if seen == call:
                os.kill(os.getpid(), number)

    sys.addaudithook(hook)
    announce()


def announce() -> None:
    """Makes every progress that is shown from now on raise an audit event with its task."""
    show = progress.Progress.__init__

    def announced(self: progress.Progress, total: int, unit: str, task: str = "", **options: bool) -> None:
        sys.audit(SHOWN, task)
        show(self, total, unit, task, **options)

    progress.Progress.__init__ = announced


def main() -> None:
    """The command; see the module. With other arguments, it runs a command of t2t_lite that gets a signal."""
    if len(sys.argv) > 4 and sys.argv[1].isdecimal():
        import importlib

        number, path, call, command, *flags = sys.argv[1:]
        if int(call):
            aimed(int(number), path, int(call))
        raise SystemExit(importlib.import_module(f"t2t_lite.cli.{command}").main(flags))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1, help="of the first run; the next one has the next")
    args = parser.parse_args()
    # A background job or nohup ignores both signals, and the processes started here would ignore them, too.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    with tempfile.TemporaryDirectory() as folder:
        outcome = try_sequences(Path(folder), range(args.seed, args.seed + args.runs))
    print(f"{outcome.runs:5} runs, of seeds {args.seed} to {args.seed + outcome.runs - 1}")
    print(f"{outcome.stops:5} stopped in order by a signal in an evaluation or after it")
    for name, number in outcome.kills.most_common():
        if number:
            print(f"{number:5} killed while writing {name}")
    print(f"{outcome.endless:5} runs or exports that could not end")
    print(f"{outcome.wrong:5} runs whose weights, moments or translations were not those of the undisturbed run")
    print(f"{outcome.faults:5} faults in all, each named above")
    raise SystemExit(1 if outcome.faults else 0)


if __name__ == "__main__":
    main()
