"""TensorFlow Serving's gRPC API (PredictionService, ModelService), without TensorFlow."""

import contextlib
import importlib.util
import os
import ssl
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from t2t_lite.client.endpoint import Target
from t2t_lite.client.errors import HTTP_STATUS, NoAnswerError, ServerError, failure
from t2t_lite.errors import UsageError

_OPTIONS = (
    ("grpc.max_receive_message_length", -1),  # no limit; default: 4 MB
    ("grpc.enable_http_proxy", 0),  # direct, as REST; otherwise http_proxy is used, for localhost too
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.max_reconnect_backoff_ms", 2000),  # default: two minutes, too long when waiting for a server
)

# What grpcio says of a server that speaks HTTP/1.1, the last one of such a server with TLS.
_HTTP_1 = ("Failed parsing HTTP/2", "http1.x server", "missing selected ALPN")
# What it says of TLS that will not work the next time either.
_TLS = (
    "Tls handshake failed",
    "Ssl handshake failed",  # before gRPC 1.78
    "Hostname Verification Check failed",
    "Failed to create security handshaker",
)
_ROOTS = "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH"  # gRPC's variable for the file of certificates that it trusts


def check_installed() -> None:
    """Raises UsageError unless the package of the extra t2t-lite[grpc] is there; does not load it."""
    if importlib.util.find_spec("grpc") is None:
        raise UsageError("gRPC needs the package grpcio: pip install 't2t-lite[grpc]'. REST needs no extra package.")


class Rpc:
    """Requests to one model over one channel, which threads may share."""

    def __init__(self, target: Target) -> None:
        check_installed()
        import grpc

        from t2t_lite.client import messages

        self._messages = messages
        self._target = target
        if target.tls:
            credentials = grpc.ssl_channel_credentials(_roots())
            self._channel = grpc.secure_channel(target.address, credentials, options=_OPTIONS)
        else:
            self._channel = grpc.insecure_channel(target.address, options=_OPTIONS)
        self._predict = self._method("PredictionService", "Predict", "PredictResponse")
        self._status = self._method("ModelService", "GetModelStatus", "GetModelStatusResponse")

    def predict(self, signature: str, texts: Sequence[str], timeout: float) -> dict[str, Any]:
        """Returns the outputs of a signature by name, as nested lists over the texts; errors as `errors.failure`."""
        request = self._messages.message("PredictRequest")()
        self._fill(request.model_spec)
        request.model_spec.signature_name = signature
        self._messages.fill(request.inputs["inputs"], [text.encode("utf-8") for text in texts])
        answer = self._call(self._predict, request, timeout)
        try:
            return {name: self._messages.values(tensor) for name, tensor in answer.outputs.items()}
        except ValueError as error:
            raise ServerError(
                f"The {self._target} packs its answer in a way that cannot be read ({error}). Run it without "
                "--enable_serialization_as_tensor_content, or use REST."
            ) from error

    def states(self, timeout: float) -> list[tuple[int, str, str]]:
        """Returns (version, state, error message) of the versions that the server knows."""
        request = self._messages.message("GetModelStatusRequest")()
        self._fill(request.model_spec)
        answer = self._call(self._status, request, timeout)
        return [
            (entry.version, self._messages.STATES.get(entry.state, "UNKNOWN"), entry.status.error_message)
            for entry in answer.model_version_status
        ]

    def close(self) -> None:
        """Closes the channel; requests under way in other threads end with an error."""
        self._channel.close()

    def _method(self, service: str, method: str, answer: str) -> Callable[..., Any]:
        return self._channel.unary_unary(
            f"/tensorflow.serving.{service}/{method}",
            request_serializer=lambda request: request.SerializeToString(),
            response_deserializer=self._messages.message(answer).FromString,
        )

    def _fill(self, spec: Any) -> None:
        spec.name = self._target.model
        if self._target.version is not None:
            spec.version.value = self._target.version
        elif self._target.label is not None:
            spec.version_label = self._target.label

    def _call(self, method: Callable[..., Any], request: Any, timeout: float) -> Any:
        import grpc

        try:
            return method(request, timeout=timeout)
        except grpc.RpcError as error:
            code, said = error.code().name, error.details() or error.code().name
        if code == "DEADLINE_EXCEEDED":
            raise NoAnswerError(
                f"The {self._target} gave no answer within {timeout:g} s ({said}); see --timeout of t2t-lite-query."
            )
        if any(words in said for words in _HTTP_1):
            raise ServerError(
                f"{self._target.address} does not speak gRPC. TensorFlow Serving's gRPC port is 8500; 8501 is REST's "
                "(--protocol=rest)."
            )
        if any(words in said for words in _TLS):
            raise NoAnswerError(
                f"{self._target.address} cannot be reached with TLS ({said}). Its certificate must be for this host, "
                "and one that this system trusts, or one in the file that SSL_CERT_FILE names. For a server without "
                "TLS leave out https://."
            )
        raise failure(HTTP_STATUS.get(code, 500), said, self._target)


def _roots() -> bytes | None:
    """The certificates that the system trusts, as REST does; None: gRPC's own, or those that its variable names."""
    paths = ssl.get_default_verify_paths()
    file = paths.cafile or os.path.join(paths.capath or "", "ca-certificates.crt")
    if _ROOTS not in os.environ:
        with contextlib.suppress(OSError):
            return Path(file).read_bytes()
    return None
