"""How the workers of a cluster meet, before TensorFlow connects them.

Each tells the chief its index; the chief tells all who is missing and, when nobody is, that they may go. They close
their ports, on which TensorFlow then listens, and the chief goes last, when it can reach all of them. So what is left
for TensorFlow to wait for, during which no signal is heard, comes soon.
"""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Mapping
from typing import Any

from t2t_lite.errors import T2TError, TrainingError, UsageError
from t2t_lite.train.cluster import VARIABLE, Cluster

PAUSE = 0.2  # seconds between two looks

_SILENCE = 10.0  # seconds after which who says nothing counts as gone
_MOST_BYTES = 1_000_000  # of a message


class Party:
    """What a worker does while it waits; `run` is for a thread of its own, the rest is read by the main thread.

    Attributes:
        missing: index of a worker -> why it cannot be reached, "" where there is nothing to say.
        note: what may be wrong with this worker's own address.
        all_came: whether they had all come, so that only their connections are missing.
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
            self.note = _own_address(self._cluster)
            self._meet()
        except Exception as error:  # or the main thread would wait for ever
            self.error = TrainingError(f"The workers could not meet: {error!r}.")
        self.done.set()

    def _meet(self) -> None:
        raise NotImplementedError


class Member(Party):
    """A worker that is not the chief: goes to the chief until it says that all are there."""

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
        """Whether this worker may go, or must end; False: the chief has closed the connection."""
        _tell(chief, {"index": self._cluster.index, "addresses": self._cluster.addresses})
        with chief.makefile("rb") as lines:
            while not self.ended and (line := lines.readline(_MOST_BYTES)):
                message = _message(line)
                if refused := message.get("refused"):
                    self.error = UsageError(str(refused))
                    return True
                self.missing = {int(index): "" for index in message["missing"] if index != self._cluster.index}
                if not message["missing"]:
                    self._listener.close()  # before the connection, whose end tells the chief
                    return True
        return False


class Chief(Party):
    """The first worker: the others come to it."""

    def _meet(self) -> None:
        self._guests: dict[socket.socket, tuple[int | None, bytes, float]] = {}  # index, what it said, since when
        self._listener.settimeout(PAUSE)
        told = 0.0
        while not self.ended:
            with contextlib.suppress(TimeoutError):
                guest, _ = self._listener.accept()
                guest.setblocking(False)
                self._guests[guest] = (None, b"", time.monotonic())
            for guest in list(self._guests):
                self._hear(guest)
            here = {index for index, _, _ in self._guests.values()}
            self.missing = {index: "" for index in range(1, len(self._cluster.addresses)) if index not in here}
            if not self.missing:
                return self._go()
            if time.monotonic() - told > 1:
                told = time.monotonic()
                for guest, (index, _, _) in list(self._guests.items()):
                    if index is not None:
                        self._send(guest, {"missing": list(self.missing)})
        return None

    def _hear(self, guest: socket.socket) -> None:
        index, said, since = self._guests[guest]
        try:
            new = guest.recv(_MOST_BYTES)
        except BlockingIOError:
            if index is None and time.monotonic() - since > _SILENCE:
                self._leave(guest)
            return
        except OSError:
            new = b""
        said += new
        if not new or len(said) > _MOST_BYTES:
            self._leave(guest)
        elif index is None and said.endswith(b"\n"):
            self._greet(guest, said)
        else:
            self._guests[guest] = (index, said, since)

    def _greet(self, guest: socket.socket, said: bytes) -> None:
        try:
            message = _message(said)
            index, addresses = message["index"], message["addresses"]
        except (ValueError, KeyError):
            return self._leave(guest)
        mine = self._cluster.addresses
        if addresses != list(mine) or type(index) is not int or not 0 < index < len(mine):
            theirs = ", ".join(map(str, addresses)) if isinstance(addresses, list) else addresses
            return self._leave(
                guest,
                f"The workers do not agree on the cluster. {VARIABLE} of worker {index} has {theirs}; that of worker 0 "
                f"has {', '.join(mine)}. Give all of them the same addresses in the same order.",
            )
        for other, (taken, _, _) in list(self._guests.items()):
            if taken == index:
                self._leave(
                    other,
                    f"Another process has come as worker {index}. Give each its own index in {VARIABLE}, and start "
                    "each once.",
                )
        self._guests[guest] = (index, b"", time.monotonic())
        return None

    def _send(self, guest: socket.socket, message: Mapping[str, object]) -> None:
        try:
            _tell(guest, message)
        except OSError:
            self._leave(guest)

    def _leave(self, guest: socket.socket, why: str = "") -> None:
        with guest:
            del self._guests[guest]
            if why:
                with contextlib.suppress(OSError):
                    _tell(guest, {"refused": why})

    def _go(self) -> None:
        """Lets the others start their servers, and returns when all of them can be reached."""
        self.all_came = True
        for guest, (index, _, _) in list(self._guests.items()):
            if index is None:
                self._leave(guest)
            else:
                self._send(guest, {"missing": []})
        for guest in self._guests:
            guest.settimeout(_SILENCE)
            with guest, contextlib.suppress(OSError):
                while guest.recv(_MOST_BYTES):
                    pass
        self._listener.close()
        waiting = list(range(1, len(self._cluster.addresses)))
        while waiting and not self.ended:
            for index in list(waiting):
                try:
                    socket.create_connection(split(self._cluster.addresses[index]), timeout=_SILENCE).close()
                    waiting.remove(index)
                except OSError as error:
                    self.missing[index] = error.strerror or str(error)
            self.missing = {index: self.missing.get(index, "") for index in waiting}
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
    """Reads what `_tell` has written; ValueError: somebody else wrote that."""
    message = json.loads(line)
    if not isinstance(message, dict) or message.get("t2t_lite") != 1:
        raise ValueError("not a message of t2t-lite")
    return message
