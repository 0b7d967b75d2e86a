"""A model on a server: an address as users write it, a name, and perhaps a version or a label."""

from __future__ import annotations

import dataclasses
from urllib.parse import urlsplit

from t2t_lite.errors import UsageError

_MAX_VERSION = 2**63 - 1  # int64 in ModelSpec


@dataclasses.dataclass(frozen=True)
class Target:
    """One model (its newest version, `version`, or the one with `label`) of the server at host:port."""

    host: str
    port: int
    tls: bool
    model: str
    version: int | None = None
    label: str | None = None

    @classmethod
    def parse(cls, server: str, model: str, version: int | None = None, label: str | None = None) -> Target:
        """Reads "host:port", "[::1]:port", "http://host:port" or "https://host:port" (TLS).

        Raises:
            UsageError: an address of another form, an impossible name, or both a version and a label.
        """
        host, port, tls = _address(server)
        for what, name in (("model", model), ("label", label)):
            if name is not None and (not name or not name.isprintable() or set(name) & set("/:")):
                raise UsageError(f"{name!r} cannot be the name of a {what}: it may hold neither / nor : nor be empty.")
        if version is not None and label is not None:
            raise UsageError(f"Give a version ({version}) or a label ({label!r}), not both.")
        if version is not None and not 0 <= version <= _MAX_VERSION:
            raise UsageError(f"{version} cannot be a version: versions are whole numbers from 0 to 2^63 - 1.")
        return cls(host, port, tls, model, version, label)

    @property
    def address(self) -> str:
        """host:port, as gRPC and messages write it."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def __str__(self) -> str:
        which = ""
        if self.version is not None:
            which = f" (version {self.version})"
        elif self.label is not None:
            which = f" (label {self.label!r})"
        return f"model {self.model!r}{which} at {self.address}"


def _address(server: str) -> tuple[str, int, bool]:
    """Returns (host, port, whether TLS)."""
    try:
        parts = urlsplit(server if "://" in server else f"http://{server}")
        host, port = parts.hostname or "", parts.port
        host.encode("idna")
    except ValueError as error:  # a port that is no number, an unclosed bracket, a name that no resolver takes
        raise UsageError(f"The server {server!r} is not of the form host:port ({error}).") from None
    extras = (parts.username, parts.path.strip("/"), parts.query, parts.fragment)
    if parts.scheme not in ("http", "https") or not host or any(extras):
        raise UsageError(f"The server {server!r} is not of the form host:port, http://host:port or https://host:port.")
    if not port:
        raise UsageError(f"The server {server!r} names no port. TensorFlow Serving's are 8501 (REST) and 8500 (gRPC).")
    return host, port, parts.scheme == "https"
