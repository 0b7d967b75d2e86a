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
_ESCAPED = re.compile(r"\\(\W)")  # not \n and \t
_LABEL = '"s/^/>>$2<< /"'  # of scripts for several languages; here each line has its label
_QUOTED = re.compile(r"""'([^'\n]*)'|"([^"\n]*)\"""")
_COMMAND = re.compile(r"(?:s|y|tr)\W")
_PROGRAMS = (".perl", ".pl", ".py", ".sed")
_SPACES = {"  *": (" +", " "), "^ *": ("^ +", ""), " *$": (" +$", "")}
_CONTROL = r"\p{C}"  # with or without (?!\n), which a line does not have
_ZERO_WIDTH = re.compile(r"\[(?:\\x\{([0-9A-Fa-f]{4})\})+\]")

_log = logging.getLogger("t2t_lite")


def read(path: Path) -> list[tuple[str, str]]:
    """Returns the replacements in their order: regular expressions, for Python and RE2, and what replaces each.

    A script with other steps is not followed, which is logged.
    """
    with open(path, "rb") as file:
        data = file.read(_LONGEST + 1)
    if len(data) > _LONGEST:
        return _unknown(path, f"after {_LONGEST:,} bytes")
    body = data.decode(errors="replace").rpartition("\nelse")[2]  # the other branch is for texts without a label
    body = "\n".join(line for line in body.split("\n") if not line.lstrip().startswith("#"))
    found = []
    for pattern, text in _REPLACEMENT.findall(body):
        rule = _rule(pattern, _ESCAPED.sub(r"\1", text))
        if rule is None:
            return _unknown(path, f"s/{pattern}/{text}/g")
        found.append(rule)
    other = _other_step(_REPLACEMENT.sub("", body))
    return _unknown(path, other) if other else found


def _other_step(script: str) -> str | None:
    """Returns what a script without its replacements still does to text: a command, or a program; None if nothing."""
    text = re.sub(r"\\\n|<<'\w+'", " ", script).replace(_LABEL, "").replace("||", " ")
    for line in re.split(r"\n|\bthen\b", re.sub(r"\|\s+", "|", text)):
        for stage in line.split("|"):
            program, _, rest = stage.strip(" \t()").partition(" ")
            if program in ("sed", "perl"):
                quoted = ["".join(pair).strip("; ") for pair in _QUOTED.findall(rest)]
                left = [word for word in quoted if not re.fullmatch(r"(\$\w+)?", word)]
                left += [word for word in _QUOTED.sub("", rest).split() if _COMMAND.match(word)]
                if left:
                    return left[0]
            elif "|" in line and program and program != "cat" and "spm" not in program.lower():
                return program
    return next((word for word in re.split(r"[\s|;'\"]+", text) if word.endswith(_PROGRAMS)), None)


def _unknown(path: Path, what: str) -> list[tuple[str, str]]:
    _log.warning(
        "%s has the step %.80s, which is not known here: text is cut without its changes of characters. Outputs differ "
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
        codes = [int(code, 16) for code in re.findall(r"[0-9A-Fa-f]{4}", pattern)]
        if any(code < 0x80 or 0xD800 <= code < 0xE000 for code in codes):
            return None
        return f"[{''.join(map(chr, codes))}]", text
    character, rest = pattern[:1], pattern[1:]
    if rest not in ("", " *") or character in r"\.[](){}*+?^$|" or set(text) & set("\\&\n"):
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
