"""Folders with weights and languages as the flags give them; pairs held out by hash."""

import random
from pathlib import Path

import pytest

from t2t_lite.data.corpora import (
    Corpus,
    format_corpora,
    format_languages,
    parse_corpora,
    parse_languages,
)
from t2t_lite.data.held_out import HeldOut
from t2t_lite.errors import DataError, UsageError


def test_folders_and_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    here = str(tmp_path)
    corpora = parse_corpora("a,b/:2,/c:3")
    assert corpora == (Corpus(f"{here}/a"), Corpus(f"{here}/b", 2), Corpus("/c", 3))
    assert parse_corpora(format_corpora(corpora)) == corpora
    (tmp_path / "a,b:2").mkdir()
    assert parse_corpora("a,b:2") == (Corpus(f"{here}/a,b:2"),)


@pytest.mark.parametrize("name", ["plain", "crawl_2024-05-01T12:00", "web:2023", "en,de", "a,a", "news,", ",", "x,y:2"])
def test_a_folder_of_any_name_is_read_again_when_it_is_gone(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    corpora = parse_corpora(str(tmp_path / name))
    assert corpora == (Corpus(str(tmp_path / name)),)
    text = format_corpora(corpora)
    assert parse_corpora(text) == corpora
    (tmp_path / name).rmdir()
    assert parse_corpora(text) == corpora
    assert (text == str(tmp_path / name)) == (name == "plain")  # what runs have kept stays as it is
    if "," not in name:
        several = (Corpus("/b"), *corpora, Corpus(f"{tmp_path}/{name}2", 3))
        assert parse_corpora(format_corpora(several)) == several


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b:0", "the weight 0 of b is not a whole number above 0"),
        ("a:1.5,b", "the weight 1.5 of a is not a whole number above 0"),
        (",/b", "--source_dir=,/b lacks the name of a folder"),
        ("a,,b", "--source_dir=a,,b lacks the name of a folder"),
        ("a,./a", "names /.*/a twice; /.*/a:2 takes each"),
    ],
)
def test_wrong_folders(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_corpora(text)


@pytest.mark.parametrize(
    ("text", "languages", "formatted"),
    [
        ("en-de", ("en", "de"), "en-de"),
        ("pt_BR-zh_Hans", ("pt_BR", "zh_Hans"), "pt_BR-zh_Hans"),
        ("en-pt-BR", ("en", "pt-BR"), "en:pt-BR"),
        ("pt-BR-en", ("pt-BR", "en"), "pt-BR:en"),
        ("zh-Hant-TW-es-419", ("zh-Hant-TW", "es-419"), "zh-Hant-TW:es-419"),
        ("en:pt-br", ("en", "pt-br"), "en:pt-br"),
        ("en:de", ("en", "de"), "en-de"),
    ],
)
def test_languages_that_need_no_files(text: str, languages: tuple[str, str], formatted: str) -> None:
    assert parse_languages(text, "/nothing") == languages
    assert format_languages(languages) == formatted
    assert parse_languages(formatted, "/nothing") == languages


def test_files_decide_what_languages_mean(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"can be read as en:pt-br or en-pt:br\. Give one of these"):
        parse_languages("en-pt-br", str(tmp_path))
    (tmp_path / "train.tsv").write_text("a\tb\n")  # this file fits either reading
    with pytest.raises(UsageError, match="can be read as en:pt-br or en-pt:br"):
        parse_languages("en-pt-br", str(tmp_path))
    for name in ("train.en", "train.pt-br.txt.gz"):
        (tmp_path / name).write_text("x\n")
    assert parse_languages("en-pt-br", str(tmp_path)) == ("en", "pt-br")
    for name in ("train.en-pt", "train.br"):
        (tmp_path / name).write_text("x\n")
    with pytest.raises(UsageError, match="can be read as en:pt-br or en-pt:br"):
        parse_languages("en-pt-br", str(tmp_path))


PAIRS = [(f"Source {i}", f"Target {i}") for i in range(100)]


def test_held_out_pairs_do_not_depend_on_order_and_repetition() -> None:
    held_out = HeldOut(iter(PAIRS), 10)
    others = [*PAIRS, *PAIRS[:50], ("", "empty"), ("empty", " ")]
    random.Random(1).shuffle(others)
    assert HeldOut(others, 10).pairs == held_out.pairs
    assert len({*held_out.pairs}) == 10
    assert {*held_out.pairs} < {*PAIRS}
    assert held_out.pairs != PAIRS[:10]
    assert [pair for pair in PAIRS if pair in held_out] == sorted(held_out.pairs, key=PAIRS.index)
    source, target = held_out.pairs[0]
    assert (f" {source}".replace(" ", "  "), f"{target}\t") in held_out
    # A larger dev set keeps the pairs of a smaller one, and a larger corpus changes few of them.
    assert HeldOut(PAIRS, 20).pairs[:10] == held_out.pairs


@pytest.mark.parametrize("count", [100, 1000])
def test_something_must_be_left_to_train_on(count: int) -> None:
    with pytest.raises(DataError, match=rf"--dev_lines={count} would leave nothing .* 100 different pairs"):
        HeldOut(PAIRS * 3, count)
