"""TensorFlow Serving's gRPC API (PredictionService, ModelService) with its official stubs.

The stubs' messages are TensorFlow's own, so they load TensorFlow. This takes seconds that `rest` does not need.
"""

from __future__ import annotations

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
_TLS = ("Tls handshake failed", "Hostname Verification Check failed", "Failed to create security handshaker")
_ROOTS = "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH"  # gRPC's variable for the file of certificates that it trusts


def check_installed() -> None:
    """Raises UsageError unless the packages of the extra t2t-lite[grpc] are there; loads none of them."""
    for name, package in (("grpc", "grpcio"), ("tensorflow_serving", "tensorflow-serving-api")):
        if importlib.util.find_spec(name) is None:
            raise UsageError(
                f"gRPC needs the package {package}: pip install 't2t-lite[grpc]'. REST needs no extra package."
            )


class Rpc:
    """Requests to one model over one channel, which threads may share."""

    def __init__(self, target: Target) -> None:
        check_installed()
        import grpc
        from tensorflow_serving.apis.model_service_pb2_grpc import ModelServiceStub
        from tensorflow_serving.apis.prediction_service_pb2_grpc import PredictionServiceStub

        self._target = target
        if target.tls:
            credentials = grpc.ssl_channel_credentials(_roots())
            self._channel = grpc.secure_channel(target.address, credentials, options=_OPTIONS)
        else:
            self._channel = grpc.insecure_channel(target.address, options=_OPTIONS)
        self._predict = PredictionServiceStub(self._channel).Predict
        self._status = ModelServiceStub(self._channel).GetModelStatus

    def predict(self, signature: str, texts: Sequence[str], timeout: float) -> dict[str, Any]:
        """Returns the outputs of a signature by name, as nested lists; see `client.Connection`."""
        import tensorflow as tf
        from tensorflow_serving.apis.predict_pb2 import PredictRequest

        request = PredictRequest()
        self._fill(request.model_spec)
        request.model_spec.signature_name = signature
        request.inputs["inputs"].CopyFrom(tf.make_tensor_proto([text.encode("utf-8") for text in texts], tf.string))
        answer = self._call(self._predict, request, timeout)
        try:
            # Converts with NumPy: a TensorFlow op would occupy a GPU.
            return {name: tf.make_ndarray(value).tolist() for name, value in answer.outputs.items()}
        except (TypeError, ValueError) as error:
            raise ServerError(
                f"The {self._target} packs its answer in a way that cannot be read ({error}). Run it without "
                "--enable_serialization_as_tensor_content, or use REST."
            ) from error

    def states(self, timeout: float) -> list[tuple[int, str, str]]:
        """Returns (version, state, error message) of the versions that the server knows."""
        from tensorflow_serving.apis.get_model_status_pb2 import GetModelStatusRequest, ModelVersionStatus

        request = GetModelStatusRequest()
        self._fill(request.model_spec)
        answer = self._call(self._status, request, timeout)
        return [
            (entry.version, ModelVersionStatus.State.Name(entry.state), entry.status.error_message)
            for entry in answer.model_version_status
        ]

    def close(self) -> None:
        """Closes the channel; requests under way in other threads end with an error."""
        self._channel.close()

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
