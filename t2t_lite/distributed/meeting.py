"""How the workers of a cluster meet, before TensorFlow connects them.

Each worker tells the chief its index and number of devices. The chief tells all of them who is missing and, when nobody
is, that they may go on. They then close their ports, and TensorFlow listens on these. The chief goes on last, when it
can reach all of them. So TensorFlow, which ignores signals while it waits, does not have to wait long.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import socket
import threading
import time
from collections.abc import Mapping
from typing import Any

from t2t_lite.distributed.cluster import VARIABLE, Cluster
from t2t_lite.errors import T2TError, TrainingError, UsageError

PAUSE = 0.2  # seconds between two checks

_SILENCE = 10.0  # seconds of silence after which a process counts as gone
_MOST_BYTES = 1_000_000  # of a message


class Party:
    """What a worker does while it waits; `run` is for a thread of its own, the rest is read by the main thread.

    Attributes:
        missing: index of a worker -> why it cannot be reached, "" where there is nothing to say.
        note: what may be wrong with this worker's own address.
        all_came: whether all have come, so that only their connections are missing.
        error: what ends this worker.
        done: set when `run` ends.
        ended: set by the main thread when nobody waits any more.
    """

    def __init__(self, cluster: Cluster, devices: int, listener: socket.socket) -> None:
        self._cluster, self._devices, self._listener = cluster, devices, listener
        self.missing: dict[int, str] = {}
        self.note, self.all_came, self.ended = "", False, False
        self.error: T2TError | None = None
        self.done = threading.Event()

    def run(self) -> None:
        """Sets `done` when TensorFlow may start, or when `error` says why not."""
        try:
            self.note = _own_address(self._cluster)
            self._meet()
        except Exception as error:  # or the main thread would wait for ever
            self.error = TrainingError(f"The workers could not meet: {error!r}.")
        self.done.set()

    def _meet(self) -> None:
        raise NotImplementedError


class Member(Party):
    """A worker that is not the chief: connects to the chief until that says that all are there."""

    def _meet(self) -> None:
        address = self._cluster.addresses[0]
        self.missing = {0: ""}
        while not self.ended:
            try:
                with socket.create_connection(split(address), timeout=_SILENCE) as chief:
                    if self._listen_to(chief):
                        return
                reason = "it has gone"
            except (ValueError, KeyError, TypeError):
                reason = "what answers there is no t2t-lite-trainer"
            except OSError as error:
                reason = error.strerror or str(error)
            self.missing = {0: reason}
            time.sleep(PAUSE)

    def _listen_to(self, chief: socket.socket) -> bool:
        """True if this worker may go on, or must end; False if the chief has closed the connection."""
        _tell(chief, {"index": self._cluster.index, "devices": self._devices, "addresses": self._cluster.addresses})
        with chief.makefile("rb") as lines:
            while not self.ended and (line := lines.readline(_MOST_BYTES)):
                message = _message(line)
                if refused := message.get("refused"):
                    self.error = UsageError("".join(filter(str.isprintable, str(refused))))
                    return True
                self.missing = {int(index): "" for index in message["missing"] if index != self._cluster.index}
                if not message["missing"]:
                    self._listener.close()  # before the connection: its end tells the chief that the port is closed
                    return True
        return False


@dataclasses.dataclass
class _Guest:
    """A process that has connected to the chief; `index` is None until it has said which worker it is."""

    since: float
    said: bytes = b""
    index: int | None = None
    devices: int = 0


class Chief(Party):
    """The first worker: the others connect to it."""

    def _meet(self) -> None:
        self._guests: dict[socket.socket, _Guest] = {}
        self._listener.settimeout(PAUSE)
        try:
            self._wait_for_all()
            if not self.ended:
                self._go()
        finally:
            self._close()

    def _wait_for_all(self) -> None:
        reported = 0.0
        while not self.ended:
            with contextlib.suppress(TimeoutError):
                connection, _ = self._listener.accept()
                connection.setblocking(False)
                self._guests[connection] = _Guest(time.monotonic())
            for connection in list(self._guests):
                if connection in self._guests:  # another one may have taken its place
                    self._hear(connection)
            here = {guest.index for guest in self._guests.values()}
            self.missing = {index: "" for index in range(1, len(self._cluster.addresses)) if index not in here}
            if not self.missing:
                return
            if time.monotonic() - reported > 1:
                reported = time.monotonic()
                self._tell_all({"missing": list(self.missing)})

    def _hear(self, connection: socket.socket) -> None:
        guest = self._guests[connection]
        try:
            new = connection.recv(_MOST_BYTES)
        except BlockingIOError:
            if guest.index is None and time.monotonic() - guest.since > _SILENCE:
                self._leave(connection)
            return
        except OSError:
            new = b""
        guest.said += new
        if not new or len(guest.said) > _MOST_BYTES:
            self._leave(connection)
        elif guest.index is None and guest.said.endswith(b"\n"):
            self._greet(connection, guest)

    def _greet(self, connection: socket.socket, guest: _Guest) -> None:
        mine = self._cluster.addresses
        try:
            message = _message(guest.said)
            index, addresses = int(message["index"]), list(map(str, message["addresses"]))
            guest.devices = int(message["devices"])
        except (ValueError, KeyError, TypeError):
            return self._leave(connection)
        if addresses != list(mine) or not 0 < index < len(mine):
            return self._leave(
                connection,
                f"The workers do not agree on the cluster. {VARIABLE} of worker {index} has {', '.join(addresses)}; "
                f"that of worker 0 has {', '.join(mine)}. Give all of them the same addresses in the same order.",
            )
        for other in [other for other, there in self._guests.items() if there.index == index]:
            self._leave(
                other,
                f"Another process has come as worker {index}. Give each its own index in {VARIABLE}, and start each "
                "once.",
            )
        guest.index = index
        return None

    def _tell_all(self, message: Mapping[str, object]) -> None:
        for connection, guest in list(self._guests.items()):
            if guest.index is not None:
                try:
                    _tell(connection, message)
                except OSError:
                    self._leave(connection)

    def _leave(self, connection: socket.socket, why: str = "") -> None:
        with connection:
            del self._guests[connection]
            if why:
                with contextlib.suppress(OSError):
                    _tell(connection, {"refused": why})

    def _close(self, why: str = "") -> None:
        for connection in list(self._guests):
            self._leave(connection, why)

    def _go(self) -> None:
        """Lets the others start their servers, and returns when all of them can be reached."""
        devices = {guest.index: guest.devices for guest in self._guests.values()} | {0: self._devices}
        numbers = [devices[index] for index in range(len(self._cluster.addresses))]
        if len(set(numbers)) > 1:
            self.error = UsageError(
                f"The workers do not agree on the number of devices: {', '.join(map(str, numbers))}. Give all of them "
                f"the same --devices, at most {min(numbers)}."
            )
            self._close(str(self.error))
            return
        self.all_came = True
        self._tell_all({"missing": []})
        for connection, guest in self._guests.items():
            with connection, contextlib.suppress(OSError):
                connection.settimeout(_SILENCE)
                while guest.index is not None and connection.recv(_MOST_BYTES):
                    pass  # its end says that it has closed its port
        self._listener.close()
        waiting = dict.fromkeys(range(1, len(numbers)), "")
        while waiting and not self.ended:
            for index in list(waiting):
                try:
                    socket.create_connection(split(self._cluster.addresses[index]), timeout=_SILENCE).close()
                    del waiting[index]
                except OSError as error:
                    waiting[index] = error.strerror or str(error)
            self.missing = dict(waiting)
            time.sleep(PAUSE if waiting else 0)


def _own_address(cluster: Cluster) -> str:
    """What may be wrong with this worker's own address; it may still be right, behind a proxy."""
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


def _tell(to: socket.socket, message: Mapping[str, object]) -> None:
    to.sendall(json.dumps({"t2t_lite": 1, **message}).encode() + b"\n")


def _message(line: bytes) -> dict[str, Any]:
    """Reads a message that `_tell` has written; ValueError if something else wrote it."""
    try:
        message = json.loads(line)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    if not isinstance(message, dict) or message.get("t2t_lite") != 1:
        raise ValueError("not a message of t2t-lite")
    return message
