"""SIGTERM and Ctrl-C: in a small process, and in whole runs that are stopped twice and end like an undisturbed one."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest

from t2t_lite import registry
from t2t_lite.data.prepare import prepare
from t2t_lite.signals import Stopped, StopSignals
from tests import commands
from tests.checkpoints import assert_same_bits, tensors

ROOT = Path(__file__).resolve().parents[2]


def _interrupted(number: int) -> None:
    os.kill(os.getpid(), number)
    time.sleep(5)


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_raises_with_its_status_and_the_handlers_come_back(number: int, status: int) -> None:
    before = [signal.getsignal(n) for n in (signal.SIGTERM, signal.SIGINT)]
    with StopSignals(), pytest.raises(Stopped, match="interrupted; what was saved before is there") as stopped:
        _interrupted(number)
    assert stopped.value.exit_status == status
    assert [signal.getsignal(n) for n in (signal.SIGTERM, signal.SIGINT)] == before


class InterruptedSizes:
    """Sizes as `tf.shape` gives them; a signal comes where one is looked up."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __getitem__(self, axis: int) -> None:
        os.kill(os.getpid(), self.number)
        time.sleep(0.1)


def trace_interrupted(number: int) -> int:
    """Traces a reshape to sizes of `keras.ops.shape`, which drops the exception of a signal that comes meanwhile."""
    import tensorflow as tf
    from keras import ops

    signature = [tf.TensorSpec((None, 2))]
    reshape = tf.function(lambda x: ops.reshape(x, (*ops.shape(x), 1)), input_signature=signature)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tf, "shape", lambda x: InterruptedSizes(number))
        reshape.get_concrete_function()
    return 0


def test_a_signal_that_keras_drops_is_raised_in_place_of_the_error_that_follows() -> None:
    with pytest.raises(Stopped, match="SIGINT: interrupted"), StopSignals() as stop, stop.not_lost():
        trace_interrupted(signal.SIGINT)
    with pytest.raises(TypeError, match="convert elements of .None"), StopSignals() as stop, stop.not_lost():
        _trace_deferred(stop)
    with pytest.raises(Stopped), StopSignals() as stop:
        _trace_in_an_evaluation(stop)


def _trace_deferred(stop: StopSignals) -> None:
    with stop.deferred():  # a signal is only recorded here: what ends the run is the error
        trace_interrupted(signal.SIGINT)


def _trace_in_an_evaluation(stop: StopSignals) -> None:
    with stop.deferred(), contextlib.suppress(Stopped), stop.immediate():
        trace_interrupted(signal.SIGINT)


def _noted(stop: StopSignals, reached: list[str]) -> None:
    """Defers one signal, tries a block that may be interrupted, and runs to its end."""
    with stop.deferred():
        os.kill(os.getpid(), signal.SIGTERM)
        reached.append("after the signal")
        with contextlib.suppress(Stopped), stop.immediate():
            reached.append("in what a noted signal forbids")
        reached.append("the end")


def test_in_deferred_a_signal_is_noted_and_raises_at_the_end() -> None:
    reached: list[str] = []
    with StopSignals() as stop, pytest.raises(Stopped):
        _noted(stop, reached)
    assert reached == ["after the signal", "the end"]
    assert stop.received == signal.SIGTERM


def test_a_second_signal_that_is_sighup_breaks_off_nothing() -> None:
    """A terminal that closes, and t2t-lite-compare, send it after another signal, perhaps when the step is saved."""
    with StopSignals() as stop:
        with pytest.raises(Stopped, match="SIGTERM"):
            _interrupted(signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGHUP)
        time.sleep(0.1)
        assert stop.received == signal.SIGTERM


def test_an_ignored_signal_stays_ignored() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with StopSignals() as stop:
            os.kill(os.getpid(), signal.SIGINT)
            assert stop.received == 0
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_thread_that_is_not_the_main_one_does_without() -> None:
    before, ended = [signal.getsignal(n) for n in (signal.SIGTERM, signal.SIGINT)], []

    def body() -> None:
        with StopSignals() as stop, stop.deferred(), stop.immediate():
            assert [signal.getsignal(n) for n in (signal.SIGTERM, signal.SIGINT)] == before
        ended.append(stop.received)

    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    assert ended == [0]


def test_the_signals_of_an_asyncio_program_arrive_afterwards() -> None:
    async def program() -> None:
        arrived = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, arrived.set)
        with StopSignals():
            pass
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.wait_for(arrived.wait(), 10)

    asyncio.run(program())


BUSY = """
import ctypes, threading
from t2t_lite.signals import StopSignals
with StopSignals() as stop, stop.deferred():
    print("busy", flush=True)
    ctypes.CDLL(None).usleep(30_000_000)  # outside of Python, as TensorFlow is; a signal cuts it short
    ctypes.CDLL(None).usleep(30_000_000)
    ctypes.CDLL(None).usleep(30_000_000)
"""


