"""Cleaning: reasons and limits, counts, the first of duplicates stays, same result as a plain set, bounded memory."""

import random

import pytest

from t2t_lite.data.cleaning import Cleaner, Judge, Pair
from t2t_lite.errors import DataError


def _cleaned(pairs: list[Pair], max_words: int = 10, max_ratio: float = 3.0) -> tuple[list[Pair], dict[str, int]]:
    cleaner = Cleaner(pairs, Judge(max_words, max_ratio))
    return list(cleaner.clean(pairs)), {reason: count for reason, count in cleaner.counts.items() if count}


@pytest.mark.parametrize(
    ("pair", "reason"),
    [
        (("one two", "eins zwei"), None),
        (("tab\there", "x y"), None),
        (("no-break\u00a0space, soft\u00adhyphen", "line\u2028separator"), None),
        (("a\u0000b", "x"), "control"),
        (("a", "x\r"), "control"),
        (("dash \u0096 of another encoding", "x y z"), "control"),
        (("delete\x7f", "x"), "control"),
        (("w " * 10, "v " * 10), None),
        (("w " * 11, "w " * 10), "length"),
        (("w " * 5, "w " * 11), "length"),
        (("w " * 3, "w"), None),
        (("w " * 4, "w"), "ratio"),
        (("w w", "w " * 7), "ratio"),
        (("  w   w w ", "w"), None),  # words count, not spaces
        (("\x01" + "w " * 20, "w"), "control"),  # the first reason counts
        (("w " * 20, "w"), "length"),
    ],
)
def test_each_reason_with_its_limit(pair: Pair, reason: str | None) -> None:
    kept, counts = _cleaned([pair])
    assert (kept, counts) == (([pair], {}) if reason is None else ([], {reason: 1}))


@pytest.mark.parametrize(
    ("languages", "pair", "reason"),
    [
        (
            ("en", "zh"),
            ("one two three four five six seven", "一二三四五六七八九十十"),
            None,
        ),
        (("zh-CN", "en"), ("一二三四五六七八九十" * 2, "w " * 10), None),
        (("en", "zh"), ("w " * 4, "一二"), "ratio"),
        (("en", "zh"), ("w " * 10, "一" * 20), None),
        (("en", "zh"), ("w " * 10, "一" * 21), "length"),
        (("en", "ja"), ("w " * 5, "私は猫が好きです"), None),
        (("eng_Latn", "jpn_Jpan"), ("w " * 5, "私は猫が好きです"), None),
        (("eng", "cmn"), ("w " * 4, "一二三四五六七八"), None),
        (("eng", "tha"), ("the cat sleeps on a mat", "แมวนอนหลับอยู่บนเสื่อผืนหนึ่ง"), None),
        (("en", "th"), ("the cat sleeps on a mat", "แมวนอนหลับอยู่บนเสื่อผืนหนึ่ง"), None),
        (("en", "de"), ("Berlin 2024", " Berlin 2024"), "copy"),
        (("de", "de-CH"), ("Es regnet.", "Es regnet."), None),
        (("zh-Hans", "zho_Hant"), ("今天", "今天"), None),
        (("en", "en"), ("no fault here", "no fault here"), None),  # such as a corpus of corrections
    ],
)
def test_languages_without_blanks_are_measured_in_characters(
    languages: tuple[str, str], pair: Pair, reason: str | None
) -> None:
    cleaner = Cleaner([pair], Judge(10, 3.0), languages)
    assert {name for name, count in cleaner.counts.items() if count} == ({reason} - {None})


def test_of_exact_doubles_the_first_stays() -> None:
    pairs = [
        ("a", "b"),
        ("a", "c"),
        ("b", "a"),
        ("a", "b"),
        ("a b", "c"),
        ("a", "b c"),
        ("a", "c"),
        ("a", "b"),
        ("A", "b"),
    ]
    kept, counts = _cleaned(pairs)
    assert kept == [("a", "b"), ("a", "c"), ("b", "a"), ("a b", "c"), ("a", "b c"), ("A", "b")]
    assert counts == {"duplicate": 3}


def test_the_pairs_may_be_read_again_and_again() -> None:
    pairs = [("a", "b"), ("a", "b"), ("c", "d")]
    cleaner = Cleaner(iter(pairs), Judge(10, 3.0))
    first = cleaner.clean(pairs)
    next(first)  # other readings start before this one ends
    assert list(cleaner.clean(pairs)) == list(cleaner.clean(iter(pairs))) == [("a", "b"), ("c", "d")]
    assert list(first) == [("c", "d")]


@pytest.mark.parametrize("again", [2, 4])
def test_other_pairs_at_the_second_reading(again: int) -> None:
    cleaner = Cleaner([("a", "b")] * 3, Judge(10, 3.0))
    with pytest.raises(
        DataError, match=r"gave 3 pairs with text at first, and another number .* the same pairs at each"
    ):
        list(cleaner.clean([("a", "b")] * again))


def test_duplicates_equal_those_of_a_plain_set() -> None:
    draw = random.Random(1)
    pairs = [(str(draw.randrange(40)), f"x{draw.randrange(40)}") for _ in range(3000)]
    kept, counts = _cleaned(pairs)
    assert kept == list(dict.fromkeys(pairs))
    assert counts == {"duplicate": 3000 - len(kept)}
