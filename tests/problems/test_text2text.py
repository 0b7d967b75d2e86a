"""text2text: which files are taken, the messages for wrong files, and that real folders work as they are."""

import gzip
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from t2t_lite import registry
from t2t_lite.data.prepare import prepare
from t2t_lite.errors import DataError, UsageError
from t2t_lite.problems.text2text import Text2text


def _fill(folder: Path, *names: str) -> Path:
    """Writes files with two lines each: their own name and '2'."""
    folder.mkdir(exist_ok=True)
    for name in names:
        data = f"{name}\n2\n".encode()
        (folder / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return folder


_PLAIN = ("train.en", "train.de", "dev.en", "dev.de", "test.en", "test.de")


def test_a_plain_folder(tmp_path: Path) -> None:
    problem = registry.problem(
        "text2text", source_dir=str(_fill(tmp_path, *_PLAIN, "README", "train.fr")), languages="de-en"
    )
    assert problem.splits() == ("train", "dev", "test")
    assert [list(problem.samples(split)) for split in problem.splits()] == [
        [(f"{split}.de", f"{split}.en"), ("2", "2")] for split in ("train", "dev", "test")
    ]
    assert (problem.source_language, problem.target_language) == ("de", "en")


@pytest.mark.parametrize(
    "names",
    [
        ("train.en", "train.de.gz", "val.en.gz", "val.de"),
        ("train.en", "train.de", "valid.en", "valid.de"),
        ("train.lc.norm.tok.en.gz", "train.lc.norm.tok.de.gz", "val.lc.norm.tok.en.gz", "val.lc.norm.tok.de.gz"),
        ("train_2.x.en", "train_2.x.de", "dev_a.en", "dev_a.de"),
        ("train.en-de.en", "train.en-de.de", "dev.en-de.en", "dev.en-de.de"),
        ("train.en.txt", "train.de.txt", "validation.en", "validation.de"),
        ("train.en-de.en.txt.gz", "train.en-de.de.txt", "validation.x.en", "validation.x.de"),
        ("Europarl.de-en.en", "Europarl.de-en.de", "dev.de-en.en", "dev.de-en.de"),
        (
            "OpenSubtitles.en-de.en.gz",
            "OpenSubtitles.en-de.de.gz",
            "val.en",
            "val.de",
            "WMT-dev.de-en.en",
            "x.de-fr.de",
        ),
        # A file without its other side does not affect a complete pair.
        ("train.en", "train.de", "dev.en", "dev.de", "train_old.en", "val.de"),
        # The plain names take precedence.
        ("train.en", "train.de", "dev.en", "dev.de", "train.clean.en", "train.clean.de", "dev_2.en", "dev_2.de"),
        # These belong to no split.
        ("train.en", "train.de", "dev.en", "dev.de", "training.en", "training.de", "tested.en", "tested.de"),
    ],
)
def test_names_that_are_understood(tmp_path: Path, names: tuple[str, ...]) -> None:
    problem = Text2text(str(_fill(tmp_path, *names)), "en-de")
    assert problem.splits() == ("train", "dev")
    train, dev = names[:2], names[2:4]
    assert next(problem.samples("train")) == train
    assert next(problem.samples("dev")) == dev


@pytest.mark.parametrize(
    ("names", "split", "listed"),
    [
        (("test_2016.en", "test_2016.de", "test_2017.en", "test_2017.de"), "test", "test_2016.de, test_2016.en, te.*"),
        (("dev.en", "dev.de", "val.en", "val.de"), "dev", "dev.de, dev.en, val.de, val.en"),
        (("train.tsv", "train.en", "train.de"), "train", "train.de, train.en, train.tsv"),
        (("dev.jsonl", "dev.csv.xz"), "dev", "dev.csv.xz, dev.jsonl"),
        (("NC.de-en.en", "NC.de-en.en.txt", "NC.de-en.de"), "train", "NC.de-en.de, NC.de-en.en, NC.*txt"),
        (("train.en", "train.en.gz", "train.de"), "train", "train.de, train.en, train.en.gz"),
    ],
)
def test_ambiguous_names(tmp_path: Path, names: tuple[str, ...], split: str, listed: str) -> None:
    others = [name for name in _PLAIN if not name.startswith(split)]
    problem = Text2text(str(_fill(tmp_path, *names, *others)), "en-de")
    message = rf"several files could be the {split} data: {listed}\. Keep one pair \(or one table\) there\.$"
    for use in (problem.splits, lambda: next(problem.samples(split))):
        with pytest.raises(DataError, match=message):
            use()


@pytest.mark.parametrize(
    ("split", "wanted"),
    [("train", r"train\.en and train\.de"), ("dev", r"dev\.en and dev\.de or val\.en and val\.de or valid\.en")],
)
def test_a_missing_split(tmp_path: Path, split: str, wanted: str) -> None:
    names = [name for name in _PLAIN if not name.startswith(split)]
    problem = Text2text(str(_fill(tmp_path / "corpus", *names)), "en-de")
    message = rf"corpus has no {split} files\. Looked for {wanted}.*, plain or .*; found {', '.join(sorted(names))}\."
    for use in (problem.splits, lambda: next(problem.samples(split)), lambda: prepare(problem, tmp_path / "data")):
        with pytest.raises(DataError, match=message):
            use()
    assert not (tmp_path / "data").exists()  # found before anything is written


@pytest.mark.parametrize(
    ("names", "there", "missing"),
    [
        (("train.en",), "train.en", "train.de"),
        (("train.tok.de.gz",), "train.tok.de.gz", "train.tok.en"),
        (("train_1.en", "train_2.de"), "train_1.en", "train_1.de"),
        (("A.de-en.en", "B.de-en.de"), "A.de-en.en", "A.de-en.de"),
    ],
)
def test_one_side_only(tmp_path: Path, names: tuple[str, ...], there: str, missing: str) -> None:
    problem = Text2text(str(_fill(tmp_path, *names, *_PLAIN[2:])), "en-de")
    with pytest.raises(DataError, match=rf"has {there} but not {missing} \(nor {missing}\.gz\).*Found: {names[0]}"):
        problem.splits()


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        (
            "test.en",
            "one\n",
            r"test\.en has no test\.de, so there is no test set; t2t-lite-decoder --input=.*/test\.en tr",
        ),
        (
            "test.tok.en.gz",
            "",
            r"test\.tok\.en\.gz has no test\.tok\.de, so there is no test set; t2t-lite-decoder --input",
        ),
        ("test.de", "eins\n", r"test\.de has no test\.en, so there is no test set"),
        ("test.tsv", "one\n", r"test\.tsv has no targets, so there is no test set"),
        ("test.json", '{"en": "one"}\n', r"test\.json has no targets, so there is no test set"),
    ],
)
def test_a_test_set_with_one_side_stops_nothing(
    tmp_path: Path, name: str, text: str, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "t2t_lite")
    (_fill(tmp_path, *_PLAIN[:4]) / name).write_text(text)
    problem = Text2text(str(tmp_path), "en-de")
    assert problem.splits() == problem.splits() == ("train", "dev")
    assert [bool(re.search(said, message)) for message in caplog.messages] == [True]  # once


