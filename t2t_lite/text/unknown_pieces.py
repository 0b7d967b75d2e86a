"""Unknown pieces: how many of a text's pieces its vocabulary does not know, what they stand for, and what may help."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from t2t_lite.ids import EOS
from t2t_lite.text.any_vocabulary import AnyVocabulary

_SHOWN = 5  # symbols in a message
_KEPT = 10_000  # symbols that are counted; the rarest are forgotten above ten times as many

_ADVICE = {
    "NFC": "They are parts of decomposed letters (NFD), which look like the letters that the vocabulary knows. Compose "
    "all text: uconv -x any-nfc, or unicodedata.normalize('NFC', text).",
    "NFD": "The vocabulary knows these letters decomposed (NFD). Compose all text, that of training too: uconv -x "
    "any-nfc, or unicodedata.normalize('NFC', text).",
    "NFKC": "The vocabulary knows other forms of these characters. Normalise all text: uconv -x any-nfkc, or "
    "unicodedata.normalize('NFKC', text).",
    "lower": "The vocabulary knows these letters in lower case only: lower-case this text too, or train on cased text.",
    "upper": "The vocabulary knows these letters in capitals only: is the training text in capitals?",
}


class UnknownPieces:
    """Counts the pieces of one side of a text, EOS included, and those that are unknown to its vocabulary.

    Attributes:
        pieces, unknown: how many there are.
        first: the first line that has an unknown piece; "" if there is none.
    """

    def __init__(self) -> None:
        self.pieces = self.unknown = 0
        self.first = ""
        self._symbols: Counter[str] = Counter()

    def add(self, vocabulary: AnyVocabulary, lines: Sequence[str], sequences: Sequence[Sequence[int]]) -> None:
        """Counts lines and their ids, with or without EOS."""
        unknown = vocabulary.unknown
        for line, ids in zip(lines, sequences, strict=True):
            self.pieces += len(ids) + (ids[-1:] != [EOS])
            if unknown is not None and unknown in ids:
                self.first = self.first or line
                self.unknown += list(ids).count(unknown)
                self._symbols.update(vocabulary.unknown_symbols(line))

    def merge(self, other: UnknownPieces) -> None:
        """Adds what is counted in the text that follows."""
        self.pieces += other.pieces
        self.unknown += other.unknown
        self.first = self.first or other.first
        self._symbols.update(other._symbols)
        if len(self._symbols) > 10 * _KEPT:
            self._symbols = Counter(dict(self._symbols.most_common(_KEPT)))

    def to_json(self) -> dict[str, Any]:
        """The counts, JSON-ready; `from_json` reads them."""
        return {"pieces": self.pieces, "unknown": self.unknown, "first": self.first, "symbols": dict(self._symbols)}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> UnknownPieces:
        found = cls()
        found.pieces, found.unknown, found.first = values["pieces"], values["unknown"], values["first"]
        found._symbols = Counter(values["symbols"])
        return found

    def sentence(self, kind: str, place: str = "") -> str:
        """Returns "13 of 224 source pieces (5.8%) are unknown to the vocabulary, ..."; only where there are any.

        Args:
            kind: which pieces: "source", "target".
            place: of the line `first`, such as "dev.en, line 3".
        """
        share = 100 * self.unknown / self.pieces
        symbols = [symbol for symbol, _ in self._symbols.most_common(_SHOWN)]
        what = "characters" if all(len(symbol) == 1 for symbol in symbols) else "words"
        names = ", ".join(map(_name, symbols))
        where = f"{place}: {self.first[:80]!r}" if place else f"{self.first[:80]!r}"
        return (
            f"{self.unknown:,} of {self.pieces:,} {kind} pieces ({share:.{1 if share >= 0.1 else 3}f}%) are unknown to "
            f"the vocabulary, the most frequent {what} are {names} (first in {where})."
        )

    def advice(self, vocabulary: AnyVocabulary) -> str:
        """What would make at least half of the symbols known; "" if nothing is seen."""
        votes: Counter[str] = Counter()
        for symbol, count in self._symbols.items():
            votes[self._cause(symbol, vocabulary)] += count
        cause, count = votes.most_common(1)[0] if votes else ("", 0)
        if not cause or 2 * count < votes.total():
            return ""
        return _ADVICE.get(cause) or f"Most are {cause} letters: is this file in the language of the training text?"

    def _cause(self, symbol: str, vocabulary: AnyVocabulary) -> str:
        """Why a symbol is unknown: a key of _ADVICE, the name of another script than Latin, or ""."""
        if len(symbol) > 1:
            return ""
        if _is_part(symbol) and unicodedata.normalize("NFC", self.first) != self.first:
            return "NFC"
        forms = {form: unicodedata.normalize(form, symbol) for form in ("NFD", "NFKC")}
        for cause, form in {**forms, "lower": symbol.lower(), "upper": symbol.upper()}.items():
            if form != symbol and vocabulary.unknown not in vocabulary.encode(form):
                return cause
        script = unicodedata.name(symbol, "").partition(" ")[0] if symbol.isalpha() else ""
        return {"LATIN": "", "CJK": "Chinese"}.get(script, script.capitalize())


def _is_part(symbol: str) -> bool:
    """Whether a character is part of a decomposed letter: an accent, or a part of a Korean syllable."""
    return unicodedata.combining(symbol) > 0 or "\u1100" <= symbol <= "\u11ff"


def _name(symbol: str) -> str:
    """A symbol as messages show it: those that would not be seen, or seen as another, by their number alone."""
    if len(symbol) > 1:
        return repr(symbol)
    number = f"U+{ord(symbol):04X}"
    return number if _is_part(symbol) or not symbol.isprintable() else f"{symbol} ({number})"
