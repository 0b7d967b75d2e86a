"""--keep_whole: texts that are pieces of the vocabulary wherever they occur, such as placeholders and tags."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from t2t_lite.data.sources import read_lines
from t2t_lite.errors import UsageError
from t2t_lite.text.vocabulary_training import can_be_whole


def read_keep_whole(given: str | Sequence[str] | None) -> tuple[str, ...]:
    """Returns the texts that are kept whole, each once.

    Args:
        given: a file with one on each line; or they themselves, with commas between or in a list.

    Raises:
        UsageError: one that cannot be a piece.
        DataError: a file that is not UTF-8.
    """
    texts = given or ()
    if isinstance(texts, str):
        path = Path(texts).expanduser()
        texts = list(read_lines(path)) if path.is_file() else texts.split(",")
    found = tuple(dict.fromkeys(text for text in texts if text.strip()))
    for text in found:
        if not can_be_whole(text):
            raise UsageError(
                f"--keep_whole: {text!r} cannot be a piece of a vocabulary: it has white space in it, a mark of "
                "SentencePiece's own, or is the name of one of its special pieces. Give a file with one text on each "
                "line, or a list such as %s,<b>,&amp;"
            )
    return found
