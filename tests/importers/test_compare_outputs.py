"""Outputs that another toolkit wrote, compared with those of a translator."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from t2t_lite.errors import DataError
from t2t_lite.importers.compare_outputs import Comparison, compare
from t2t_lite.importers.vocabularies import ByteVocabulary

OURS = {"one": "eins", "two": "zwei", "three": "drei drei drei"}


class Stub:
    """What `compare` uses of a translator."""

    source_vocabulary = target_vocabulary = ByteVocabulary()

    def longest_output(self, length: int) -> int:
        return length + 5

    def translate(self, lines: Sequence[str]) -> Any:
        return [[SimpleNamespace(text=OURS[line])] for line in lines]


def test_lines_that_differ_are_counted_and_those_at_a_limit_by_themselves() -> None:
    found = compare(Stub(), ["one", "", "three", "two"], ["eins", "x", "drei", "zwo"])  # type: ignore[arg-type]
    assert found == Comparison(lines=3, equal=1, at_limit=1, first=("two", "zwo", "zwei"))
    found = compare(Stub(), ["three"], ["drei"])  # type: ignore[arg-type]
    assert found == Comparison(1, 0, 1, ("three", "drei", "drei drei drei"))
    assert compare(Stub(), ["one"], ["eins"]) == Comparison(1, 1, 0, None)  # type: ignore[arg-type]


def test_as_many_outputs_as_inputs() -> None:
    with pytest.raises(DataError, match="There are 2 inputs and 1 outputs"):
        compare(Stub(), ["one", "two"], ["eins"])  # type: ignore[arg-type]
