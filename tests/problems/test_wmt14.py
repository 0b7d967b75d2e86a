"""wmt14_ende and wmt14_enfr: the paper's settings, the names of files, the messages for wrong files."""

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest

from t2t_lite import registry
from t2t_lite.data.prepare import prepare
from t2t_lite.errors import DataError, UsageError
from t2t_lite.problem import Problem

_SGM = '<srcset setid="t">\n<doc docid="d">\n<seg id="1">{}</seg>\n<seg id="2">2</seg>\n</doc>\n</srcset>\n'
_DEV_TEST = ("newstest2013.en", "newstest2013.de", "newstest2014.en", "newstest2014.de")
_ALL = ("train.en", "train.de", *_DEV_TEST)
_CORPORA = ("europarl-v7.de-en", "commoncrawl.de-en", "news-commentary-v9.de-en")


def _fill(folder: Path, *names: str) -> Path:
    """Writes files with two lines, or segments, each: their own name and '2'."""
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        text = _SGM.format(path.name) if ".sgm" in name else f"{path.name}\n2\n"
        path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return folder


def _problem(folder: Path, name: str = "wmt14_ende") -> Problem:
    return registry.problem(name, raw_dir=str(folder))


def _read(problem: Problem, split: str) -> list[tuple[str, str]]:
    """The names of the files that a split is read from."""
    pairs = list(problem.samples(split))
    assert pairs[1::2] == [("2", "2")] * (len(pairs) // 2)
    return pairs[::2]


@pytest.mark.parametrize(("name", "target", "size"), [("wmt14_ende", "de", 37000), ("wmt14_enfr", "fr", 32000)])
def test_the_settings_of_section_5_1(name: str, target: str, size: int) -> None:
    problem = registry.problem(name)
    assert problem.splits() == ("train", "dev", "test")  # does not look for files yet
    assert (problem.source_language, problem.target_language) == ("en", target)
    assert (problem.vocab_size, problem.vocab_type, problem.shared_vocab) == (size, "bpe", True)
    assert (problem.default_hparams, problem.metric, problem.clean) == ("base", "bleu", False)
    over_characters = registry.problem(name, vocab_type="char")
    assert over_characters.vocab_type == "char"
    assert over_characters.options() == {**problem.options(), "vocab_type": "char"}


def test_tfds_is_asked_for_what_it_calls_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("t2t_lite.problems.wmt14.read_tfds", lambda *asked: iter([asked]))
    for split, theirs in (("train", "train"), ("dev", "validation"), ("test", "test")):
        assert list(registry.problem("wmt14_ende").samples(split)) == [("wmt14_translate/de-en", theirs, "en", "de")]
        assert list(registry.problem("wmt14_enfr").samples(split)) == [("wmt14_translate/fr-en", theirs, "en", "fr")]


@pytest.mark.parametrize(
    ("names", "split", "expected"),
    [
        (("train.en.gz", "train.de"), "train", [("train.en.gz", "train.de")]),
        # All corpora that are there, in the order of the paper's list, wherever their archives put them.
        (
            [f"{folder}{corpus}.{code}" for folder, corpus in zip(("training/", "", "training/"), _CORPORA, strict=True)
             for code in ("en", "de")],
            "train",
            [(f"{corpus}.en", f"{corpus}.de") for corpus in _CORPORA],
        ),
        # train.* takes precedence over the corpora that it was made of, whether they are complete or not.
        (("train.en", "train.de", "commoncrawl.de-en.en", "commoncrawl.de-en.de"), "train", [("train.en", "train.de")]),
        (("train.en", "train.de", "commoncrawl.de-en.en"), "train", [("train.en", "train.de")]),
        (("dev/newstest2013-src.en.sgm", "dev/newstest2013-ref.de.sgm"), "dev",
         [("newstest2013-src.en.sgm", "newstest2013-ref.de.sgm")]),
        (("newstest2014.deen.en.gz", "newstest2014.deen.de.gz"), "test",
         [("newstest2014.deen.en.gz", "newstest2014.deen.de.gz")]),
        (("test-full/newstest2014-deen-src.en.sgm", "test-full/newstest2014-deen-ref.de.sgm.gz"), "test",
         [("newstest2014-deen-src.en.sgm", "newstest2014-deen-ref.de.sgm.gz")]),
        # Only one form is read: the plain file.
        (("newstest2014.en", "newstest2014.de", "a/newstest2014.deen.en", "a/newstest2014.deen.de"), "test",
         [("newstest2014.en", "newstest2014.de")]),
        # The folder itself takes precedence over the folders in it; files of other languages have no effect.
        (("newstest2013.en", "newstest2013.de", "a/newstest2013.en", "a/newstest2013.de", "newstest2013.cs"), "dev",
         [("newstest2013.en", "newstest2013.de")]),
    ],
)  # fmt: skip
def test_names_that_are_understood(tmp_path: Path, names: list[str], split: str, expected: list) -> None:
    assert _read(_problem(_fill(tmp_path, *names)), split) == expected


def test_french(tmp_path: Path) -> None:
    stems = ("un/undoc.2000.fr-en", "giga-fren.release2.fixed", "training/europarl-v7.fr-en", "newstest2013")
    folder = _fill(tmp_path, *(f"{stem}.{code}" for stem in stems for code in ("en", "fr")))
    _fill(folder, "test-full/newstest2014-fren-src.en.sgm", "test-full/newstest2014-fren-ref.fr.sgm")
    problem = _problem(folder, "wmt14_enfr")
    assert [source for source, _ in _read(problem, "train")] == [
        "europarl-v7.fr-en.en", "undoc.2000.fr-en.en", "giga-fren.release2.fixed.en",
    ]  # fmt: skip
    assert _read(problem, "test") == [("newstest2014-fren-src.en.sgm", "newstest2014-fren-ref.fr.sgm")]


def test_what_is_missing_of_the_corpora_is_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = _fill(tmp_path, *_DEV_TEST, "commoncrawl.de-en.en", "commoncrawl.de-en.de")
    assert _problem(folder).splits() == ("train", "dev", "test")
    message = f"wmt14_ende is prepared without europarl-v7.de-en, news-commentary-v9.de-en: not in {folder}."
    assert caplog.messages == [message]
    assert _problem(folder).source_files("train") == [folder / f"commoncrawl.de-en.{code}" for code in ("en", "de")]
    _fill(folder, "train.en", "train.de")
    _problem(folder).splits()
    assert caplog.messages == [message]  # nobody can tell what train.* was made of


def test_a_missing_split(tmp_path: Path) -> None:
    split = "test"
    wanted = r"newstest2014\.en and .*, or newstest2014\.deen\.en .*, or newstest2014-deen-src\.en\.sgm and "
    names = [name for name in _ALL if not name.startswith("newstest2014")]
    problem = _problem(_fill(tmp_path / "raw", *names))
    message = (
        rf"raw has no {split} files for wmt14_ende\. Looked there, and in the folders in it, for {wanted}.*; plain or "
        rf"\.gz, both in one folder\. Found {', '.join(sorted(names))}\."
    )
    for use in (problem.splits, lambda: problem.samples(split), lambda: prepare(problem, tmp_path / "data")):
        with pytest.raises(DataError, match=message):
            use()
    assert not (tmp_path / "data").exists()


def test_mistakes(tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match=r"nothing is not a folder; --raw_dir is the folder that holds the files of WMT"
    ):
        _problem(tmp_path / "nothing").splits()
    folder = _fill(tmp_path, *_ALL)
    (folder / "newstest2013.de").unlink()
    with pytest.raises(DataError, match=r"has newstest2013\.en but not newstest2013\.de \(nor newstest2013\.de\.gz\)"):
        _problem(folder).splits()
    (_fill(folder, "training/commoncrawl.de-en.de", "newstest2013.de") / "train.en").unlink()
    with pytest.raises(DataError, match=r"has train\.de but not train\.en \(nor train\.en\.gz\)"):
        _problem(folder).splits()
    (folder / "train.de").unlink()
    with pytest.raises(DataError, match=r"training has commoncrawl\.de-en\.de but not commoncrawl\.de-en\.en"):
        _problem(folder).splits()
    with pytest.raises(UsageError, match="--vocab_size=3 must be from 4"):
        registry.problem("wmt14_ende", vocab_size=3)
    with pytest.raises(UsageError, match="The problem 'wmt14_ende' has no option 'source_dir'; it takes raw_dir"):
        registry.problem("wmt14_ende", source_dir="x")


def test_the_same_names_in_several_folders(tmp_path: Path) -> None:
    pair = ("newstest2014-deen-src.en.sgm", "newstest2014-deen-ref.de.sgm")
    folder = _fill(tmp_path, *_ALL[:4], *(f"{where}/{name}" for where in ("test", "test-full") for name in pair))
    message = (
        r"has newstest2014-deen-src\.en\.sgm and newstest2014-deen-ref\.de\.sgm in several folders, which may differ: "
        r"test, test-full\. The paper's newstest2014 is in test-full of WMT's archives\. Move all but one away, or put"
    )
    with pytest.raises(DataError, match=message):
        _problem(folder).splits()
    assert _read(_problem(_fill(folder, *pair)), "test") == [pair]


def test_sets_of_another_size_than_the_papers_are_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    problem = _problem(_fill(tmp_path, *_ALL))
    for split in problem.splits():
        list(problem.samples(split))
    assert caplog.messages == [
        f"wmt14_ende: the {split} set, {tmp_path / name}.en, has 2 pairs, but the paper's has {count}, so scores do "
        "not compare with its scores."
        for split, name, count in (("dev", "newstest2013", "3,000"), ("test", "newstest2014", "3,003"))
    ]
    caplog.clear()
    (tmp_path / "newstest2014.en").write_text("2\n" * 3003)
    (tmp_path / "newstest2014.de").write_text("2\n" * 3003)
    assert len(list(problem.samples("test"))) == 3003
    assert caplog.messages == []


def test_options_make_the_problem_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    problem = registry.problem("wmt14_ende_rev", raw_dir="raw", vocab_size=99, clean=True)
    assert problem.options() == {"raw_dir": str(tmp_path / "raw"), "vocab_size": 99, "clean": True}
    assert registry.problem("wmt14_ende_rev", **problem.options()).settings() == problem.settings()
    assert (problem.settings()["vocab_size"], problem.settings()["clean"]) == (99, True)
    assert "raw_dir" not in problem.settings()["options"]  # only the content of the files counts
    assert registry.problem("wmt14_ende").source_files("train") == []
    assert registry.problem("wmt14_ende").options() == {"raw_dir": None, "vocab_size": 37000, "clean": False}


@pytest.mark.parametrize(("name", "target"), [("wmt14_ende", "de"), ("wmt14_enfr", "fr")])
def test_newstest_as_it_is(shared_data: Callable[[str], Path], tmp_path: Path, name: str, target: str) -> None:
    for path in shared_data("newstest").iterdir():
        (tmp_path / path.name).symlink_to(path)
    for code in ("en", target):
        (tmp_path / f"train.{code}.gz").symlink_to(shared_data("newstest") / f"newstest2013.{code}.gz")
    problem = _problem(tmp_path, name)
    sizes = [sum(1 for _ in problem.samples(split)) for split in problem.splits()]
    assert sizes == [3000, 3000, 3003]
    assert next(problem.samples("dev"))[0] == "A Republican strategy to counter the re-election of Obama"
    source, first = next(problem.samples("test"))
    assert registry.problem(f"{name}_rev", raw_dir=str(tmp_path)).samples("test").__next__() == (first, source)
