"""Vocabularies given with --vocabulary instead of trained on the text: loading them, and text that they change."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from t2t_lite.data import vocabulary_files
from t2t_lite.data.encode import Pair
from t2t_lite.data.identity import Vocabularies
from t2t_lite.data.store import SIDES
from t2t_lite.data.vocabulary_files import load_pair
from t2t_lite.errors import UsageError
from t2t_lite.problem import Problem
from t2t_lite.text import sentencepiece_model
from t2t_lite.text.any_vocabulary import WORD_START
from t2t_lite.text.vocabulary import Vocabulary

_LOWER = " A model learns to write the changed text, but references stay as they are, so scores are lower."

_log = logging.getLogger("t2t_lite")


def load(path: str | os.PathLike[str], *, say: bool = True) -> Vocabularies:
    """Reads the vocabularies of a run, or a single file, which both sides then share.

    Args:
        say: whether to log that the ids of pieces change.

    Raises:
        UsageError: there is neither a run nor a file.
        DataError: damaged files.
    """
    if os.path.isfile(path):
        is_own = vocabulary_files.kind(Path(path).suffix) is Vocabulary
        given = sentencepiece_model.load(path, say=say) if is_own else vocabulary_files.load(path)
        return given, given
    if not os.path.isdir(path):
        raise UsageError(f"--vocabulary={path}: there is no such run and no such file.")
    if not vocabulary_files.is_there(path):
        shared, source, target, *_ = vocabulary_files.file_names()
        raise UsageError(
            f"--vocabulary={path} is a folder without {shared} or {source} and {target}. Give the folder of a "
            "run (the --output_dir of t2t-lite-trainer), a SentencePiece model, FILE.model, or a subword vocabulary of "
            "tensor2tensor, FILE.subwords."
        )
    return load_pair(path)


def check_line_breaks(problem: Problem, vocabularies: Vocabularies) -> None:
    """Raises UsageError if the problem keeps line breaks, and a given vocabulary cannot."""
    for side, vocabulary in zip(SIDES, vocabularies, strict=True):
        if problem.keeps_line_breaks and not vocabulary.keeps_line_breaks:
            raise UsageError(
                f"--line_breaks={problem.line_breaks}: the given vocabulary of the {side} has no piece for a line "
                "break. Give that of a run that was trained with it, or leave --vocabulary out."
            )


class NormalisedText:
    """Counts the training text that given SentencePiece models normalise, as those that t2t-lite trains never do."""

    def __init__(self, given: Vocabularies | None) -> None:
        self._rules: dict[int, tuple[str, Vocabulary]] = {}
        for number, vocabulary in enumerate(given or ()):
            if isinstance(vocabulary, Vocabulary) and (rule := sentencepiece_model.normalisation(vocabulary)):
                self._rules[number] = rule, vocabulary
        self._counts = [0] * len(SIDES)

    def watch(self, pairs: Iterable[Pair]) -> Iterator[Pair]:
        """Yields the pairs as they come."""
        for pair in pairs:
            for number, (_, vocabulary) in self._rules.items():
                kept = _without_spaces(pair[number])
                self._counts[number] += _without_spaces(vocabulary.normalize(pair[number])) != kept
            yield pair

    def say(self) -> None:
        """Warns of text in which more than spaces is changed; call it after all pairs have been watched."""
        for number, (rule, _) in self._rules.items():
            if self._counts[number]:
                _log.warning(
                    "The given vocabulary's normalisation, %s, changes more than spaces in the %s of %s training pairs."
                    "%s Train it with --normalization_rule_name=identity, or normalise all text likewise.",
                    rule,
                    SIDES[number],
                    f"{self._counts[number]:,}",
                    _LOWER if SIDES[number] == "target" else "",
                )


def _without_spaces(text: str) -> str:
    return text.replace(" ", "").replace(WORD_START, "")
