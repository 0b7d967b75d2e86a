"""The errors a user can cause. Commands print their message and exit; they never show a traceback."""

import difflib
import os
import traceback
from collections.abc import Collection, Iterable
from pathlib import Path


class T2TError(ValueError):
    """Something the user can fix; the message says what was found, what was expected and what to do."""

    exit_status = 1


class UsageError(T2TError):
    """A wrong argument, name or setting: exit status 2."""

    exit_status = 2


class DataError(T2TError):
    """Missing, damaged or ill-formed data or checkpoints: exit status 1."""


class DamagedError(DataError):
    """A file that t2t-lite wrote and that is no longer what it wrote."""


class TrainingError(T2TError):
    """A run that cannot continue, such as a loss that is not a number: exit status 1."""


def check_options(owner: str, given: Iterable[str], known: Collection[str]) -> None:
    """Raises UsageError if one of the options `given` is not known; `owner`: such as "The problem 'toy_ende'"."""
    for name in given:
        if name not in known:
            takes = f"it takes {', '.join(known)}" if known else "it takes none"
            raise UsageError(f"{owner} has no option {name!r}; {takes}.{did_you_mean(name, known)}")


def check_characters(lines: Iterable[str]) -> None:
    """Raises UsageError if a line holds half a character, as JSON may, which no UTF-8 has."""
    try:
        "".join(lines).encode("utf-8")
    except UnicodeEncodeError as error:
        raise UsageError(
            f"{error.object[error.start]!r} in a line is not a character (half of one, in UTF-16)."
        ) from None


def check_format(path: str | os.PathLike[str], found: object, wanted: int, remedy: str = "") -> None:
    """Raises DataError unless a file that t2t-lite wrote has the format number that this version reads."""
    if type(found) is not int or found != wanted:
        what = "no format number" if found is None else f"the format number {found!r:.40}"
        raise DataError(
            f"{os.fspath(path)} has {what}; this version of t2t-lite reads format {wanted}. {remedy}".rstrip()
        )


def check_tensorflow_path(shown: str, path: str | os.PathLike[str]) -> None:
    """Raises UsageError if TensorFlow cannot take a path, as one with names of Latin-1; `shown`: what gives it."""
    try:
        os.fspath(path).encode("utf-8")
    except UnicodeEncodeError:
        raise UsageError(f"{shown}: TensorFlow takes only paths that are UTF-8. Give another.") from None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Returns ' Did you mean ...?' for the names nearest to `name`, or '' where none is near."""
    near = difflib.get_close_matches(name, list(known), n=3, cutoff=0.6)
    return f" Did you mean {' or '.join(repr(n) for n in near)}?" if near else ""


def reason(error: BaseException) -> str:
    """Returns an exception as one line of text, without a full stop."""
    text = " ".join(str(error.msg if isinstance(error, SyntaxError) else error).split()).removesuffix(".")
    return text if text and isinstance(error, T2TError) else f"{type(error).__name__}: {text}".removesuffix(": ")


def place_in(folder: Path, error: BaseException) -> str:
    """Returns the innermost file and line in `folder` that an exception passed; `folder` itself if there is none."""
    places = [(frame.filename, frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
    if isinstance(error, SyntaxError) and error.filename:
        places.append((error.filename, error.lineno))
    inside = [place for place in places if folder in Path(place[0]).parents]
    return ", line ".join(str(part) for part in inside[-1] if part) if inside else str(folder)
