"""TensorFlow Serving's REST API (/v1/models/...) with the standard library alone."""

import contextlib
import http.client
import json
import socket
import ssl
import threading
import time
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from t2t_lite.client.endpoint import Target
from t2t_lite.client.errors import NoAnswerError, ServerError, failure
from t2t_lite.errors import T2TError

_CONNECT_SECONDS = 10.0
_CHUNK = 1 << 16
_EXCERPT = 200  # characters that a message quotes from an answer that is not understood
# A server may close a kept connection at any moment. The next request on it then fails with one of these errors,
# before any answer.
_STALE = (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError, ssl.SSLEOFError)


class Rest:
    """Requests to one model. Threads may share it: each request has its own connection, kept for later ones."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._base = f"/v1/models/{quote(target.model, safe='')}"
        self._version = ""
        if target.version is not None:
            self._version = f"/versions/{target.version}"
        elif target.label is not None:
            self._version = f"/labels/{quote(target.label, safe='')}"
        self._tls = ssl.create_default_context() if target.tls else None
        self._lock = threading.Lock()
        self._idle: list[http.client.HTTPConnection] = []
        self._busy: set[http.client.HTTPConnection] = set()
        self._closed = False

    def predict(self, signature: str, texts: Sequence[str], timeout: float) -> dict[str, Any]:
        """Returns the outputs of a signature by name, as nested lists over the texts; errors as `errors.failure`.

        It uses the column form, in which the server leaves out the name if there is only one output.
        """
        # Never an empty list: a batching server would hold the request until another one comes.
        body = json.dumps({"signature_name": signature, "inputs": list(texts)}, ensure_ascii=False).encode("utf-8")
        answer = self._request("POST", f"{self._base}{self._version}:predict", body, timeout)
        outputs = answer.get("outputs")
        if isinstance(outputs, dict):
            return outputs
        if isinstance(outputs, list):
            return {"outputs": outputs}
        raise self._not_understood(json.dumps(answer))

    def states(self, timeout: float) -> list[tuple[int, str, str]]:
        """Returns (version, state, error message) of the versions that the server knows."""
        version = self._version if self._target.version is not None else ""  # the server ignores a label here
        answer = self._request("GET", f"{self._base}{version}", None, timeout)
        try:
            return [
                (int(entry["version"]), entry["state"], entry["status"]["error_message"])
                for entry in answer["model_version_status"]
            ]
        except (KeyError, TypeError, ValueError, OverflowError):
            raise self._not_understood(json.dumps(answer)) from None

    def close(self) -> None:
        """Closes the connections; requests under way in other threads end with an error."""
        with self._lock:
            self._closed = True
            for connection in self._idle:
                connection.close()
            for connection in self._busy:
                if connection.sock is not None:
                    with contextlib.suppress(OSError):
                        # The plain socket's shutdown, also under TLS: it wakes the reading thread,
                        # and takes nothing away.
                        socket.socket.shutdown(connection.sock, socket.SHUT_RDWR)

    def _request(self, method: str, path: str, body: bytes | None, timeout: float) -> dict[str, Any]:
        """Returns the JSON object of the server's answer; raises an error for any status but 200 (see `failure`)."""
        try:
            status, location, data = self._exchange(method, path, body, timeout)
        except TimeoutError:
            raise NoAnswerError(
                f"The {self._target} gave no answer within {timeout:g} s; see --timeout of t2t-lite-query."
            ) from None
        except (http.client.IncompleteRead, *_STALE) as error:
            raise NoAnswerError(f"The {self._target} closed the connection before its answer was whole.") from error
        except OSError as error:
            raise NoAnswerError(
                f"{self._target.address} cannot be reached ({error.strerror or error}). Is the server running there?"
            ) from error
        except http.client.HTTPException as error:
            raise ServerError(
                f"{self._target.address} does not speak HTTP/1.1 ({type(error).__name__}). "
                "TensorFlow Serving's REST port is 8501; 8500 is gRPC's (--protocol=grpc)."
            ) from error
        if 300 <= status < 400:
            raise ServerError(
                f"{self._target.address} sends its clients on to {location}; redirects are not followed. "
                "Give the server's own address."
            )
        if status == 200:
            return self._parse(data)
        raise self._refusal(status, data)

    def _exchange(self, method: str, path: str, body: bytes | None, timeout: float) -> tuple[int, str, bytes]:
        """Sends a request and returns the answer's status, Location and body.

        A kept connection that ends without an answer may have been closed before, so the request is sent once more.
        """
        deadline = time.monotonic() + timeout
        connection, kept = self._take()
        try:
            return self._once(connection, method, path, body, deadline)
        except _STALE:
            if not kept:
                raise
        connection, _ = self._take(fresh=True)
        return self._once(connection, method, path, body, deadline)

    def _once(
        self, connection: http.client.HTTPConnection, method: str, path: str, body: bytes | None, deadline: float
    ) -> tuple[int, str, bytes]:
        whole = False
        try:
            self._open(connection, deadline)
            connection.request(method, path, body, {"Content-Type": "application/json"})
            answer = _read(connection, deadline)
            whole = True
            return answer
        finally:
            self._put_back(connection, whole)

    def _take(self, *, fresh: bool = False) -> tuple[http.client.HTTPConnection, bool]:
        """Returns a connection for this thread alone, and whether it was used before.

        Args:
            fresh: a new one; those that are kept are closed, as the server has probably closed them, too.
        """
        host, port = self._target.host, self._target.port
        with self._lock:
            while fresh and self._idle:
                self._idle.pop().close()
            kept = bool(self._idle)
            if kept:
                connection = self._idle.pop()
            elif self._tls:
                connection = http.client.HTTPSConnection(host, port, context=self._tls)
            else:
                connection = http.client.HTTPConnection(host, port)
            self._busy.add(connection)
        return connection, kept

    def _open(self, connection: http.client.HTTPConnection, deadline: float) -> None:
        """Connects, if need be, and sets the remaining time as its timeout."""
        if connection.sock is None:
            connection.timeout = min(_seconds_until(deadline), _CONNECT_SECONDS)
            try:
                connection.connect()
            except TimeoutError:
                raise OSError(f"no connection within {connection.timeout:.0f} s") from None
        connection.sock.settimeout(_seconds_until(deadline))
        if self._closed:
            raise ServerError(f"The connection to the {self._target} is closed.")

    def _put_back(self, connection: http.client.HTTPConnection, whole: bool) -> None:
        with self._lock:
            self._busy.discard(connection)
            if whole and connection.sock is not None and not self._closed:  # None: the server closes it
                self._idle.append(connection)
                return
        connection.close()

    def _parse(self, data: bytes) -> dict[str, Any]:
        try:
            answer = json.loads(data.decode("utf-8"))  # Python's json accepts the bare NaN and Infinity in it
        except UnicodeDecodeError:
            raise ServerError(f"The {self._target} answered text that is not UTF-8.") from None
        except (ValueError, RecursionError):
            answer = None
        if isinstance(answer, dict):
            return answer
        raise self._not_understood(data.decode("utf-8"))

    def _refusal(self, status: int, data: bytes) -> T2TError:
        text = data.decode("utf-8", errors="replace")
        try:
            said = json.loads(text, strict=False)["error"]
        except (ValueError, RecursionError, TypeError, LookupError):
            said = None
        if isinstance(said, str):
            return failure(status, said, self._target)
        if status in (401, 403, 413, 429, 502, 503, 504):  # may come from a proxy, as HTML
            return failure(status, http.client.responses[status], self._target)
        return ServerError(
            f"{self._target.address} answered {status} and not as TensorFlow Serving does: {_excerpt(text)!r}. "
            "Is it the server's REST port (8501 if not set)?"
        )

    def _not_understood(self, text: str) -> ServerError:
        return ServerError(f"The {self._target} answered what is no prediction: {_excerpt(text)!r}.")


def _seconds_until(deadline: float) -> float:
    """Returns the seconds until the deadline; raises TimeoutError past it."""
    seconds = deadline - time.monotonic()
    if seconds <= 0:
        raise TimeoutError
    return seconds


def _read(connection: http.client.HTTPConnection, deadline: float) -> tuple[int, str, bytes]:
    """Reads status, Location and body; the deadline holds for all of it, not for each piece."""
    sock = connection.sock
    pieces = []
    with connection.getresponse() as response:
        while piece := response.read1(_CHUNK):
            pieces.append(piece)
            if not response.isclosed():  # newer Pythons close it with the last piece, and with it perhaps the socket
                sock.settimeout(_seconds_until(deadline))
        if response.length:  # bytes are missing; read1 does not report it
            raise http.client.IncompleteRead(b"", response.length)
    return response.status, response.getheader("Location", "elsewhere"), b"".join(pieces)


def _excerpt(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= _EXCERPT else f"{words[:_EXCERPT]}..."
