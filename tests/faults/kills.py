"""Ends small training runs at random moments, starts them again, and counts how often their results are wrong.

Usage: python -m tests.faults.kills --kills=100 --seed=1

A training prepares its data, makes 40 updates with a checkpoint after every second one, evaluates, averages and scores.
After a time drawn evenly from 0 to the time that a whole training takes, it is killed (SIGKILL: no clean-up), or gets
SIGTERM, SIGINT or SIGHUP, or its disk is filled until it ends; these five take turns. Then it is started again with the
same command. This happens up to five times; a training that was killed each time then runs to its end. The disk is one
in memory, whose mounting needs to be root; elsewhere give --kinds=SIGKILL,SIGTERM,SIGINT,SIGHUP.
"""

import argparse
import collections
import contextlib
import dataclasses
import hashlib
import itertools
import os
import random
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from t2t_lite.runs.checkpoint_files import NEWEST, list_whole, step_of
from tests import commands
from tests.faults.material import LARGE, SMALL, write_corpus

STEPS, SAVE_EVERY = 40, 2
FLAGS = (
    "--hparams_set=tiny",
    "--hparams=num_layers=1,d_model=16,d_ff=16,num_heads=2,dropout=0.1,batch_tokens=512,log_every=1,eval_every=15,"
    f"eval_lines=10,train_steps={STEPS},save_every={SAVE_EVERY},keep_checkpoints=3,average_checkpoints=3,beam_size=1,"
    "extra_length=1",
    "--num_workers=1",
)
FULL_DISK = "full disk"
KINDS = ("SIGKILL", "SIGTERM", "SIGINT", "SIGHUP", FULL_DISK)
_PER_RUN = 5


@dataclasses.dataclass
class StepResult:
    """Results of the kills: how many by phase and kind, and how many runs did not end as the undisturbed one."""

    phases: collections.Counter[tuple[str, str]]
    runs: int = 0
    wrong: int = 0
    failed_starts: int = 0
    most_steps_lost: int = 0


def try_kills(folder: Path, kills: int, seed: int, kinds: Sequence[str] = KINDS[:1]) -> StepResult:
    """Makes one undisturbed training in `folder`, and others until `kills` kills are done; FULL_DISK fills its disk."""
    corpus = write_corpus(folder / "corpus", LARGE[:2000], SMALL[:10])
    began = time.monotonic()
    _finish(folder / "undisturbed", corpus)
    seconds = time.monotonic() - began
    expected = digest(folder / "undisturbed")
    draw = random.Random(seed)
    outcome = StepResult(collections.Counter())
    turns = itertools.cycle(kinds)
    while outcome.phases.total() < kills:
        run = folder / f"run{outcome.runs}"
        for _ in range(min(_PER_RUN, kills - outcome.phases.total())):
            if _kill(run, corpus, draw.uniform(0, seconds), next(turns), outcome):
                break
        else:
            outcome.failed_starts += _finish(run, corpus) != 0
        outcome.runs += 1
        outcome.wrong += digest(run) != expected
        shutil.rmtree(run)
        done = outcome.phases.total()
        print(
            f"{done} kills, {outcome.runs} runs: {outcome.failed_starts} starts failed, {outcome.wrong} runs wrong",
            flush=True,
        )
    return outcome


def digest(run: Path) -> str:
    """A digest of what a run ends with: weights, moments and step of each checkpoint, and the translations."""
    import tensorflow as tf

    found = hashlib.sha256()
    for kind in ("checkpoints", "averaged", "best"):
        for path in list_whole(run / kind):
            reader = tf.train.load_checkpoint(path)
            for key in sorted(reader.get_variable_to_shape_map()):
                if key.startswith(("weights/", "adam_", "step")):
                    found.update(f"{kind} {os.path.basename(path)} {key}".encode())
                    found.update(reader.get_tensor(key).tobytes())
    hypotheses = run / "dev.hyp.txt"
    found.update(hypotheses.read_bytes() if hypotheses.exists() else b"none")
    return found.hexdigest()


