"""The client's own gRPC messages against those of TensorFlow Serving's package, which loads TensorFlow."""

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis import get_model_status_pb2, predict_pb2

from t2t_lite.client import messages
from tests.serving.server import Server

_OFFICIAL = {
    "TensorProto": tf.make_tensor_proto(0).__class__,
    "TensorShapeProto": tf.TensorShape([1]).as_proto().__class__,
    "Dim": tf.TensorShape([1]).as_proto().dim.add().__class__,
    "StatusProto": get_model_status_pb2.ModelVersionStatus().status.__class__,
    "PredictRequest": predict_pb2.PredictRequest,
    "PredictResponse": predict_pb2.PredictResponse,
    "ModelSpec": predict_pb2.PredictRequest().model_spec.__class__,
    "Int64Value": predict_pb2.PredictRequest().model_spec.version.__class__,
    "ModelVersionStatus": get_model_status_pb2.ModelVersionStatus,
    "GetModelStatusRequest": get_model_status_pb2.GetModelStatusRequest,
    "GetModelStatusResponse": get_model_status_pb2.GetModelStatusResponse,
}


@pytest.mark.parametrize("name", messages._MESSAGES)
def test_each_field_has_the_number_and_the_type_of_the_official_one(name: str) -> None:
    ours, official = messages.message(name).DESCRIPTOR, _OFFICIAL[name].DESCRIPTOR
    assert ours.name == official.name
    for field in ours.fields:
        same = official.fields_by_name[field.name]
        # An enum is an int32 on the wire.
        kind = same.TYPE_INT32 if same.type == same.TYPE_ENUM else same.type
        assert (field.number, field.type, field.is_repeated) == (same.number, kind, same.is_repeated), field.name
        if field.type == field.TYPE_MESSAGE:
            assert field.message_type.name == same.message_type.name
            entries = [each.message_type.GetOptions().map_entry for each in (field, same)]
            assert entries[0] == entries[1]


def test_a_request_is_read_by_the_official_class() -> None:
    request = messages.message("PredictRequest")()
    request.model_spec.name, request.model_spec.signature_name = "toy", "nbest"
    request.model_spec.version.value = 2**63 - 1
    texts = [b"a b", "ä\0中".encode(), b""]
    messages.fill(request.inputs["inputs"], texts)
    official = predict_pb2.PredictRequest.FromString(request.SerializeToString())
    assert official.inputs["inputs"] == tf.make_tensor_proto(texts, tf.string)
    spec = official.model_spec
    assert (spec.name, spec.signature_name, spec.version.value) == ("toy", "nbest", 2**63 - 1)
    request.model_spec.Clear()
    request.model_spec.version_label = "stable"
    official = predict_pb2.PredictRequest.FromString(request.SerializeToString())
    assert (official.model_spec.WhichOneof("version_choice"), official.model_spec.version_label) == (
        "version_label",
        "stable",
    )


def _read(tensor: Any) -> Any:
    """What the client reads of a tensor in an official answer."""
    answer = predict_pb2.PredictResponse()
    answer.outputs["x"].CopyFrom(tensor)
    return messages.values(messages.message("PredictResponse").FromString(answer.SerializeToString()).outputs["x"])


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    "array",
    [
        np.float32([[1.5, -0.1, np.inf], [3e-40, 4, 5]]),
        np.float64([1.1, 2]),
        np.int32([[[-1], [2**31 - 1]]]),
        np.int64([-(2**63)]),
        np.array([True, False]),
    ],
    ids=lambda array: array.dtype.name,
)
def test_numbers_of_an_answer(array: np.ndarray, packed: bool) -> None:
    tensor = tf.make_tensor_proto(array)  # packed, as a server with --enable_serialization_as_tensor_content has it
    if not packed:
        field = messages._TYPES[tensor.dtype][0]
        tensor.tensor_content = b""
        del getattr(tensor, field)[:]
        getattr(tensor, field).extend(array.ravel().tolist())
    assert _read(tensor) == array.tolist()


def test_texts_of_an_answer() -> None:
    texts = [[b"a", b"\xff", "中".encode()], [b"", b"\0", b"b"]]
    assert _read(tf.make_tensor_proto(texts, tf.string)) == texts
    assert _read(tf.make_tensor_proto(b"a", tf.string)) == b"a"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"dtype": 19}, "type 19"),
        ({"tensor_content": b"ab"}, "packed texts"),
        ({"string_val": [b"a"]}, "1 values for the shape"),
        ({"sizes": [-1]}, "the shape"),
        ({"sizes": [10**9, 0]}, "the shape"),
        ({"unknown_rank": True}, "the shape"),
    ],
    ids=str,
)
def test_another_form_is_refused(change: dict[str, Any], words: str) -> None:
    tensor = tf.make_tensor_proto([b"a", b"b"], tf.string)
    tensor.dtype = change.get("dtype", tensor.dtype)
    tensor.tensor_content = change.get("tensor_content", b"")
    tensor.tensor_shape.unknown_rank = change.get("unknown_rank", False)
    if "string_val" in change:
        del tensor.string_val[1:]
    if "sizes" in change:
        del tensor.tensor_shape.dim[:]
        for size in change["sizes"]:
            tensor.tensor_shape.dim.add(size=size)
    with pytest.raises(ValueError, match=words):
        _read(tensor)


def test_the_command_asks_over_grpc_without_tensorflow(server: Server) -> None:
    program = (
        "import sys; from t2t_lite.cli import query; status = query.main(sys.argv[1:]); "
        "print(status, sorted({'tensorflow', 'numpy', 'tensorflow_serving'} & set(sys.modules)), file=sys.stderr)"
    )
    flags = [f"--server={server.grpc}", "--model=toy", "--protocol=grpc", "--wait=5"]
    done = subprocess.run(
        [sys.executable, "-c", program, *flags], input="a b\n", capture_output=True, text=True, check=True, timeout=60
    )
    assert (done.stdout, done.stderr) == ("b a!\n", "0 []\n")
