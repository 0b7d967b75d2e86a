"""Alignments of training text: files in Pharaoh's format, read beside the text, and their links between pieces.

A line holds links "i-j" of the i-th word of the source with the j-th of the target, counted from 0, as fast_align,
eflomal and awesome-align write them. Words are what spaces and tabs separate.
"""

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from t2t_lite.data.compressed import SUFFIXES, split_suffix
from t2t_lite.data.sources import read_lines
from t2t_lite.errors import DataError
from t2t_lite.problem import AlignedPair
from t2t_lite.text.any_vocabulary import WORD_START

_LINK = re.compile(r"(\d{1,9})-(\d{1,9})")

Links = Sequence[tuple[int, int]]


def find_beside(part: tuple[Path, ...], languages: tuple[str, str], flag: str, content: str) -> Path:
    """Returns the file that belongs to two files of lines; it is named as they are, but for the language.

    Args:
        flag: what asks for it, NAME=ENDING.
        content: what it has for each pair.

    Raises:
        DataError: there is none, or several; or the part is a table, beside which there is none.
    """
    ending = flag.partition("=")[2]
    if len(part) == 1:
        raise DataError(f"{flag} goes with two files of lines; {part[0]} is a table. Write its columns as two files.")
    source = split_suffix(part[0].name)[0].removesuffix(".txt")
    name = f"{source.removesuffix(languages[0])}{ending}"
    found = [path for suffix in ("", *SUFFIXES) if (path := part[0].with_name(f"{name}{suffix}")).is_file()]
    if len(found) != 1:
        there = f"has {' and '.join(path.name for path in found)}" if found else f"has no {name}"
        raise DataError(
            f"{flag}: {part[0].parent} {there}. One such file belongs to {part[0].name} and {part[1].name}, with "
            f"{content} for each pair."
        )
    return found[0]


def align_pairs(pairs: Iterable[tuple[str, str]], path: Path) -> Iterator[AlignedPair]:
    """Yields the pairs with the links in the lines of a file.

    Raises:
        DataError: the file has more or fewer lines than there are pairs, or a line is no list of links of its pair.
    """
    for number, (pair, line) in enumerate(itertools.zip_longest(pairs, read_lines(path)), start=1):
        if pair is None or line is None:
            more, fewer = ("lines", "pairs") if pair is None else ("pairs", "lines")
            raise DataError(f"{path} does not fit its text: there are more {more} than the {number - 1:,} {fewer}.")
        links = []
        for text in line.split():
            if not (match := _LINK.fullmatch(text)):
                raise DataError(f"{path}, line {number:,}: {text[:40]!r} is no link i-j, such as 0-1.")
            links.append((int(match[1]), int(match[2])))
        for side, last in zip(("source", "target"), map(max, zip(*links, strict=True)), strict=False):
            words = count_words(pair[side == "target"])
            if last >= words:
                raise DataError(
                    f"{path}, line {number:,}: a link names word {last} of the {side}, which has {words} words; words "
                    "are what spaces separate, and are counted from 0."
                )
        yield AlignedPair(pair[0], pair[1], links)


def count_words(text: str) -> int:
    """Returns the number of words: what spaces and tabs separate."""
    return len(re.findall(r"[^ \t]+", text))


def piece_links(pair: AlignedPair, source: Sequence[str], target: Sequence[str]) -> list[tuple[int, int]] | None:
    """Returns the links between the pieces of a pair: each piece of a word with each piece of the word linked to it.

    The end symbols are linked with each other, as in Marian.

    Args:
        source, target: pieces with the end symbol, which begin with WORD_START where a word begins.

    Returns:
        (source piece, target piece), counted from 0, each once; None if the pieces are of other words, as where the
        vocabulary's normalisation removes a word or makes two of one.
    """
    of_words = []
    for text, pieces in zip(pair, (source, target), strict=True):
        words: list[list[int]] = []
        for place, piece in enumerate(pieces[:-1]):
            if not words or piece.startswith(WORD_START):
                words.append([])
            words[-1].append(place)
        if len(words) != count_words(text):
            return None
        of_words.append(words)
    found = {link for i, j in pair.links for link in itertools.product(of_words[0][i], of_words[1][j])}
    return [*sorted(found), (len(source) - 1, len(target) - 1)]
