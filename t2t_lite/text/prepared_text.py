"""Marks of text that was prepared for another tool: subword-nmt's joints, SentencePiece's pieces, Moses' escapes."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

_LEAST = 0.002  # share of the words; a stray "@@" or "&amp;" is no preparation


@dataclasses.dataclass(frozen=True)
class Mark:
    """What one tool leaves in the words.

    Attributes:
        signs: one of them is in each line that has the mark.
        word: matches a word that has it.
        verb: what such words do, in a warning.
        effect: what scores of such text are.
        undo: the command that undoes it.
    """

    signs: tuple[str, ...]
    word: re.Pattern[str]
    verb: str
    effect: str
    undo: str


_PIECES = "scores are of pieces, not of words"
_TOKENS = "scores are of tokenised text, and do not compare with those of plain text"
MARKS = (
    Mark(
        ("@@",),
        re.compile(r"[^\s@]@@(?!\S)"),
        "end in @@, the joint of subword-nmt",
        _PIECES,
        "sed -r 's/(@@ )|(@@ ?$)//g'",
    ),
    Mark(
        ("\u2581",),
        re.compile(r"\S*\u2581\S*"),
        "hold \u2581 (U+2581), SentencePiece's mark for a space",
        _PIECES,
        "sed 's/ //g; s/\u2581/ /g; s/^ //'",
    ),
    Mark(
        ("&", "@-@", "@/@", "@,@", "@.@"),
        # Where Moses has them: as words of their own, or at one end of a word. Text of markup has them inside of words,
        # and "Find &amp; Replace".
        re.compile(r"(?<!\S)(?:\w*(?:&apos;)+|(?:&apos;)+\w*|&(?:quot|#124|#91|#93);|@[-/,.]@)(?!\S)"),
        "are escaped by Moses' tokeniser (&apos; &quot; @-@)",
        _TOKENS,
        "sacremoses -l LANGUAGE detokenize",
    ),
)


class PreparedText:
    """Counts the words of a text, and those with a mark of another tool."""

    def __init__(self, lines: Iterable[str] = ()) -> None:
        self._words = 0
        self._marked: Counter[Mark] = Counter()
        for line in lines:
            self.add(line)

    def add(self, line: str) -> None:
        self._words += line.count(" ") + 1
        for mark in MARKS:
            if any(sign in line for sign in mark.signs):
                self._marked[mark] += len(mark.word.findall(line))

    def add_lines(self, lines: Sequence[str]) -> None:
        """Adds lines; quicker than one by one, as most marks are in none of them."""
        text = "\n".join(lines)
        self._words += text.count(" ") + len(lines)
        for mark in MARKS:
            if any(sign in text for sign in mark.signs):
                self._marked[mark] += sum(
                    len(mark.word.findall(line)) for line in lines if any(sign in line for sign in mark.signs)
                )

    def merge(self, other: PreparedText) -> None:
        """Adds what is counted in another text."""
        self._words += other._words
        self._marked.update(other._marked)

    def to_json(self) -> list[int]:
        """The counts, JSON-ready; `from_json` reads them."""
        return [self._words, *(self._marked[mark] for mark in MARKS)]

    @classmethod
    def from_json(cls, values: Sequence[int]) -> PreparedText:
        found = cls()
        found._words, found._marked = values[0], Counter(dict(zip(MARKS, values[1:], strict=True)))
        return found

    def share(self, mark: Mark) -> float:
        """Share of the words that have the mark."""
        return self._marked[mark] / max(self._words, 1)

    @property
    def marks(self) -> list[Mark]:
        """The marks that more than a stray word has."""
        return [mark for mark in MARKS if self.share(mark) >= _LEAST]


def prepared_warnings(texts: Mapping[str, PreparedText], *, tokenised: bool = False) -> list[str]:
    """Returns a warning for each mark that one of the texts has, with its share in each of these.

    Args:
        texts: by their names in the warning, such as "the references".
        tokenised: the text is meant to be tokenised, perhaps by Moses.
    """
    found = []
    for mark in MARKS:
        shares = {name: text.share(mark) for name, text in texts.items() if mark in text.marks}
        if shares and not (tokenised and mark.effect is _TOKENS):
            of = (f"{_percent(share)} of the words of {name}" for name, share in shares.items())
            words = f"{' and '.join(of)} {mark.verb}: {mark.effect}"
            found.append(f"warning: {words}. Undo it in the files: {mark.undo}")
    return found


def _percent(share: float) -> str:
    return f"{share:.0%}" if share >= 0.01 else f"{share:.1%}"
