"""A Chinese corpus with whole commands: cleaned by characters, scored with sacreBLEU's Chinese tokeniser."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.nightly

Run = Callable[..., subprocess.CompletedProcess[str]]

WORDS = [("the dog", "这只狗"), ("a cat", "一只猫"), ("my friend", "我的朋友"), ("the teacher", "老师")]
VERBS = [("sees", "看见"), ("likes very much", "非常喜欢"), ("never forgets", "从来不会忘记")]
TAILS = [("in the old house near the river", "在河边的老房子里"), ("every single morning", "每天早上"), ("", "")]


@pytest.fixture(scope="module")
def chinese(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An en-zh corpus. A noun phrase may occur twice. Counted at blanks, a Chinese side would be a single word."""
    folder = tmp_path_factory.mktemp("chinese")
    pairs = [
        (f"{a} {v} {b} {t} .", f"{x}{y}{z}{w}。")
        for a, x in WORDS
        for v, y in VERBS
        for b, z in WORDS
        for t, w in TAILS
    ]
    for split, rows in (("train", pairs[:120]), ("dev", pairs[120:130]), ("test", pairs[130:])):
        for side, language in enumerate(("en", "zh")):
            (folder / f"{split}.{language}").write_text("".join(f"{row[side]}\n" for row in rows), encoding="utf-8")
    return folder


def test_sound_pairs_stay(run: Run, chinese: Path, tmp_path: Path) -> None:
    flags = ["--problem=text2text", f"--source_dir={chinese}", "--languages=en-zh", "--vocab_size=120", "--clean"]
    done = run("datagen", *flags, f"--data_dir={tmp_path}/a", quick=True)
    assert "Cleaning leaves out no training pairs.\n" in done.stderr
    assert "which is much" not in done.stderr
    done = run("datagen", *flags, f"--data_dir={tmp_path}/b", "--clean_max_words=6", quick=True)
    assert "of the training pairs, which is much. If they are sound, name the other reasons" in done.stderr
    done = run("datagen", *flags, f"--data_dir={tmp_path}/b", quick=True, status=2)
    assert "clean_max_words: 6 -> 250" in done.stderr
    done = run("datagen", *flags[:-1], f"--data_dir={tmp_path}/c", "--clean_max_ratio=3", quick=True, status=2)
    assert "--clean_max_ratio=3 has no effect without --clean=ratio." in done.stderr


def test_dev_and_test_have_the_tokeniser_of_the_target_language(run: Run, chinese: Path, tmp_path: Path) -> None:
    hparams = "num_layers=1,d_model=16,d_ff=16,num_heads=2,batch_tokens=512,train_steps=2,eval_every=2,beam_size=1"
    flags = ["--problem=text2text", f"--source_dir={chinese}", "--languages=en-zh", "--vocab_size=120"]
    done = run("trainer", *flags, "--hparams_set=tiny", f"--hparams={hparams}", f"--output_dir={tmp_path}/run")
    assert done.stdout.startswith("BLEU has the tokeniser zh, as the target language is zh.\n")
    scores = json.loads((tmp_path / "run" / "test.scores.json").read_text())
    assert "|tok:zh|" in scores["scores"][0]["signature"]
    done = run("eval", f"--output_dir={tmp_path}/run", "--metric=bleu")
    assert "|tok:zh|" in done.stdout
    assert "BLEU has the tokeniser zh, as the target language is zh." in done.stderr
    done = run("trainer", *flags, "--bleu_tokenize=zhh", f"--output_dir={tmp_path}/other", status=2, quick=True)
    assert "there is no tokeniser 'zhh'" in done.stderr
    assert not (tmp_path / "other").exists()
