"""A short run of `python -m tests.faults.fuzz`, and a check that it finds planted faults."""

from pathlib import Path

import pytest

from t2t_lite.errors import DataError, T2TError
from tests.faults.fuzz import fuzz, shares
from tests.faults.parsers import Parser, make_parsers

CASES = 3000
SEED = 20261121


@pytest.fixture(scope="module")
def parsers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Parser]:
    """All parsers, by name."""
    return {parser.name: parser for parser in make_parsers(tmp_path_factory.mktemp("parsers"))}


@pytest.mark.nightly
def test_damaged_input_gives_a_result_or_one_of_our_errors(
    parsers: dict[str, Parser], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # an empty folder: no file that a case names exists
    for parser, cases in zip(parsers.values(), shares([*parsers.values()], CASES), strict=True):
        result = fuzz(parser, max(cases, 10), SEED)
        faults = "\n".join(
            f"{parser.name}, case {case}: {data[:300]!r}\n{fault}" for case, data, fault in result.faults
        )
        assert not faults
        assert result.megabytes < 200


def test_every_parser_takes_its_valid_inputs(parsers: dict[str, Parser]) -> None:
    for parser in parsers.values():
        for seed in parser.seeds:
            if parser.name not in ("sgm", "answers, refusals"):  # need another file; are errors by themselves
                parser.call(seed)


# Inputs that once ended in a Python error, found by fuzzing or by reading; fixed since.
FOUND = [
    (
        "tags of words",
        b'{"version": 2, "deleted": [], "words": {}, "model": {"first": [], "endings": {"at": {"NN": 3}}, '
        b'"words": {"cat": {"NN": 3, "VB": 1}, "": {"HYPH": 19}}}}',
    ),
    ("parameters of EVALB", b"CUTOFF_LEN " + b"9" * 5000),
    ("vocabulary, file", None),
    ("vocabulary, marian", b'{"a":' * 100_000),
    ("answers", b'{"outputs": {"outputs": ["a", "b"], "scores": [0.5, 1%s]}}' % (b"0" * 400)),
    (
        "answers, states",
        b'{"model_version_status": [{"version": 1e999, "state": "", "status": {"error_message": ""}}]}',
    ),
    ("run, problem.json", b"[" * 100_000),
    ("export, card", b'{"a":' * 100_000),
    ("store, manifest.json", b"[" * 100_000),
    ("store, manifest.json", b'{"format": 1}'),
]


@pytest.mark.parametrize(("name", "data"), FOUND)
def test_what_was_found(name: str, data: bytes | None, parsers: dict[str, Parser]) -> None:
    parser = parsers[name]
    # None stands for a vocabulary with a piece that is not UTF-8.
    given = data if data is not None else parser.seeds[0].replace(b"cat", b"c\xffb")
    assert given != parser.seeds[0]
    with pytest.raises(T2TError):
        parser.call(given)


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
