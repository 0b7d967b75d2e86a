"""text2text on tables, several folders with weights, and pairs held out as the dev set; the whole command on them."""

from collections import Counter
from pathlib import Path

import pytest

from t2t_lite import registry
from t2t_lite.data.prepare import prepare
from t2t_lite.data.store import Store
from t2t_lite.errors import DataError, UsageError
from t2t_lite.problems.text2text import Text2text
from tests import commands

COUNT = 300
PAIRS = [(f"line {i}", f"Zeile {i}") for i in range(COUNT)]


def _tsv(path: Path, pairs: list[tuple[str, str]], header: str = "en\tde\n") -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(header + "".join(f"{source}\t{target}\n" for source, target in pairs))
    return path


def _train_text(store: Store) -> Counter[tuple[str, str]]:
    """The training pairs of a store, decoded."""
    split = store.split("train")
    sides = [
        [vocabulary.decode(ids[i]) for i in range(len(split))]
        for vocabulary, ids in zip(
            (store.source_vocabulary, store.target_vocabulary), (split.source, split.target), strict=True
        )
    ]
    return Counter(zip(*sides, strict=True))


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level("INFO", "t2t_lite")
    return caplog


def test_held_out_pairs_and_their_duplicates_are_not_trained_on(tmp_path: Path, said: pytest.LogCaptureFixture) -> None:
    _tsv(tmp_path / "corpus" / "train.tsv", PAIRS * 2)
    problem = registry.problem("text2text", source_dir=str(tmp_path / "corpus"), languages="en-de", dev_lines=20)
    problem.vocab_size = 60
    assert problem.splits() == ("train", "dev")
    store = prepare(problem, tmp_path / "data", num_workers=1)
    dev = {*zip(*store.text("dev"), strict=True)}
    train = {*problem.samples("train")}
    assert (len(dev), len(train)) == (20, COUNT - 20)
    assert dev | train == {*PAIRS}
    assert store.manifest["splits"]["train"]["pairs"] == 2 * (COUNT - 20)
    assert said.messages.count("20 different pairs are held out of the training data as the dev set.") == 1
    # Another order gives the same dev set. Another number is another setting. The files are compared.
    _tsv(tmp_path / "other" / "train.tsv", PAIRS[::-1])
    again = Text2text(str(tmp_path / "other"), "en-de", dev_lines=20)
    assert {*again.samples("dev")} == dev
    assert again.source_files("dev") == again.source_files("train") == [tmp_path / "other" / "train.tsv"]
    with pytest.raises(UsageError, match="dev_lines: 20 -> 30"):
        prepare(Text2text(str(tmp_path / "corpus"), "en-de", vocab_size=60, dev_lines=30), tmp_path / "data")
    assert Text2text(**again.options()).options() == again.options()


def test_pairs_are_held_out_of_those_that_cleaning_keeps(tmp_path: Path) -> None:
    faulty = [(f"copy {i}",) * 2 for i in range(40)] + [(f"short {i}", "viel " * 30) for i in range(40)]
    faulty += [(f"brok\x92en {i}", f"kap\x92utt {i}") for i in range(40)]
    _tsv(tmp_path / "c" / "train.tsv", faulty + PAIRS[:30] * 2)
    options = {"source_dir": str(tmp_path / "c"), "languages": "en-de", "vocab_size": 80, "dev_lines": 29}
    problem, back = (registry.problem(name, **options, clean=True) for name in ("text2text", "text2text_rev"))
    store = prepare(problem, tmp_path / "data", num_workers=1)
    dev = {*zip(*store.text("dev"), strict=True)}
    assert (len(dev), dev < {*PAIRS[:30]}) == (29, True)
    assert {(target, source) for source, target in back.samples("dev")} == dev
    assert store.manifest["splits"]["train"]["pairs"] == 1
    with pytest.raises(DataError, match=r"have 30 different pairs with text on both sides that --clean keeps\."):
        next(Text2text(**{**options, "dev_lines": 30}, clean=True).samples("dev"))


def test_much_cleaning_is_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    _tsv(tmp_path / "train.tsv", [(f"copy {i}",) * 2 for i in range(200)] + PAIRS[:100])
    _tsv(tmp_path / "dev.tsv", PAIRS[:3])
    prepare(Text2text(str(tmp_path), "en-de", vocab_size=60, vocab_type="char", clean=True), tmp_path / "data")
    assert "Cleaning leaves out 67% of the training pairs, which is much." in caplog.text


def test_a_dev_set_or_held_out_pairs_not_both_and_not_none(tmp_path: Path) -> None:
    _tsv(tmp_path / "train.tsv", PAIRS)
    with pytest.raises(
        DataError, match=r"has no dev files\. .*--dev_lines=1000 would hold 1000 pairs out of the train"
    ):
        Text2text(str(tmp_path), "en-de").splits()
    with pytest.raises(DataError, match=r"--dev_lines=1000 would leave nothing to train on: .* have 300 different"):
        prepare(Text2text(str(tmp_path), "en-de", dev_lines=1000), tmp_path / "data")
    _tsv(tmp_path / "valid.tsv", PAIRS)
    with pytest.raises(DataError, match=r"has a dev set \(valid\.tsv\), so --dev_lines=7 has nothing to do"):
        Text2text(str(tmp_path), "en-de", dev_lines=7).splits()


