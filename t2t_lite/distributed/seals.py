"""Seals: workers prove that they belong to one job, with a key that lies in the run's folder and never travels.

Both ends of a connection first send a nonce. After that each message has a seal: an HMAC over the sender's role, both
nonces, the number of the message and its text. So only who can read the run's folder can write a message, and none can
be changed, or sent again.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

KEY_FILE = ".join_key"
MOST_BYTES = 1_000_000  # of a message
_VERSION = 1


@contextlib.contextmanager
def new_key(folder: Path) -> Iterator[bytes]:
    """Writes a key into the run's folder, which only this user can read; removes it at the end."""
    path, aside = folder / KEY_FILE, folder / f"{KEY_FILE}.{secrets.token_hex(4)}"
    key = secrets.token_hex(32).encode()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with open(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(key)
        os.replace(aside, path)  # in place of one that a killed chief has left
        yield key
    finally:
        for each in (aside, path):
            with contextlib.suppress(OSError):
                each.unlink()


def read_key(folder: Path) -> bytes:
    """Returns the key that the chief has written; an OSError where there is none, or another user's."""
    return (folder / KEY_FILE).read_bytes()


class SealError(ValueError):
    """A message was sealed with another key, or not for this connection."""


class Seals:
    """One end of a connection: makes the lines that it sends, and reads those that it gets.

    Args:
        is_chief: whether this is the chief's end; the other is a worker's.
    """

    def __init__(self, key: bytes, *, is_chief: bool) -> None:
        self._key = key
        self._own, self._others = ("chief", "worker") if is_chief else ("worker", "chief")
        self._nonce, self._others_nonce = secrets.token_hex(16), ""
        self._sent = self._got = 0

    def first_line(self) -> bytes:
        """The line that begins a connection."""
        return _line({"nonce": self._nonce})

    def seal(self, message: Mapping[str, object]) -> bytes:
        """The line of a message; the other end's first line must have been read."""
        text = json.dumps(message)
        self._sent += 1
        return _line({"text": text, "seal": self._seal(self._own, self._sent, self._nonce + self._others_nonce, text)})

    def read(self, line: bytes) -> dict[str, Any] | None:
        """Returns the message of a line; None: it was the other end's first line.

        Raises:
            ValueError: it is no such line.
            SealError: whoever wrote it does not have the key.
        """
        outer = _object(line)
        if outer.get("t2t_lite") != _VERSION:
            raise ValueError("not a line of t2t-lite")
        if not self._others_nonce:
            self._others_nonce = _text(outer, "nonce")
            return None
        text, seal = _text(outer, "text"), _text(outer, "seal")
        self._got += 1
        expected = self._seal(self._others, self._got, self._others_nonce + self._nonce, text)
        if not hmac.compare_digest(expected.encode(), seal.encode("utf-8", "replace")):
            raise SealError("another key")
        return _object(text)

    def _seal(self, role: str, number: int, nonces: str, text: str) -> str:
        return hmac.new(self._key, json.dumps([role, number, nonces, text]).encode(), hashlib.sha256).hexdigest()


def _line(message: Mapping[str, object]) -> bytes:
    return json.dumps({"t2t_lite": _VERSION, **message}).encode() + b"\n"


def _object(line: str | bytes) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    if not isinstance(value, dict):
        raise ValueError("no object")
    return value


def _text(message: Mapping[str, object], name: str) -> str:
    value = message.get(name)
    if not isinstance(value, str) or not value:
        raise ValueError(f"no {name}")
    return value