def test_the_second_signal_ends_the_process_at_once_also_while_python_does_not_run() -> None:
    command = [sys.executable, "-c", BUSY]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stderr is not None
            assert process.stdout.readline() == "busy\n"
            process.send_signal(signal.SIGTERM)
            assert process.stderr.readline().startswith("SIGTERM: this step is the last, and is saved; a second ")
            process.send_signal(signal.SIGTERM)
            start = time.monotonic()
            assert process.wait(timeout=25) == 143
            assert time.monotonic() - start < 25
        finally:
            process.kill()


# Dropout is on. Some seconds pass between the first steps and the evaluation. The evaluation has a new graph, so it
# takes long enough to be stopped.
HPARAMS = (
    "num_layers=1,d_model=16,d_ff=16,num_heads=2,dropout=0.1,batch_tokens=8192,train_steps=48,log_every=1,"
    "eval_every=40,eval_lines=40,save_every=12,average_checkpoints=3,beam_size=1,extra_length=2"
)


class Runs:
    """Starts trainers on one set of data, and ends those that a failed test left running."""

    def __init__(self, folder: Path) -> None:
        self._flags = [
            "--problem=toy_reverse",
            "--hparams_set=tiny",
            f"--hparams={HPARAMS}",
            f"--data_dir={folder / 'data'}",
        ]
        self._processes: list[BaseProcess] = []
        prepare(registry.problem("toy_reverse"), folder / "data", num_workers=1)

    def start(self, run: Path, new: bool = True) -> BaseProcess:
        """Starts and returns a trainer process, which writes RUN.out and RUN.err."""
        streams = {"out": run.with_suffix(".out"), "err": run.with_suffix(".err")}
        arguments = [f"--output_dir={run}", *(self._flags if new else [])]
        process = commands.start("t2t_lite.cli.trainer", *arguments, **streams)
        self._processes.append(process)
        return process

    def end(self) -> None:
        for process in self._processes:
            process.kill()
            process.join()


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    made = Runs(tmp_path_factory.mktemp("signals"))
    yield made
    made.end()


def _metrics(run: Path) -> list[dict[str, Any]]:
    path = run / "metrics.jsonl"
    return [json.loads(line) for line in path.read_text().split("\n")[:-1]] if path.exists() else []


def _stop_after(process: BaseProcess, run: Path, step: int, number: int) -> str:
    """Sends a signal once `step` is logged; checks that the trainer ends in time, and returns its last message."""
    errors = run.with_suffix(".err")
    end = time.monotonic() + 600
    while not any(line["step"] >= step for line in _metrics(run)):
        assert process.exitcode is None, errors.read_text()
        assert time.monotonic() < end
        time.sleep(0.01)
    assert process.pid is not None
    os.kill(process.pid, number)
    process.join(600)
    assert process.exitcode == 128 + number, errors.read_text()
    return errors.read_text().strip().split("\n")[-1]


@pytest.mark.nightly
def test_stopped_in_training_and_in_an_evaluation_a_run_ends_as_if_it_had_not_been(runs: Runs, tmp_path: Path) -> None:
    whole, run = tmp_path / "whole", tmp_path / "run"
    undisturbed, first = runs.start(whole), runs.start(run)
    said = _stop_after(first, run, 2, signal.SIGTERM)
    saved = max(int(path.stem.rpartition("-")[2]) for path in (run / "checkpoints").glob("*.index"))
    assert 2 <= saved < 40
    assert said == (f"SIGTERM: step {saved} of 48 is done and saved. Resume with t2t-lite-trainer --output_dir={run}")

    second = runs.start(run, new=False)
    said = _stop_after(second, run, 40, signal.SIGINT)  # in the evaluation, before its graph is made
    assert said == f"SIGINT: step 40 of 48 is done and saved. Resume with t2t-lite-trainer --output_dir={run}"
    assert not any("dev_loss" in line for line in _metrics(run))

    last = runs.start(run, new=False)
    for process in (undisturbed, last):
        process.join(600)
        assert process.exitcode == 0
    assert run.with_suffix(".out").read_text().startswith("Resuming from step 40 of 48.\nmodel:    ")
    assert_same_bits(tensors(run, 48), tensors(whole, 48))
    clock = ("tokens_per_second", "input_seconds", "flops_per_second", "utilisation", "trained_seconds", "goodput")
    lines = [[{k: v for k, v in line.items() if k not in clock} for line in _metrics(each)] for each in (whole, run)]
    assert lines[0] == lines[1]  # the losses and the dev scores
    for kind in ("best", "checkpoints", "averaged"):
        names = [sorted(path.name for path in (each / kind).glob("*.index")) for each in (whole, run)]
        assert names[0] == names[1]
    assert (run / "test.hyp.txt").read_bytes() == (whole / "test.hyp.txt").read_bytes()
