"""PredictionService and ModelService of TensorFlow Serving over a ServedModel, on the official stubs."""

from concurrent import futures
from typing import Any

import grpc
import numpy as np
import tensorflow as tf
from tensorflow_serving.apis import (
    get_model_status_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
)

from tests.serving.served_model import RefusalError, ServedModel


def _spec(spec: Any) -> tuple[str, int | None, str | None]:
    choice = spec.WhichOneof("version_choice")
    return (
        spec.name,
        spec.version.value if choice == "version" else None,
        spec.version_label if choice == "version_label" else None,
    )


class PredictionService(prediction_service_pb2_grpc.PredictionServiceServicer):
    def __init__(self, model: ServedModel) -> None:
        self._model = model

    def Predict(self, request: Any, context: grpc.ServicerContext) -> Any:  # noqa: N802
        signature = request.model_spec.signature_name or "serving_default"
        try:
            self._model.next_fault()
            version = self._model.choose(*_spec(request.model_spec))
            if signature not in version.meta.signature_def:
                raise RefusalError("FAILED_PRECONDITION", f'Serving signature key "{signature}" not found.')
            inputs = {name: tf.make_ndarray(value) for name, value in request.inputs.items()}
            outputs = self._model.predict(version, signature, inputs, context.time_remaining() or 3600.0)
        except RefusalError as refusal:
            context.abort(getattr(grpc.StatusCode, refusal.code), refusal.message)
        answer = predict_pb2.PredictResponse()
        answer.model_spec.name, answer.model_spec.signature_name = self._model.name, signature
        for name, value in outputs.items():
            answer.outputs[name].CopyFrom(tf.make_tensor_proto(_plain(value)))
        return answer


class ModelService(model_service_pb2_grpc.ModelServiceServicer):
    def __init__(self, model: ServedModel) -> None:
        self._model = model

    def GetModelStatus(self, request: Any, context: grpc.ServicerContext) -> Any:  # noqa: N802
        name, version, _ = _spec(request.model_spec)
        try:
            states = self._model.status(name, version)
        except RefusalError as refusal:
            context.abort(getattr(grpc.StatusCode, refusal.code), refusal.message)
        answer = get_model_status_pb2.GetModelStatusResponse()
        for number, state, message in states:
            entry = answer.model_version_status.add(
                version=number, state=get_model_status_pb2.ModelVersionStatus.State.Value(state)
            )
            entry.status.error_message = message
        return answer


def start(model: ServedModel, port: int, credentials: grpc.ServerCredentials | None = None) -> tuple[grpc.Server, int]:
    """Starts the server on loopback; returns it and its port (`port` 0: a free one)."""
    options = [("grpc.max_receive_message_length", -1), ("grpc.so_reuseport", 0)]
    server = grpc.server(futures.ThreadPoolExecutor(16), options=options)
    prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(PredictionService(model), server)
    model_service_pb2_grpc.add_ModelServiceServicer_to_server(ModelService(model), server)
    address = f"127.0.0.1:{port}"
    bound = server.add_secure_port(address, credentials) if credentials else server.add_insecure_port(address)
    server.start()
    return server, bound


def _plain(value: Any) -> np.ndarray:
    """Returns an array whose strings are objects; a session returns arrays of objects, or a single string."""
    array = np.asarray(value)
    return array.astype(object) if array.dtype.kind in "OSU" else array
