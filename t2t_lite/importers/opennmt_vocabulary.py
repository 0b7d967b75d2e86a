"""Vocabularies of an OpenNMT-tf model, and its weights with rows in the order of ids here."""

from __future__ import annotations

import copy
import dataclasses
from typing import TYPE_CHECKING

from t2t_lite.errors import UsageError
from t2t_lite.importers.vocabularies import SPECIAL, OpenNmtVocabulary
from t2t_lite.text import sentencepiece_model
from t2t_lite.text.any_vocabulary import AnyVocabulary

if TYPE_CHECKING:  # it loads TensorFlow
    from t2t_lite.importers.imported import Imported


@dataclasses.dataclass(frozen=True)
class Side:
    """The vocabulary of a side, and the row in OpenNMT-tf's tables of each id here."""

    vocabulary: AnyVocabulary
    rows: tuple[int, ...]


def side(vocabulary: OpenNmtVocabulary, sentencepiece: str = "") -> Side:
    """Returns the vocabulary, or the SentencePiece model whose pieces it lists.

    Args:
        sentencepiece: the model's file if the tokens are its pieces; "" if there is no such model.

    Raises:
        DataError: the model has other pieces.
    """
    padding, start, end, *words = range(vocabulary.size - 1)
    unknown = vocabulary.size - 1
    if not sentencepiece:
        return Side(vocabulary, (padding, end, start, *words, unknown))
    tokens = vocabulary.tokens[len(SPECIAL) :]
    found = sentencepiece_model.with_order(sentencepiece, tokens, SPECIAL[1])
    return Side(found, (padding, end, unknown, *words, start))


def fitting(imported: Imported, source: Side, target: Side) -> tuple[Imported, tuple[AnyVocabulary, AnyVocabulary]]:
    """Returns the model with its rows in the order of the ids here, and the vocabularies.

    If both sides have one vocabulary, but only the softmax shares the target's table, the vocabulary is copied: a run
    with one vocabulary shares all tables.

    Raises:
        UsageError: the vocabularies do not belong to the model.
    """
    described = imported.description
    for name, given, rows in (
        ("source", source, described.source_vocab_size),
        ("target", target, described.target_vocab_size),
    ):
        if len(given.rows) != rows:
            raise UsageError(
                f"The vocabulary of the {name} has {len(given.rows):,} tokens with <unk>, and the model's {name} "
                f"embedding {rows:,} rows: it is the vocabulary of another model. Give the file that {name}_vocabulary "
                "of its data configuration names, and --target_vocabulary where each side has its own."
            )
    if described.shared and source.rows != target.rows:
        raise UsageError("The model has one table for both sides, and the two vocabularies differ in their kind.")
    by_path = {
        "transformer/source_embedding/table": source,
        "transformer/target_embedding/table": target,
        "transformer/softmax/table": target,
        "transformer/output_bias": target,
    }
    weights = {
        path: array[list(by_path[path].rows)] if path in by_path else array for path, array in imported.weights.items()
    }
    vocabularies = source.vocabulary, target.vocabulary
    if source.vocabulary is target.vocabulary and described.share_embeddings and not described.shared:
        vocabularies = source.vocabulary, copy.copy(target.vocabulary)
    return dataclasses.replace(imported, weights=weights), vocabularies