def test_a_test_set_with_empty_references_stops_nothing(tmp_path: Path) -> None:
    _fill(tmp_path, *_PLAIN)
    for references, splits in (("\n \n", 2), ("", 2), ("\nzwei\n", 3)):
        (tmp_path / "test.de").write_text(references)
        assert len(Text2text(str(tmp_path), "en-de").splits()) == splits


def test_files_with_an_object_a_line_are_called_json_too(tmp_path: Path) -> None:
    row = '{"translation": {"en": "a", "de": "b"}}\n'
    for name in ("train.json", "validation.en-de.json", "test.json"):
        (tmp_path / name).write_text(row * 2)
    for name in ("train.settings.json", "validation.x.json", "train_state.json"):
        (tmp_path / name).write_text('{\n"seed": 1}\n')
    problem = Text2text(str(tmp_path), "en-de")
    assert problem.splits() == ("train", "dev", "test")
    assert [list(problem.samples(split)) for split in problem.splits()] == [[("a", "b")] * 2] * 3
    _fill(tmp_path, *_PLAIN[:2], "test.en", "test.de")  # other files come first
    assert next(problem.samples("train")) == ("train.en", "train.de")
    assert next(problem.samples("test")) == ("test.en", "test.de")


def test_clean_leaves_damaged_rows_out_and_counts_them(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "t2t_lite")
    for name in ("train.tsv", "dev.tsv"):
        (tmp_path / name).write_text("a\tb\nc\td\te\ne\tf\n" + "g\n" * (name == "train.tsv"))
    problem = Text2text(str(tmp_path), "en-de", clean=True)
    for split, count in {"dev": 1, "train": 2, "train again": 2}.items():
        split = split.removesuffix(" again")
        assert list(problem.samples(split)) == [("a", "b"), ("e", "f")]
        assert problem.left_out[split] == {"damaged rows": count}
    said = [message for message in caplog.messages if "left out" in message]
    assert len(said) == 2
    assert "train.tsv: 2 damaged of 4 rows left out, the first is row 2: columns: 3" in said[1]
    with pytest.raises(DataError, match=r"row 2: .* Damaged: 2 of 4 rows\."):
        list(Text2text(str(tmp_path), "en-de").samples("train"))


