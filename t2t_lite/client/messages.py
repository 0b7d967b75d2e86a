"""Messages of TensorFlow Serving's gRPC API, as far as the client needs them.

The package tensorflow-serving-api has them all, but its messages hold TensorFlow's, and importing those loads
TensorFlow. Here they are described in code. What counts on the wire are the fields' numbers and types, from the files
that the table names. The descriptors have a pool of their own, so both may be loaded in one process.
"""

import functools
import math
import struct
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_PACKAGE = "t2t_lite.client"
# Message -> its fields, as "number type name"; "*" marks repeated ones, "map" those by a text's name.
_MESSAGES = {
    # tensorflow/core/framework/tensor_shape.proto, tensor.proto
    "Dim": ("1 int64 size",),
    "TensorShapeProto": ("2 Dim* dim", "3 bool unknown_rank"),
    "TensorProto": (
        *("1 int32 dtype", "2 TensorShapeProto tensor_shape", "4 bytes tensor_content", "5 float* float_val"),
        *(
            "6 double* double_val",
            "7 int32* int_val",
            "8 bytes* string_val",
            "10 int64* int64_val",
            "11 bool* bool_val",
        ),
    ),
    # google/protobuf/wrappers.proto; tensorflow_serving/apis/model.proto
    "Int64Value": ("1 int64 value",),
    "ModelSpec": ("1 string name", "2 Int64Value version", "3 string signature_name", "4 string version_label"),
    # tensorflow_serving/apis/predict.proto
    "PredictRequest": ("1 ModelSpec model_spec", "2 map inputs"),
    "PredictResponse": ("1 map outputs",),
    # tensorflow_serving/util/status.proto, apis/get_model_status.proto
    "StatusProto": ("2 string error_message",),
    "ModelVersionStatus": ("1 int64 version", "2 int32 state", "3 StatusProto status"),
    "GetModelStatusRequest": ("1 ModelSpec model_spec",),
    "GetModelStatusResponse": ("1 ModelVersionStatus* model_version_status",),
}
STATES = {0: "UNKNOWN", 10: "START", 20: "LOADING", 30: "AVAILABLE", 40: "UNLOADING", 50: "END"}
STRING = 7  # of DataType in tensorflow/core/framework/types.proto
# DataType -> the field of its values, and how tensor_content packs one.
_TYPES = {
    1: ("float_val", "f"),
    2: ("double_val", "d"),
    3: ("int_val", "i"),
    STRING: ("string_val", ""),
    9: ("int64_val", "q"),
    10: ("bool_val", "?"),
}
_LARGEST = 100_000_000  # values of a tensor


@functools.cache
def message(name: str) -> Any:
    """Returns the class of a message."""
    return message_factory.GetMessageClass(_pool().FindMessageTypeByName(f"{_PACKAGE}.{name}"))


@functools.cache
def _pool() -> descriptor_pool.DescriptorPool:
    file = descriptor_pb2.FileDescriptorProto(name=f"{_PACKAGE}.proto", package=_PACKAGE, syntax="proto3")
    for name, fields in _MESSAGES.items():
        described = file.message_type.add(name=name)
        for text in fields:
            number, kind, field = text.split()
            if kind == "map":
                entry = described.nested_type.add(name=f"{field.title()}Entry")
                entry.options.map_entry = True
                _add(entry, 1, "string", "key")
                _add(entry, 2, "TensorProto", "value")
                kind = f"{name}.{entry.name}*"
            _add(described, int(number), kind, field)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return pool


def _add(described: Any, number: int, kind: str, name: str) -> None:
    """Adds a field to the description of a message."""
    proto = descriptor_pb2.FieldDescriptorProto
    field = described.field.add(name=name, number=number)
    field.label = proto.LABEL_REPEATED if kind.endswith("*") else proto.LABEL_OPTIONAL
    kind = kind.removesuffix("*")
    if kind[0].isupper():
        field.type, field.type_name = proto.TYPE_MESSAGE, f".{_PACKAGE}.{kind}"
    else:
        field.type = proto.Type.Value(f"TYPE_{kind.upper()}")


def fill(tensor: Any, texts: list[bytes]) -> None:
    """Makes a TensorProto a vector of texts."""
    tensor.dtype = STRING
    tensor.tensor_shape.dim.add(size=len(texts))
    tensor.string_val.extend(texts)


def values(tensor: Any) -> Any:
    """Returns the values of a TensorProto as nested lists; texts are bytes.

    Raises:
        ValueError: it has a type or a form that is not read here.
    """
    if tensor.dtype not in _TYPES:
        raise ValueError(f"a tensor of type {tensor.dtype}")
    field, code = _TYPES[tensor.dtype]
    shape = [dim.size for dim in tensor.tensor_shape.dim]
    if tensor.tensor_shape.unknown_rank or min(shape, default=1) < 1 or math.prod(shape) > _LARGEST:
        raise ValueError(f"a tensor of the shape {shape}")
    found = list(getattr(tensor, field))
    if tensor.tensor_content:
        found = _unpack(tensor.tensor_content, code)
    if len(found) != math.prod(shape):
        raise ValueError(f"{len(found)} values for the shape {shape}")
    for size in reversed(shape[1:]):
        found = [found[start : start + size] for start in range(0, len(found), size)]
    return found if shape else found[0]


def _unpack(content: bytes, code: str) -> list[Any]:
    if not code or len(content) % struct.calcsize(f"<{code}"):
        raise ValueError("packed texts, or a part of a number")
    return [value for (value,) in struct.iter_unpack(f"<{code}", content)]
