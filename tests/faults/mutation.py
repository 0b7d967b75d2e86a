"""Damaged variants of valid inputs: bytes flipped, cut, repeated, special characters, other values in JSON."""

import copy
import json
import random
from typing import Any

# What has upset readers of text, of brackets, of SGML and of numbers.
SPECIAL = [
    *(bytes([byte]) for byte in b'\0\t\n\r\x0b\x0c\x1b \\"()[]{}<>&;=,:.-#%*\x7f'),
    b"\xef\xbb\xbf",
    b"\r\n",
    *(character.encode() for character in "\u0085\u00a0\u2028\u2029\u200b\u200d\u200f\u202e\u2066\ufeff\u2581\ufffd"),
    "\U0010ffff".encode(),
    *(b"\xff", b"\xc3", b"\x80", b"\xc0\x80", b"\xed\xa0\x80", b"\xed\xb0\x80", b"\xf4\x90\x80\x80"),  # not UTF-8
    *(b"1e999", b"-1e999", b"NaN", b"Infinity", b"-0", b"0x10", b"1_0", b"9" * 30, b"9" * 400, b"9" * 5000),
    *("\u0663".encode(), "\u00b2".encode(), "\uff11".encode()),  # digits, some of which int() takes
    *(bracket * 2000 for bracket in (b"(", b")", b"[", b"(A ", b'{"a":', b"<doc ", b" " * 3)),
    *(b"&#0;", b"&#10;", b"&#xD800;", b"&#1114112;", b"&#9999999;", b"&bogus;"),
    *(b"<seg id=1>", b"</seg>", b"<doc docid=''>"),
    *(b"\\ud800", b"\\u0000", b"../../", b"/", b"null", b"true", b"[]", b"{}"),
]  # fmt: skip
VALUES: list[Any] = [
    *(None, True, False, 0, -1, 1, 1.5, 10**30, 10**400, -(10**400), float("inf"), float("nan"), -0.0, 1e308),
    *(
        "",
        "a",
        "..",
        "/",
        "../x",
        "\0",
        "\ud800",
        "x" * 5000,
        "<i8",
        "O",
        [],
        {},
        [[]],
        [{}],
        {"": 0},
        {"a": {"b": []}},
    ),
]


def mutated(rng: random.Random, seeds: list[bytes]) -> bytes:
    """Returns one of the seeds, changed in up to six places, or now and then random bytes."""
    if rng.random() < 0.02:
        return rng.randbytes(rng.randrange(200))
    data = rng.choice(seeds)
    if data[:1] == b"{" and rng.random() < 0.6:
        return _other_json(rng, data)
    for _ in range(rng.choice((0, 1, 1, 1, 2, 2, 3, 6))):
        data = rng.choice(_CHANGES)(rng, data)
    return data


def _place(rng: random.Random, data: bytes) -> tuple[int, int]:
    """Beginning and end of a part of the data, usually a short one."""
    start = rng.randrange(len(data) + 1)
    length = rng.randrange(rng.choice((2, 8, 64, len(data) + 1)))
    return start, min(start + length, len(data))


def _flip(rng: random.Random, data: bytes) -> bytes:
    start = rng.randrange(len(data) + 1)
    return data[:start] + bytes([byte ^ 1 << rng.randrange(8) for byte in data[start : start + 1]]) + data[start + 1 :]


def _cut(rng: random.Random, data: bytes) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def _remove(rng: random.Random, data: bytes) -> bytes:
    start, end = _place(rng, data)
    return data[:start] + data[end:]


def _repeat(rng: random.Random, data: bytes) -> bytes:
    start, end = _place(rng, data)
    return data[:end] + data[start:end] * rng.choice((1, 1, 2, 20)) + data[end:]


def _move(rng: random.Random, data: bytes) -> bytes:
    start, end = _place(rng, data)
    rest = data[:start] + data[end:]
    place = rng.randrange(len(rest) + 1)
    return rest[:place] + data[start:end] + rest[place:]


def _insert(rng: random.Random, data: bytes) -> bytes:
    start, end = _place(rng, data)
    return data[:start] + rng.choice(SPECIAL) + data[rng.choice((start, end)) :]


_CHANGES = (_flip, _flip, _cut, _remove, _repeat, _move, _insert, _insert, _insert)


def _other_json(rng: random.Random, data: bytes) -> bytes:
    """The object with one to three of its values, at any depth, replaced, removed or renamed."""
    whole = json.loads(data)
    for _ in range(rng.choice((1, 1, 2, 3))):
        holder = whole
        while True:
            keys = list(holder) if isinstance(holder, dict) else range(len(holder))
            if not keys:
                break
            key = rng.choice(keys)
            if isinstance(holder[key], dict | list) and holder[key] and rng.random() < 0.8:
                holder = holder[key]
                continue
            _change(rng, holder, key)
            break
    return json.dumps(whole, ensure_ascii=rng.random() < 0.5).encode("utf-8", "surrogatepass")


def _change(rng: random.Random, holder: Any, key: Any) -> None:
    kind = rng.random()
    if kind < 0.15:
        del holder[key]
    elif kind < 0.25 and isinstance(holder, dict):
        holder[rng.choice(("", "a", f"{key}x", "../x", "\0", str(key).upper()))] = holder.pop(key)
    elif kind < 0.35 and isinstance(holder[key], int):
        holder[key] += rng.choice((-1, 1))
    else:
        holder[key] = copy.deepcopy(rng.choice(VALUES))
