"""Which runs can be an ensemble, from their files alone."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from t2t_lite import config, registry
from t2t_lite.cli import common
from t2t_lite.data.vocabulary_files import by_file
from t2t_lite.errors import UsageError
from t2t_lite.groups import DECODE
from t2t_lite.runs.ensemble_check import check_members, notices
from t2t_lite.runs.run_dir import RunSpec, write_run
from t2t_lite.text.trees.tag_table import TAGS_FILE
from t2t_lite.text.vocabulary import Vocabulary
from t2t_lite.text.vocabulary_training import train_vocabulary

LETTERS = [" ".join("abcdefgh"[i % 8 :: 2]) for i in range(40)]


@pytest.fixture(scope="module")
def vocabularies() -> tuple[Vocabulary, Vocabulary]:
    """Two vocabularies of different sizes."""
    one, other = (train_vocabulary(LETTERS, size=size) for size in (14, 15))
    assert one.checksum != other.checksum
    return one, other


def _run(folder: Path, *vocabularies: Vocabulary, problem: str = "toy_reverse", **hparams: Any) -> RunSpec:
    """Writes a run's files, with one vocabulary or one for each side."""
    recipe = config.replace(registry.hparams("tiny"), **hparams)
    spec = RunSpec(problem, {}, "data", None, "tiny", "transformer", recipe)
    write_run(folder, spec)
    for name, vocabulary in by_file(vocabularies[0], vocabularies[-1]).items():
        vocabulary.save(folder / name)
    return spec


def _check(tmp_path: Path, *specs: RunSpec) -> None:
    check_members([str(tmp_path / name) for name in ("a", "b", "c")[: len(specs)]], specs)


def test_the_same_vocabulary_may_be_shared_or_two_files(
    tmp_path: Path, vocabularies: tuple[Vocabulary, Vocabulary]
) -> None:
    one = vocabularies[0]
    _check(tmp_path, _run(tmp_path / "a", one), _run(tmp_path / "b", one, one, d_model=64), _run(tmp_path / "c", one))


@pytest.mark.parametrize("side", ["source", "target"])
def test_other_vocabularies_are_refused(tmp_path: Path, vocabularies: tuple[Vocabulary, Vocabulary], side: str) -> None:
    one, other = vocabularies
    specs = [_run(tmp_path / "a", one), _run(tmp_path / "b", one)]
    specs.append(_run(tmp_path / "c", *((other, one) if side == "source" else (one, other))))
    with pytest.raises(UsageError) as refused:
        _check(tmp_path, *specs)
    said = str(refused.value)
    assert said.startswith(f"{tmp_path / 'a'} and {tmp_path / 'c'} cannot be an ensemble: their {side} vocabularies")
    assert said.endswith(f"--vocabulary={tmp_path / 'a'}.")


def test_other_languages_and_tags_are_refused(tmp_path: Path, vocabularies: tuple[Vocabulary, Vocabulary]) -> None:
    one = vocabularies[0]
    specs = [_run(tmp_path / "a", one), _run(tmp_path / "b", one, problem="toy_ende")]
    with pytest.raises(UsageError, match=r"the one is from 'forward' to 'backward', the other from 'en' to 'de'\.$"):
        _check(tmp_path, *specs)
    specs = [_run(tmp_path / name, one, problem="toy_parsing") for name in ("a", "b")]
    _check(tmp_path, *specs)
    (tmp_path / "b" / TAGS_FILE).write_text("{}", encoding="utf-8")
    with pytest.raises(UsageError, match=r"a and .*b cannot be an ensemble: their tags.json differ, with which out"):
        _check(tmp_path, *specs)
    shutil.copy(tmp_path / "b" / TAGS_FILE, tmp_path / "a")
    _check(tmp_path, *specs)


def test_what_may_not_have_been_meant_is_said(tmp_path: Path, vocabularies: tuple[Vocabulary, Vocabulary]) -> None:
    one = _run(tmp_path / "a", vocabularies[0])
    other = _run(tmp_path / "b", vocabularies[0], problem="toy_ende", beam_size=7, max_source_length=99)
    a, b, link = (str(tmp_path / name) for name in ("a", "b", "link"))
    (tmp_path / "link").symlink_to(a)
    assert notices([a, b], [one, one], []) == []
    assert notices([a, link], [one, one], []) == [f"{a} and {link} are the same run, which counts twice in the mean."]
    problem = f"{a} was trained on toy_reverse, {b} on toy_ende; data and scores are those of the first."
    search = f"The search is that of {a}, also where {b} has another:"
    assert notices([a, b], [one, other], []) == [
        problem,
        f"{search} beam_size=4, not 7; max_source_length=512, not 99.",
    ]
    assert notices([a, b], [one, other], ["beam_size"]) == [problem, f"{search} max_source_length=512, not 99."]
    assert notices([a, b], [one, other], DECODE) == [problem]


def test_folders_are_named_with_commas_between(tmp_path: Path) -> None:
    assert common.run_folders("runs/a") == ["runs/a"]
    assert common.run_folders("runs/a,runs/b,c") == ["runs/a", "runs/b", "c"]
    (tmp_path / "a,b").mkdir()
    assert common.run_folders(str(tmp_path / "a,b")) == [str(tmp_path / "a,b")]
    for empty in ("a,,b", ",a", "a,", "a, ,b", ","):
        with pytest.raises(UsageError, match="has an empty name; an ensemble's runs are given with one comma between"):
            common.run_folders(empty)
