"""Lines that tokenizers stumble over, made from a seed; needs only the standard library.

python -m tests.importers.odd_lines --number=10000 --seed=1 prints them.
"""

import argparse
import random
import sys
from collections.abc import Callable

_SPACES = "\t \u00a0\u1680\u2000\u2003\u2009\u200a\u2028\u2029\u202f\u205f\u3000\u0085\x0b\x0c\x1c\x1f"
_ZERO_WIDTH = "\u200b\u200c\u200d\u2060\ufeff\u00ad\u034f\u061c\u180e\u200e\u200f\u202a\u202e\u2066\u2069"
_COMBINING = "\u0300\u0301\u0308\u0323\u0327\u0338\u0344\u0345\u0591\u064b\u093c\u0e31\u20dd\u3099\u309a\ufe0f"
_TRAPS = "ﬁﬃ½⅛①㎏㏂㍿Å\u212bΩ\u2126ſßẞİıǅĳﷺﷻ\u1d15e\ufb1d\uff21ｱﾞ￡…‥ʼn\u00b4\u2024\u2047\u2048\u2049\u2057㌀🄰ᴬ\u0958"
_QUOTES = "\"'`´“”„‚‘’«»‹›，。、：；？！（）【】１２３％"
_FORMS = "\u2581_ \u2585\u2047\ufffd\u25cc"
_WORDS = (
    *("the", "Die", "Ünïcödé", "naïve", "straße", "Ελλάδα", "Москва", "日本語", "한국어", "ไทย", "हिन्दी", "தமிழ்"),
    *("ᄒ\u1161\u11ab", "שלום", "العربية", "فارسی", "中文字", "ⵜⵉⴼⵉⵏⴰⵖ", "አማርኛ", "ქართული", "𝔘𝔫𝔦", "𐍈", "𠮷"),
)
_EMOJI = ("🙂", "👍🏽", "👩\u200d👩\u200d👧", "🏳️\u200d🌈", "🇩🇪", "🇩", "1️⃣", "☃", "☃️", "\U000e0067", "🫠")
_SYMBOLS = (
    *("</s>", "<s>", "<unk>", "<pad>", "<0x41>", "<0xE2>", "<0xe2>", "<b>", "</b>", "<br/>", "&amp;", "&#8203;"),
    *("[UNK]", "@@", "￭", "a</s>b", "</s", "{0}", "%s", "\\n", "\\u0041", "--", "#", ": ", "- a", "~", "null"),
)
_LABELS = (">>fra<<", ">>aaa<<", ">>bbb<<", ">> a<<", ">><<", ">>a", "<<", ">>aaa<<>>bbb<<", "＞＞aaa＜＜", ">>AAA<<")
_PLAIN = "abcdefgh ijklm nopqr stuv wxyzABCDEZ0123456789.,;:!?()-+*/=@$%&~^{}[]|<>"


def _code_point(rng: random.Random) -> str:
    """Any character but a half of a pair and a line's end, from small and large blocks alike."""
    while True:
        code = rng.randrange(rng.choice((0x100, 0x800, 0x3000, 0x10000, 0x110000)))
        if not 0xD800 <= code < 0xE000 and code != 10:
            return chr(code)


def _letters(letters: str, most: int) -> Callable[[random.Random], str]:
    return lambda rng: "".join(rng.choice(letters) for _ in range(rng.randint(1, most)))


def _of(*kinds: Callable[[random.Random], str] | tuple[str, ...]) -> Callable[[random.Random], str]:
    """Up to 12 parts of the kinds, with and without spaces between them."""

    def make(rng: random.Random) -> str:
        parts = []
        for _ in range(rng.randint(1, 12)):
            kind = rng.choice(kinds)
            parts.append(rng.choice(kind) if isinstance(kind, tuple) else kind(rng))
        return rng.choice(("", " ", " ", "  ")).join(parts)

    return make


_CONTROL = "".join(chr(code) for code in (*range(10), *range(11, 32), *range(127, 160)))
_KINDS = (
    _of(_letters(_PLAIN, 9)),
    _of(_WORDS),
    _of(_EMOJI, _WORDS),
    _of(_letters(_CONTROL, 3), _letters(_PLAIN, 9)),
    _of(_letters(_ZERO_WIDTH, 3), _WORDS, _letters(_PLAIN, 5)),
    _of(_letters(_SPACES, 4), _WORDS, _letters(_PLAIN, 5)),
    _of(_letters(_COMBINING, 6), _WORDS, _letters(_PLAIN, 5)),
    _of(_letters(_TRAPS, 5), _WORDS),
    _of(_letters(_QUOTES, 4), _WORDS, _letters(_PLAIN, 5)),
    _of(_letters(_FORMS, 4), _letters(_PLAIN, 5)),
    _of(_SYMBOLS, _letters(_PLAIN, 5)),
    _of(_LABELS, _letters(_PLAIN, 5)),
    _of(_code_point),
    _of(_WORDS, _EMOJI, _SYMBOLS, _LABELS, _code_point, _letters(_TRAPS + _COMBINING + _ZERO_WIDTH + _SPACES, 4)),
)
_VERY_LONG = 100  # every so many lines one is some thousands of characters long


def odd_lines(number: int, seed: int, words: tuple[str, ...] = ()) -> list[str]:
    """Returns lines without a line break in them, none of them twice.

    Args:
        words: what half of the lines have among their parts, such as the words that a model knows.
    """
    rng, found = random.Random(seed), dict.fromkeys(("", " ", "\u2581", "\0"))
    while len(found) < number:
        kind = rng.choice(_KINDS)
        line = kind(rng)
        if len(found) % _VERY_LONG == 0:
            line = rng.choice(("", " ")).join(kind(rng) for _ in range(rng.randint(50, 400)))
        if words and rng.random() < 0.5:
            line = f"{rng.choice(words)} {line}{rng.choice(('', ' '))}{rng.choice(words)}"
        found[line] = None
    return list(found)[:number]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--number", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    sys.stdout.buffer.write("".join(f"{line}\n" for line in odd_lines(args.number, args.seed)).encode())
