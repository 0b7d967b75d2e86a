"""Columns of a table, or keys of an object, that hold the source and the target, by the names that people give them.

A column may be named by its side (source, tgt, ...) or by its language: German, Deutsch, de, deu, de_DE.
"""

import functools
import re
import unicodedata
from collections.abc import Sequence
from pathlib import Path

from t2t_lite.languages import base_language

# Names of source and target that say nothing about languages, the most usual ones first.
SIDES = (
    *(("source", "target"), ("src", "tgt"), ("src", "trg"), ("sentence1", "sentence2"), ("sentence_1", "sentence_2")),
    *(("text1", "text2"), ("text_1", "text_2"), ("source_text", "target_text"), ("input", "output")),
    *(("source_sentence", "target_sentence"), ("original", "translation"), ("source", "translation")),
)
_REGION = re.compile(r"(\w{2,3})[-_](?:[a-z]{2}|[a-z]{4}|[0-9]{3})(?:[-_][a-z0-9]+)*")  # of a name in small letters
_BESIDE = frozenset(  # words that may stand beside a language's name: "German sentence", "text_de", "US English"
    "source target src tgt trg text texts sentence sentences segment segments string strings translation column "
    "language lang british american us uk brazilian european simplified traditional modern standard".split()
)

Languages = tuple[str, str]
_LONGEST = 200  # characters of a language's name; the first row of a table without names may be far longer


@functools.lru_cache(maxsize=64)  # the rows of a file mostly have the same keys
def find_sides(names: tuple[str, ...], languages: Languages) -> tuple[int, int] | None:
    """Returns the places of source and target among the names; None if the names do not say them."""
    small = [_small(name) for name in names]
    for source, target in (tuple(map(_small, languages)), *SIDES):
        if small.count(source) == small.count(target) == 1:
            return small.index(source), small.index(target)
    sources, targets = ([i for i, name in enumerate(names) if _is_of(name, code)] for code in languages)
    if len(sources) == len(targets) == 1 and sources != targets:
        return sources[0], targets[0]
    return None


def has_source_alone(names: Sequence[str], languages: Languages) -> bool:
    """Whether the names have a column of the source and none of the target."""
    small = [_small(name) for name in names]
    alone = any(s in small and t not in small for s, t in (tuple(map(_small, languages)), *SIDES))
    return alone and find_sides(tuple(names), languages) is None


def names_other_languages(names: Sequence[str], languages: Languages) -> bool:
    """Whether two names are of two languages, but not of the two that are asked for.

    Two or three letters may be a word, such as "it" and "no"; so one of the languages must be asked for, or both names
    be longer.
    """
    found = {language_of(name) for name in names}
    if len(names) != 2 or len(found) != 2 or None in found:
        return False
    return all(len(name.strip()) > 3 for name in names) or bool(found & {base_language(code) for code in languages})


def language_of(name: str) -> str | None:
    """Returns the code, without region, of a language's name or code in any case; None if it is neither."""
    if len(name) > _LONGEST:
        return None
    name = _fold(name)
    if (found := _codes().get(name)) is not None:
        return found
    if region := _REGION.fullmatch(name):
        return _codes().get(region[1])
    if brackets := re.fullmatch(r"(.+?) ?\(.+\)", name):  # Portuguese (Brazil)
        return language_of(brackets[1]) or language_of(name[len(brackets[1]) :].strip(" ()"))
    words = [word for word in re.split(r"[\W_]+", name) if word and word not in _BESIDE]
    return _codes().get(words[0]) if len(words) == 1 else None


@functools.cache
def _codes() -> dict[str, str]:
    """The codes of languages by all their names."""
    rows = Path(__file__).with_name("language_names.txt").read_text(encoding="utf-8").split("\n")
    names = [row.split(" ") for row in rows if row and not row.startswith("#")]
    return {_fold(name.replace("_", " ")): row[0] for row in names for name in row}


def _is_of(name: str, code: str) -> bool:
    """Whether a language's name or code means the language of a code, regions aside."""
    base = base_language(code)
    return language_of(name) in (base, _codes().get(base, base))


def _fold(name: str) -> str:
    return " ".join(unicodedata.normalize("NFC", name).casefold().split())


def _small(name: str) -> str:
    return name.strip().lower().replace("-", "_").replace(" ", "_")
