"""A vocabulary given with --vocabulary instead of trained on the text: where it comes from, and whether it fits."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

from t2t_lite.data.identity import Vocabularies
from t2t_lite.data.store import SIDES
from t2t_lite.errors import DataError, UsageError
from t2t_lite.problem import Problem
from t2t_lite.text import sentencepiece_model, vocabulary_files
from t2t_lite.text.tree_text import NOT_OF_TREES
from t2t_lite.text.vocabulary import Vocabulary
from t2t_lite.text.vocabulary_files import FILES, KINDS, load_pair

_RARE = 0.01  # share of unknown pieces that goes without a warning

_log = logging.getLogger("t2t_lite")


def load(path: str | os.PathLike[str], *, say: bool = True) -> Vocabularies:
    """Reads the vocabularies of a run, or a file, which both sides then share.

    The name of a file ends in what `text.vocabulary_files.KINDS` names; any other is a SentencePiece model.

    Args:
        say: whether a message says that the ids of pieces change.

    Raises:
        UsageError: there is neither.
        DataError: damaged files.
    """
    if os.path.isfile(path):
        suffix = Path(path).suffix
        of_its_own = suffix in KINDS and KINDS[suffix] is not Vocabulary
        given = vocabulary_files.load(path) if of_its_own else sentencepiece_model.load(path, say=say)
        return given, given
    if not os.path.isdir(path):
        raise UsageError(f"--vocabulary={path}: there is no such run and no such file.")
    if not vocabulary_files.is_there(path):
        raise UsageError(
            f"--vocabulary={path} is a folder without {FILES[0]} or {FILES[1]} and {FILES[2]}. Give the folder of a "
            "run (the --output_dir of t2t-lite-trainer), a SentencePiece model, FILE.model, or a subword vocabulary of "
            "tensor2tensor, FILE.subwords."
        )
    return load_pair(path)


def check_kind(problem: Problem, vocabularies: Vocabularies) -> None:
    """Raises UsageError if a problem of trees is given vocabularies that do not take symbols whole."""
    if problem.target_kind != "tree":
        return
    source, target = vocabularies
    if not isinstance(target, Vocabulary):
        raise UsageError(f"{problem.name}: {NOT_OF_TREES}")
    kind = sentencepiece_model.kind(target)
    if source is target or kind != "word":
        what = "one vocabulary for both sides" if source is target else f"a target vocabulary of the kind {kind!r}"
        raise UsageError(
            f"{problem.name} gives trees, whose symbols need a vocabulary of their own, of whole words; --vocabulary "
            f"names {what}. Give a run that was trained on trees."
        )


def check_coverage(problem: Problem, splits: dict[str, Any]) -> None:
    """Warns of text that given vocabularies do not know; trees must not hold an unknown symbol in training."""
    facts = splits["train"]
    if problem.target_kind == "tree" and facts["target"]["unknown"]:
        raise DataError(
            f"The training trees of {problem.name} hold {facts['target']['unknown']:,} symbols that the given "
            "vocabulary does not have, so that a model could not learn them. Leave --vocabulary out."
        )
    shares = {side: facts[side]["unknown"] / facts[side]["ids"] for side in SIDES}
    for side, share in shares.items():
        if share > _RARE:
            _log.warning(
                "The given vocabulary does not fit: %.1f%% of the %s side's pieces in training are unknown to it.",
                100 * share,
                side,
            )
