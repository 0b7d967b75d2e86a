"""The REST API of TensorFlow Serving over a ServedModel: requests, answers and errors as SERVING.md describes them."""

import http.server
import json
import re
import socket
import sys
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

import numpy as np
import tensorflow as tf
from google.protobuf import json_format

from t2t_lite.client.errors import HTTP_STATUS
from tests.serving.served_model import RefusalError, ServedModel, Version, metadata

_MODEL = r"/v1/models/(?P<name>[^/:]+)(?:/versions/(?P<version>\d+)|/labels/(?P<label>[^/:]+))?"
_PREDICT = re.compile(_MODEL + ":predict", re.IGNORECASE)
_STATUS = re.compile(_MODEL + "(?P<metadata>/metadata)?", re.IGNORECASE)
_KINDS = {bool: "True", int: "Number", float: "Number", str: "String", dict: "Object", type(None): "Null"}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    model: ServedModel  # `start` sets this and the next
    timeout_seconds: float

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        match = _PREDICT.fullmatch(self.path)
        if match is None:
            self._malformed()
            return
        try:
            fault = self.model.next_fault()
            if fault.drop:
                self.connection.shutdown(socket.SHUT_RDWR)
                self.close_connection = True
            elif fault.body is not None:
                self._send(fault.status, fault.body, dict(fault.headers))
            else:
                self._send(200, _predict(self.model, match, body, self.timeout_seconds))
        except RefusalError as refusal:
            self._refuse(refusal)

    def do_GET(self) -> None:
        match = _STATUS.fullmatch(self.path)
        if match is None:
            self._malformed()
            return
        name, version, label = _spec(match)
        try:
            if match["metadata"]:
                answer = _metadata(self.model.choose(name, version, label), name)
            else:
                answer = {
                    "model_version_status": [
                        {
                            "version": str(number),
                            "state": state,
                            "status": {"error_code": "UNKNOWN" if message else "OK", "error_message": message},
                        }
                        for number, state, message in self.model.status(name, version)
                    ]
                }
        except RefusalError as refusal:
            self._refuse(refusal)
            return
        self._send(200, json.dumps(answer, indent=1).encode())

    def _malformed(self) -> None:
        if self.path.lower().startswith("/v1/"):
            self._refuse(RefusalError("INVALID_ARGUMENT", f"Malformed request: {self.command} {self.path}"))
        else:
            self._send(404, b"<html><body><h1>Not Found</h1></body></html>", {"Content-Type": "text/html"})

    def _refuse(self, refusal: RefusalError) -> None:
        self._send(HTTP_STATUS.get(refusal.code, 500), _json({"error": refusal.message}))

    def _send(self, status: int, body: bytes, headers: Mapping[str, str] = {}) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", "Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Logs nothing, because tests read the standard streams."""


def _spec(match: re.Match[str]) -> tuple[str, int | None, str | None]:
    version, label = match["version"], match["label"]
    return unquote(match["name"]), int(version) if version else None, unquote(label) if label else None


def _predict(model: ServedModel, match: re.Match[str], body: bytes, seconds: float) -> bytes:
    request = _parse(body)
    signature = request.get("signature_name", "") or "serving_default"
    version = model.choose(*_spec(match))
    if signature not in version.meta.signature_def:
        raise RefusalError("INVALID_ARGUMENT", f'Serving signature name: "{signature}" not found in signature def')
    types = version.inputs(signature)
    rows = "instances" in request
    if rows == ("inputs" in request):
        said = "Not formatted correctly expecting only one of 'inputs' or 'instances' keys to exist "
        raise RefusalError("INVALID_ARGUMENT", said if rows else "Missing 'inputs' or 'instances' key")
    inputs = _from_rows(request["instances"], types) if rows else _from_columns(request["inputs"], types)
    outputs = model.predict(version, signature, inputs, seconds)
    for name, value in outputs.items():
        outputs[name] = _to_json(np.asarray(value))
    if not rows:
        return _json({"outputs": next(iter(outputs.values())) if len(outputs) == 1 else outputs})
    if len(outputs) == 1:
        return _json({"predictions": next(iter(outputs.values()))})
    return _json({"predictions": [dict(zip(outputs, row, strict=True)) for row in zip(*outputs.values(), strict=True)]})


def _parse(body: bytes) -> dict[str, Any]:
    try:
        request = json.loads(_as_text(body))
    except ValueError as error:
        place = getattr(error, "pos", 0)
        raise RefusalError("INVALID_ARGUMENT", f"JSON Parse error: Invalid value. at offset: {place}") from error
    if not isinstance(request, dict):
        raise RefusalError("INVALID_ARGUMENT", f"JSON Value: {json.dumps(request)} Is not object")
    return request


def _from_rows(rows: Any, types: Mapping[str, tf.DType]) -> dict[str, np.ndarray]:
    if not isinstance(rows, list) or not rows:
        raise RefusalError("INVALID_ARGUMENT", f"JSON Value: {json.dumps(rows)} No values in 'instances' array")
    named = _is_named(rows[0])
    if not named and len(types) > 1:
        raise RefusalError(
            "INVALID_ARGUMENT",
            "instances is a plain list, but expecting list of objects as multiple input tensors required as per "
            "tensorinfo_map",
        )
    columns: dict[str, list[Any]] = {name: [] for name in types}
    for number, row in enumerate(rows):
        try:
            if _is_named(row) != named:
                raise RefusalError("INVALID_ARGUMENT", f"Expecting {'object' if named else 'value/list'}")
            if named and set(row) != set(types):
                raise RefusalError("INVALID_ARGUMENT", f"keys must be equal to: {','.join(types)}")
            for name, dtype in types.items():
                columns[name].append(_from_json(row[name] if named else row, dtype))
        except RefusalError as refusal:
            raise RefusalError(
                "INVALID_ARGUMENT",
                f"Failed to process element: {number} of 'instances' list. Error: {refusal.code}: {refusal.message}",
            ) from refusal
    return {name: _array(values, types[name]) for name, values in columns.items()}


def _from_columns(value: Any, types: Mapping[str, tf.DType]) -> dict[str, np.ndarray]:
    if not _is_named(value):
        if len(types) > 1:
            raise RefusalError("INVALID_ARGUMENT", "inputs is a plain value/list, but expecting an object")
        value = {next(iter(types)): value}
    for name in types:
        if name not in value:
            raise RefusalError("INVALID_ARGUMENT", f"Missing named input: {name} in 'inputs' object.")
    return {name: _array(_from_json(value[name], dtype), dtype) for name, dtype in types.items()}


def _is_named(value: Any) -> bool:
    return isinstance(value, dict)


def _from_json(value: Any, dtype: tf.DType) -> Any:
    """Checks and converts one value, or nested lists of them."""
    if isinstance(value, list):
        return [_from_json(item, dtype) for item in value]
    if dtype == tf.string:
        right = isinstance(value, str)
    else:
        right = isinstance(value, int if dtype.is_integer else (int, float)) and not isinstance(value, bool)
    if not right:
        raise RefusalError(
            "INVALID_ARGUMENT",
            f"JSON Value: {json.dumps(value)} Type: {_KINDS[type(value)]} is not of expected type: {dtype.name}",
        )
    try:
        return value.encode("utf-8", "surrogateescape") if dtype == tf.string else value
    except UnicodeEncodeError as error:
        said = "JSON Parse error: The surrogate pair in string is invalid."
        raise RefusalError("INVALID_ARGUMENT", said) from error


def _array(values: Any, dtype: tf.DType) -> np.ndarray:
    try:
        array = np.array(values, dtype=object if dtype == tf.string else dtype.as_numpy_dtype)
    except (ValueError, OverflowError):
        array = None
    if array is None or any(isinstance(item, list) for item in array.flat):
        raise RefusalError("INVALID_ARGUMENT", "Encountered list at unexpected size")
    return array


def _to_json(value: Any) -> Any:
    if isinstance(value, np.ndarray) and value.ndim:
        return [_to_json(item) for item in value]
    plain = value.item() if isinstance(value, (np.ndarray, np.generic)) else value
    if isinstance(plain, bytes):
        return _as_text(plain)
    return float(str(value)) if isinstance(plain, float) else plain  # 0.1, not 0.10000000149


def _as_text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")  # the server does not check it either


def _json(answer: Any) -> bytes:
    """Writes JSON as the server does: the bytes of strings as they are, NaN without quotes."""
    return json.dumps(answer, ensure_ascii=False, indent=4).encode("utf-8", "surrogateescape")


def _metadata(version: Version, name: str) -> Any:
    signatures = json_format.MessageToDict(
        metadata(version), preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )
    return {"model_spec": {"name": name, "signature_name": ""}, "metadata": {"signature_def": signatures}}


class RestServer(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignores that a client has gone away, which is no fault of the server."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


def start(model: ServedModel, port: int, timeout_seconds: float) -> RestServer:
    """Returns a server on loopback that is ready for serve_forever() (`port` 0: a free one)."""
    handler = type("ModelHandler", (Handler,), {"model": model, "timeout_seconds": timeout_seconds})
    return RestServer(("127.0.0.1", port), handler)
