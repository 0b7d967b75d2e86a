"""Requests that a server answers before it calls a version ready, so that the first user does not wait for that.

TensorFlow Serving reads them as PredictionLog messages. They are put together here from their field numbers
(tensorflow_serving/apis: prediction_log.proto, predict.proto, model.proto), for the package that holds these messages
would be needed for nothing else.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import tensorflow as tf

from t2t_lite.text.vocabulary import UNK, Vocabulary

WARMUP_FILE = "tf_serving_warmup_requests"  # in assets.extra
MAX_BATCH = 32  # sentences of the largest request
_SHORT, _LONG = 4, 40  # pieces


def write_warmup(path: str | os.PathLike[str], source: Vocabulary, target: Vocabulary) -> None:
    """Writes short and long texts, alone and in a large batch, for serving_default; one text for each other signature.

    The texts are pieces of the vocabularies: no sentence of the training data leaves the house.
    """
    with tf.io.TFRecordWriter(os.fspath(path)) as writer:
        for signature, inputs in _requests(source, target):
            writer.write(prediction_log(signature, inputs))


def _requests(source: Vocabulary, target: Vocabulary) -> Iterator[tuple[str, dict[str, Any]]]:
    short, long = _text(source, _SHORT), _text(source, _LONG)
    for batch in ([short], [long], [short] * MAX_BATCH, [long] * MAX_BATCH):
        yield "serving_default", {"inputs": batch}
    yield "nbest", {"inputs": [short]}
    yield "tokens", {"ids": [source.encode(short)]}
    yield "score", {"inputs": [short], "targets": [_text(target, _SHORT)]}
    yield "attention", {"inputs": [short]}


def _text(vocabulary: Vocabulary, pieces: int) -> str:
    """About so many pieces, evenly spread over the vocabulary."""
    first = UNK + 1
    number = vocabulary.size - first
    return vocabulary.decode(first + i * number // pieces for i in range(pieces))


def prediction_log(signature: str, inputs: Mapping[str, Sequence[Any]]) -> bytes:
    """Returns a PredictionLog message of one request; texts become strings, whole numbers int32."""
    tensors = b""
    for name in sorted(inputs):
        values = inputs[name]
        dtype = tf.string if isinstance(values[0], str) else tf.int32
        tensor = tf.make_tensor_proto(values, dtype=dtype).SerializeToString(deterministic=True)
        tensors += _field(2, _field(1, name.encode()) + _field(2, tensor))  # an entry of the map PredictRequest.inputs
    model_spec = _field(1, _field(3, signature.encode()))  # PredictRequest.model_spec: ModelSpec.signature_name
    return _field(6, _field(1, model_spec + tensors))  # PredictionLog.predict_log: PredictLog.request


def _field(number: int, payload: bytes) -> bytes:
    """A length-delimited field of the protocol buffers' wire format."""
    return _varint(number << 3 | 2) + _varint(len(payload)) + payload


def _varint(value: int) -> bytes:
    groups = []
    while value > 0x7F:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*groups, value])
