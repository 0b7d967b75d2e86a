"""A small made-up subword vocabulary, and tensor2tensor's own golden ids and texts."""

from __future__ import annotations

import gzip
import json
import string
from pathlib import Path
from typing import Any

WORDS = ["the_", "cat", "cats_", "s_", ", _", ". _", "in", "un", "ing_", "ä_", "10", "' ' _", '"', "it's_"]
CHARACTERS = [*string.ascii_letters, *"äöü ,.'<>", *"\\_u;", *string.digits]
PIECES = ["<pad>_", "<EOS>_", *WORDS, *dict.fromkeys(CHARACTERS)]

# Texts that are hard to split into pieces, for any vocabulary.
HARD = [
    *("", " ", "  ", "a", " a", "a ", " a ", "  the  cat  ", "a\tb", "_", "__", "a_b", "\\", "\\u", "\\\\", "a\\b"),
    *("\\_u\\95;", "a\u00a0b", "a\u2028b\u0085c", "a\nb", "\n", "x\r\ny", "日本語 text", "👩\u200d👩 ok", "e\u0301 é"),
    *("²³½Ⅷ①", "10,000.5%", "it's", "\"quoted\" 'single'", "<pad>_<EOS>", "\0", "a\0b", "\ufeffx\ufffd", "\U0010ffff"),
    *("x" * 3000, "." * 3000, " " * 50, "ab " * 100, "the cats, un-catting 10 10110 ä. ' ' _"),
]


def file_of(pieces: list[str], quote: str = "'") -> bytes:
    """Returns the bytes of a vocabulary file; each piece is in quotes, or without quotes if `quote` is ""."""
    return "".join(f"{quote}{piece}{quote}\n" for piece in pieces).encode()


def golden(folder: Path) -> dict[Path, dict[str, Any]]:
    """Vocabulary file -> {"ids", "decoded", "random_ids", "random_decoded"} of texts.json, made by tensor2tensor."""
    return {
        path: json.loads(gzip.decompress(path.with_name(f"{path.name}.golden.json.gz").read_bytes()))
        for path in sorted(folder.glob("*.subwords"))
    }


def differing(got: list[Any], wanted: list[Any], texts: list[str]) -> list[str]:
    """Returns the texts whose `got` is not `wanted`, except those with a letter that the golden data's Python lacks."""
    newer = {"\ua7ba", "\U00011f04", "\u1c89"}  # of Unicode 12, 15 and 16; tensor2tensor ran on Python 3.7, with 11
    assert len(got) == len(wanted) == len(texts)
    return [text for g, w, text in zip(got, wanted, texts, strict=True) if g != w and not newer.intersection(text)]
