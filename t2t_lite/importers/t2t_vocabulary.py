"""Vocabularies of a tensor2tensor model: a check that they belong to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from t2t_lite.errors import DataError, UsageError
from t2t_lite.importers.vocabularies import ImportedVocabulary

if TYPE_CHECKING:  # it loads TensorFlow
    from t2t_lite.importers.imported import Imported


def fitting(
    imported: Imported, source: ImportedVocabulary, target: ImportedVocabulary
) -> tuple[ImportedVocabulary, ImportedVocabulary]:
    """Returns the vocabularies with as many ids as the model's embeddings have rows; one object stays one.

    The model may have more rows than there are pieces: tensor2tensor rounds up to a multiple of its hparam
    vocab_divisor.

    Raises:
        UsageError: the vocabularies do not belong to the model.
    """
    rows = imported.description.source_vocab_size, imported.description.target_vocab_size
    divisor = imported.hparams.get("vocab_divisor") or 1
    if not isinstance(divisor, int) or divisor < 1:
        raise DataError(f"vocab_divisor={divisor!r} is no number to round up to.")
    if source is target and rows[0] != rows[1]:
        raise UsageError(
            f"The model has {rows[0]:,} pieces on the source side and {rows[1]:,} on the target side: a vocabulary for "
            f"each. Give --vocabulary=FILE and --target_vocabulary=FILE. (The one that is given has {source.size:,}.)"
        )
    padded = [_padded(*side, divisor) for side in zip(("source", "target"), (source, target), rows, strict=True)]
    return padded[0], (padded[0] if source is target else padded[1])


def _padded(side: str, vocabulary: ImportedVocabulary, rows: int, divisor: int) -> ImportedVocabulary:
    if -(-vocabulary.size // divisor) * divisor != rows:
        rounded = f", rounded up to a multiple of vocab_divisor={divisor}," if divisor > 1 else ""
        raise UsageError(
            f"The vocabulary of the {side} has {vocabulary.size:,} pieces{rounded} and the model's {side} embedding "
            f"{rows:,} rows: it is the vocabulary of another model. That of this one is the file that lay in its "
            "--data_dir, vocab.PROBLEM.SIZE[.subwords]; the number in its name is not its size."
        )
    return vocabulary if vocabulary.size == rows else vocabulary.padded(rows)
