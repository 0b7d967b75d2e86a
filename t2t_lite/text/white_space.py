"""White space of a text that a vocabulary may not give back."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable

from t2t_lite.text.any_vocabulary import WORD_START, AnyVocabulary

_AROUND = 12  # characters before and after, in an example


@dataclasses.dataclass(frozen=True)
class WhiteSpace:
    """A kind of white space that a vocabulary may not give back."""

    name: str  # in the plural
    has: Callable[[str], bool]  # quick, as it is asked of each text
    place: re.Pattern[str]

    def example(self, text: str) -> str:
        """Returns what is around the first place in a text that has it."""
        found = self.place.search(text)
        start, end = found.span() if found else (0, 0)
        return text[max(start - _AROUND, 0) : end + _AROUND]

    def lost(self, example: str, vocabulary: AnyVocabulary) -> str | None:
        """Returns what a vocabulary makes of an example; None if it keeps this white space."""
        back = vocabulary.decode(vocabulary.encode(vocabulary.line(example)))
        return None if self.has(back) else back


WHITE_SPACE = (
    WhiteSpace("Line breaks", lambda text: "\n" in text, re.compile("\n+")),
    WhiteSpace("Runs of spaces", lambda text: "  " in text, re.compile("  +")),
    WhiteSpace(
        "Spaces at the beginning or end", lambda text: text[:1] == " " or text[-1:] == " ", re.compile(r"\A +| +\Z")
    ),
    WhiteSpace("Tabs", lambda text: "\t" in text, re.compile("\t+")),
    WhiteSpace("SentencePiece's marks for a space", lambda text: WORD_START in text, re.compile(WORD_START)),
)
