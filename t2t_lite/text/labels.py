"""Labels of target languages, such as ">>de<<": a source line begins with one, which is one id and never text."""

import re
from collections.abc import Collection, Sequence

from t2t_lite.errors import DataError, UsageError, did_you_mean

LABEL = r">>[^<>\s]+<<"  # also for RE2
BLANK = r"(?:[\r\n]+|[\t-\r ])?"  # after a label, and no part of the text; also for RE2
_LINE = re.compile(rf"(?s)({LABEL}){BLANK}(.*)")
_LABEL = re.compile(LABEL)


def label_of(language: str) -> str:
    """Returns ">>de<<" of "de"."""
    return f">>{language}<<"


def language_of(label: str) -> str:
    """Returns "de" of ">>de<<"."""
    return label[2:-2]


def is_label(piece: str) -> bool:
    """Whether a piece of a vocabulary has the form of a label."""
    return _LABEL.fullmatch(piece) is not None


def split_label(text: str, labels: Collection[str]) -> tuple[str, str]:
    """Returns the label with which a text begins, "" if it begins with none of `labels`, and the rest."""
    match = _LINE.match(text) if text.startswith(">>") else None
    return (match[1], match[2]) if match and match[1] in labels else ("", text)


def target_of(source: str, labels: Collection[str]) -> str:
    """Returns the target language that a source's label names; "" without one of `labels`."""
    return language_of(split_label(source, labels)[0])


def no_label(labels: Sequence[str]) -> str:
    """What is wrong with a line that begins with none of `labels`."""
    return (
        "does not begin with the label of a target language that this model knows. Write one of these and a space "
        f"before each line: {', '.join(labels)}."
    )


def missing_label(text: str, labels: Sequence[str]) -> DataError:
    """The error about a line that begins with none of `labels`."""
    given = _LABEL.match(text)
    advice = did_you_mean(given[0], labels) if given else " Or name the language of all lines: --target_language=CODE."
    return DataError(f"{text[:60]!r} {no_label(labels)}{advice}")


def find_label(language: str, labels: Sequence[str]) -> str:
    """Returns the label of a language that a user names.

    Raises:
        UsageError: the model has no labels, or none for this language.
    """
    known = [language_of(label) for label in labels]
    if not known:
        raise UsageError(f"--target_language={language}: this model has no labels of target languages. Leave it out.")
    if language not in known:
        advice = did_you_mean(language, known)
        raise UsageError(f"--target_language={language}: this model writes {', '.join(known)}.{advice}")
    return label_of(language)