def _start(run: Path, corpus: list[str]) -> commands.BaseProcess:
    streams = {"out": _beside(run, ".out"), "err": _beside(run, ".err")}
    return commands.start("t2t_lite.cli.trainer", f"--output_dir={run}", *corpus, *FLAGS, **streams)


def _beside(run: Path, ending: str) -> Path:
    """A file of the process's output, outside of the disk that may be full."""
    return run.parent.with_name(f"{run.parent.name}.{run.name}{ending}")


def _finish(run: Path, corpus: list[str]) -> int | None:
    process = _start(run, corpus)
    process.join(300)
    return process.exitcode


def _kill(run: Path, corpus: list[str], after: float, kind: str, outcome: StepResult) -> bool:
    """Starts the run and kills it; returns whether it had ended before that."""
    process = _start(run, corpus)
    process.join(after)
    if kind == FULL_DISK:
        expected = {1}
        _fill_disk(run.parent / "filler", process)
    else:
        number = signal.Signals[kind]
        expected = {-number, 128 + number}  # negative before the command is there to handle it
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid or 0, number)
        process.join(120)
    said = _beside(run, ".err").read_text(encoding="utf-8", errors="replace") if _beside(run, ".err").exists() else ""
    if process.exitcode in expected and (kind != FULL_DISK or "No space left on device" in said):
        outcome.phases[_phase(run), kind] += 1
    elif process.exitcode != 0:
        outcome.failed_starts += 1
        print(f"{kind}: status {process.exitcode}\n{said[-2000:]}", flush=True)
        process.kill()
    steps = [int(line.partition('"step": ')[2].partition(",")[0]) for line in _metric_lines(run)]
    saved = [step_of(path) for path in list_whole(run / NEWEST)]
    outcome.most_steps_lost = max(outcome.most_steps_lost, max(steps, default=0) - max(saved, default=0))
    return process.exitcode == 0


def _fill_disk(filler: Path, process: commands.BaseProcess) -> None:
    """Lets no byte be free until the process has ended; one that removes files gains nothing."""
    with open(filler, "wb", buffering=0) as file:
        while process.exitcode is None:
            with contextlib.suppress(OSError):
                while file.write(bytes(4096)):
                    pass
            process.join(0.02)
    filler.unlink()


@contextlib.contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """Mounts a disk of 64 MB in memory at a new folder."""
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def _phase(run: Path) -> str:
    """The phase in which a training was killed, judged by the files that it has left."""
    if list(run.glob(".*.partial-*")):
        return "saving"
    if not (run / "data" / "text2text").exists():
        return "starting or preparing data"
    if not (run / "hparams.json").exists():
        return "making the model"
    if (run / "averaged").exists():
        return "averaging or scoring"
    return "training or evaluating" if _metric_lines(run) else "before the first step"


def _metric_lines(run: Path) -> list[str]:
    path = run / "metrics.jsonl"
    return path.read_text(encoding="utf-8").split("\n")[:-1] if path.exists() else []


def main() -> None:
    """The command; see the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kinds", default=",".join(KINDS))
    args = parser.parse_args()
    kinds = args.kinds.split(",")
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs, and theirs, ignore it
    with tempfile.TemporaryDirectory() as folder:
        place = small_disk(Path(folder, "disk")) if FULL_DISK in kinds else contextlib.nullcontext(Path(folder))
        with place as disk:
            outcome = try_kills(disk, args.kills, args.seed, kinds)
    print(f"| killed while | {' | '.join(kinds)} |")
    for phase in sorted({phase for phase, _ in outcome.phases}):
        print(f"| {phase} | {' | '.join(str(outcome.phases[phase, kind]) for kind in kinds)} |")
    print(f"{outcome.phases.total():5} kills")
    print(f"{outcome.runs:5} runs, started again after each kill with the same command")
    print(f"{outcome.failed_starts:5} starts that failed")
    print(f"{outcome.wrong:5} runs whose weights, moments or translations were not those of the undisturbed run")
    print(f"{outcome.most_steps_lost:5} steps lost at most by a kill; a checkpoint every {SAVE_EVERY} steps")
    raise SystemExit(1 if outcome.failed_starts or outcome.wrong else 0)


if __name__ == "__main__":
    main()
