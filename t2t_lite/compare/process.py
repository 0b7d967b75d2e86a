"""A training of t2t-lite-compare in a process of its own, which ends with the command."""

import json
import os
import signal
import subprocess
import sys

from t2t_lite.errors import TrainingError
from t2t_lite.runs.start_request import StartRequest
from t2t_lite.signals import Terminated
from t2t_lite.verbosity import said


def train(request: StartRequest, name: str) -> int:
    """Trains in a process of its own, which ends when its standard input is closed; returns its peak memory in MiB."""
    reader, writer = os.pipe()
    command = [sys.executable, "-m", "t2t_lite.cli.compare_training", json.dumps(request.as_dict()), str(writer)]
    command += [f"--{name}" for name in ("quiet", "verbose") if getattr(said, name)]
    with open(reader, encoding="utf-8") as report:
        with open(writer, "wb"):  # open in the new process alone
            stdout = 2 if said.reserved else None
            process = subprocess.Popen(command, pass_fds=[writer], stdin=subprocess.PIPE, stdout=stdout)
        with process:
            try:
                code = process.wait()
            except KeyboardInterrupt as stopped:
                # Ctrl-C goes to both processes, but SIGINT may also have come to this one alone.
                if isinstance(stopped, Terminated) or stop_signal() != signal.SIGTERM:
                    process.send_signal(stop_signal())
                process.wait()  # it saves
                raise
        if code:
            raise TrainingError(
                f"The training of {name} has ended with status {code}; the same command resumes it. If it ends so "
                "again, leave its set out of --sets, or change the set there: SET+FIELD=VALUE."
            )
        return int(report.readline())


def stop_signal() -> int:
    """Returns the signal that asks a run to save and end: a second SIGTERM would end it at once, SIGHUP does not."""
    return signal.SIGTERM if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN else signal.SIGHUP  # SIG_IGN: nohup
