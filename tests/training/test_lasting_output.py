"""A training whose reader or terminal goes away: no step is lost."""

import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from t2t_lite.signals import Stopped, StopSignals

pytestmark = pytest.mark.nightly

HPARAMS = (
    "num_layers=1,d_model=16,d_ff=16,num_heads=2,batch_tokens=8192,train_steps=30,log_every=1,eval_every=30,eval_lines=2,"
    "average_checkpoints=1,beam_size=1,extra_length=1"
)


def _command(run: Path) -> list[str]:
    flags = ["--problem=toy_reverse", "--hparams_set=tiny", f"--hparams={HPARAMS}", "--num_workers=1"]
    return [sys.executable, "-m", "t2t_lite.cli.trainer", f"--output_dir={run}", *flags]


def _steps(run: Path) -> list[int]:
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().split("\n")[:-1]]
    return [line["step"] for line in lines if "learning_rate" in line]


def test_a_reader_that_goes_away_ends_the_output_alone(tmp_path: Path) -> None:
    """As with `t2t-lite-trainer ... | head -1`."""
    run = tmp_path / "run"
    with subprocess.Popen(_command(run), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline()
        process.stdout.close()
        said = process.stderr.read()
        assert process.wait(300) == 0, said
    assert "The output cannot be written any more; training continues" in said
    assert "Traceback" not in said
    assert "Exception ignored" not in said
    assert _steps(run) == list(range(1, 31))
    assert (run / "test.scores.json").exists()


def test_a_terminal_that_goes_away_saves_the_step(tmp_path: Path) -> None:
    """Both streams fail, and SIGHUP comes: from the system, and often from the shell as well."""
    run = tmp_path / "run"
    leader, follower = pty.openpty()
    command = _command(run)
    command[-2] = command[-2].replace("train_steps=30", "train_steps=100000")

    def take_terminal() -> None:
        import fcntl
        import termios

        os.setsid()
        signal.signal(signal.SIGHUP, signal.SIG_DFL)  # a process that nohup starts ignores it
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    process = subprocess.Popen(command, stdin=follower, stdout=follower, stderr=follower, preexec_fn=take_terminal)
    os.close(follower)
    while not (run / "metrics.jsonl").exists() or not _steps(run):
        os.read(leader, 4096)
        assert process.poll() is None
    os.close(leader)
    os.kill(process.pid, signal.SIGHUP)
    assert process.wait(300) == 128 + signal.SIGHUP
    saved = [int(path.stem.rpartition("-")[2]) for path in (run / "checkpoints").glob("*.index")]
    assert max(saved) == _steps(run)[-1]


def test_sighup_is_a_signal_to_stop_and_nohup_is_heeded() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    try:
        with StopSignals(), pytest.raises(Stopped) as stopped:
            signal.raise_signal(signal.SIGHUP)
        assert stopped.value.exit_status == 129
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        with StopSignals() as stop:
            os.kill(os.getpid(), signal.SIGHUP)
            assert stop.received == 0
    finally:
        signal.signal(signal.SIGHUP, before)
