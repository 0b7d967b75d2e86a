"""The number of CPUs that this process may use."""

import os


def available_cpus() -> int:
    """Returns how many CPUs the process may run on; all CPUs of the machine if the system does not say."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
