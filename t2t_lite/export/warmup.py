"""Warm-up requests, which a server answers before it reports a version as ready.

TensorFlow Serving reads them as PredictionLog messages. They are built here from their field numbers
(tensorflow_serving/apis: prediction_log.proto, predict.proto, model.proto), as the package that holds these messages
would be needed for nothing else.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from t2t_lite.ids import EOS, PAD
from t2t_lite.text.any_vocabulary import AnyVocabulary

WARMUP_FILE = "tf_serving_warmup_requests"  # in assets.extra
BATCH_SIZE = 8  # sentences of the largest request; a server with a smaller max_batch_size loads no version
_SHORT, _LONG = 4, 40  # pieces


def write_warmup(
    path: str | os.PathLike[str],
    source: AnyVocabulary,
    target: AnyVocabulary,
    signatures: Mapping[str, Any],
    batch_size: int,
) -> None:
    """Writes short and long texts, alone and in a batch, for serving_default; one row for each other signature.

    The texts are pieces of the vocabularies: no sentence of the training data is exported.

    Args:
        signatures: those of the export, by name; their inputs are called "inputs", "targets", "prefixes" and "ids".
        batch_size: sentences of the largest request.
    """
    short, long = (_source(source, pieces) for pieces in (_SHORT, _LONG))

    def row(spec: Any) -> Any:
        if spec.name == "prefixes":
            return ""
        if spec.name != "ids":
            return _text(target, _SHORT) if spec.name == "targets" else short
        [ids], width = source.encode_source([short]), spec.shape[1]
        return (ids + [PAD] * width)[:width]

    with tf.io.TFRecordWriter(os.fspath(path)) as writer:
        for name, function in signatures.items():
            requests = [{spec.name: [row(spec)] for spec in function.input_signature}]
            if name == "serving_default":
                requests = [{"inputs": [text] * n} for n in sorted({1, batch_size}) for text in (short, long)]
            for inputs in requests:
                writer.write(prediction_log(name, inputs))


def _source(vocabulary: AnyVocabulary, pieces: int) -> str:
    """A text, after a label if the vocabulary has any: without one, a server would not finish its warm-up."""
    text = _text(vocabulary, pieces)
    return f"{vocabulary.labels[0]} {text}" if vocabulary.labels else text


def _text(vocabulary: AnyVocabulary, pieces: int) -> str:
    """A text of about so many pieces, evenly spread over the vocabulary."""
    ids = [i for i in range(vocabulary.size) if i not in (PAD, EOS, vocabulary.unknown)]
    return vocabulary.decode(ids[i * len(ids) // pieces] for i in range(pieces))


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
