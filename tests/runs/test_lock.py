"""One trainer per folder: a second one is told which one is there, and a killed one blocks nobody."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from t2t_lite.errors import TrainingError
from t2t_lite.runs.lock import LOCK_FILE, only_trainer

ROOT = Path(__file__).resolve().parents[2]
HOLD = """
import sys, time
from t2t_lite.runs.lock import only_trainer
with only_trainer(sys.argv[1]):
    print("held", flush=True)
    time.sleep(600)
"""


def test_a_second_one_learns_process_and_host_and_a_killed_one_is_no_hindrance(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLD, str(tmp_path / "run")]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "held\n"
            with pytest.raises(TrainingError) as error, only_trainer(tmp_path / "run"):
                pass
            assert str(error.value) == (
                f"Another trainer writes to {tmp_path / 'run'}: process {process.pid} on {socket.gethostname()}. "
                "Let it end, or stop it, or give another --output_dir."
            )
            process.send_signal(signal.SIGKILL)
            process.wait(timeout=20)
            assert str(process.pid) in (tmp_path / "run" / LOCK_FILE).read_text()  # stale
            with only_trainer(tmp_path / "run"):
                assert (tmp_path / "run" / LOCK_FILE).read_text() == (
                    f"process {os.getpid()} on {socket.gethostname()}\n"
                )
        finally:
            process.kill()


def test_it_is_given_back_also_after_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="mine"), only_trainer(tmp_path):
        raise ValueError("mine")
    with only_trainer(tmp_path), pytest.raises(TrainingError, match="Another trainer"), only_trainer(tmp_path):
        pass
    with only_trainer(tmp_path / "another"), only_trainer(tmp_path):
        pass


def test_a_folder_made_for_nothing_goes_again(tmp_path: Path) -> None:
    with only_trainer(tmp_path / "new"):
        assert (tmp_path / "new" / LOCK_FILE).exists()
    assert not (tmp_path / "new").exists()
    (tmp_path / "old").mkdir()
    with only_trainer(tmp_path / "old"):
        pass
    assert (tmp_path / "old" / LOCK_FILE).exists()
