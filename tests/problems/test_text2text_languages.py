"""text2text with several pairs of languages: where their files are, and the label that each source begins with."""

from pathlib import Path
from typing import Any

import pytest

from t2t_lite import registry
from t2t_lite.data.prepare import prepare
from t2t_lite.errors import DataError, UsageError
from t2t_lite.problem import Problem
from t2t_lite.text.vocabulary import Vocabulary
from t2t_lite.text.vocabulary_training import train_vocabulary

Pair = tuple[str, str]


def _write(folder: Path, languages: str, **splits: list[Pair]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for split, pairs in splits.items():
        for side, language in enumerate(languages.split("-")):
            (folder / f"{split}.{language}").write_text("".join(f"{pair[side]}\n" for pair in pairs), "utf-8")


DE = [("the dog", "der Hund"), ("a cat", "eine Katze"), (">>fr<< text", "Text")]
FR = [("the dog", "le chien"), ("a cat", "un chat")]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    _write(tmp_path / "en-de", "en-de", train=DE, dev=DE[:1], test=DE[:2])
    _write(tmp_path / "en-fr", "en-fr", train=FR, dev=FR[:1])
    return tmp_path


def _problem(folder: Path, languages: str = "en-de,en-fr", **options: Any) -> Problem:
    return registry.problem("text2text", source_dir=str(folder), languages=languages, **{"vocab_size": 60} | options)


def test_a_source_begins_with_the_label_of_its_target(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    problem = _problem(folder)
    assert problem.splits() == ("train", "dev", "test")
    wanted = [(f">>de<< {source}", target) for source, target in DE] + [(f">>fr<< {s}", t) for s, t in FR]
    assert list(problem.samples("train")) == wanted
    assert list(problem.samples("dev")) == [wanted[0], wanted[3]]
    assert list(problem.samples("test")) == wanted[:2]
    assert "The test set has no pairs of en-fr." in caplog.messages
    assert f"{folder}: 3 training pairs of en-de." in caplog.messages
    assert problem.labels == (">>de<<", ">>fr<<")
    assert (problem.source_language, problem.target_language) == ("en", "de+fr")
    assert problem.settings()["labels"] == [">>de<<", ">>fr<<"]
    again = registry.problem("text2text", **problem.options())
    assert again.settings() == problem.settings()
    files = [f"{path.parent.name}/{path.name}" for path in problem.source_files("dev") or ()]
    assert files == ["en-de/dev.en", "en-de/dev.de", "en-fr/dev.en", "en-fr/dev.fr"]


def test_files_of_all_pairs_may_be_in_one_folder(tmp_path: Path) -> None:
    _write(tmp_path, "en-de", train=DE[:2], dev=DE[:1])
    _write(tmp_path, "en-fr", train=FR, dev=FR[:1])  # train.en is the same
    problem = _problem(tmp_path, "en-de,en-fr,de-fr")
    assert list(problem.samples("train"))[1::2] == [
        (">>de<< a cat", "eine Katze"),
        (">>fr<< a cat", "un chat"),
        (">>fr<< eine Katze", "un chat"),
    ]
    assert problem.labels == (">>de<<", ">>fr<<")


def test_both_directions_and_one_target(folder: Path) -> None:
    _write(folder / "de-en", "de-en", train=[("x", "y")], dev=[("x", "y")])
    both = _problem(folder, "en-de,de-en")
    assert (list(both.samples("dev")), both.labels) == (
        [(">>de<< the dog", "der Hund"), (">>en<< x", "y")],
        (">>de<<", ">>en<<"),
    )
    _write(folder / "fr-de", "fr-de", train=[("u", "v")], dev=[("u", "v")])
    assert list(_problem(folder, "en-de,fr-de").samples("dev")) == [("the dog", "der Hund"), ("u", "v")]
    one = _problem(folder / "en-de", "en-de", labelled=True)
    assert list(one.samples("dev")) == [(">>de<< the dog", "der Hund")]


def test_a_blank_source_has_no_label_and_places_name_the_folder(folder: Path) -> None:
    _write(folder / "en-fr", "en-fr", train=[("a", "b"), (" ", "c")])
    problem = _problem(folder)
    assert list(problem.samples("train"))[-1] == (" ", "c")
    assert problem.place(1) == "en-fr/train.fr, line 2"
    assert problem.pair_languages() == ("en", "fr")


def test_dev_lines_and_weights(folder: Path, tmp_path: Path) -> None:
    for languages in ("en-de", "en-fr"):
        for path in (folder / languages).glob("dev.*"):
            path.unlink()
    _write(tmp_path / "more" / "en-fr", "en-fr", train=[("new", "neuf")])
    problem = registry.problem(
        "text2text", source_dir=f"{folder},{tmp_path}/more:2", languages="en-de,en-fr", dev_lines=2
    )
    assert problem.splits() == ("train", "dev", "test")
    train, dev = list(problem.samples("train")), list(problem.samples("dev"))
    assert len(dev) == 2
    assert not set(train) & set(dev)
    assert len({*train, *dev}) == 6
    assert len(train) + len(dev) == 7 - ((">>fr<< new", "neuf") in dev)


def test_cleaning_sees_the_text_without_its_label(tmp_path: Path) -> None:
    """A Chinese side is a word in many characters; a pair of equal sides is a copy, label or not."""
    chinese = [
        (
            "老师看见这只狗在河边的老房子里每天早上非常喜欢",
            "the teacher sees this dog in the old house every single morning",
        )
    ]
    _write(
        tmp_path / "zh-en", "zh-en", train=[*chinese, ("OK", "OK"), ("<url>b</url>", "<url>c</url>")], dev=[("a", "b")]
    )
    _write(tmp_path / "en-zh", "en-zh", train=[(t, s) for s, t in chinese], dev=[("a", "b")])
    problem = _problem(tmp_path, "zh-en,en-zh", clean=True, vocab_type="char")
    facts = prepare(problem, tmp_path / "data", num_workers=1).manifest["splits"]["train"]
    assert facts["cleaned"] == {"control": 0, "markup": 1, "length": 0, "ratio": 0, "copy": 1, "duplicate": 0}
    assert facts["pairs"] == 2


def test_prepared_ids_begin_with_the_label(folder: Path) -> None:
    store = prepare(
        _problem(folder, keep_whole="%s", byte_fallback=True, vocab_type="char", vocab_size=310),
        folder / "data",
        num_workers=1,
    )
    vocabulary = store.source_vocabulary
    assert vocabulary is store.target_vocabulary
    assert isinstance(vocabulary, Vocabulary)
    assert vocabulary.labels == (">>de<<", ">>fr<<")
    assert "%s" in vocabulary.pieces(range(vocabulary.size))
    dev = store.split("dev")
    assert [vocabulary.pieces(dev.source[row])[:4] for row in range(2)] == [
        [">>de<<", "▁", "t", "h"],
        [">>fr<<", "▁", "t", "h"],
    ]
    assert store.text("dev")[0] == [">>de<< the dog", ">>fr<< the dog"]
    # The vocabulary is trained on the text alone: the characters of labels occur in one text only.
    assert all(piece in vocabulary.pieces(range(vocabulary.size)) for piece in "<>")


@pytest.mark.parametrize(
    ("languages", "message"),
    [
        ("en-de,en-de", "--languages=en-de,en-de names en-de twice."),
        ("en-de,en", "--languages=en is not two different language codes"),
        ("en-de,en-it", "has no train files. Looked for train.en and train.it"),
    ],
)
def test_wrong_languages(folder: Path, languages: str, message: str) -> None:
    with pytest.raises((UsageError, DataError), match=message.replace(".", r"\.")):
        _problem(folder, languages).splits()


def test_each_pair_needs_a_dev_set(folder: Path) -> None:
    (folder / "en-fr" / "dev.fr").unlink()
    (folder / "en-fr" / "dev.en").unlink()
    with pytest.raises(DataError, match=r"en-fr has no dev files. Looked for dev\.en and dev\.fr"):
        _problem(folder).splits()


def test_the_other_direction_is_not_labelled_wrongly(folder: Path) -> None:
    with pytest.raises(UsageError, match="labels of target languages on the wrong side"):
        registry.problem("text2text_rev", source_dir=str(folder), languages="en-de,en-fr")
    with pytest.raises(UsageError, match=r"--keep_whole \(--symbols\): '>>de<<' is the label of a target language"):
        _problem(folder, keep_whole=">>de<<,%s")


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ((), "no labels of target languages, but >>de<<, >>fr<< are needed"),
        ((">>de<<", ">>fra<<"), "only >>de<<, >>fra<<, but >>fr<< is needed.*Did you mean '>>fra<<'"),
    ],
)
def test_a_given_vocabulary_needs_the_labels(folder: Path, labels: tuple[str, ...], message: str) -> None:
    given = train_vocabulary([text for pair in DE + FR for text in pair], size=50, kind="char", labels=labels)
    with pytest.raises(UsageError, match=message):
        prepare(_problem(folder), folder / "data", vocabularies=(given, given), num_workers=1)
    assert not (folder / "data" / "text2text").exists()


def test_a_given_vocabulary_with_labels_needs_them_in_sources(folder: Path) -> None:
    given = train_vocabulary(
        [text for pair in DE + FR for text in pair], size=50, kind="char", labels=(">>de<<", ">>fr<<")
    )
    with pytest.raises(UsageError, match=r"and 'the dog' of the training text does not begin .*labelled=true"):
        prepare(_problem(folder / "en-de", "en-de"), folder / "data", vocabularies=(given, given), num_workers=1)
    one = _problem(folder / "en-de", "en-de", labelled=True)
    store = prepare(one, folder / "other", vocabularies=(given, given), num_workers=1)
    assert store.split("dev").source[0][0] == given.label_ids[">>de<<"]
