"""How the workers of a cluster meet, before TensorFlow connects them.

Each worker tells the chief its index and number of devices. The chief tells all of them who is missing and, when nobody
is, that they may continue. They then close their ports, and TensorFlow listens on these. The chief continues last, when
it can reach all of them. So TensorFlow, which ignores signals while it waits, does not have to wait long.

Anybody on the network can connect. What counts is sealed with the key of the run's folder (`seals`); a connection that
brings anything else is closed, and nothing that it says ends a worker.
"""

from __future__ import annotations

import contextlib
import dataclasses
import socket
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from t2t_lite.distributed.cluster import VARIABLE, Cluster
from t2t_lite.distributed.seals import KEY_FILE, MOST_BYTES, SealError, Seals, read_key
from t2t_lite.errors import T2TError, TrainingError, UsageError

PAUSE = 0.2  # seconds between two checks

_SILENCE = 10.0  # seconds of silence after which a process counts as gone
_MOST_STRANGERS = 256  # connections that have proved nothing yet; the oldest makes room for the next
_MOST_DEVICES = 100_000  # of a worker
_SAME_FOLDER = "do both see the same --output_dir?"


class Party:
    """What a worker does while it waits; `run` is for a thread of its own, the rest is read by the main thread.

    Attributes:
        missing: index of a worker -> why it cannot be reached, "" where there is nothing to say.
        note: what may be wrong with this worker's own address, or was wrong with a process that came.
        all_came: whether all have come, so that only their connections are missing.
        error: what ends this worker.
        done: set when `run` ends.
        ended: set by the main thread when nobody waits any more.
    """

    def __init__(self, cluster: Cluster, devices: int, listener: socket.socket, folder: Path) -> None:
        self._cluster, self._devices, self._listener, self._folder = cluster, devices, listener, folder
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
                    reason = self._talk_to(chief)
                if not reason:
                    return
            except SealError:
                reason = f"another key than that of {self._folder / KEY_FILE}: {_SAME_FOLDER}"
            except ValueError:
                reason = "what answers there is no t2t-lite-trainer"
            except OSError as error:
                reason = error.strerror or str(error)
            self.missing = {0: reason}
            time.sleep(PAUSE)

    def _talk_to(self, chief: socket.socket) -> str:
        """Returns "" if this worker may continue, or must end; otherwise why it has to try again."""
        try:
            seals = Seals(read_key(self._folder), is_chief=False)
        except OSError as error:
            return f"{self._folder / KEY_FILE} cannot be read, {error.strerror}: {_SAME_FOLDER}"
        chief.sendall(seals.first_line())
        known = False
        with chief.makefile("rb") as lines:
            while not self.ended and (line := lines.readline(MOST_BYTES)):
                message = seals.read(line)
                if message is None:
                    about = {"index": self._cluster.index, "devices": self._devices}
                    chief.sendall(seals.seal({**about, "addresses": self._cluster.addresses}))
                    continue
                known = True
                if refused := message.get("refused"):
                    self.error = UsageError("".join(filter(str.isprintable, str(refused))))
                    return ""
                indexes = [_whole(index, 0, len(self._cluster.addresses) - 1) for index in _list(message, "missing")]
                self.missing = {index: "" for index in indexes if index != self._cluster.index}
                if not indexes:
                    self._listener.close()  # before the connection: its end tells the chief that the port is closed
                    return ""
        return "it has gone" if known else f"it does not take this worker's key: {_SAME_FOLDER}"


@dataclasses.dataclass
class _Guest:
    """A process that has connected to the chief; `index` is None until it has proved which worker it is."""

    since: float
    seals: Seals
    said: bytes = b""
    index: int | None = None
    devices: int = 0


