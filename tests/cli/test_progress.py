"""What a user at a terminal sees of a training run: the command on a pseudo-terminal, ended with Ctrl-C."""

import contextlib
import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.nightly

FLAGS = (
    "--problem=toy_reverse",
    "--hparams_set=tiny",
    "--hparams=num_layers=1,d_model=32,d_ff=32,num_heads=2,batch_tokens=256,log_every=5,save_every=10",
    "--train_steps=100000",
)
BAR = re.compile(
    r"^ *(?P<percent>\d+)%\|.*\| (?P<step>\d+)/100000 \[(?P<elapsed>[\d:]+)<(?P<eta>[\d:]+), loss (?P<loss>[\d.]+), "
    r"lr (?P<lr>\d\.\d\de-\d\d), (?P<speed>[\d,]+) tok/s"
)


def read_until(terminal: int, pattern: re.Pattern[str], seconds: float) -> tuple[str, re.Match[str] | None]:
    """Reads the terminal until a line matches, the terminal is closed, or `seconds` are over."""
    text, end = "", time.monotonic() + seconds
    while time.monotonic() < end:
        if not select.select([terminal], [], [], 0.5)[0]:
            continue
        try:
            text += os.read(terminal, 65536).decode("utf-8", "replace")
        except OSError:  # Linux raises it when the other end is closed
            break
        for line in re.split(r"[\r\n]", text):
            if found := pattern.search(line):
                return text, found
    return text, None


def test_the_bar_and_ctrl_c(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 80))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "TERM": "xterm"}
    process = subprocess.Popen(
        [sys.executable, "-m", "t2t_lite.cli.trainer", *FLAGS, f"--output_dir={tmp_path / 'run'}"],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=environment,
        start_new_session=True,
    )
    os.close(theirs)
    try:
        text, bar = read_until(ours, BAR, 120)
        assert bar is not None, text
        assert int(bar["step"]) >= 5
        assert 1 < float(bar["loss"]) < 10
        assert float(bar["lr"]) > 0
        assert int(bar["speed"].replace(",", "")) > 0
        assert bar["eta"].count(":") >= 1
        assert "oneDNN" not in text  # nor any other notice of TensorFlow
        assert "WARNING" not in text
        process.send_signal(signal.SIGINT)
        rest, _ = read_until(ours, re.compile(r"done and saved\. Resume with t2t-lite-trainer --output_dir="), 60)
        assert "SIGINT: step " in rest
        assert process.wait(timeout=60) == 130
        assert "Traceback" not in text + rest
    finally:
        process.kill()
        process.wait()
        with contextlib.suppress(OSError):
            os.close(ours)
