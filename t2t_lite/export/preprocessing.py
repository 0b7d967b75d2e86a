"""Replacements of characters before text is cut, as a script: preprocess.sh of a Marian folder."""

from __future__ import annotations

from collections.abc import Sequence

_PROGRAM = """\
#!/bin/bash
# Replaces characters of text, as for this model's training, and cuts it into pieces. Written by t2t-lite.
# usage: ./preprocess.sh source.spm < lines > pieces
perl -CSDA -Mutf8 -p <(cat <<'RULES'
{rules}
RULES
) | spm_encode --model="$1"
"""
_SPACES = {" +": "  *", "^ +": "^ *", " +$": " *$"}  # as OPUS-MT's scripts write them


def script_of(replacements: Sequence[tuple[str, str]]) -> str:
    """Returns a script that makes replacements, which are those of such a script, in their order."""
    rules = [f"s/{_pattern(pattern)}/{_replacement(text)}/g;" for pattern, text in replacements]
    return _PROGRAM.format(rules="\n".join(rules))


def _pattern(pattern: str) -> str:
    if pattern.startswith("["):
        if pattern.startswith(r"[\x00"):  # the whole of Unicode's category C, written out
            return r"(?!\n)\p{C}"
        return "[" + "".join(f"\\x{{{ord(char):04X}}}" for char in pattern[1:-1]) + "]"
    return _SPACES.get(pattern) or pattern.replace("/", r"\/")


def _replacement(text: str) -> str:
    return "".join(f"\\{char}" if char in "/\\$@" else char for char in text)
