"""The process of a training of t2t-lite-compare: runs the trainer, then writes its own peak memory to a pipe."""

from __future__ import annotations

import json
import os
import re
import resource
import sys
import threading
from pathlib import Path

from t2t_lite.bin import cli, trainer
from t2t_lite.compare.process import stop_signal
from t2t_lite.runs.start_request import StartRequest


def peak_mib() -> int:
    """Returns the peak memory of this process so far, in MiB."""
    # In Linux, ru_maxrss counts the peak of the process that started this one as well.
    status = Path("/proc/self/status")
    found = re.search(r"VmHWM:\s*(\d+) kB", status.read_text(encoding="utf-8") if status.exists() else "")
    if found:
        return int(found[1]) // 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // (2**20 if sys.platform == "darwin" else 2**10)


def _stop_with_the_command() -> None:
    """Makes the training save and end when the command that has started it is gone, even if that was killed."""
    os.read(0, 1)  # returns when the other end of the pipe is closed
    os.kill(os.getpid(), stop_signal())


if __name__ == "__main__":
    threading.Thread(target=_stop_with_the_command, daemon=True).start()
    request = StartRequest.from_dict(json.loads(sys.argv[2]))
    exit_status = cli.run(lambda: trainer.run(request))
    os.write(int(sys.argv[1]), b"%d\n" % peak_mib())
    sys.exit(exit_status)
