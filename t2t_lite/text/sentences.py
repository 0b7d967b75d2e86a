"""Sentences of a text, found by punctuation and script: one splitter for all languages.

A boundary is a mark that ends a sentence, with the quotes and brackets that close after it. Where marks stand for other
things as well, as "." does in abbreviations and numbers, the rules rather leave two sentences together than cut one.
"""

import re
import unicodedata
from collections.abc import Callable, Iterable

_STRONG = "。｡！？।॥؟۔።፧։။។៕"  # end a sentence also where no space follows
_WEAK = ".!?…‽\u037e"  # need a space and a beginning after it; U+037E: the Greek question mark
_CLOSERS = "\"'”’»›)\\]}」』）】》〉〕］｝"
_OPENERS = "\"'“‘„‚«‹([{「『（【《〈〔［｛¿¡"
# Each alternative starts at the first mark of a run and gives nothing back, so that time stays linear.
_MARKS = re.compile(
    rf"(?<![{_STRONG}．])(?P<strong>[{_STRONG}]|．(?!\d))[{_STRONG}{_WEAK}．]*+(?P<after_strong>[{_CLOSERS}]*+)\s*+"
    rf"|(?<![{_WEAK}])(?P<weak>[{_WEAK}]++|(?<=[\u0370-\u03ff\u1f00-\u1fff]);)"  # ";" asks in Greek
    rf"(?:[{_CLOSERS}“‘]|[ \u00a0\u202f]»(?!\S))*+\s++"  # „gut.“ is German, « quoi ? » French
    r"|(?P<break>\n\s*+)"
)
_BEFORE_WORDS = f"{_OPENERS}»-–—―• "
_LOOK = 40  # characters on both sides of a mark that are looked at

# Words before "." that a capital letter may follow in the same sentence.
_ABBREVIATIONS = frozenset(
    """
    mr mrs ms mx dr prof st rev hon gen col maj capt cpt lt sgt cmdr gov sen pres supt messrs mt vs cf viz incl approx
    e.g i.e hr hrn fr dipl ing bzw ca evtl ggf inkl exkl vgl sog zzgl bspw geb z.b d.h u.a i.d.r o.ä u.ä z.t
    mm mme mmes mlle mlles sr sra sres sras srta ud uds dña dra gral sig sigg dott avv exmo exma
    dhr mevr bijv o.a d.w.z m.b.t np mgr inż ul tzw např tzv bl.a t.ex d.v.s
    т.е т.к т.н им ул г-н г-жа проф акад см напр डॉ श्री
    """.split()
)
# Words before "." that a number may follow in the same sentence.
_BEFORE_NUMBERS = frozenset(
    """
    no nos nr núm art arts fig figs abb tab vol vols bd pp ss sec sect ch chap cap eq ref op стр рис гл п
    jan feb mar apr jun jul aug sep sept oct okt nov dec dez ene abr ago dic janv févr avr juil déc gen mag giu lug set
    ott
    """.split()
)
_DOTTED = re.compile(r"(?:[^\W\d_]\.)+[^\W\d_]")  # U.S, before its last "."
_ORDINAL = re.compile(r"\d{1,2}")  # 3. Oktober; 1. First item
_CLAUSES = re.compile(rf"[,;:،؛–—][{_CLOSERS}]*+\s++|[，、；：][{_CLOSERS}]*+\s*+")
_SPACES = re.compile(r"\s+")
_UNSPACED = re.compile("[\u3000-\u303f\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\uff00-\uffef]")  # Han, kana, their marks
_QUOTES = "\"'”’"
_JOINERS = "\u200c\u200d"


def split_sentences(text: str) -> list[str]:
    """Returns the sentences of a text, without the white space around them; the text itself if it is blank."""
    sentences, start = [], 0
    for match in _MARKS.finditer(text):
        if match.end() < len(text) and _is_boundary(text, start, match):
            sentences.append(text[start : match.end()].strip())
            start = match.end()
    sentences.append(text[start:].strip() if start else text)
    return [sentence for sentence in sentences if sentence] or [text]


def _is_boundary(text: str, start: int, match: re.Match[str]) -> bool:
    """Whether a sentence that began at `start` ends with a match of _MARKS."""
    if match["break"]:
        return match["break"].count("\n") > 1  # a blank line; single breaks may be of lines that were wrapped
    if match["strong"]:
        # 「行く。」と言った is one sentence; 「行く。」「帰る。」 are two.
        return not match["after_strong"] or match[0][-1].isspace() or text[match.end()] in _OPENERS
    following = text[match.end() : match.end() + _LOOK].lstrip(_BEFORE_WORDS)[:1]
    if not following.isdigit() and (not following.isalpha() or following.islower()):
        return False  # it begins neither with a digit nor with a capital letter or one of a script without them
    return match["weak"] != "." or not _is_abbreviation(
        text[max(start, match.start() - _LOOK) : match.start()], following
    )


def _is_abbreviation(before: str, following: str) -> bool:
    """Whether the "." after `before` is of its last word; `following` is the first character of the next word."""
    words = before.split()
    word = words[-1].lstrip(_OPENERS) if words and not before[-1].isspace() else ""
    low = word.lower()
    return (
        low in _ABBREVIATIONS
        or (following.isdigit() and low in _BEFORE_NUMBERS)
        or (len(word) == 1 and word.isalpha())  # an initial
        or (bool(_DOTTED.fullmatch(word)) and word.isupper())
        or bool(_ORDINAL.fullmatch(word))
    )


def break_long(text: str, fits: Callable[[str], bool]) -> list[str]:
    """Returns parts of a text that each fit, about equally long, and not blank.

    It breaks after the mark of a clause near the middle, else at a space, else between two characters. A single
    character counts as fitting.
    """
    text = text.strip()
    if len(text) <= 1 or fits(text):
        return [text] if text else []
    place = _middle(text)
    return [*break_long(text[:place], fits), *break_long(text[place:], fits)]


def _middle(text: str) -> int:
    """The best place, from 1 to the length - 1, to break a text that has no white space around it."""
    middle, length = len(text) // 2, len(text)

    def nearest(places: Iterable[int]) -> int | None:
        return min(
            (place for place in places if 0 < place < length), key=lambda place: abs(place - middle), default=None
        )

    clause = nearest(match.end() for match in _CLAUSES.finditer(text))
    if clause is not None and length <= 4 * clause <= 3 * length:
        return clause
    space = nearest(match.start() for match in _SPACES.finditer(text))
    if space is not None:
        return space
    place = middle or 1
    while place < length - 1 and _belongs(text, place):
        place += 1
    return place


def _belongs(text: str, place: int) -> bool:
    """Whether the character at a place belongs to the one before it, as accents do."""
    return unicodedata.category(text[place]).startswith("M") or text[place] in _JOINERS or text[place - 1] in _JOINERS


def join_sentences(sentences: Iterable[str]) -> str:
    """Returns sentences as a text: with spaces between them, but none after Chinese and Japanese ones."""
    parts: list[str] = []
    for sentence in filter(None, sentences):
        parts += [sentence, "" if _UNSPACED.match(sentence.rstrip(_QUOTES)[-1:]) else " "]
    return "".join(parts[:-1])
