"""The socket that the page is served from, and the server on it."""

from __future__ import annotations

import logging
import socket
from typing import Any

from t2t_lite.errors import UsageError

_MAX_BYTES = 1 << 20  # of a request
_THREADS = 4  # the model answers one request at a time; the others hand out files or wait


def listen(host: str, port: int) -> socket.socket:
    """Returns a socket that listens there; browsers that come early wait. Port 0: any that is free.

    Raises:
        UsageError: no address of this machine, or a port that is taken or reserved.
    """
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family)
    except (OSError, UnicodeError) as error:  # UnicodeError: a name that no resolver takes
        reason = str(getattr(error, "strerror", error)).partition(" (while")[0]  # the rest tells the address again
        raise UsageError(
            f"The page cannot be served at --host={host} --port={port} ({reason}). Give an address of this machine and "
            "a free port; --port=0 finds one."
        ) from None


def serve(app: Any, listener: socket.socket) -> None:
    """Serves until Ctrl-C, which ends in KeyboardInterrupt as elsewhere."""
    import waitress

    logging.getLogger("waitress.queue").setLevel(logging.ERROR)  # requests may wait for the model
    server = waitress.create_server(app, sockets=[listener], threads=_THREADS, max_request_body_size=_MAX_BYTES)
    server.run()
    raise KeyboardInterrupt
