"""A short run of `python -m tests.faults.fuzz`, and that it finds what is put in its way."""

import random
from pathlib import Path

import pytest

from t2t_lite.errors import DataError
from tests.faults.fuzz import fuzz, shares
from tests.faults.mutation import mutated
from tests.faults.parsers import Parser, make_parsers

CASES = 3000
SEED = 20261121


def test_damaged_input_gives_a_result_or_one_of_our_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parsers = make_parsers(tmp_path)
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")  # no name that a case makes up is there
    for parser, cases in zip(parsers, shares(parsers, CASES), strict=True):
        result = fuzz(parser, max(cases, 20), SEED)
        faults = "\n".join(
            f"{parser.name}, case {case}: {data[:300]!r}\n{fault}" for case, data, fault in result.faults
        )
        assert not faults
        assert result.megabytes < 200


def test_every_parser_takes_its_valid_inputs(tmp_path: Path) -> None:
    for parser in make_parsers(tmp_path):
        for seed in parser.seeds:
            if parser.name not in ("sgm", "answers, refusals"):  # compared with another file; an error by itself
                parser.call(seed)


def _picky(data: bytes) -> None:
    if b"\0" in data:
        raise DataError("No NULs, please.")
    if b"\xff" in data:
        raise KeyError("unforeseen")


def test_what_is_no_error_of_ours_is_found_and_comes_again() -> None:
    parser = Parser("picky", 1, [b"some text"], _picky)
    result = fuzz(parser, 3000, seed=1)
    assert 0 < result.refused < result.cases == 3000
    assert 0 < len(result.faults) < 3000
    assert all(b"\xff" in data and "KeyError: 'unforeseen'" in fault for _, data, fault in result.faults)
    case, data, _ = result.faults[-1]
    assert fuzz(parser, 1, seed=1, first=case).faults[0][:2] == (case, data)


def test_mutations_are_many_and_stay_small() -> None:
    seeds = [b"The cat\n", b'{"a": [1, {"b": "c"}]}']
    found = {mutated(random.Random(n), seeds) for n in range(2000)}
    assert len(found) > 1200
    assert max(map(len, found)) < 50_000


def test_all_cases_are_shared_out(tmp_path: Path) -> None:
    parsers = make_parsers(tmp_path)
    assert sum(shares(parsers, 1_000_000)) == 1_000_000
    assert min(shares(parsers, 1_000_000)) > 1000
