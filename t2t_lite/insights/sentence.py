"""The attention of a trained model over one sentence and its translations.

Legend: L layers, H heads, S source length, T target length.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from t2t_lite.decode.translate import Translator
from t2t_lite.errors import UsageError
from t2t_lite.text.vocabulary import EOS, Vocabulary

# Nobody can read a picture of more, and the weights grow with the square. Longer outputs are cut.
_KINDS = ("encoder", "decoder", "memory")
MAX_PIECES = 120


@dataclasses.dataclass(frozen=True)
class Translation:
    """A translation, its pieces [T] with the end symbol, and the decoder's float32 weights; `score` None: given.

    decoder: [L, H, T, T] and memory: [L, H, T, S], their rows and columns as in `attention_maps`.
    """

    text: str
    score: float | None
    target: list[str]
    decoder: np.ndarray
    memory: np.ndarray


@dataclasses.dataclass(frozen=True)
class Sentence:
    """A sentence, its pieces [S] with the end symbol, the encoder's float32 weights [L, H, S, S]; translations."""

    text: str
    source: list[str]
    encoder: np.ndarray
    translations: list[Translation]

    def to_json(self) -> dict[str, Any]:
        """The data that attention.js draws, as plain lists; weights with three digits."""
        translations = [
            dataclasses.asdict(t) | {"decoder": _rounded(t.decoder), "memory": _rounded(t.memory)}
            for t in self.translations
        ]
        return dataclasses.asdict(self) | {"encoder": _rounded(self.encoder), "translations": translations}


def attend(translator: Translator, texts: Sequence[str], target: str | None = None) -> list[Sentence]:
    """Translates each text, as many ways as the beam is wide, and computes the attention over it and its translations.

    Args:
        translator: whose model has attention in the encoder, in the decoder and between them.
        target: a translation to use instead of what the model finds.

    Raises:
        UsageError: another kind of model; a text of too many pieces.
    """
    missing = [kind for kind in _KINDS if kind not in translator.model.attention_kinds]
    if missing:
        raise UsageError(
            "Attention is shown in the encoder, in the decoder and between them; a "
            f"{type(translator.model).__name__} has none of the kind {' and '.join(missing)}."
        )
    return [_attend(translator, text, target) for text in texts]


def _attend(translator: Translator, text: str, target: str | None) -> Sentence:
    model, vocabulary = translator.model, translator.target_vocabulary
    source = _checked(
        "sentence", translator.source(text), translator.source_vocabulary, min(MAX_PIECES, translator.max_source_length)
    )
    found: list[tuple[str, float | None]] = [(target or "", None)]
    if target is None:
        outputs, scores = (x.numpy()[0] for x in translator.search_graph(tf.constant([source]), tf.constant(False)))
        found = [
            (translator.hypothesis(text, ids, score).text, score)
            for ids, score in zip(outputs, scores.tolist(), strict=True)
        ]
        targets = outputs[:, :MAX_PIECES]
    else:
        targets = np.array([_checked("target", target, vocabulary, MAX_PIECES)], np.int32)
    maps = model.attention_maps({"source": np.array([source] * len(targets), np.int32), "target": targets})
    encoder, decoder, memory = (np.asarray(maps[name]) for name in _KINDS)
    translations = []
    for i, (words, score) in enumerate(found):
        length = np.count_nonzero(targets[i])
        pieces = vocabulary.pieces(targets[i, :length])
        translations.append(
            Translation(words, score, pieces, decoder[i, :, :, :length, :length], memory[i, :, :, :length])
        )
    return Sentence(text, translator.source_vocabulary.pieces(source), encoder[0], translations)


def _checked(what: str, text: str, vocabulary: Vocabulary, limit: int) -> list[int]:
    """The ids of `text`, ended by EOS."""
    ids = [*vocabulary.encode(text), EOS]
    if len(ids) > limit:
        raise UsageError(f"The {what} has {len(ids)} pieces; attention is shown for at most {limit}: {text!r:.200}")
    return ids


def _rounded(weights: np.ndarray) -> list[Any]:
    """Nested lists of weights with three digits; 0 without a point, which is what most of them are."""
    if weights.ndim > 1:
        return [_rounded(part) for part in weights]
    return [weight or 0 for weight in np.round(weights.astype(np.float64), 3).tolist()]
