"""Rendezvous of a cluster's workers: before TensorFlow connects them, they wait for each other and say who is missing.

TensorFlow waits as well, but for an hour, without a message, and without reacting to signals. Here each worker asks the
chief again and again, with its index and number of devices, and is answered who is missing. When nobody is, it closes
its port, on which TensorFlow then listens. The chief continues last, when it can reach all of them.

Workers of a job know each other by a key, which the chief leaves at the meeting place (meeting_place.py) and which
never travels between them: each message has a seal made with it (HMAC of the message and of a number that the other
side has drawn). What comes without is ignored.

Where the run is in a store, workers ask twice. First, without a number of devices, they learn from a chief that has the
key that it lives, and so that the store has what it has prepared; then they copy that, and come again.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import hmac
import json
import logging
import math
import secrets
import socket
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from t2t_lite.distributed.cluster import VARIABLE, Cluster
from t2t_lite.distributed.meeting_place import Folder, InStore, meeting_place
from t2t_lite.errors import T2TError, TrainingError, UsageError
from t2t_lite.remote.store import Store

DEFAULT_SECONDS = 600
CONNECT_SECONDS = 120  # for what follows when all are there: GPUs are initialised, servers start

_PAUSE = 0.2  # seconds between two questions, or two looks
_SILENCE = 3.0  # seconds without a question after which a worker counts as missing
_QUESTION, _GONE = 1.0, 10.0  # seconds to wait for a question, which comes with a connection; for all else
_FIRST_LINE, _LONGEST_PAUSE = 5.0, 600.0  # seconds
_MOST_BYTES = 1_000_000  # of a message
_MOST_NAMED = 5
_SAME_FOLDER = "do both see the same --output_dir?"
_COPIES = "it copies the run"

_log = logging.getLogger("t2t_lite")


def join(cluster: Cluster, devices: int, folder: Path, seconds: float = DEFAULT_SECONDS, key: str = "") -> None:
    """Returns when all workers of the cluster are there. Signals raise what their handlers raise, at once.

    Args:
        devices: of this worker; with unequal numbers, sums would wait for ever.
        folder: the run's, which all workers see, or a working copy of it.
        seconds: how long to wait for the others.
        key: what `find_chief` has returned.

    Raises:
        TrainingError: this worker's port is in use, or a worker has not come in time; also as `find_chief`.
        UsageError: the workers have different clusters or numbers of devices, or two of them the same index.
        StoreError: the chief cannot write the key.
    """
    place = meeting_place(folder, cluster)
    new_or_known = place.new_key() if cluster.is_chief else contextlib.nullcontext(key)
    with new_or_known as key, contextlib.closing(_listen(cluster)) as listener:
        if cluster.is_chief:
            _run(Chief(cluster, devices, listener, key), cluster, seconds)
        else:
            _run(Worker(cluster, devices, listener, place, key), cluster, seconds)


def find_chief(cluster: Cluster, store: Store, seconds: float = DEFAULT_SECONDS) -> str:
    """Returns the chief's key when the store has all that this worker's start needs. The chief tells, in `join`.

    Raises:
        TrainingError: this worker's port is in use, the chief did not come in time or has ended, or a trainer of
            another job has the lease.
        UsageError: the workers have different clusters.
    """
    with contextlib.closing(_listen(cluster)) as listener:
        worker = Worker(cluster, None, listener, InStore(store, cluster.job))
        _run(worker, cluster, seconds)
    return worker.key


def _run(peer: Peer, cluster: Cluster, seconds: float) -> None:
    """Lets a peer meet the others; raises its error."""
    # A thread: the system's look-up of a name cannot be interrupted.
    thread = threading.Thread(target=peer.run, daemon=True, name="t2t-lite-join")
    thread.start()
    try:
        _wait(peer, cluster, seconds)
    finally:
        peer.ended = True
        thread.join(1)  # the system frees the port when nobody listens any more
    if peer.error is not None:
        raise peer.error


def _wait(peer: Peer, cluster: Cluster, seconds: float) -> None:
    """Waits for `done`, and reports which workers are missing."""
    end, pause, connecting = time.monotonic() + seconds, _FIRST_LINE, False
    line_at = time.monotonic() + pause
    while not peer.done.wait(_PAUSE):
        now = time.monotonic()
        if peer.all_came and not connecting:
            connecting, end = True, now + CONNECT_SECONDS
        whom, note = _names(peer.missing, cluster.addresses), f" {peer.note}" if peer.note else ""
        if now > end:
            what = (
                "came, and cannot be reached from here: it has ended since, or its port is closed to this machine."
                if connecting
                else f"did not come within {_time(seconds)}."
            )
            longer = (
                "" if connecting else "; where one prepares data for longer than that, with a longer --join_timeout"
            )
            raise TrainingError(
                f"{whom[0].upper()}{whom[1:]} {what}{note} Start the same command on every worker{longer}."
            )
        if now > line_at:
            pause = min(2 * pause, _LONGEST_PAUSE)
            line_at = now + pause
            may = "" if connecting else ", which may still be preparing data"
            _log.info("Waiting for %s%s; giving up in %s (--join_timeout).%s", whom, may, _time(end - now), note)


class Peer:
    """What a worker does while it waits; `run` is for a thread of its own, the rest is read by the main thread.

    Attributes:
        missing: index of a worker -> why it cannot be reached, "" where there is nothing to say.
        note: what may be wrong with this worker's own address, or was wrong with a process that came.
        all_came: whether all have come, so that only their connections are missing.
        error: what ends this worker.
        done: set when `run` ends.
        ended: set by the main thread when nobody waits any more.
    """

    def __init__(self, cluster: Cluster, listener: socket.socket) -> None:
        self._cluster, self._listener = cluster, listener
        self.missing: dict[int, str] = {}
        self.note, self.all_came, self.ended = "", False, False
        self.error: T2TError | None = None
        self.done = threading.Event()

    def run(self) -> None:
        """Sets `done` when TensorFlow may start, or when `error` says why not."""
        try:
            self.note = _check_own_address(self._cluster)
            self._meet()
        except T2TError as error:
            self.error = error
        except Exception as error:  # or the main thread would wait for ever
            self.error = TrainingError(f"The workers could not meet: {error!r}.")
        self.done.set()

    def _meet(self) -> None:
        raise NotImplementedError


class Worker(Peer):
    """A worker that is not the chief: asks the chief until that says that all are there.

    Args:
        devices: None: until the chief answers.
        place: has the key.
        key: that of the chief whose run this worker has copied; "": not known yet.

    Attributes:
        key: that of the chief; "" until it is read, and when the chief does not take it.
    """

    def __init__(
        self,
        cluster: Cluster,
        devices: int | None,
        listener: socket.socket,
        place: Folder | InStore,
        key: str = "",
    ) -> None:
        super().__init__(cluster, listener)
        self._devices, self._place, self._copied, self.key = devices, place, key, key

    def _meet(self) -> None:
        process, self.missing = secrets.token_hex(8), {0: ""}
        checked = -math.inf
        while not self.ended:
            if time.monotonic() > checked + self._place.pause:
                self._place.check()
                checked = time.monotonic()
            try:
                if self._ask(process):
                    return
            except (ValueError, KeyError, TypeError):
                self.missing = {0: "what answers there is no t2t-lite-trainer"}
            except OSError as error:
                self.missing = {0: error.strerror or str(error)}
            time.sleep(_PAUSE if self.key else self._place.pause)

    def _ask(self, process: str) -> bool:
        """Returns whether this worker may continue, or must end."""
        if not self.key:
            socket.create_connection(split(self._cluster.addresses[0]), timeout=_GONE).close()
            if not self._read_key():  # a chief that listens has left it; reading it from a store takes a while
                return self.error is not None
        with socket.create_connection(split(self._cluster.addresses[0]), timeout=_GONE) as chief:
            key = self.key
            me = {"index": self._cluster.index, "devices": self._devices, "addresses": self._cluster.addresses}
            nonces = str(_read(chief)["nonce"]), secrets.token_hex(16)
            chief.sendall(_line(_seal({"nonce": nonces[1], "process": process, **me}, key, nonces[0])))
            answer = _read(chief)
            if not _is_sealed(answer, key, *nonces):
                self.missing = {0: f"it does not take this worker's key: {_SAME_FOLDER}"}
                self.key = ""  # a chief that was started again has another
                return False
            if answer.get("refused"):
                self.error = UsageError(str(answer["refused"]))
                return True
            if self._devices is None:
                return True
            others = {*range(len(self._cluster.addresses))} - {self._cluster.index}
            self.missing = dict.fromkeys(others.intersection(answer["missing"]), "")
            if not answer["missing"]:
                self._listener.close()  # before the connection: its end tells the chief that the port is closed
            return not answer["missing"]

    def _read_key(self) -> bool:
        """Whether the key could be read; sets `error` where it is that of a later chief than this worker has copied."""
        try:
            self.key = self._place.read_key()
        except OSError as error:
            reason = error.strerror or str(error)
            self.missing = {0: f"{self._place.key_name} cannot be read, {reason}: {_SAME_FOLDER}"}
            return False
        if self._copied and self.key != self._copied:
            self.error = TrainingError(
                "The chief was started again after this worker had copied the run, so this worker ends. Start all "
                "workers again with the same commands."
            )
            return False
        return True


@dataclasses.dataclass
class _Process:
    """A process that has come as a worker: when it asked first and last, and its number of devices."""

    first: float
    last: float = 0.0
    devices: int = 0


class Chief(Peer):
    """The first worker, which the others ask.

    Args:
        key: that it has left at the meeting place.
    """

    def __init__(self, cluster: Cluster, devices: int, listener: socket.socket, key: str) -> None:
        super().__init__(cluster, listener)
        self._devices, self._key, self._copying = devices, key, set[int]()

    def _meet(self) -> None:
        self._others = range(1, len(self._cluster.addresses))
        self._came: dict[int, dict[str, _Process]] = {index: {} for index in self._others}
        told: set[int] = set()  # that they may continue, or must end
        self._listener.settimeout(_PAUSE)
        while len(told) < len(self._others) and not self.ended:
            recent = time.monotonic() - _SILENCE
            here = {index for index, came in self._came.items() if any(each.last > recent for each in came.values())}
            away = set(self._others) - here - told
            self.missing = {index: _COPIES if index in self._copying else "" for index in away}
            self.all_came = self.all_came or not self.missing
            try:
                connection, (host, *_) = self._listener.accept()
            except TimeoutError:
                continue
            except OSError:  # it has gone again, or this process has too many files open
                time.sleep(_PAUSE)
                continue
            with connection, contextlib.suppress(OSError, ValueError, KeyError, TypeError, OverflowError):
                connection.settimeout(_QUESTION)
                nonce = secrets.token_hex(16)
                connection.sendall(_line({"nonce": nonce}))
                asked = _read(connection)
                if not _is_sealed(asked, self._key, nonce):
                    self.note = f"A process at {host} has come with another key: does it see the same --output_dir?"
                    connection.sendall(_line({}))
                    continue
                answer = self._answer(asked)
                connection.sendall(_line(_seal(answer, self._key, nonce, asked["nonce"])))
                if answer.get("missing") == [] or self.error:
                    told.add(asked["index"])
                    connection.settimeout(_GONE)
                    connection.recv(1)  # its end says that the worker has closed its port
        if self.error is None and not self.ended:
            self._reach_all()

    def _answer(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the answer to a question; what is no question of a worker raises an error."""
        index, addresses, mine = int(asked["index"]), list(asked["addresses"]), self._cluster.addresses
        if addresses != list(mine) or index not in self._others:
            return {
                "refused": f"The workers do not agree on the cluster. {VARIABLE} of worker {index} has "
                f"{', '.join(addresses)}; that of worker 0 has {', '.join(mine)}. Give all of them the same addresses "
                "in the same order."
            }
        if asked["devices"] is None:
            self._copying.add(index)
            return {"missing": [index]}
        came, now = self._came[index], time.monotonic()
        this = came.setdefault(asked["process"], _Process(now))
        this.last, this.devices = now, int(asked["devices"])
        if any(each.first < this.first < each.last for each in came.values()):
            return {
                "refused": f"Another process has come as worker {index} and is still there. Give each its own index in "
                f"{VARIABLE}, and start each once."
            }
        if others := self.missing.keys() - {index}:
            return {"missing": sorted(others)}
        newest = [max(self._came[each].values(), key=lambda process: process.last) for each in self._others]
        numbers = [self._devices, *(process.devices for process in newest)]
        if len(set(numbers)) == 1:
            return {"missing": []}
        self.error = UsageError(
            f"The workers do not agree on the number of devices: {', '.join(map(str, numbers))}. Give all of them the "
            f"same --devices, at most {min(numbers)}."
        )
        return {"refused": str(self.error)}

    def _reach_all(self) -> None:
        """Returns when the servers of all others can be reached."""
        self._listener.close()
        waiting = dict.fromkeys(self._others, "")
        while waiting and not self.ended:
            for index in list(waiting):
                try:
                    socket.create_connection(split(self._cluster.addresses[index]), timeout=_GONE).close()
                    del waiting[index]
                except OSError as error:
                    waiting[index] = error.strerror or str(error)
            self.missing = dict(waiting)
            time.sleep(_PAUSE if waiting else 0)


