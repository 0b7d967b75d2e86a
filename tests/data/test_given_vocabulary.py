"""A given vocabulary: from a run or a SentencePiece model; the store is built with it and identified by it."""

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
import sentencepiece

from t2t_lite import registry
from t2t_lite.data import vocabulary_files
from t2t_lite.data.prepare import prepare
from t2t_lite.errors import DataError, UsageError
from t2t_lite.problem import Problem
from t2t_lite.text.vocabulary_training import train_vocabulary

_LINES = [f"eins {a} zwei {b}" for a, b in itertools.product(range(12), range(12))]


class Counted(Problem):
    """Pairs of a line and the same line in capitals."""

    name = "counted"
    vocab_size = 60

    def __init__(self, lines: list[str] = _LINES) -> None:
        self._lines = lines

    def samples(self, split: str) -> Iterator[tuple[str, str]]:
        yield from ((line, line.upper()) for line in (self._lines if split == "train" else self._lines[:5]))

    def source_files(self, split: str) -> list[Path]:
        return []


def test_a_shared_one(tmp_path: Path) -> None:
    vocabulary = train_vocabulary([*_LINES, *map(str.upper, _LINES)], size=50)
    vocabulary.save(tmp_path / "own.model")
    vocabularies = vocabulary_files.load_given(tmp_path / "own.model")
    assert vocabularies[0] is vocabularies[1]
    problem = Counted()
    store = prepare(problem, tmp_path / "data", vocabularies=vocabularies)
    assert store.target_vocabulary is store.source_vocabulary
    assert store.source_vocabulary.checksum == vocabulary.checksum
    assert store.split("dev").target[0].tolist()[:-1] == vocabulary.encode("EINS 0 ZWEI 0")
    settings = store.manifest["settings"]
    assert settings["vocabulary"] == [vocabulary.checksum] * 2
    assert "vocab_size" not in settings
    assert prepare(problem, tmp_path / "data", vocabularies=vocabularies).manifest == store.manifest
    with pytest.raises(
        UsageError, match=r"settings:\n  vocabulary: 'checksum \w{12}\.\.\.' -> 'none given \(--vocabulary\)'"
    ):
        prepare(problem, tmp_path / "data")
    other = train_vocabulary(_LINES, size=40)
    with pytest.raises(UsageError, match=r"vocabulary: 'checksum \w{12}\.\.\.' -> 'checksum \w{12}\.\.\.'\n"):
        prepare(problem, tmp_path / "data", vocabularies=(other, other))


def test_one_for_each_side_from_a_folder_like_a_runs(tmp_path: Path) -> None:
    sides = train_vocabulary(_LINES, size=30), train_vocabulary(map(str.upper, _LINES), size=32)
    for name, vocabulary in zip(("vocabulary.source.model", "vocabulary.target.model"), sides, strict=True):
        vocabulary.save(tmp_path / name)
    store = prepare(Counted(), tmp_path / "data", vocabularies=vocabulary_files.load_given(tmp_path))
    assert (store.source_vocabulary.size, store.target_vocabulary.size) == (30, 32)
    assert store.source_vocabulary.decode(store.split("dev").source[1]) == _LINES[1]
    assert store.target_vocabulary.decode(store.split("dev").target[1]) == _LINES[1].upper()


@pytest.mark.commit
def test_the_vocabulary_that_was_trained_is_the_same_when_it_is_given(tmp_path: Path) -> None:
    store = prepare(Counted(), tmp_path)
    given = store.source_vocabulary, store.target_vocabulary
    assert prepare(Counted(), tmp_path, vocabularies=given).manifest == store.manifest
    changed = Counted(_LINES[1:])
    changed.clean = True
    again = prepare(changed, tmp_path, vocabularies=given, again=True)
    assert again.source_vocabulary.checksum == store.source_vocabulary.checksum
    assert len(again.split("train")) == len(_LINES) - 1


