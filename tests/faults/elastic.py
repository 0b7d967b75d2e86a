"""Trains small jobs whose processes come and go at random, under examples/cluster/supervise.py, and compares weights.

Usage: python -m tests.faults.elastic --minutes=60 --seed=1 [--partitions] [--clock=/usr/lib/.../libfaketime.so.1]

A job runs on 2, 4, 3, 8 and 1 processes in turn. At random moments, also while they start, one process is killed
(SIGKILL) or stopped (SIGTERM), machines leave the supervisor's list or come back, with or without a kill, or one
process is slowed (SIGSTOP and SIGCONT in bursts). Every second job stays on 2 processes. The last weights of a job are
compared with those of an undisturbed one: on one process, to 1e-6; where it stayed on 2 processes, with those of an
undisturbed job of 2, bit for bit.

--partitions puts each process into a network namespace of its own, and cuts one off now and then, for some seconds or
until the supervisor ends the job; that needs to be root. --clock sets the clock of worker 0 back by an hour and that of
worker 1 forward by six, with libfaketime; that needs a C compiler (sleep.c).
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import dataclasses
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from tests.faults.material import LARGE, SMALL, write_corpus
from tests.faults.workers import free_addresses, metrics

SUPERVISOR = Path(__file__).resolve().parents[2] / "examples/cluster/supervise.py"
TRAINER = "t2t_lite.cli.trainer"
LAYOUTS = (2, 4, 3, 8, 1)
CLOSE = 1e-6
STEPS = 200
# Plain gradient descent: Adam divides a gradient by its size, so that rounding of one near zero moves a weight by the
# whole learning rate. GELU: with ReLU, rounding of an activation near zero switches its gradient on or off.
_HPARAMS = (
    "optimizer=sgd,schedule=constant,learning_rate=0.1,learning_rate_factor=1.0,"
    "num_layers=1,d_model=32,d_ff=32,num_heads=2,activation=gelu,dropout=0.1,batch_tokens=1024,log_every=10,"
    "eval_every={steps},eval_lines=4,train_steps={steps},save_every=10,keep_checkpoints=2,average_checkpoints=1,"
    "beam_size=1,extra_length=2"
)
_PREFIX = "10.77.0."  # of the namespaces' addresses
_BRIDGE = "t2t-bridge"


@dataclasses.dataclass
class Outcome:
    """What was done to the jobs, and what they ended with."""

    events: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    starts: collections.Counter[int] = dataclasses.field(default_factory=collections.Counter)
    jobs: int = 0
    failed: int = 0
    not_the_same_bits: int = 0
    largest_difference: float = 0.0
    goodput: list[float] = dataclasses.field(default_factory=list)


class Job:
    """A training under the supervisor.

    Args:
        run: the run's folder; the list of machines and all output are beside it.
        command: the trainer's.
        partitions: each process has a network namespace.
    """

    def __init__(self, run: Path, command: Sequence[str], processes: int, partitions: bool) -> None:
        self.run, self._partitions = run, partitions
        self._hosts, self.log = run.with_suffix(".hosts"), run.with_suffix(".log")
        self.resize(processes)
        how = ["--poll=1", "--pause=0.5", "--longest_pause=4", "--grace=20", "--restarts=50"]
        how += [f"--launch=ip netns exec {_BRIDGE}-{{host}} sh -c"] if partitions else []
        with open(self.log, "wb") as file:
            whole = [sys.executable, str(SUPERVISOR), f"--hosts_file={self._hosts}", *how, "--", *command]
            self.supervisor = subprocess.Popen([*whole, f"--output_dir={run}"], stdout=file, stderr=file)

    def resize(self, processes: int) -> None:
        """Changes the list of machines."""
        self.processes = processes
        addresses = [f"{_PREFIX}{i + 1}:2222" for i in range(processes)]
        text = "\n".join(addresses if self._partitions else free_addresses(processes))
        aside = self._hosts.with_suffix(".new")
        aside.write_text(f"{text}\n")
        aside.replace(self._hosts)

    def pids(self) -> list[int]:
        """The trainers that are running."""
        found = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                words = path.read_bytes().split(b"\0")
                if {TRAINER.encode(), f"--output_dir={self.run}".encode()} <= {*words} and b"supervise" not in words[1]:
                    found.append(int(path.parent.name))
        return sorted(found)

    def is_running(self) -> bool:
        return self.supervisor.poll() is None

    def step(self) -> int:
        """The newest step in metrics.jsonl."""
        return int(max((line["step"] for line in metrics(self.run)), default=0))


class Disturber:
    """Does to a job what the machines of a cluster do.

    Args:
        fixed: the layout stays.
    """

    def __init__(self, job: Job, draw: random.Random, outcome: Outcome, *, fixed: bool, partitions: bool) -> None:
        self._job, self._draw, self._outcome = job, draw, outcome
        self._turn = 0
        self._kinds = [self.kill, self.stop, self.slow]
        self._kinds += [] if fixed else [self.leave, self.resize, self.resize]
        self._kinds += [self.cut, self.cut_for_good] if partitions else []

    def once(self) -> None:
        """Waits for a random moment of the job's start or training, and does one thing."""
        if self._draw.random() < 0.25:
            self._wait(self._draw.uniform(0, 15))
        else:
            step = self._job.step()
            while self._job.is_running() and self._job.step() <= step:
                time.sleep(0.1)
            self._wait(self._draw.uniform(0, 8))
        if self._job.is_running() and self._job.pids():
            kind = self._draw.choice(self._kinds)
            self._outcome.events[kind.__doc__ or ""] += 1
            kind()

    def kill(self) -> None:
        """killed"""
        self._signal(self._one(), signal.SIGKILL)

    def stop(self) -> None:
        """stopped by SIGTERM"""
        self._signal(self._one(), signal.SIGTERM)

    def slow(self) -> None:
        """slowed for 10 s"""
        pid, end = self._one(), time.monotonic() + 10
        while time.monotonic() < end:
            for number in (signal.SIGSTOP, signal.SIGCONT):
                self._signal(pid, number)
                self._wait(self._draw.uniform(0.1, 1))

    def resize(self) -> None:
        """machines came or left"""
        self._turn += 1
        self._job.resize(LAYOUTS[self._turn % len(LAYOUTS)])

    def leave(self) -> None:
        """killed, and machines came or left"""
        self._signal(self._one(), signal.SIGKILL)
        self.resize()

    def cut(self) -> None:
        """cut off for 1 to 10 s"""
        with self._cut():
            self._wait(self._draw.uniform(1, 10))

    def cut_for_good(self) -> None:
        """cut off, and killed 30 s later"""
        with self._cut() as name:
            self._wait(30)
            said = subprocess.run(["ip", "netns", "pids", name], check=True, capture_output=True, text=True).stdout
            for pid in {*map(int, said.split())}.intersection(self._job.pids()):
                self._signal(pid, signal.SIGKILL)

    @contextlib.contextmanager
    def _cut(self) -> Iterator[str]:
        name = f"{_BRIDGE}-{_PREFIX}{self._draw.randrange(self._job.processes) + 1}"
        _ip("-n", name, "link", "set", "eth0", "down")
        try:
            yield name
        finally:
            _ip("-n", name, "link", "set", "eth0", "up")

    def _one(self) -> int:
        return self._draw.choice(self._job.pids() or [0])

    def _signal(self, pid: int, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            if pid:
                os.kill(pid, number)

    def _wait(self, seconds: float) -> None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._job.supervisor.wait(max(seconds, 0.01))


def try_elastic(
    folder: Path, seconds: float, seed: int, *, steps: int = STEPS, partitions: bool = False, clock: str = ""
) -> Outcome:
    """Trains jobs in `folder`, and disturbs them for so many seconds; the last is left alone after that."""
    corpus = write_corpus(folder / "corpus", LARGE[:2000], SMALL[:10])
    command = [sys.executable, "-m", TRAINER, *corpus, "--hparams_set=tiny", f"--data_dir={folder}/data"]
    command += [f"--hparams={_HPARAMS.format(steps=steps)}", "--num_workers=1", "--join_timeout=120"]
    draw, outcome = random.Random(seed), Outcome()
    with _namespaces(max(LAYOUTS)) if partitions else contextlib.nullcontext():
        expected = {}
        for processes in (1, 2):
            job = Job(folder / f"undisturbed{processes}", command, processes, partitions)
            _end(job)
            expected[processes] = tensors(job.run, steps)
        command = _with_clocks(folder, command, clock) if clock else command
        end = time.monotonic() + seconds
        while time.monotonic() < end or outcome.jobs < 2:
            fixed = outcome.jobs % 2 == 1
            job = Job(folder / f"job{outcome.jobs}", command, LAYOUTS[0], partitions)
            disturber = Disturber(job, draw, outcome, fixed=fixed, partitions=partitions)
            while job.is_running() and time.monotonic() < end:
                disturber.once()
            _judge(job, expected, steps, outcome, fixed=fixed)
    return outcome


def _judge(job: Job, expected: dict[int, dict[str, np.ndarray]], steps: int, outcome: Outcome, *, fixed: bool) -> None:
    outcome.jobs += 1
    failed = _end(job) != 0
    outcome.failed += failed
    text = job.log.read_text(encoding="utf-8", errors="replace")
    for line in text.split("\n"):
        if " supervisor: starting on " in line:
            outcome.starts[int(line.split(" starting on ")[1].split(":")[0])] += 1
    if failed:
        return
    found = tensors(job.run, steps)
    outcome.goodput += [line["goodput"] for line in metrics(job.run) if "goodput" in line][-1:]
    if fixed:
        same = found.keys() == expected[2].keys() and all(
            np.array_equal(value, expected[2][name]) for name, value in found.items()
        )
        outcome.not_the_same_bits += not same
    weights = {name: value for name, value in expected[1].items() if name.startswith("weights/")}
    difference = max(float(np.abs(found[name] - value).max()) for name, value in weights.items())
    outcome.largest_difference = max(outcome.largest_difference, difference)
    print(f"{job.run.name}: {outcome.starts.total()} starts so far, weights differ by {difference:.1e}", flush=True)


def tensors(run: Path, step: int) -> dict[str, np.ndarray]:
    """Weights and step of a run's checkpoint."""
    import tensorflow as tf

    reader = tf.train.load_checkpoint(str(run / "checkpoints" / f"model-{step}"))
    names = [name for name in reader.get_variable_to_shape_map() if name.startswith(("weights/", "step"))]
    return {name: reader.get_tensor(name) for name in names}


def _end(job: Job) -> int:
    try:
        return job.supervisor.wait(600)
    finally:
        job.supervisor.kill()  # its trainers end, too
        if job.supervisor.returncode != 0:
            print(job.log.read_text(encoding="utf-8", errors="replace")[-5000:], file=sys.stderr)


def _with_clocks(folder: Path, command: Sequence[str], library: str) -> list[str]:
    sleep, script = folder / "sleep.so", folder / "clocks.sh"
    source = Path(__file__).with_name("sleep.c")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(sleep), str(source)], check=True)
    script.write_text(
        f"""fake="LD_PRELOAD={sleep}:{library} FAKETIME_DONT_FAKE_MONOTONIC=1"
case "$TF_CONFIG" in
*'"index": 0'*) export $fake FAKETIME=-1h ;;
*'"index": 1'*) export $fake FAKETIME=+6h ;;
esac
exec "$@"
"""
    )
    return ["sh", str(script), *command]