def test_several_folders_with_weights(tmp_path: Path, said: pytest.LogCaptureFixture) -> None:
    small, large = PAIRS[:40], PAIRS[40:200]
    _tsv(tmp_path / "large" / "train.tsv", large)
    _tsv(tmp_path / "small" / "train.tsv", small)
    _tsv(tmp_path / "small" / "dev.tsv", PAIRS[200:210])
    problem = Text2text(f"{tmp_path}/large,{tmp_path}/small:3", "en-de", vocab_size=60)
    store = prepare(problem, tmp_path / "data", num_workers=1)
    assert _train_text(store) == Counter(large + 3 * small)
    assert [*zip(*store.text("dev"), strict=True)] == PAIRS[200:210]
    assert said.messages == [
        f"The dev set is that of {tmp_path}/small.",
        f"{tmp_path}/large: 160 training pairs.",
        f"{tmp_path}/small: 40 training pairs 3 times.",
    ]
    assert [path.parent.name for path in problem.source_files("train")] == ["large", *["small"] * 3]
    # Weights count, not where the folders are; a changed file is named.
    (tmp_path / "large").rename(tmp_path / "moved")
    moved = f"{tmp_path}/moved,{tmp_path}/small"
    assert prepare(Text2text(f"{moved}:3", "en-de", vocab_size=60), tmp_path / "data").manifest == store.manifest
    with pytest.raises(UsageError, match=r"weights: \[1, 3\] -> \[1, 1\]"):
        prepare(Text2text(moved, "en-de", vocab_size=60), tmp_path / "data")
    _tsv(tmp_path / "moved" / "train.tsv", large[1:])
    with pytest.raises(DataError, match=rf"\n  train: {tmp_path}/moved/train\.tsv has changed\nGive"):
        prepare(Text2text(f"{moved}:3", "en-de", vocab_size=60), tmp_path / "data")


def test_a_file_moved_between_folders_changes_the_text_of_weighted_ones(tmp_path: Path) -> None:
    a, b, c = (tmp_path / name for name in "abc")
    for folder, part in {a: PAIRS[:40], b: PAIRS[40:100], c: PAIRS[100:120]}.items():
        _tsv(folder / "train.tsv", part)
    _tsv(a / "dev.tsv", PAIRS[200:210])
    problem = Text2text(f"{a},{b}:2,{c}", "en-de", vocab_size=60)
    prepare(problem, tmp_path / "data", num_workers=1)
    (b / "train.tsv").rename(tmp_path / "aside")
    (c / "train.tsv").rename(b / "train.tsv")
    (tmp_path / "aside").rename(c / "train.tsv")
    with pytest.raises(DataError, match="train: its files are fewer, or read in another order"):
        prepare(problem, tmp_path / "data")


def test_several_opus_corpora_in_a_folder_are_all_trained_on(tmp_path: Path, said: pytest.LogCaptureFixture) -> None:
    held_back = ["MyTest.de-en", "WMT-dev2.de-en", "devtest.de-en", "newstest2014.de-en", "x_VALID.de-en"]
    for name in ("News.de-en", "Books.de-en", *held_back):
        for code in ("de", "en"):
            (tmp_path / f"{name}.{code}").write_text(f"{name} {code}\n")
    problem = Text2text(str(tmp_path), "en-de")
    assert [*problem.samples("train")] == [("Books.de-en en", "Books.de-en de"), ("News.de-en en", "News.de-en de")]
    assert len(problem.source_files("train")) == 4
    assert said.messages == [
        f"{tmp_path}: training data by OPUS names: Books.de-en, News.de-en.",
        f"{tmp_path}: no training data, as their names say dev, test or valid: {', '.join(held_back)}.",
    ]


def test_words_that_only_contain_dev_or_test_are_training_data(tmp_path: Path) -> None:
    names = ["ELRC-Regional_development.de-en", "Testament.de-en", "latest.de-en", "validity.de-en"]
    for name in names:
        for code in ("de", "en"):
            (tmp_path / f"{name}.{code}").write_text(f"{name} {code}\n")
    for code in ("de", "en"):  # macOS writes such a file beside each file on other systems' disks
        (tmp_path / f"._latest.de-en.{code}").write_bytes(b"\x00\x05\x16\x07\x00Mac OS X\xb0")
    pairs = [*Text2text(str(tmp_path), "en-de").samples("train")]
    assert pairs == [(f"{name} en", f"{name} de") for name in names]


def test_codes_with_hyphens(tmp_path: Path) -> None:
    for name in ("train.en", "train.pt-BR", "dev.en", "dev.pt-BR"):
        (tmp_path / name).write_text(f"{name}\n")
    problem = Text2text(str(tmp_path), "en-pt-BR")
    assert [*problem.samples("dev")] == [("dev.en", "dev.pt-BR")]
    assert (problem.source_language, problem.target_language) == ("en", "pt-BR")
    assert Text2text(**problem.options()).settings() == problem.settings()


@pytest.mark.commit
def test_datagen_on_a_tsv_file_alone(tmp_path: Path) -> None:
    path = _tsv(tmp_path / "corpus" / "train.tsv", PAIRS)
    flags = ["--problem=text2text", f"--source_dir={path.parent}", "--languages=en-de", "--vocab_size=60"]
    flags += [f"--data_dir={tmp_path / 'data'}", "--num_workers=1"]
    refused = commands.run("t2t_lite.cli.datagen", *flags)
    assert (refused.returncode, b"--dev_lines=1000 would hold" in refused.stderr) == (1, True)
    done = commands.run("t2t_lite.cli.datagen", *flags, "--dev_lines=30")
    assert done.returncode == 0, done.stderr
    assert b"train: 270 pairs, " in done.stdout
    assert b"dev: 30 pairs, " in done.stdout
    assert b"30 different pairs are held out of the training data as the dev set." in done.stderr
    path.write_text(path.read_text() + "no tab here\n")
    damaged = commands.run("t2t_lite.cli.datagen", *flags, "--dev_lines=30", "--prepare_again")
    assert damaged.returncode == 1
    assert b"train.tsv, row 302: columns: 1 instead of 2." in damaged.stderr
    assert b"Traceback" not in damaged.stderr
