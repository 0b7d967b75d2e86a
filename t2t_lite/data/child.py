"""Start of a child process."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading


def follow_parent() -> None:
    """Ignores Ctrl-C, which the parent process handles, and ends the process when the parent ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    # A killed parent sends no message: its children would wait for work for ever.
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
