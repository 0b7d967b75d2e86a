"""The CPUs of this machine: how many this process may use, their model, and the instructions that matter here."""

import os
import platform
import re
from pathlib import Path

_CPUINFO = Path("/proc/cpuinfo")  # of Linux
_SETS = ("avx", "avx2", "fma", "avx_vnni", "avx512f", "avx512_vnni", "avx512_bf16", "amx_tile", "amx_int8", "amx_bf16")
_SETS_OF_ARM = ("asimd", "bf16", "i8mm", "sve")


def available_cpus() -> int:
    """Returns how many CPUs the process may run on; all CPUs of the machine if the system does not say."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def processor() -> str:
    """Returns the model of this machine's CPUs, or their architecture if the system does not say."""
    return _entry("model name") or platform.machine()


def instruction_sets() -> list[str]:
    """Returns which instruction sets for matrix products the CPUs have; none if the system does not say."""
    there = (_entry("flags") or _entry("Features")).split()
    return [name for name in (*_SETS, *_SETS_OF_ARM) if name in there]


def _entry(name: str) -> str:
    text = _CPUINFO.read_text(encoding="utf-8", errors="replace") if _CPUINFO.is_file() else ""
    found = re.search(rf"^{name}\s*: (.*)", text, re.MULTILINE)
    return found[1].strip() if found else ""