def test_text_that_it_does_not_know_is_counted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    vocabulary = train_vocabulary(_LINES, size=30)
    store = prepare(Counted(), tmp_path, vocabularies=(vocabulary, vocabulary))
    facts = store.manifest["splits"]["train"]["target"]
    share = 100 * facts["unknown"] / facts["ids"]
    assert share > 10
    assert [message.partition(", the most")[0] for message in caplog.messages if message.startswith("train: ")] == [
        f"train: {facts['unknown']} of {facts['ids']:,} target pieces ({share:.1f}%) are unknown to the vocabulary"
    ]
    assert "in lower case only" in caplog.text


def test_the_mark_for_a_space_is_an_ordinary_character_to_other_vocabularies(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "v.opennmt").write_text("<blank>\n<s>\n</s>\n\u2581EINS\nZWEI\n")
    pieces, tokens = train_vocabulary(["EINS ZWEI"], size=20), vocabulary_files.load_given(tmp_path / "v.opennmt")[0]
    caplog.set_level("INFO", "t2t_lite")
    problem = Counted(["\u2581EINS ZWEI"] * 7)
    store = prepare(problem, tmp_path / "1", vocabularies=(tokens, tokens), num_workers=1)
    assert store.target_vocabulary.pieces(store.split("train").target[0])[:2] == ["\u2581EINS", "ZWEI"]
    assert "marks for a space" not in caplog.text
    prepare(problem, tmp_path / "2", vocabularies=(pieces, tokens), num_workers=1)
    assert "marks for a space are not kept: '\u2581EINS ZWEI' is read, and written, as" in caplog.text


@pytest.mark.parametrize("rule", ["nmt_nfkc", "identity"])
def test_a_normalisation_is_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture, rule: str) -> None:
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(_LINES),
        model_prefix=str(tmp_path / "own"),
        normalization_rule_name=rule,
        vocab_size=30,
        minloglevel=2,
    )
    vocabulary_files.load_given(tmp_path / "own.model")
    said = f"{tmp_path / 'own.model'} changes text by the rule nmt_nfkc before it cuts it."
    assert (said in caplog.text) == (rule != "identity")


def test_what_is_no_vocabulary(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"--vocabulary=\S*gone: there is no such run and no such file"):
        vocabulary_files.load_given(tmp_path / "gone")
    with pytest.raises(
        UsageError,
        match=r"without vocabulary\.model or vocabulary\.source\.model and vocabulary\.target\.model\. Give the",
    ):
        vocabulary_files.load_given(tmp_path)
    (tmp_path / "text.model").write_text("some text")
    with pytest.raises(DataError, match=r"text\.model: This is not a SentencePiece model, or it is damaged"):
        vocabulary_files.load_given(tmp_path / "text.model")


def test_trees_want_a_vocabulary_of_symbols(tmp_path: Path) -> None:
    problem = registry.problem("toy_parsing", train_size=60)
    problem.dev_size = problem.test_size = 5
    store = prepare(problem, tmp_path / "one", num_workers=1)
    given = store.source_vocabulary, store.target_vocabulary
    smaller = registry.problem("toy_parsing", train_size=30)
    smaller.dev_size = smaller.test_size = 5
    again = prepare(smaller, tmp_path / "two", vocabularies=given, num_workers=1)
    assert again.target_vocabulary.checksum == store.target_vocabulary.checksum
    pieces = train_vocabulary(_LINES, size=30)
    for others in ((pieces, pieces), (pieces, train_vocabulary(_LINES, size=31))):
        with pytest.raises(UsageError, match="symbols need a vocabulary of their own, .* a run that was trained on tr"):
            prepare(problem, tmp_path / "three", vocabularies=others)
    words = train_vocabulary(["(S NN )S"], size=30, kind="word")
    with pytest.raises(DataError, match=r"hold [\d,]+ symbols that the given vocabulary does not have"):
        prepare(problem, tmp_path / "three", vocabularies=(given[0], words), num_workers=1)
    assert not (tmp_path / "three" / "toy_parsing").exists()
