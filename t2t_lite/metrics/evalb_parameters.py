"""EVALB's parameter files (.prm): what to leave out of the comparison of two trees, and what counts as equal."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from t2t_lite.errors import DataError, did_you_mean
from t2t_lite.files import StrPath


@dataclasses.dataclass(frozen=True)
class Parameters:
    """How trees are compared. The defaults are those of COLLINS.prm, the usual ones for English, and QUOTE_LABEL.

    Attributes:
        delete_label: a word with one of these tags is left out; of a phrase with such a label, only the brackets are.
        delete_label_for_length: tags of words that do not count in the length of a sentence.
        quote_label: tags by which a quotation mark may be mistaken for another word or the reverse. If the two trees
            have different numbers of words, such words that only one tree has left out are put back. COLLINS.prm has
            none; these are from new.prm, and let sentences count that would otherwise be in error.
        eq_label, eq_word: pairs of labels (and tags) and of words that count as equal. Two that are equal to a third
            are equal to each other; EVALB itself compares by pairs only.
        cutoff_len: sentences up to this length are also summed up separately.
        max_error: an evaluation of files has a value with up to max_error + 1 sentences in error, as in EVALB.
        labeled: whether the labels of phrases count.
        unlabelled: whether a bracket without a label, such as the outer one of ( (S ...) ), counts as a phrase. EVALB
            counts it; a .prm file has no parameter for it. Trees that a model learns or writes have none.
    """

    delete_label: tuple[str, ...] = ("TOP", "-NONE-", ",", ":", "``", "''", ".")
    delete_label_for_length: tuple[str, ...] = ("-NONE-",)
    quote_label: tuple[str, ...] = ("``", "''", "POS")
    eq_label: tuple[tuple[str, str], ...] = (("ADVP", "PRT"),)
    eq_word: tuple[tuple[str, str], ...] = ()
    cutoff_len: int = 40
    max_error: int = 10
    labeled: bool = True
    unlabelled: bool = False

    @property
    def signature(self) -> str:
        """All parameters that affect the scores of a whole file, to be published with these scores."""
        lists = {"delete": self.delete_label, "quote": self.quote_label}
        pairs = {"equal": self.eq_label, "equal-words": self.eq_word}
        parts = [f"{name}:{' '.join(labels) or 'none'}" for name, labels in lists.items()]
        parts += [f"{name}:{' '.join(map('='.join, found)) or 'none'}" for name, found in pairs.items()]
        parts.append(f"unlabelled:{'counted' if self.unlabelled else 'left-out'}")
        return "|".join(["evalb", f"labeled:{'yes' if self.labeled else 'no'}", *parts])

    def as_dict(self) -> dict[str, Any]:
        """Returns the attributes, JSON-ready."""
        values: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(self)))
        return values

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Parameters:
        """Returns the parameters from the result of `as_dict`; DataError if `values` are not such a result."""
        try:
            found = cls(**{name: _tuples(value) for name, value in values.items()})
            kinds = {field.name: type(field.default) for field in dataclasses.fields(cls)}
            fits = all(type(getattr(found, name)) is kind for name, kind in kinds.items())
        except (AttributeError, TypeError):
            fits = False
        if not fits:
            raise DataError(f"These are no parameters of EVALB: {values!r:.200}.")
        return found


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


_LISTS = ("DELETE_LABEL", "DELETE_LABEL_FOR_LENGTH", "QUOTE_LABEL")
_PAIRS = ("EQ_LABEL", "EQ_WORD")
_KNOWN = (*_LISTS, *_PAIRS, "CUTOFF_LEN", "MAX_ERROR", "LABELED", "DEBUG")


def read_parameters(lines: Iterable[str], name: StrPath) -> Parameters:
    """Returns the parameters of a .prm file. As in EVALB, only labels that it names are left out or equal.

    DEBUG is allowed there and has no effect here.

    Args:
        lines: of the file.
        name: of the file, for messages.

    Raises:
        DataError: an unknown parameter, or a value that is missing or wrong; with file and line.
    """
    lists: dict[str, list[Any]] = {keyword: [] for keyword in (*_LISTS, *_PAIRS)}
    numbers = {"CUTOFF_LEN": 40, "MAX_ERROR": 10, "LABELED": 1}
    for number, line in enumerate(lines, start=1):
        if line.startswith("#") or not line.strip():
            continue
        keyword, *values = line.split()
        place = f"{name}, line {number}: "
        if keyword not in _KNOWN:
            raise DataError(
                f"{place}{keyword[:40]!r} is no parameter of EVALB; those are {', '.join(_KNOWN)}."
                f"{did_you_mean(keyword, _KNOWN)}"
            )
        if len(values) != (2 if keyword in _PAIRS else 1):
            wanted = "two values" if keyword in _PAIRS else "one value"
            raise DataError(f"{place}{keyword} takes {wanted}, not {len(values)}.")
        if keyword in _LISTS:
            lists[keyword].append(values[0])
        elif keyword in _PAIRS:
            lists[keyword].append(tuple(values))
        elif not re.fullmatch(r"[0-9]{1,9}", values[0]):
            raise DataError(f"{place}{keyword} takes a whole number of up to 9 digits, not {values[0][:40]!r}.")
        else:
            numbers[keyword] = int(values[0])
    fields: dict[str, Any] = {keyword.lower(): tuple(found) for keyword, found in lists.items()}
    fields |= {"cutoff_len": numbers["CUTOFF_LEN"], "max_error": numbers["MAX_ERROR"]}
    return Parameters(**fields, labeled=numbers["LABELED"] != 0)
