"""Words that are remembered: the same ids as SentencePiece gives for whole lines."""

import random
from typing import Any

import pytest

from t2t_lite.text import word_cache
from t2t_lite.text.vocabulary import Vocabulary
from t2t_lite.text.vocabulary_training import train_vocabulary

# Letters of several scripts and lengths, of which some are in no piece; spaces of all kinds; marks of SentencePiece.
ALPHABET = [
    *"aabbccdeé猫\U0001f600ßx0",
    *"    ",
    "\t",
    "\u00a0",
    "\u3000",
    "\r",
    "\x00",
    "\u2028",
    "\u2581",
    "%s",
    "<unk>",
]


def _lines(number: int, seed: int, alphabet: list[str]) -> list[str]:
    draw = random.Random(seed)
    return ["".join(draw.choices(alphabet, k=draw.randint(0, 40))) for _ in range(number)]


@pytest.mark.parametrize(
    "options",
    [
        {"size": 90},
        {"size": 400, "byte_fallback": True, "character_coverage": 0.98},
        {"size": 90, "character_coverage": 0.98},
        {"size": 120, "whole": ["\n", "%s", "ab", "<b>"], "labels": [">>de<<"]},
        {"size": 60, "kind": "char"},
    ],
)
def test_ids_are_those_of_whole_lines(options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(word_cache, "_MOST", 1500)  # so that words are forgotten
    known = [char for char in ALPHABET if char not in ("\u2581", "<unk>", "\x00")]
    trained = train_vocabulary(_lines(300, 1, known), **options)
    plain, quick = Vocabulary(trained.data), Vocabulary(trained.data)
    quick.remember_words()
    assert quick.encode_many != Vocabulary.encode_many.__get__(quick)
    lines = [
        "",
        " ",
        "  a ",
        "\u2581",
        "a \u2581",
        "\u2581a\u2581 b",
        *_lines(3000, 2, [*ALPHABET, "q", "\u0916", "\n"]),
    ]
    for start in range(0, len(lines), 500):
        part = lines[start : start + 500]
        assert quick.encode_many(part) == plain.encode_many(part)
        assert quick.encode_source(part) == plain.encode_source(part)


def test_a_unigram_vocabulary_cuts_whole_lines() -> None:
    vocabulary = train_vocabulary(_lines(300, 1, list("aabbcde   ")), size=40, kind="unigram")
    vocabulary.remember_words()
    assert vocabulary.encode_many == Vocabulary.encode_many.__get__(vocabulary)
