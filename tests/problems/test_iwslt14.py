"""iwslt14_deen on made-up files of the layout that fairseq's prepare-iwslt14.sh leaves."""

from pathlib import Path

import pytest

from t2t_lite import registry
from t2t_lite.data.prepare import prepare
from t2t_lite.errors import DataError
from t2t_lite.problem import Problem

PAIRS = {
    "train": [
        ("also , die gra@@ fi@@ k zeigt das .", "so , the gra@@ ph shows that ."),
        ("vielen dank .", "thank you ."),
    ],
    "valid": [("das ist gut .", "that is g@@ ood .")],
    "test": [("und das w@@ ar es .", "and that was it .")],
}


def _write(folder: Path, *, pieces: bool) -> Path:
    """The script's folder, or its folder tmp, which has the text before BPE; each has other files as well."""
    folder.mkdir(parents=True)
    for split, pairs in PAIRS.items():
        for side, lines in zip(("de", "en"), zip(*pairs, strict=True), strict=True):
            text = "".join(f"{line}\n" for line in lines)
            (folder / f"{split}.{side}").write_text(text if pieces else text.replace("@@ ", ""))
    (folder / "code").write_text("#version: 0.2\n")
    for name in ("train.en-de", "train.tags.de-en.tok.de", "IWSLT14.TED.dev2010.de-en.en"):
        (folder / name).write_text("other text\n")
    return folder


def _problem(folder: Path, name: str = "iwslt14_deen") -> Problem:
    return registry.problem(name, source_dir=str(folder))


@pytest.mark.parametrize("pieces", [True, False])
def test_whole_words_of_either_folder(tmp_path: Path, pieces: bool) -> None:
    problem = _problem(_write(tmp_path / "iwslt14.tokenized.de-en", pieces=pieces))
    assert problem.splits() == ("train", "dev", "test")
    assert list(problem.samples("train")) == [
        ("also , die grafik zeigt das .", "so , the graph shows that ."),
        ("vielen dank .", "thank you ."),
    ]
    assert list(problem.samples("dev")) == [("das ist gut .", "that is good .")]
    assert list(problem.samples("test")) == [("und das war es .", "and that was it .")]


def test_its_settings(tmp_path: Path) -> None:
    problem = _problem(tmp_path)
    assert (problem.source_language, problem.target_language) == ("de", "en")
    assert (problem.vocab_size, problem.vocab_type, problem.shared_vocab) == (10_000, "bpe", True)
    assert (problem.default_hparams, problem.metric) == ("transformer_iwslt", "bleu_tok_lc")
    apart = registry.problem("iwslt14_deen", source_dir=str(tmp_path), vocab_size=90, shared_vocab=False)
    assert apart.options() == {"source_dir": str(tmp_path), "vocab_size": 90, "shared_vocab": False}
    assert registry.problem("iwslt14_deen", **apart.options()).settings() == apart.settings()


@pytest.mark.commit
def test_they_are_prepared_and_reversed(tmp_path: Path) -> None:
    folder = _write(tmp_path / "pieces", pieces=True)
    problem = registry.problem("iwslt14_deen", source_dir=str(folder), vocab_size=60)
    store = prepare(problem, tmp_path / "data", num_workers=1)
    assert {split: len(store.split(split)) for split in store.splits()} == {"train": 2, "dev": 1, "test": 1}
    assert store.text("dev") == (["das ist gut ."], ["that is good ."])
    reverse = registry.problem("iwslt14_deen_rev", source_dir=str(folder), vocab_size=60)
    assert list(reverse.samples("test")) == [("and that was it .", "und das war es .")]
    assert reverse.default_hparams == "transformer_iwslt"


def test_a_folder_without_them(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"has no train files. Looked for train.de and train.en"):
        _problem(tmp_path).splits()
