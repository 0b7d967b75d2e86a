"""A gate in front of TensorFlow Serving: only well-formed requests for translations reach the server.

    pip install flask waitress
    python gate.py --server=http://127.0.0.1:8501 --model=ende --port=8600

The server batches requests before it looks into them, so one of a wrong shape spoils those that it is batched with; and
some signatures answer a few bytes with megabytes. The gate takes POST /v1/models/MODEL/labels/LABEL:predict with
`inputs` or `instances`: a list of texts, of a bounded number and length, and a signature of `SIGNATURES`. It answers
everything else 400, 404, 405 or 413, and the server never sees it.

It guards REST only: whoever reaches the server's own ports, 8500 (gRPC) and 8501, goes past it.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import re
import socket
import threading
from typing import Any
from urllib.parse import urlsplit

import flask
import waitress
from waitress.channel import HTTPChannel
from werkzeug.exceptions import HTTPException

SIGNATURES = ("serving_default", "nbest")
MAX_TEXTS = 32  # at most the server's max_batch_size
MAX_BYTES = 8_000  # of one text, in UTF-8
MAX_BODY = 6 * MAX_TEXTS * MAX_BYTES + 16_000  # bytes: JSON may write each byte as \u0061, and needs some around them
MAX_ANSWER = 8 << 20  # bytes of the server's answer
SERVER_SECONDS = 35.0  # for a whole answer of the server, which gives up after 30 itself
CLIENT_SECONDS = 10  # for a whole request to arrive, and for a whole answer to be taken
MAX_WAITING = 128  # connections without a whole request; the one that has waited longest makes room for the next
_LABEL = re.compile(r"[a-zA-Z0-9_]+")


class RefusedError(Exception):
    """A request is not well-formed; the message says why."""


def checked(body: bytes) -> bytes:
    """Returns the request that goes to the server: what was asked for, and nothing else.

    Raises:
        RefusedError: the request does not have the form that the server may see.
    """
    try:
        request = json.loads(body)
    except (ValueError, RecursionError):
        raise RefusedError("The body is not JSON.") from None
    if not isinstance(request, dict) or len({"inputs", "instances"} & request.keys()) != 1:
        raise RefusedError('Send an object with either "inputs" or "instances".')
    unknown = request.keys() - {"inputs", "instances", "signature_name"}
    if unknown:
        raise RefusedError(f"There is no field {min(unknown)!r:.80}.")
    signature = request.get("signature_name", "serving_default")
    if signature not in SIGNATURES:
        raise RefusedError(f"signature_name is one of {', '.join(SIGNATURES)}.")
    form = "inputs" if "inputs" in request else "instances"
    return json.dumps({"signature_name": signature, form: _texts(request[form], form)}).encode()


def _texts(value: Any, form: str) -> list[str]:
    """Returns the texts of a request, each a plain string."""
    if isinstance(value, dict) and form == "inputs" and value.keys() == {"inputs"}:
        value = value["inputs"]
    if not isinstance(value, list) or not 1 <= len(value) <= MAX_TEXTS:
        raise RefusedError(f'"{form}" is a list of 1 to {MAX_TEXTS} texts.')
    texts = [row["inputs"] if isinstance(row, dict) and row.keys() == {"inputs"} else row for row in value]
    for text in texts:
        if not isinstance(text, str):
            raise RefusedError(f'"{form}" holds texts only, not {json.dumps(text):.80}.')
        try:
            size = len(text.encode("utf-8"))
        except UnicodeEncodeError:
            raise RefusedError("A text holds half a character (a lone surrogate).") from None
        if size > MAX_BYTES:
            raise RefusedError(f"A text has {size:,} bytes; at most {MAX_BYTES:,} are taken.")
    return texts


class Server:
    """TensorFlow Serving's REST port, asked for one whole answer at a time.

    Args:
        address: "http://host:port".
        seconds: for an answer; pieces that keep coming do not extend it.
    """

    def __init__(self, address: str, seconds: float) -> None:
        parts = urlsplit(address)
        if parts.scheme != "http" or not parts.hostname or not parts.port or parts.path.strip("/"):
            raise ValueError(f"{address!r} is not of the form http://host:port")
        self._host, self._port, self._seconds = parts.hostname, parts.port, seconds

    def ask(self, path: str, body: bytes) -> tuple[int, bytes]:
        """Returns the status and the body of the answer.

        Raises:
            TimeoutError: there was none in time.
            OSError, http.client.HTTPException: there was none, it was cut, too long, or compressed in spite of all.
        """
        connection = http.client.HTTPConnection(self._host, self._port, timeout=self._seconds)
        with contextlib.closing(connection):
            connection.connect()
            late = threading.Event()
            end = threading.Timer(self._seconds, _cut, [connection.sock, late])
            end.start()
            try:
                connection.request("POST", path, body, {"Accept-Encoding": "identity"})
                with connection.getresponse() as answer:
                    data = answer.read(MAX_ANSWER + 1)
                    whole = not answer.length and not answer.getheader("Content-Encoding")
            except (OSError, http.client.HTTPException) as error:
                raise TimeoutError if late.is_set() else error from None
            finally:
                end.cancel()
        if late.is_set():
            raise TimeoutError
        if not whole or len(data) > MAX_ANSWER:
            raise http.client.HTTPException("not an answer that can be handed on")
        return answer.status, data


def _cut(connection: socket.socket, late: threading.Event) -> None:
    """Ends a connection from another thread than the one that reads from it."""
    late.set()
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


def make_app(address: str, model: str, seconds: float = SERVER_SECONDS) -> flask.Flask:
    """Returns the application; `seconds`: for an answer of the server at this address."""
    app = flask.Flask("gate", static_folder=None)
    server = Server(address, seconds)

    @app.post(f"/v1/models/{model}/labels/<label>:predict")
    def predict(label: str) -> flask.Response:
        if not _LABEL.fullmatch(label):
            flask.abort(404)
        try:
            body = checked(flask.request.get_data())
        except RefusedError as error:
            return _error(str(error), 400)
        try:
            status, data = server.ask(f"/v1/models/{model}/labels/{label}:predict", body)
        except TimeoutError:
            return _error("The server gave no answer in time.", 504)
        except OSError:
            return _error("The server cannot be reached.", 503)
        except http.client.HTTPException:
            return _error("The server's answer cannot be handed on.", 502)
        return flask.Response(data, status, content_type="application/json")

    @app.errorhandler(HTTPException)
    def refuse(error: HTTPException) -> flask.Response:
        return _error(error.description or error.name, error.code or 500)

    return app


def _error(words: str, status: int) -> flask.Response:
    return flask.Response(json.dumps({"error": words}), status, content_type="application/json")


class Channel(HTTPChannel):
    """A connection of a client: further parts of a request or an answer do not extend the time for the whole."""

    def __init__(self, server: Any, *args: Any, **options: Any) -> None:
        super().__init__(server, *args, **options)
        waiting = [each for each in server.active_channels.values() if not each.requests and not each.will_close]
        if len(waiting) > MAX_WAITING:
            min(waiting, key=lambda each: each.last_activity).will_close = True

    def handle_read(self) -> None:
        activity, begun = self.last_activity, self.request is not None
        super().handle_read()
        if begun and self.request is not None:
            self.last_activity = activity

    def writable(self) -> bool:
        if self.will_close:  # waitress would wait until a client that takes nothing takes something
            with contextlib.suppress(OSError):
                self.socket.shutdown(socket.SHUT_RDWR)
        return bool(super().writable())

    def handle_write(self) -> None:
        activity = self.last_activity
        super().handle_write()
        if self.total_outbufs_len:
            self.last_activity = activity


def make_server(app: flask.Flask, host: str, port: int) -> Any:
    """Returns a server with `run`; bodies above the limit are refused by their length, or where they pass it."""
    family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    server = waitress.create_server(
        app,
        sockets=[socket.create_server(address[:2], family=family)],
        threads=64,
        max_request_body_size=MAX_BODY,
        channel_timeout=CLIENT_SECONDS,
        cleanup_interval=1,
        connection_limit=1000,
        asyncore_use_poll=True,
    )
    server.channel_class = Channel
    return server


def main() -> None:
    """Runs the gate until it is stopped."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--server", default="http://127.0.0.1:8501", help="TensorFlow Serving's REST port")
    parser.add_argument("--model", required=True)
    parser.add_argument("--host", default="127.0.0.1", help="0.0.0.0 lets other machines in")
    parser.add_argument("--port", type=int, default=8600)
    args = parser.parse_args()
    try:
        app = make_app(args.server, args.model)
    except ValueError as error:
        parser.error(f"--server: {error}")
    make_server(app, args.host, args.port).run()


if __name__ == "__main__":
    main()