class Chief(Party):
    """The first worker: the others connect to it. Its folder has the key (`seals.new_key`)."""

    def _meet(self) -> None:
        self._guests: dict[socket.socket, _Guest] = {}
        self._key = read_key(self._folder)
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
            self._let_in()
            for connection in list(self._guests):
                if connection in self._guests:
                    self._hear(connection)
            here = {guest.index for guest in self._guests.values()}
            self.missing = {index: "" for index in range(1, len(self._cluster.addresses)) if index not in here}
            if not self.missing:
                return
            if time.monotonic() - reported > 1:
                reported = time.monotonic()
                self._tell_all({"missing": list(self.missing)})

    def _let_in(self) -> None:
        """Takes a connection, if there is one."""
        try:
            connection, _ = self._listener.accept()
        except TimeoutError:
            return
        except OSError:  # it has gone again, or this process has too many files open
            time.sleep(PAUSE)
            return
        connection.setblocking(False)
        if hasattr(socket, "TCP_USER_TIMEOUT"):  # a machine that is switched off says no goodbye
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(1000 * _SILENCE))
        strangers = [other for other, guest in self._guests.items() if guest.index is None]
        if len(strangers) >= _MOST_STRANGERS:
            self._leave(strangers[0])
        guest = self._guests[connection] = _Guest(time.monotonic(), Seals(self._key, is_chief=True))
        self._send(connection, guest.seals.first_line())

    def _hear(self, connection: socket.socket) -> None:
        """Reads what a guest has sent, and leaves one that has gone, or has not said in time who it is."""
        guest = self._guests[connection]
        try:
            new = connection.recv(MOST_BYTES)
            gone = not new
        except BlockingIOError:
            new, gone = b"", False
        except OSError:
            new, gone = b"", True
        if guest.index is not None:  # it has said all that it has to say
            return self._leave(connection) if gone else None
        guest.said += new
        if gone or len(guest.said) > MOST_BYTES or time.monotonic() - guest.since > _SILENCE:
            return self._leave(connection)
        while guest.index is None and b"\n" in guest.said:
            line, _, guest.said = guest.said.partition(b"\n")
            try:
                if (message := guest.seals.read(line)) and not self._greet(connection, guest, message):
                    return None
            except SealError:
                with contextlib.suppress(OSError):
                    host = connection.getpeername()[0]
                    self.note = f"A process at {host} has come with another key: does it see the same --output_dir?"
                return self._leave(connection)
            except ValueError:
                return self._leave(connection)
        return None

    def _greet(self, connection: socket.socket, guest: _Guest, message: Mapping[str, Any]) -> bool:
        """Takes a worker in, or refuses it; ValueError if the message does not say what it should."""
        mine = self._cluster.addresses
        index, devices = _whole(message.get("index"), 0, MOST_BYTES), _whole(message.get("devices"), 1, _MOST_DEVICES)
        addresses = list(map(str, _list(message, "addresses")))
        if addresses != list(mine) or not 0 < index < len(mine):
            self._leave(
                connection,
                f"The workers do not agree on the cluster. {VARIABLE} of worker {index} has {', '.join(addresses)}; "
                f"that of worker 0 has {', '.join(mine)}. Give all of them the same addresses in the same order.",
            )
            return False
        if index in {other.index for other in self._guests.values()}:
            self._leave(
                connection,
                f"Another process has come as worker {index} and is still there. Give each its own index in "
                f"{VARIABLE}, and start each once.",
            )
            return False
        guest.index, guest.devices = index, devices
        return True

    def _tell_all(self, message: Mapping[str, object]) -> None:
        for connection, guest in list(self._guests.items()):
            if guest.index is not None:
                self._send(connection, guest.seals.seal(message))

    def _send(self, connection: socket.socket, line: bytes) -> None:
        try:
            connection.sendall(line)
        except OSError:
            self._leave(connection)

    def _leave(self, connection: socket.socket, why: str = "") -> None:
        guest = self._guests.pop(connection)
        with connection, contextlib.suppress(OSError):
            if why:
                connection.sendall(guest.seals.seal({"refused": why}))

    def _close(self, why: str = "") -> None:
        for connection, guest in list(self._guests.items()):
            self._leave(connection, why if guest.index is not None else "")

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
                while guest.index is not None and connection.recv(MOST_BYTES):
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


def _whole(value: object, least: int, most: int) -> int:
    """Returns a whole number of a message; ValueError for another type (true, 1.0, "1") or out of range."""
    if type(value) is not int or not least <= value <= most:
        raise ValueError("not such a number")
    return value


def _list(message: Mapping[str, Any], name: str) -> list[Any]:
    value = message.get(name)
    if not isinstance(value, list):
        raise ValueError(f"no list {name}")
    return value