def _listen(cluster: Cluster) -> socket.socket:
    """Takes this worker's port, on all addresses of this machine, as TensorFlow will."""
    _, port = split(cluster.addresses[cluster.index])
    both = socket.has_dualstack_ipv6()
    try:
        return socket.create_server(("", port), family=socket.AF_INET6 if both else socket.AF_INET, dualstack_ipv6=both)
    except OSError as error:
        reason = "is in use by another process, perhaps an earlier start of this worker"
        raise TrainingError(
            f"Port {port} of this machine, which {VARIABLE} gives to this worker ({cluster.index}), "
            f"{reason if error.errno == errno.EADDRINUSE else f'cannot be used: {error.strerror}'}. End that process, "
            f"or give this worker another port in the {VARIABLE} of every worker."
        ) from error


def _check_own_address(cluster: Cluster) -> str:
    """Returns what may be wrong with this worker's own address; it may still be right, behind a proxy."""
    address = cluster.addresses[cluster.index]
    try:
        found = socket.getaddrinfo(*split(address), type=socket.SOCK_STREAM)
    except OSError as error:
        return f"This worker's own address, {address}, is unknown here: {error.strerror}."
    for family, kind, protocol, _, place in found:
        with contextlib.suppress(OSError), socket.socket(family, kind, protocol) as here:
            here.bind((place[0], 0, *place[2:]))
            return ""
    return (
        f"This worker's own address, {address}, is none of this machine's: is its index in {VARIABLE}, "
        f"{cluster.index}, right?"
    )


