"""Flask application: the page and its three JSON requests, /card, /translate and /attention.

Other web sites cannot use it. It refuses a foreign Host (DNS rebinding), a foreign Origin and bodies that are not
application/json, and nothing may frame the page. The page's policy lets it load only its own files.
"""

import importlib.util
import ipaddress
import logging
import math
import socket
import threading
import time
from importlib import resources
from typing import Any
from urllib.parse import urlsplit

from t2t_lite.client.errors import BusyError, ServerError
from t2t_lite.demo.backends import Backend
from t2t_lite.errors import T2TError, UsageError
from t2t_lite.insights.page import component

MAX_CHARACTERS = 2000
_EXPECTED = 'Send a JSON object such as {"text": "A dog runs."}.'
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_FILES = {
    "demo.html": "text/html",
    "demo.css": "text/css",
    "demo.js": "text/javascript",
    "card.js": "text/javascript",
    "attention.css": "text/css",
    "attention.js": "text/javascript",
}
_log = logging.getLogger("t2t_lite")


def check_installed() -> None:
    """Raises UsageError unless the packages of the extra t2t-lite[demo] are there; loads none of them."""
    for name in ("flask", "waitress"):
        if importlib.util.find_spec(name) is None:
            raise UsageError(f"The page needs {name}, which is not installed: pip install 't2t-lite[demo]'")


def make_app(backend: Backend, host: str) -> Any:
    """Returns the application.

    Args:
        backend: the model; one request at a time reaches it.
        host: the name or address that the server is bound to; browsers may call it by this.
    """
    import flask

    app = flask.Flask("t2t_lite.demo", static_folder=None)
    app.json.sort_keys = False  # type: ignore[attr-defined]  # the card has an order of its own
    lock = threading.Lock()
    _refuse_strangers(app, host)
    _tell_errors(app)

    @app.after_request
    def add_headers(response: Any) -> Any:
        response.headers.update(_HEADERS)
        return response

    def file(name: str) -> Any:
        return flask.Response(_file(name), mimetype=_FILES[name])

    for name in _FILES:
        app.add_url_rule("/" if name == "demo.html" else f"/{name}", name, file, defaults={"name": name})

    @app.get("/card")
    def card() -> dict[str, Any]:
        return {"card": backend.card, "labels": [*backend.labels]}

    @app.post("/translate")
    def translate() -> dict[str, Any]:
        lines = _text(_json(flask.request)).split("\n")
        with lock:
            start = time.perf_counter()
            results = backend.translate(lines)
            seconds = time.perf_counter() - start
        outputs = [[{"text": h.text, "score": h.score if math.isfinite(h.score) else None} for h in r] for r in results]
        return {"outputs": outputs, "seconds": round(seconds, 3)}

    @app.post("/attention")
    def attention() -> dict[str, Any]:
        text = _text(_json(flask.request))
        if not text.strip() or "\n" in text:
            raise UsageError("Attention is shown for one line that is not blank.")
        with lock:
            return backend.attention(text)

    return app


def _refuse_strangers(app: Any, host: str) -> None:
    import flask

    @app.before_request
    def refuse() -> None:
        if not _is_ours(flask.request.host, host):
            flask.abort(403, f"This page is not at {flask.request.host}; use the address that t2t-lite-demo prints.")
        origin = flask.request.headers.get("Origin")
        if origin is not None and origin.partition("://")[2] != flask.request.host:
            flask.abort(403, "Only the page itself may ask this.")


def _tell_errors(app: Any) -> None:
    from werkzeug.exceptions import HTTPException

    @app.errorhandler(Exception)
    def tell(error: Exception) -> tuple[dict[str, str], int]:
        if isinstance(error, HTTPException):
            return {"error": error.description or error.name}, error.code or 500
        if isinstance(error, T2TError):
            return {"error": str(error)}, _status(error)
        _log.error("The model failed.", exc_info=error)
        return {"error": f"The model failed ({type(error).__name__}); the terminal tells more."}, 500


def _is_ours(address: str, host: str) -> bool:
    """Whether a Host header names this machine. Other names may be rebound; a numeric address cannot be."""
    try:
        name = urlsplit(f"//{address}").hostname or ""
    except ValueError:  # brackets around something that is not an address
        return False
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return name in (host.lower(), "localhost", socket.gethostname().lower())
    return True


def _status(error: T2TError) -> int:
    if isinstance(error, BusyError):
        return 503
    if isinstance(error, ServerError):
        return 502
    return 400 if isinstance(error, UsageError) else 500


def _file(name: str) -> str:
    if name.startswith("attention."):
        return component(name.rpartition(".")[2])
    return (resources.files("t2t_lite.demo") / name).read_text(encoding="utf-8")


def _json(request: Any) -> Any:
    try:
        return request.get_json()
    except RecursionError:
        raise UsageError(f"The JSON is nested too deeply. {_EXPECTED}") from None


def _text(data: Any) -> str:
    """Returns the text of a request; raises UsageError if there is none that can be translated."""
    text = data.get("text") if isinstance(data, dict) else None
    if not isinstance(text, str):
        raise UsageError(_EXPECTED)
    if len(text) > MAX_CHARACTERS:
        raise UsageError(f"The text has {len(text):,} characters; at most {MAX_CHARACTERS:,} are translated at once.")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise UsageError("The text holds half a character (a lone surrogate).") from None
    return text
