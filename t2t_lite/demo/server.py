"""Socket and server of the page."""

import contextlib
import logging
import socket
from typing import Any

from t2t_lite.errors import UsageError

_MAX_BYTES = 1 << 20  # of a request
_THREADS = 4  # the model answers one request at a time; other threads serve files or wait
# For a whole request, or the next one, to arrive, and for an answer to be taken. Then the connection is closed, because
# connections are limited.
_SECONDS = 5


def listen(host: str, port: int) -> socket.socket:
    """Returns a socket that listens at this address; browsers that connect early wait. Port 0: any free port.

    Raises:
        UsageError: `host` is not an address of this machine, or the port is taken or reserved.
    """
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family)
    except (OSError, UnicodeError) as error:  # UnicodeError: a name that no resolver takes
        reason = str(getattr(error, "strerror", error)).partition(" (while")[0]  # the rest repeats the address
        raise UsageError(
            f"The page cannot be served at --host={host} --port={port} ({reason}). Give an address of this machine and "
            "a free port; --port=0 finds one."
        ) from None


def serve(app: Any, listener: socket.socket) -> None:
    """Serves until Ctrl-C, which raises KeyboardInterrupt as elsewhere."""
    make_server(app, listener).run()
    raise KeyboardInterrupt


def make_server(app: Any, listener: socket.socket) -> Any:
    """Returns a server of Waitress, with `run`."""
    import waitress
    from waitress.channel import HTTPChannel

    class Channel(HTTPChannel):
        """A connection; further parts of a request or an answer do not extend the time limit for the whole."""

        last_activity: float
        socket: socket.socket

        def handle_read(self) -> None:
            activity, begun = self.last_activity, self.request is not None
            super().handle_read()
            if begun and self.request is not None:
                self.last_activity = activity

        def writable(self) -> bool:
            if self.will_close:  # Waitress would wait until a client that takes nothing takes something
                with contextlib.suppress(OSError):
                    self.socket.shutdown(socket.SHUT_RDWR)
            return bool(super().writable())

        def handle_write(self) -> None:
            activity = self.last_activity
            super().handle_write()
            if self.total_outbufs_len:
                self.last_activity = activity

    logging.getLogger("waitress.queue").setLevel(logging.ERROR)  # requests may wait for the model
    server = waitress.create_server(
        app,
        sockets=[listener],
        threads=_THREADS,
        max_request_body_size=_MAX_BYTES,
        channel_timeout=_SECONDS,
        cleanup_interval=1,
    )
    server.channel_class = Channel
    return server