def test_a_missing_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for name in ("nothing", "file"):
        problem = Text2text(str(tmp_path / name), "en-de")  # does not look at the folder yet
        for use in (problem.splits, lambda samples=problem.samples: next(samples("dev"))):
            with pytest.raises(DataError, match=rf"{name} is not a folder; --source_dir is the folder that holds"):
                use()


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("train.de", b"one\n", r"train\.en has 2 lines, but \S*train\.de has 1"),
        ("dev.de", b"one\ntwo\nthree\n", r"dev\.en has 2 lines, but \S*dev\.de has 3"),
        ("test.en", b"", r"test\.en is empty"),
        ("dev.en", b"one\nt\xffo\n", r"dev\.en, line 2: byte 0xff at column 2 is not UTF-8"),
    ],
)
def test_faulty_files_stop_prepare(tmp_path: Path, name: str, data: bytes, message: str) -> None:
    _fill(tmp_path / "corpus", *_PLAIN)
    (tmp_path / "corpus" / name).write_bytes(data)
    with pytest.raises(DataError, match=message):
        prepare(Text2text(str(tmp_path / "corpus"), "en-de", vocab_size=50), tmp_path / "data")
    assert not (tmp_path / "data" / "text2text").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"languages": "en"},
            "--languages=en is not two different language codes with a hyphen between, such as en-de",
        ),
        ({"languages": "en-de-fr"}, "--languages=en-de-fr can be read as en:de-fr or en-de:fr"),
        ({"languages": "en-en"}, "--languages=en-en is not two different"),
        ({"languages": "../x-de"}, "is not two different language codes"),
        ({"dev_lines": 0}, "--dev_lines=0 must be at least 1"),
        ({"source_dir": "x,y:2", "clean": True}, "takes pairs several times, but --clean leaves out all but the first"),
        ({"source_dir": "x,y:0"}, "the weight 0 of y is not a whole number"),
        ({"vocab_size": 3}, "--vocab_size=3 must be from 4"),
        ({"vocab_type": "unigramm"}, "unigramm is not one of: bpe, unigram, char. Did you mean 'unigram'"),
        ({"metric": "blue"}, "There is no metric called 'blue'. Did you mean 'bleu'"),
    ],
)
def test_wrong_options(options: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        registry.problem("text2text", **{"source_dir": "x", "languages": "en-de", **options})


def test_options_make_the_problem_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    given = {"vocab_size": 77, "vocab_type": "unigram", "shared_vocab": False, "metric": "chrf"}
    problem = Text2text("corpus", "pt_BR-de", **given)
    assert problem.options() == {"source_dir": str(tmp_path / "corpus"), "languages": "pt_BR-de", **given}
    assert registry.problem("text2text", **problem.options()).settings() == problem.settings()
    assert [getattr(problem, name) for name in given] == list(given.values())
    assert Text2text("x", "en-de").options()["vocab_size"] == 8000


@pytest.mark.parametrize("folder", ["multi30k", "multi30k/tok"])
def test_multi30k_as_it_is(shared_data: Callable[[str], Path], folder: str) -> None:
    problem = Text2text(str(shared_data(folder)), "en-de")
    assert problem.splits() == ("train", "dev", "test")
    assert sum(1 for _ in problem.samples("dev")) == 1014
    assert sum(1 for _ in problem.samples("test")) == 1000
    source, target = next(problem.samples("train"))
    assert source.lower().startswith("two young, white males" if folder == "multi30k" else "two young , white males")
    assert target.lower().startswith("zwei junge")
