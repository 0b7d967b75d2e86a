"""Codec of trees: targets are linearised trees (linearize.py); sources are their words, separated by spaces."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from t2t_lite.errors import DataError, UsageError
from t2t_lite.text.codec import Codec, Learner, Pair
from t2t_lite.text.tag_table import TAGS_FILE, WSJ, TagCounts, load_table

if TYPE_CHECKING:
    import os

    from t2t_lite.text.any_vocabulary import AnyVocabulary
    from t2t_lite.text.tree_text import TreeText


class TreeCodec(Codec):
    """Targets that are trees; their symbols have a vocabulary of their own, in which each symbol is one piece.

    Args:
        deleted: tags by which EVALB leaves words out; None: those of COLLINS.prm.
    """

    is_text = False
    file_names = (TAGS_FILE,)
    settings: ClassVar[Mapping[str, str]] = {"target_kind": "tree"}

    def __init__(self, deleted: Collection[str] | None = None) -> None:
        self._deleted = WSJ.deleted if deleted is None else deleted

    def target_vocab_type(self, vocab_type: str) -> str:
        return "word"

    def check_vocabularies(self, problem: str, source: AnyVocabulary, target: AnyVocabulary) -> None:
        from t2t_lite.text import sentencepiece_model
        from t2t_lite.text.tree_text import own_vocabulary

        try:
            kind = sentencepiece_model.kind(own_vocabulary(target))
        except UsageError as error:
            raise UsageError(f"{problem}: {error}") from None
        if source is target or kind != "word":
            what = "one vocabulary for both sides" if source is target else f"a target vocabulary of the kind {kind!r}"
            raise UsageError(
                f"{problem} gives trees, whose symbols need a vocabulary of their own, of whole words; --vocabulary "
                f"names {what}. Give a run that was trained on trees."
            )

    def check_unknown(self, problem: str, number: int) -> None:
        if number:
            raise DataError(
                f"The training trees of {problem} hold {number:,} symbols that the given vocabulary does not have, so "
                "that a model could not learn them. Leave --vocabulary out."
            )

    def learner(self) -> Learner:
        return _TagLearner(self._deleted)

    def outputs(self, folder: str | os.PathLike[str], vocabulary: AnyVocabulary) -> TreeText:
        from t2t_lite.text.tree_text import TreeText

        return TreeText(vocabulary, load_table(folder))


class _TagLearner(Learner):
    """Learns which tags words have."""

    def __init__(self, deleted: Collection[str]) -> None:
        self._counts = TagCounts(deleted)

    def watch(self, pairs: Iterable[Pair]) -> Iterable[Pair]:
        return self._counts.watch(pairs)

    def files(self, others: Mapping[str, Sequence[Pair]]) -> dict[str, str]:
        table = self._counts.table()
        if table is None:
            return {}
        for split, pairs in others.items():
            table.check_gold(split, pairs)
        return {TAGS_FILE: table.to_json()}
