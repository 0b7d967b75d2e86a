"""Reading of a checkpoint with the given files: which toolkit it is from, its model and its vocabularies."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Sequence
from typing import Any

from t2t_lite.errors import DataError, UsageError
from t2t_lite.importers import opennmt, tensor2tensor, tf1_checkpoint
from t2t_lite.importers.imported import Imported
from t2t_lite.importers.opennmt import is_opennmt
from t2t_lite.importers.t2t_variables import is_tensor2tensor, join_names
from t2t_lite.importers.tf1_checkpoint import Tf1Checkpoints
from t2t_lite.importers.vocabularies import SPECIAL, ImportedVocabulary, OpenNmtVocabulary
from t2t_lite.text import sentencepiece_model
from t2t_lite.text.any_vocabulary import AnyVocabulary


def fit_t2t(
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
    for name, vocabulary, wanted in zip(("source", "target"), (source, target), rows, strict=True):
        if -(-vocabulary.size // divisor) * divisor != wanted:
            rounded = f", rounded up to a multiple of vocab_divisor={divisor}," if divisor > 1 else ""
            raise UsageError(
                f"The vocabulary of the {name} has {vocabulary.size:,} pieces{rounded} and the model's {name} "
                f"embedding {wanted:,} rows: it is the vocabulary of another model. That of this one is the file that "
                "lay in its --data_dir, vocab.PROBLEM.SIZE[.subwords]; the number in its name is not its size."
            )
    first = source.pad(rows[0])
    return first, first if source is target else target.pad(rows[1])


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


def fit_opennmt(imported: Imported, source: Side, target: Side) -> tuple[Imported, tuple[AnyVocabulary, AnyVocabulary]]:
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


def read(
    paths: Sequence[str],
    vocabularies: Sequence[ImportedVocabulary],
    sentencepiece: Sequence[str],
    *,
    with_optimizer: bool = False,
    **settings: Any,
) -> tuple[Imported, tuple[AnyVocabulary, AnyVocabulary]]:
    """Reads a checkpoint of either toolkit.

    Args:
        paths, settings: as `tensor2tensor.read` and `opennmt.read` take them.
        vocabularies: one for both sides, or those of source and target; two that are the same count as one.
        sentencepiece: files of the SentencePiece models whose pieces the vocabularies list: one for each, or none.
        with_optimizer: whether the optimizer's slots are wanted, too.

    Raises:
        UsageError, DataError: something is missing, damaged, does not fit, or cannot be expressed here.
    """
    prefix = tf1_checkpoint.find(paths[0])[-1]
    names = set(Tf1Checkpoints([prefix]).shapes)
    ours = is_opennmt(names)
    of_opennmt = [vocabulary for vocabulary in vocabularies if isinstance(vocabulary, OpenNmtVocabulary)]
    if not ours and not is_tensor2tensor(names):
        upgrade = (
            " If OpenNMT-tf 1 trained it: release 2 upgrades the checkpoint of a Transformer as it loads it; import "
            "what it then saves."
        )
        raise DataError(
            f"{prefix} is no checkpoint of tensor2tensor's Transformer, which has ...body/encoder/layer_0/..., nor of "
            f"OpenNMT-tf 2, which has model/.../.ATTRIBUTES/VARIABLE_VALUE; it holds {join_names(sorted(names))}."
            f"{upgrade if of_opennmt else ''}"
        )
    toolkit = "OpenNMT-tf" if ours else "tensor2tensor"
    if ours and with_optimizer:
        raise UsageError(
            f"--with_optimizer: {prefix} is of OpenNMT-tf, whose optimizer is not taken over. Leave the flag out."
        )
    if len(of_opennmt) != (len(vocabularies) if ours else 0):
        raise UsageError(f"{prefix} is a checkpoint of {toolkit}, and the vocabulary is not. Give the model's own.")
    if not ours:
        if sentencepiece:
            raise UsageError("--sentencepiece goes with a checkpoint of OpenNMT-tf; this one is of tensor2tensor.")
        imported = tensor2tensor.read(paths, **settings)
        source, target = vocabularies[0], vocabularies[-1]
        return imported, fit_t2t(imported, source, source if _same(source, target) else target)
    if sentencepiece and len(sentencepiece) != len(vocabularies):
        raise UsageError(
            f"--sentencepiece names {len(sentencepiece)} models for {len(vocabularies)} vocabularies; each needs one."
        )
    imported = opennmt.read(paths, **settings)
    models = sentencepiece or ["" for _ in vocabularies]
    sides = [side(*pair) for pair in zip(of_opennmt, models, strict=True)]
    one = _same(sides[0].vocabulary, sides[-1].vocabulary)
    return fit_opennmt(imported, sides[0], sides[0 if one else -1])


def _same(source: AnyVocabulary, target: AnyVocabulary) -> bool:
    """Whether both sides have one vocabulary, such as a file that was given twice."""
    return type(source) is type(target) and source.checksum == target.checksum
