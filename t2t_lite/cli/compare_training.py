"""Processes of t2t-lite-compare: a training run that reports its peak memory, and one whose speed is measured.

    python -m t2t_lite.cli.compare_training REQUEST [PIPE] [--quiet|--verbose]

REQUEST is a StartRequest in JSON. With PIPE, the descriptor of a pipe, the process writes its peak memory there, and
saves and ends when the command is gone. Without, it ends at once then: nothing of it is needed.
"""

import argparse
import json
import os
import re
import resource
import sys
import threading
from pathlib import Path

from t2t_lite.cli import common, trainer
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


def end_with_the_command(save: bool) -> None:
    """Ends this process when the command that has started it is gone, even if that was killed.

    Args:
        save: let the training run save before.
    """
    os.read(0, 1)  # returns when the other end of the pipe is closed
    if not save:
        os._exit(1)
    os.kill(os.getpid(), stop_signal())


if __name__ == "__main__":
    pipe = int(sys.argv[2]) if sys.argv[2:3] and sys.argv[2].isdecimal() else None
    threading.Thread(target=end_with_the_command, args=(pipe is not None,), daemon=True).start()
    request = StartRequest.from_dict(json.loads(sys.argv[1]))
    said = argparse.Namespace(quiet="--quiet" in sys.argv, verbose="--verbose" in sys.argv)
    exit_status = common.run(lambda: trainer.run(request), args=said)
    if pipe is not None:
        os.write(pipe, b"%d\n" % peak_mib())
    sys.exit(exit_status)
