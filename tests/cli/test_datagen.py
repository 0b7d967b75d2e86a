"""t2t-lite-datagen: the whole command on a folder of text."""

import re
from pathlib import Path

import pytest

from t2t_lite.cli import datagen
from t2t_lite.data.pipeline import make_plan
from t2t_lite.data.store import open_store
from t2t_lite.groups import BatchGroup
from tests import commands


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    folder = tmp_path / "corpus"
    folder.mkdir()
    for split, count in (("train", 50), ("dev", 5)):
        for code in ("en", "de"):
            lines = [f"{code} {i}\n" for i in range(count)]
            (folder / f"{split}.{code}").write_text("".join(lines) + ("\n" if split == "train" else ""))
    return folder


def _run(corpus: Path, *more: str) -> int:
    given = ["--problem=text2text", f"--source_dir={corpus}", "--languages=en-de", "--vocab_size=30"]
    return datagen.main(commands.with_defaults(more, *given, f"--data_dir={corpus.parent / 'data'}"))


def test_prepares_and_tells_what_is_there(corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(corpus, "--num_workers=1", "--verify") == 0
    out, err = capsys.readouterr()
    assert f"text2text: {corpus.parent / 'data' / 'text2text'}\n" in out
    assert re.search(r"^vocabulary: \d+ pieces, shared$", out, re.MULTILINE)
    assert "train: 50 pairs (1 with an empty side left out), " in out
    assert "dev: 5 pairs, " in out
    assert "test" not in out.partition("train:")[2]
    assert "  dev: 5 of 5 pairs (100.0%) and 5 sources are also in train.\n" in out
    [warning] = err.splitlines()  # no progress bar without a terminal
    assert warning.startswith("warning: 0% of the lines in the text of dev have 4 tokens or more: BLEU counts")


def test_errors_are_prose_with_a_status(corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(corpus) == 0
    assert _run(corpus, "--vocab_size=25") == 2
    assert "error: " in (err := capsys.readouterr().err)
    assert "vocab_size: 30 -> 25" in err
    (corpus / "dev.de").unlink()
    assert _run(corpus, "--force") == 1
    assert "has dev.en but not dev.de" in capsys.readouterr().err


def test_describe(corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hparams = "batch_tokens=64,max_length=40"
    assert _run(corpus, "--describe", "--hparams_set=tiny", f"--hparams={hparams}") == 0
    out = capsys.readouterr().out
    table = out.partition(f"batches of tiny, {hparams}:\n")[2]
    store = open_store(corpus.parent / "data" / "text2text")
    plan = make_plan(store.split("train"), BatchGroup(batch_tokens=64, max_length=40), 1)
    assert plan.steps_per_epoch > 1
    assert table == plan.statistics().format(40) + "\n"
    assert _run(corpus, "--describe", "--hparams=packing=true") == 0
    assert re.search(r"^batches of base, packing=true:\n(.*\n)*  shapes of batches +1\n", capsys.readouterr().out, re.M)


def test_hparams_are_checked_before_anything_is_prepared(corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(corpus, "--describe", "--hparams_set=tinny") == 2
    assert _run(corpus, "--describe", "--hparams=batch_token=4") == 2
    err = capsys.readouterr().err
    assert "There is no hparams set called 'tinny'. Did you mean 'tiny'" in err
    assert "there is no 'batch_token'. Did you mean 'batch_tokens'" in err
    with pytest.raises(SystemExit, match="2"):
        _run(corpus, "--hparams_set=tiny")
    assert "--hparams_set and --hparams are for --describe" in capsys.readouterr().err
    assert not (corpus.parent / "data").exists()


def test_cleaning_is_reported(corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for code in ("en", "de"):
        with open(corpus / f"train.{code}", "a", encoding="utf-8") as file:
            file.write(f"{code} 7\n" + ("en \x07\n" if code == "en" else "de\n"))
    assert _run(corpus, "--clean") == 0
    summary = "  cleaning left out 2 pairs: control 1, duplicate 1\n"
    assert "train: 50 pairs (1 with an empty side left out), " in (out := capsys.readouterr().out)
    assert summary in out
    assert _run(corpus, "--clean") == 0  # data that was prepared before shows it too
    assert summary in capsys.readouterr().out
    assert _run(corpus) == 2
    assert "clean: True -> None" in capsys.readouterr().err
