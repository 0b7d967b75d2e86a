"""t2t-lite-datagen: the whole command on a folder of text."""

import re
from pathlib import Path

import pytest

from t2t_lite.bin import datagen


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
    return datagen.main([*given, f"--data_dir={corpus.parent / 'data'}", *more])


def test_prepares_and_tells_what_is_there(corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(corpus, "--num_workers=1", "--verify") == 0
    out, err = capsys.readouterr()
    assert f"text2text: {corpus.parent / 'data' / 'text2text'}\n" in out
    assert re.search(r"^vocabulary: \d+ pieces, shared$", out, re.MULTILINE)
    assert "train: 50 pairs (1 with an empty side left out), " in out
    assert "dev: 5 pairs, " in out
    assert "test" not in out.partition("train:")[2]
    assert err == ""  # no bar where nobody watches


def test_errors_are_prose_with_a_status(corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(corpus) == 0
    assert _run(corpus, "--vocab_size=25") == 2
    assert "error: " in (err := capsys.readouterr().err)
    assert "vocab_size: 30 -> 25" in err
    (corpus / "dev.de").unlink()
    assert _run(corpus, "--force") == 1
    assert "has dev.en but not dev.de" in capsys.readouterr().err
