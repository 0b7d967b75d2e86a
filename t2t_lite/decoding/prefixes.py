"""Prefixes: what the outputs of a line begin with, given as text and forced piece by piece."""

from __future__ import annotations

from t2t_lite.errors import UsageError
from t2t_lite.text.any_vocabulary import AnyVocabulary

_SHOWN = 60  # characters of a prefix in a message


def prefix_pieces(prefix: str, vocabulary: AnyVocabulary, longest: int) -> list[int]:
    """Returns the ids of a prefix, without EOS; none for a blank one.

    Args:
        vocabulary: of the targets.
        longest: the most pieces of an output of this line, EOS included.

    Raises:
        UsageError: the prefix has a symbol that the vocabulary lacks, or leaves no room for an end symbol.
    """
    line = vocabulary.line(prefix) if prefix.strip() else ""
    ids = vocabulary.encode(line) if line else []
    if vocabulary.unknown in ids:
        symbols = ", ".join(map(repr, vocabulary.unknown_symbols(line)))
        raise UsageError(f"The prefix {prefix:.{_SHOWN}} has {symbols:.{_SHOWN}}, which the model cannot write.")
    if len(ids) >= longest:
        raise UsageError(
            f"The prefix {prefix:.{_SHOWN}} has {len(ids)} pieces, and an output of its line at most {longest}, the "
            "end symbol counted. Give a shorter prefix or a larger extra_length."
        )
    return ids
