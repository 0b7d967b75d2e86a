"""Reading of a checkpoint with the given files: which toolkit it is from, its model and its vocabularies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from t2t_lite.errors import DataError, UsageError
from t2t_lite.importers import opennmt, opennmt_vocabulary, t2t_vocabulary, tensor2tensor, tf1_checkpoint
from t2t_lite.importers.imported import Imported
from t2t_lite.importers.opennmt import is_opennmt
from t2t_lite.importers.t2t_variables import is_tensor2tensor, shown
from t2t_lite.importers.tf1_checkpoint import Tf1Checkpoints
from t2t_lite.importers.vocabularies import ImportedVocabulary, OpenNmtVocabulary
from t2t_lite.text.any_vocabulary import AnyVocabulary


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
        raise _of_neither(prefix, names, bool(of_opennmt))
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
        return imported, t2t_vocabulary.fitting(imported, source, source if _same(source, target) else target)
    if sentencepiece and len(sentencepiece) != len(vocabularies):
        raise UsageError(
            f"--sentencepiece names {len(sentencepiece)} models for {len(vocabularies)} vocabularies; each needs one."
        )
    imported = opennmt.read(paths, **settings)
    models = sentencepiece or ["" for _ in vocabularies]
    sides = [opennmt_vocabulary.side(*pair) for pair in zip(of_opennmt, models, strict=True)]
    one = _same(sides[0].vocabulary, sides[-1].vocabulary)
    return opennmt_vocabulary.fitting(imported, sides[0], sides[0 if one else -1])


def _of_neither(prefix: str, names: set[str], with_vocabulary: bool) -> DataError:
    """The error for a checkpoint of neither toolkit; `with_vocabulary`: one of OpenNMT-tf was given."""
    upgrade = (
        " If OpenNMT-tf 1 trained it: release 2 upgrades the checkpoint of a Transformer as it loads it; import what "
        "it then saves."
    )
    return DataError(
        f"{prefix} is no checkpoint of tensor2tensor's Transformer, which has ...body/encoder/layer_0/..., nor of "
        f"OpenNMT-tf 2, which has model/.../.ATTRIBUTES/VARIABLE_VALUE; it holds {shown(sorted(names))}."
        f"{upgrade if with_vocabulary else ''}"
    )


def _same(source: AnyVocabulary, target: AnyVocabulary) -> bool:
    """Whether both sides have one vocabulary, such as a file that was given twice."""
    return type(source) is type(target) and source.checksum == target.checksum
