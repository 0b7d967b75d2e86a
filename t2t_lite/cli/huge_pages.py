"""Pages of 2 MiB for the memory of a command that computes.

A processor looks up where each page of 4 KiB is, which takes up to half of the time in which it reads a model's
weights. Many Linux systems give a process larger pages only if it asks for them. glibc asks for all memory that
TensorFlow takes, if it is told to by an environment variable when the process starts.

Gain (benchmarks/notebook.md): D3 takes 0.83 to 0.94 of the time, D1 0.96, T2 0.95 and 0.96.
"""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path

SETTING = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
_ENABLED = Path("/sys/kernel/mm/transparent_hugepage/enabled")
_SINCE = (2, 35)  # of glibc


def restart_with_huge_pages() -> None:
    """Starts this command again, as the same process, if it then has huge pages and has none now.

    It restarts none but a t2t-lite command, and none whose user has set glibc's variable.
    """
    is_command = Path(sys.argv[0]).name.startswith("t2t-lite-")
    if not is_command or not _are_on_request() or not SETTING.keys().isdisjoint(os.environ):
        return
    with contextlib.suppress(OSError):  # then with small pages
        os.execve(sys.executable, sys.orig_argv, os.environ | SETTING)


def _are_on_request() -> bool:
    """Whether this system gives huge pages to those that ask for them, and this C library can ask."""
    if not _ENABLED.is_file() or "[madvise]" not in _ENABLED.read_text(encoding="ascii"):
        return False
    library, _, version = (os.confstr("CS_GNU_LIBC_VERSION") or "").partition(" ")
    return library == "glibc" and tuple(map(int, version.split("."))) >= _SINCE
