"""Kills training runs while they upload to an S3 store, resumes them, and compares how they end.

Usage: python -m tests.faults.store_kills --kills=20

A training makes 12 updates with a checkpoint after every second one, evaluates, averages and scores. It is killed
(SIGKILL) when it has written a number of objects to a server on this machine, drawn evenly from 1 to a third of what a
whole training writes. Then the same command resumes it, by turns on the same machine and on another one, which has only
what is in the store. This happens up to five times; after that, the training runs to its end.
"""

import argparse
import collections
import dataclasses
import os
import random
import re
import shutil
import signal
import tempfile
import time
from pathlib import Path

from t2t_lite.runs.checkpoint_files import NEWEST, list_whole, step_of
from tests import commands
from tests.faults.kills import digest
from tests.faults.material import LARGE, SMALL, write_corpus
from tests.remote.s3 import Bucket, serve

FLAGS = (
    "--hparams_set=tiny",
    "--hparams=num_layers=1,d_model=16,d_ff=16,num_heads=2,dropout=0.1,batch_tokens=512,log_every=1,eval_every=4,"
    "eval_lines=10,train_steps=12,save_every=2,keep_checkpoints=3,average_checkpoints=3,beam_size=1,extra_length=1",
    "--num_workers=1",
)
_PER_RUN = 5


@dataclasses.dataclass
class Outcome:
    """Results of the kills.

    killed_after: how many by the kind of the object that was written last.
    wrong: runs that ended differently from the undisturbed one.
    failed: starts that ended with an error.
    resumed: starts that said from which step they resumed.
    lost: those of them that resumed from an older checkpoint than the newest one that counted in the store.
    """

    killed_after: collections.Counter[str]
    objects: int = 0
    wrong: int = 0
    failed: int = 0
    resumed: int = 0
    lost: int = 0


def try_kills(folder: Path, kills: int, seed: int) -> Outcome:
    """Makes one undisturbed training in a store, and others until `kills` kills are tried."""
    corpus = write_corpus(folder / "corpus", LARGE[:2000], SMALL[:10])
    with serve(folder) as bucket:
        trainings = _Trainings(folder, bucket, [*corpus, f"--data_dir={folder / 'data'}", *FLAGS])
        first = trainings.start("undisturbed", "undisturbed")
        first.join(600)
        outcome = Outcome(collections.Counter(), objects=len(bucket.written()), failed=first.exitcode != 0)
        expected = digest(bucket.download("undisturbed", folder / "undisturbed"))
        draw = random.Random(seed)
        for number, first_kill in enumerate(range(0, kills, _PER_RUN)):
            name = f"run{number}"
            for each in range(first_kill, min(first_kill + _PER_RUN, kills)):
                trainings.kill(name, f"{number}-{each % 2}", draw.randint(1, outcome.objects // 3), outcome)
                print(f"{each + 1} kills: {outcome}", flush=True)
            trainings.finish(name, f"{number}-{(each + 1) % 2}", outcome)
            ended = bucket.download(name, folder / "ended")
            outcome.wrong += digest(ended) != expected
            for done in (ended, *folder.glob(f"cache-{number}-*")):
                shutil.rmtree(done)
    return outcome


@dataclasses.dataclass
class _Trainings:
    folder: Path
    bucket: Bucket
    flags: list[str]

    def start(self, name: str, machine: str) -> commands.BaseProcess:
        streams = {"out": self.folder / f"{name}.out", "err": self.folder / f"{name}.err"}
        env = {**self.bucket.env, "XDG_CACHE_HOME": str(self.folder / f"cache-{machine}")}
        return commands.start(
            "t2t_lite.cli.trainer", f"--output_dir=s3://bucket/{name}", *self.flags, env=env, **streams
        )

    def kill(self, name: str, machine: str, after: int, outcome: Outcome) -> None:
        newest, before = self._newest(name), len(self.bucket.written())
        process = self.start(name, machine)
        while process.exitcode is None and len(self.bucket.written()) < before + after:
            time.sleep(0.002)
        process.kill()
        process.join()
        if process.exitcode == -signal.SIGKILL:
            outcome.killed_after[_kind(self.bucket.written()[-1])] += 1
        self._look(name, process.exitcode, newest, outcome)

    def finish(self, name: str, machine: str, outcome: Outcome) -> None:
        newest = self._newest(name)
        process = self.start(name, machine)
        process.join(600)
        self._look(name, process.exitcode, newest, outcome)

    def _newest(self, name: str) -> int:
        """The step of the newest checkpoint that counts in the store."""
        there = self.bucket.download(name, self.folder / "there")
        newest = max(map(step_of, list_whole(there / NEWEST)), default=0)
        shutil.rmtree(there, ignore_errors=True)
        return newest

    def _look(self, name: str, status: int | None, newest: int, outcome: Outcome) -> None:
        outcome.failed += status not in (0, -signal.SIGKILL)
        if said := re.search(r"Resuming from step ([\d,]+) of", (self.folder / f"{name}.out").read_text()):
            outcome.resumed += 1
            outcome.lost += int(said[1].replace(",", "")) < newest


def _kind(name: str) -> str:
    folder, _, file = name.partition("/")[2].rpartition("/")
    kind = "data" if ".data-" in file else "index" if file.endswith(".index") else "file"
    return f"{folder}: {kind}" if folder else file


def main() -> None:
    """The command; see the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    with tempfile.TemporaryDirectory() as folder:
        outcome = try_kills(Path(folder), args.kills, args.seed)
    for kind, number in outcome.killed_after.most_common():
        print(f"{number:5} killed after an object was written: {kind}")
    print(f"{outcome.objects:5} objects that an undisturbed training writes")
    print(f"{outcome.failed:5} starts that failed")
    print(f"{outcome.wrong:5} runs whose weights, moments or translations were not those of the undisturbed run")
    print(f"{outcome.lost:5} of {outcome.resumed} starts resumed from an older checkpoint than the newest that counted")
    raise SystemExit(1 if outcome.failed or outcome.wrong or outcome.lost else 0)


if __name__ == "__main__":
    main()