def split(address: str) -> tuple[str, int]:
    """ "host:port" as (host, port)."""
    host, _, port = address.rpartition(":")
    return host.removeprefix("[").removesuffix("]"), int(port)


def _seal(message: Mapping[str, Any], key: str, *nonces: str) -> dict[str, Any]:
    """Adds a seal, which only who knows the key can make, for this conversation alone."""
    text = json.dumps([*nonces, message], sort_keys=True)
    return {**message, "seal": hmac.new(key.encode(), text.encode(), "sha256").hexdigest()}


def _is_sealed(message: dict[str, Any], key: str, *nonces: str) -> bool:
    """Whether a message, as `_read` returns it, has its seal."""
    unsealed = {name: value for name, value in message.items() if name != "seal"}
    return hmac.compare_digest(_seal(unsealed, key, *nonces)["seal"].encode(), str(message.get("seal")).encode())


def _line(message: Mapping[str, Any]) -> bytes:
    return json.dumps({"t2t_lite": 1, **message}).encode() + b"\n"


def _read(connection: socket.socket) -> dict[str, Any]:
    """Reads a message; ValueError if it is none of t2t-lite's."""
    with connection.makefile("rb") as lines:
        try:
            message = json.loads(lines.readline(_MOST_BYTES))
        except RecursionError as error:
            raise ValueError("nested too deeply") from error
    if not isinstance(message, dict) or message.pop("t2t_lite", None) != 1:
        raise ValueError("no message of t2t-lite")
    return message


def _names(missing: Mapping[int, str], addresses: Sequence[str]) -> str:
    """ "worker 1 at host:port (why) and worker 2 at ..."."""
    names = [
        f"worker {index} at {addresses[index]}{f' ({reason})' if reason else ''}"
        for index, reason in sorted(missing.items())
    ]
    more = len(names) - _MOST_NAMED
    names = [*names[:_MOST_NAMED], *([f"{more} more"] if more > 0 else [])] or ["the other workers"]
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _time(seconds: float) -> str:
    if seconds >= 120:
        return f"{seconds / 60:.0f} minutes"
    return f"{seconds:.0f} second{'s' * (round(seconds) != 1)}"
