"""Joining a cluster: before TensorFlow connects workers, they wait for each other and report who is missing.

TensorFlow waits as well, but for an hour, without a message, and without reacting to signals.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import socket
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from t2t_lite.distributed.cluster import VARIABLE, Cluster
from t2t_lite.distributed.rendezvous import PAUSE, Chief, Member, Party, split
from t2t_lite.distributed.seals import new_key
from t2t_lite.errors import TrainingError

DEFAULT_SECONDS = 600
CONNECT_SECONDS = 120  # for what follows when all are there: GPUs are initialised, servers start

_FIRST_LINE, _LONGEST_PAUSE = 5.0, 600.0  # seconds
_MOST_NAMED = 5

_log = logging.getLogger("t2t_lite")


def join(cluster: Cluster, devices: int, folder: Path, seconds: float = DEFAULT_SECONDS) -> None:
    """Returns when all workers of the cluster are there. Signals raise what their handlers raise, at once.

    Args:
        devices: of this worker; with unequal numbers, sums would wait for ever.
        folder: the run's, which all workers see: by what lies in it they know each other.
        seconds: how long to wait for the others.

    Raises:
        TrainingError: this worker's port is in use, or a worker has not come in time.
        UsageError: the workers have different clusters or numbers of devices, or two of them the same index.
    """
    key = new_key(folder) if cluster.is_chief else contextlib.nullcontext()
    with key, contextlib.closing(_listen(cluster)) as listener:
        party = (Chief if cluster.is_chief else Member)(cluster, devices, listener, folder)
        # A thread: the system's look-up of a name cannot be interrupted.
        thread = threading.Thread(target=party.run, daemon=True, name="t2t-lite-join")
        thread.start()
        try:
            _wait(party, cluster, seconds)
        finally:
            party.ended = True
            thread.join(1)  # the system frees the port when nobody listens any more
    if party.error is not None:
        raise party.error


def _wait(party: Party, cluster: Cluster, seconds: float) -> None:
    """Waits for `done`, and reports which workers are missing."""
    end, pause, connecting = time.monotonic() + seconds, _FIRST_LINE, False
    line_at = time.monotonic() + pause
    while not party.done.wait(PAUSE):
        now = time.monotonic()
        if party.all_came and not connecting:
            connecting, end = True, now + CONNECT_SECONDS
        whom = _names(party.missing, cluster.addresses)
        named = whom[0].upper() + whom[1:]
        note = f" {party.note}" if party.note else ""
        if now > end and connecting:
            raise TrainingError(
                f"{named} came, and cannot be reached from here. It has ended since, or its port is closed to this "
                f"machine.{note} Start the same command on every worker again."
            )
        if now > end:
            raise TrainingError(
                f"{named} did not come within {_time(seconds)}.{note} Start the same command on every worker; where "
                "one prepares data for longer than that, with a longer --join_timeout."
            )
        if now > line_at:
            pause = min(2 * pause, _LONGEST_PAUSE)
            line_at = now + pause
            may = "" if connecting else ", which may still be preparing data"
            limit = "" if connecting else " (--join_timeout)"
            _log.info("Waiting for %s%s; giving up in %s%s.%s", whom, may, _time(end - now), limit, note)


def _listen(cluster: Cluster) -> socket.socket:
    """Takes this worker's port, on all addresses of this machine, as TensorFlow will."""
    _, port = split(cluster.addresses[cluster.index])
    what = f"Port {port} of this machine, which {VARIABLE} gives to this worker ({cluster.index}),"
    for family in (socket.AF_INET6, socket.AF_INET):
        both = family == socket.AF_INET6
        if both and not socket.has_dualstack_ipv6():
            continue
        try:
            return socket.create_server(("", port), family=family, dualstack_ipv6=both)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise TrainingError(
                    f"{what} is in use by another process, perhaps an earlier start of this worker. End it, or give "
                    f"this worker another port in the {VARIABLE} of every worker."
                ) from error
            if not both:
                reason = error.strerror or str(error)
                raise TrainingError(f"{what} cannot be used: {reason}. Give it another one.") from error
    raise TrainingError(f"{what} cannot be used: this machine has no network.")


def _names(missing: Mapping[int, str], addresses: Sequence[str]) -> str:
    """ "worker 1 at host:port (why) and worker 2 at ..."."""
    names = [
        f"worker {index} at {addresses[index]}{f' ({reason})' if reason else ''}"
        for index, reason in sorted(missing.items())
        if index < len(addresses)
    ]
    more = len(names) - _MOST_NAMED
    names = [*names[:_MOST_NAMED], *([f"{more} more"] if more > 0 else [])] or ["the other workers"]
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _time(seconds: float) -> str:
    if seconds >= 120:
        return f"{seconds / 60:.0f} minutes"
    return f"{seconds:.0f} second{'s' * (round(seconds) != 1)}"
