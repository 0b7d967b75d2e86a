"""Columns of a table, or keys of an object, that hold the source and the target."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from t2t_lite.data.language_names import is_name, language_of, same_language
from t2t_lite.languages import base_language

# Names of source and target that say nothing about languages, the most usual ones first.
SIDES = (
    *(("source", "target"), ("src", "tgt"), ("src", "trg"), ("sentence1", "sentence2"), ("sentence_1", "sentence_2")),
    *(("text1", "text2"), ("text_1", "text_2"), ("source_text", "target_text"), ("input", "output")),
    *(("source_sentence", "target_sentence"), ("original", "translation"), ("source", "translation")),
)

Languages = tuple[str, str]


@functools.lru_cache(maxsize=64)  # the rows of a file mostly have the same keys
def find_sides(names: tuple[str, ...], languages: Languages) -> tuple[int, int] | None:
    """Returns the places of source and target among the names; None if the names do not say them."""
    small = [_small(name) for name in names]
    for source, target in (tuple(map(_small, languages)), *SIDES):
        if small.count(source) == small.count(target) == 1:
            return small.index(source), small.index(target)
    sources, targets = ([i for i, name in enumerate(names) if same_language(name, code)] for code in languages)
    if len(sources) == len(targets) == 1 and sources != targets:
        return sources[0], targets[0]
    return None


def has_source_alone(names: Sequence[str], languages: Languages) -> bool:
    """Whether the names have a column of the source and none of the target."""
    small = [_small(name) for name in names]
    pairs = (tuple(map(_small, languages)), *SIDES)
    return (
        any(pair[0] in small and pair[1] not in small for pair in pairs) and find_sides(tuple(names), languages) is None
    )


def names_other_languages(names: Sequence[str], languages: Languages) -> bool:
    """Whether two names are of two languages, but not of the two that are asked for."""
    found = {language_of(name) for name in names}
    if len(names) != 2 or len(found) != 2 or None in found:
        return False
    return all(map(is_name, names)) or bool(found & {base_language(code) for code in languages})


def _small(name: str) -> str:
    return name.strip().lower().replace("-", "_").replace(" ", "_")
