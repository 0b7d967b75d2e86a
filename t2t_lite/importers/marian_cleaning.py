"""Replacements that an OPUS-MT release's preprocess.sh makes in text before SentencePiece cuts it."""

from __future__ import annotations

import functools
import itertools
import logging
import re
import sys
import unicodedata
from pathlib import Path

_LONGEST = 1 << 16  # bytes
_REPLACEMENT = re.compile(r"(?<![\w/])s/((?:[^/\\]|\\.)+)/((?:[^/\\]|\\.)*)/g")
_ESCAPED = re.compile(r"\\(.)")
_SPACES = {"  *": (" +", " "), "^ *": ("^ +", ""), " *$": (" +$", "")}
_CONTROL = r"\p{C}"  # with or without (?!\n), which a line does not have
_ZERO_WIDTH = re.compile(r"\[(?:\\x\{([0-9A-Fa-f]{4})\})+\]")

_log = logging.getLogger("t2t_lite")


def read(path: Path) -> list[tuple[str, str]]:
    """Returns the replacements in their order: regular expressions, for Python and RE2, and what replaces each.

    A script with other steps is not followed, which is logged.
    """
    with open(path, "rb") as file:
        script = file.read(_LONGEST).decode(errors="replace")
    body = script.rpartition("\nelse")[2]  # with a label: the other branch is for texts without one
    body = "\n".join(line for line in body.split("\n") if not line.lstrip().startswith("#"))
    found = []
    for pattern, text in _REPLACEMENT.findall(body):
        rule = _rule(pattern, _ESCAPED.sub(r"\1", text))
        if rule is None:
            return _unknown(path, f"s/{pattern}/{text}/g")
        found.append(rule)
    if programs := re.findall(r"[\w./${}-]+\.(?:perl|py|pl)\b", body):
        return _unknown(path, programs[0])
    return found


def _unknown(path: Path, what: str) -> list[tuple[str, str]]:
    _log.warning(
        "%s has the step %s, which is not known here: text is cut without its changes of characters. Outputs differ "
        "where it changes some.",
        path,
        what,
    )
    return []


def _rule(pattern: str, text: str) -> tuple[str, str] | None:
    if pattern in _SPACES:
        return _SPACES[pattern]
    if pattern.removeprefix(r"(?!\n)") == _CONTROL:
        return _controls(), text
    if _ZERO_WIDTH.fullmatch(pattern):
        return f"[{''.join(chr(int(code, 16)) for code in re.findall(r'[0-9A-Fa-f]{4}', pattern))}]", text
    character, rest = pattern[:1], pattern[1:]
    if rest not in ("", " *") or character in r"\.[](){}*+?^$|" or set(text) & {"\\", "&"}:
        return None
    return character + rest, text


@functools.cache
def _controls() -> str:
    """A class of the characters of Unicode's category C, but for halves of pairs, which no text has."""
    codes = (code for code in range(sys.maxunicode + 1) if unicodedata.category(chr(code)) in ("Cc", "Cf", "Co", "Cn"))
    runs = []
    for _, group in itertools.groupby(enumerate(codes), lambda pair: pair[1] - pair[0]):
        run = [code for _, code in group]
        runs.append((run[0], run[-1]))
    return "[" + "".join(f"{_escape(first)}-{_escape(last)}" for first, last in runs) + "]"


def _escape(code: int) -> str:
    return f"\\x{code:02x}" if code < 128 else chr(code)