@contextlib.contextmanager
def _namespaces(number: int) -> Iterator[None]:
    """Network namespaces on one bridge, with the addresses 10.77.0.1, 10.77.0.2, ..."""
    hosts = [f"{_PREFIX}{i + 1}" for i in range(number)]
    try:
        _ip("link", "add", "name", _BRIDGE, "type", "bridge")
        _ip("link", "set", _BRIDGE, "up")
        for i, host in enumerate(hosts):
            name = f"{_BRIDGE}-{host}"
            _ip("netns", "add", name)
            _ip("link", "add", f"t2t-{i}", "type", "veth", "peer", "name", "eth0", "netns", name)
            _ip("link", "set", f"t2t-{i}", "master", _BRIDGE, "up")
            _ip("-n", name, "address", "add", f"{host}/24", "dev", "eth0")
            for device in ("lo", "eth0"):
                _ip("-n", name, "link", "set", device, "up")
        yield
    finally:
        for host in hosts:
            _ip("netns", "del", f"{_BRIDGE}-{host}", check=False)
        _ip("link", "del", _BRIDGE, check=False)


def _ip(*words: str, check: bool = True) -> None:
    subprocess.run(["ip", *words], check=check, capture_output=not check)


def main() -> None:
    """The command; see the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--partitions", action="store_true")
    parser.add_argument("--clock", default="", metavar="LIBFAKETIME")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        how = {"partitions": args.partitions, "clock": args.clock}
        outcome = try_elastic(Path(folder), 60 * args.minutes, args.seed, **how)
    for event, number in outcome.events.most_common():
        print(f"{number:5} times {event}")
    for processes, number in sorted(outcome.starts.items()):
        print(f"{number:5} starts on {processes}")
    print(f"{outcome.jobs:5} jobs, {outcome.failed} of them failed")
    print(f"{outcome.not_the_same_bits:5} of those on 2 processes without the bits of the undisturbed one")
    print(f"{outcome.largest_difference:.1e} largest difference of a weight from one undisturbed process")
    print(f"goodput: {', '.join(f'{share:.0%}' for share in outcome.goodput)}")
    good = not outcome.failed and not outcome.not_the_same_bits and outcome.largest_difference <= CLOSE
    raise SystemExit(0 if good else 1)


if __name__ == "__main__":
    main()
