"""Corpora of a problem, as given by flags: folders with weights, and two languages."""

import dataclasses
import os
import re

from t2t_lite.data.corpus_files import Languages, has_language
from t2t_lite.errors import UsageError
from t2t_lite.remote.store import make_absolute

_ONE = ",,"  # begins a single folder whose name holds a comma
_WEIGHT = re.compile(r":([-+]?\d[\d.]*)\Z")
_CODE = r"\w+(?:-\w+)*"
# The part of a code after the language, such as BR in pt-BR or Hans in zh-Hans. No code begins with such a part.
_SUBTAG = re.compile(r"(?:[A-Z]{2}|[A-Z][a-z]{3}|\d{3})(?:-.*)?")


@dataclasses.dataclass(frozen=True)
class Corpus:
    """A folder of files, and how many times each of its training pairs is taken."""

    folder: str
    weight: int = 1


def parse_corpora(text: str) -> tuple[Corpus, ...]:
    """Reads FOLDER or FOLDER[:WEIGHT],FOLDER[:WEIGHT],...; paths are made absolute, and URLs stay.

    A text that is itself the name of a folder means this folder; so does, after two commas, a path.

    Raises:
        UsageError: a weight that is not a whole number above 0, a folder named twice, or a name that is missing.
    """
    if text.startswith(_ONE):
        return (Corpus(make_absolute(text.removeprefix(_ONE))),)
    whole = make_absolute(text)
    if os.path.isdir(whole):  # its name may hold a comma or a colon
        return (Corpus(whole),)
    corpora = tuple(_parse_corpus(part, text) for part in text.split(","))
    folders = [corpus.folder for corpus in corpora]
    for folder in folders:
        if folders.count(folder) > 1:
            raise UsageError(f"--source_dir={text} names {folder} twice; {folder}:2 takes each of its pairs twice.")
    return corpora


def format_corpora(corpora: tuple[Corpus, ...]) -> str:
    """The text that `parse_corpora` reads, in a form that has only one reading, also when the folders are gone."""
    if len(corpora) == 1 and "," in corpora[0].folder:
        return f"{_ONE}{corpora[0].folder}"
    return ",".join(
        c.folder if c.weight == 1 and not _WEIGHT.search(c.folder) else f"{c.folder}:{c.weight}" for c in corpora
    )


def _parse_corpus(part: str, text: str) -> Corpus:
    match = _WEIGHT.search(part)
    folder, weight = (part[: match.start()], match[1]) if match else (part, None)
    if not folder.strip():
        raise UsageError(f"--source_dir={text} lacks the name of a folder; several are given as A,B or A,B:2.")
    if weight is not None and not re.fullmatch(r"0*[1-9]\d{0,5}", weight):
        raise UsageError(f"--source_dir={text}: the weight {weight} of {folder} is not a whole number above 0.")
    return Corpus(make_absolute(folder), int(weight or 1))


def parse_languages(text: str, folder: str) -> Languages:
    """Reads SOURCE-TARGET or SOURCE:TARGET; if hyphens in the codes leave several readings, file names decide.

    Args:
        folder: where the files are; read only in that case.

    Raises:
        UsageError: not two different codes, or no way to tell where the first one ends.
    """
    if re.fullmatch(rf"{_CODE}:{_CODE}", text):
        ways = [(text.partition(":")[0], text.partition(":")[2])]
    elif re.fullmatch(_CODE, text):
        ways = [(text[: hyphen.start()], text[hyphen.end() :]) for hyphen in re.finditer("-", text)]
    else:
        ways = []
    ways = [(source, target) for source, target in ways if source != target]
    if not ways:
        raise UsageError(
            f"--languages={text} is not two different language codes with a hyphen between, such as en-de, en-pt-BR or "
            "en:pt-BR."
        )
    if len(ways) > 1:
        ways = [way for way in ways if not _SUBTAG.fullmatch(way[1])] or ways
    if len(ways) > 1:
        ways = [way for way in ways if all(has_language(folder, language) for language in way)] or ways
    if len(ways) > 1:
        readings = " or ".join(f"{source}:{target}" for source, target in ways)
        raise UsageError(f"--languages={text} can be read as {readings}. Give one of these.")
    return ways[0]


def parse_pairs(text: str, folder: str) -> tuple[Languages, ...]:
    """Reads SOURCE-TARGET,SOURCE-TARGET,...; UsageError as `parse_languages`, or if a pair is named twice."""
    pairs = tuple(parse_languages(part.strip(), folder) for part in text.split(","))
    for pair in pairs:
        if pairs.count(pair) > 1:
            raise UsageError(f"--languages={text} names {format_languages(pair)} twice.")
    return pairs


def format_languages(languages: Languages) -> str:
    """The text that `parse_languages` reads, in a form that has only one reading."""
    return (":" if "-" in "".join(languages) else "-").join(languages)
