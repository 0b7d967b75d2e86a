"""Language codes: what stands before the region or script, and which languages put no blanks between words."""

from __future__ import annotations

import re

# Characters that make about one word, in languages that are written without blanks between words. Rough: it serves
# limits and ratios that are wide. Han characters and kana stand for more than letters do.
CHARACTERS_PER_WORD = {
    **dict.fromkeys("zh yue wuu lzh nan hak gan ja".split(), 2),
    **dict.fromkeys("th lo km my bo dz".split(), 5),
}


def base_language(code: str) -> str:
    """Returns "zh" of "zh", "zh-CN" and "zh_Hans"."""
    return re.split(r"[-_]", code, maxsplit=1)[0].lower()


def count_words(text: str, language: str) -> int:
    """Returns how many words a text has; where words have no blanks between them, about how many."""
    characters = CHARACTERS_PER_WORD.get(base_language(language))
    if characters is None:
        return len(text.split())
    return -(-sum(not character.isspace() for character in text) // characters)
