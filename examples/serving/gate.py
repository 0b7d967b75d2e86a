"""A gate in front of TensorFlow Serving: only well-formed requests for translations reach the server.

    pip install flask waitress urllib3
    python gate.py --server=http://127.0.0.1:8501 --model=ende --port=8600

The server batches requests before it looks into them, so one of a wrong shape spoils those that it is batched with; and
some signatures answer a few bytes with megabytes. The gate takes POST /v1/models/MODEL/labels/LABEL:predict with
`inputs` or `instances`: a list of texts, of a bounded number and length, and a signature of `SIGNATURES`. It answers
everything else 400, 404, 405 or 413 in a sentence, and the server never sees it.
"""

from __future__ import annotations

import argparse
import json
import re
from typing import Any

import flask
import urllib3
import waitress
from werkzeug.exceptions import HTTPException

SIGNATURES = ("serving_default", "nbest")
MAX_TEXTS = 32  # at most the server's max_batch_size
MAX_BYTES = 8_000  # of one text, in UTF-8
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


def make_app(server: str, model: str, timeout: float = 35.0) -> flask.Flask:
    """Returns the application; `timeout` in seconds, above the server's own of 30."""
    app = flask.Flask("gate", static_folder=None)
    app.config["MAX_CONTENT_LENGTH"] = 2 * MAX_TEXTS * MAX_BYTES
    pool = urllib3.PoolManager(maxsize=64, retries=False, timeout=timeout)

    @app.post(f"/v1/models/{model}/labels/<label>:predict")
    def predict(label: str) -> flask.Response:
        if not _LABEL.fullmatch(label):
            flask.abort(404)
        try:
            body = checked(flask.request.get_data())
        except RefusedError as error:
            return _answer({"error": str(error)}, 400)
        try:
            answer = pool.request("POST", f"{server}/v1/models/{model}/labels/{label}:predict", body=body)
        except urllib3.exceptions.ReadTimeoutError:
            return _answer({"error": "The server gave no answer in time."}, 504)
        except urllib3.exceptions.HTTPError:
            return _answer({"error": "The server cannot be reached."}, 503)
        return flask.Response(answer.data, answer.status, content_type="application/json")

    @app.errorhandler(HTTPException)
    def refuse(error: HTTPException) -> flask.Response:
        return _answer({"error": error.description or error.name}, error.code or 500)

    return app


def _answer(value: dict[str, str], status: int) -> flask.Response:
    return flask.Response(json.dumps(value), status, content_type="application/json")


def main() -> None:
    """Runs the gate until it is stopped."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--server", default="http://127.0.0.1:8501", help="TensorFlow Serving's REST port")
    parser.add_argument("--model", required=True)
    parser.add_argument("--host", default="127.0.0.1", help="0.0.0.0 lets other machines in")
    parser.add_argument("--port", type=int, default=8600)
    args = parser.parse_args()
    waitress.serve(make_app(args.server, args.model), host=args.host, port=args.port, threads=64, channel_timeout=10)


if __name__ == "__main__":
    main()
