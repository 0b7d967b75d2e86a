"""BLEU of languages without spaces between words: the same as from sacreBLEU's own command with -l."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from t2t_lite.errors import UsageError
from t2t_lite.metrics import bleu, names, reference_warnings
from tests.cli.evaluated import evaluate, write

CHINESE = (["我喜欢吃苹果，也喜欢喝茶。", "他昨天去了北京。"], ["我喜欢吃苹果，也喜欢喝咖啡。", "他昨天到了北京市。"])
JAPANESE = (
    ["私は林檎を食べるのが好きです。", "彼は昨日東京へ行きました。"],
    ["私は林檎を食べることが好きです。", "彼は昨日京都へ行きました。"],
)


def _sacrebleu(folder: Path, hypotheses: list[str], references: list[str], language: str) -> float:
    for name, lines in (("hyp", hypotheses), ("ref", references)):
        (folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    command = [sys.executable, "-m", "sacrebleu", str(folder / "ref"), "-i", str(folder / "hyp"), "-b", "-w", "8"]
    done = subprocess.run([*command, "-l", f"en-{language}"], capture_output=True, text=True, check=True, timeout=120)
    return float(done.stdout)


@pytest.mark.commit
@pytest.mark.parametrize(
    ("code", "language", "lines", "tokenizer"),
    [
        ("zh", "zh", CHINESE, "zh"),
        ("zho_Hans", "zh", CHINESE, "zh"),
        ("ja", "ja", JAPANESE, "ja-mecab"),
        ("jpn_Jpan", "ja", JAPANESE, "ja-mecab"),
    ],
)
def test_the_target_language_chooses_the_tokeniser(
    tmp_path: Path, code: str, language: str, lines: tuple[list[str], list[str]], tokenizer: str
) -> None:
    if tokenizer == "ja-mecab":
        pytest.importorskip("MeCab", reason="t2t-lite[ja] is not installed")
    found = names.metric("bleu", code).score(*lines)
    assert f"|tok:{tokenizer}" in found.signature
    assert found.value == pytest.approx(_sacrebleu(tmp_path, *lines, language), abs=1e-6)
    assert found.value > 2 * names.metric("bleu").score(*lines).value
    assert reference_warnings.tokenizer_note("bleu", code, None).startswith(f"BLEU has the tokeniser {tokenizer}")
    assert names.metric("bleu", code, "char").score(*lines).signature != found.signature


@pytest.mark.parametrize("code", ["de", "en", "pt-BR", "", "source"])
def test_languages_with_blanks_keep_their_tokeniser(code: str) -> None:
    assert "|tok:13a|" in names.metric("bleu", code).score(["a b"], ["a c"]).signature
    assert reference_warnings.tokenizer_note("bleu", code, None) == ""


@pytest.mark.parametrize("code", ["yue_Hant", "th", "tha_Thai", "km"])
def test_languages_without_blanks_that_have_no_tokeniser_give_a_warning(code: str) -> None:
    for name in ("bleu", "bleu_lc"):
        note = reference_warnings.tokenizer_note(name, code, None)
        assert note.startswith(f"warning: BLEU counts words, and {code} has no spaces between them")
        assert "Give --bleu_tokenize=char, or zh for Chinese characters" in note
        assert note.endswith("or --metric=chrf.")
    assert reference_warnings.tokenizer_note("bleu", code, "char") == "BLEU has the tokeniser char, as asked for."
    assert [reference_warnings.tokenizer_note(name, code, None) for name in ("chrf", "bleu_tok_lc")] == ["", ""]


@pytest.mark.parametrize(
    ("lines", "warned"),
    [
        (CHINESE[0], True),
        (JAPANESE[0], True),
        (["ฉันชอบกินแอปเปิ้ล"], True),
        (["我 喜欢 吃 苹果 ， 也 喜欢 喝 茶 。"], False),  # split into words
        (["나는 사과를 좋아한다."], False),
        (["I like 苹果.", "Verantwortungsbewusstsein"], False),
        ([], False),
    ],
)
def test_a_code_that_says_nothing_is_warned_about_by_the_text(lines: list[str], warned: bool) -> None:
    found = reference_warnings.text_warning("bleu", "target", None, lines, "the text of dev")
    assert found.startswith("warning: BLEU counts words, and the text of dev has no spaces") is warned
    assert found == "" or warned
    quiet = [("bleu", "target", "char"), ("bleu", "zh", None), ("bleu", "th", None), ("chrf", "target", None)]
    assert [reference_warnings.text_warning(*asked, lines, "the text of dev") for asked in quiet] == [""] * 4


@pytest.mark.commit
@pytest.mark.parametrize(("code", "lines"), [("zh", CHINESE), ("ja", JAPANESE)])
def test_ter_splits_chinese_and_japanese(code: str, lines: tuple[list[str], list[str]], tmp_path: Path) -> None:
    files = [write(tmp_path / name, text) for name, text in zip(("hyp", "ref"), lines, strict=True)]
    flags = [f"--hypotheses={files[0]}", f"--references={files[1]}", "--metric=ter", "--json"]
    done = evaluate(*flags, f"--language={code}")
    characters = "each kanji as a word, and each run of kana between them"
    words = characters if code == "ja" else "each Chinese character as a word"
    assert (done.returncode, done.stderr) == (
        0,
        f"TER counts {words}, as the target language is {code}.\n",
    )
    [found] = json.loads(done.stdout)["scores"]
    command = [sys.executable, "-m", "sacrebleu", files[1], "-i", files[0], "-m", "ter", "-w", "8", "--ter-normalized"]
    theirs = json.loads(subprocess.run([*command, "--ter-asian-support"], capture_output=True, check=True).stdout)
    assert "norm:yes" in found["signature"]
    assert found["signature"].removeprefix("TER|") == theirs["signature"].removeprefix("TER|")
    assert found["value"] == pytest.approx(theirs["score"], abs=1e-6)
    assert found["value"] < 50
    plain = evaluate(*flags, "--language=de")
    assert plain.stderr.startswith("warning: TER counts words, and the text of the references has no spaces between")
    assert json.loads(plain.stdout)["scores"][0]["value"] == 100


def test_ter_of_other_languages_is_as_before() -> None:
    for code in ("", "de", "ko", "th"):
        assert "|norm:no|punct:yes|asian:no|" in bleu.ter(code).score(["a b"], ["a c"]).signature
        assert reference_warnings.ter_note(code, ["a b c d e f"]) == ""


def test_a_tokeniser_without_its_package_says_what_to_install() -> None:
    if importlib.util.find_spec("mecab_ko") is not None:
        pytest.skip("t2t-lite[ko] is installed")
    with pytest.raises(UsageError, match=r"ko-mecab cannot be used .*t2t-lite\[ko\].*--bleu_tokenize=char"):
        names.metric("bleu", "ko")


def test_a_tokeniser_beside_another_metric_is_refused() -> None:
    with pytest.raises(UsageError, match="--bleu_tokenize=zh goes with --metric=bleu or bleu_lc, not with chrf"):
        names.metric("chrf", "zh", "zh")
    with pytest.raises(UsageError, match="there is no tokeniser 'zhh'.*Did you mean 'zh'"):
        names.metric("bleu", "zh", "zhh")


def test_a_model_that_cannot_be_downloaded_is_said(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("我喜欢\n", encoding="utf-8")
    flags = [f"--hypotheses={tmp_path}/text", f"--references={tmp_path}/text", "--tokenize=flores200"]
    closed = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:9")
    environment = {
        **os.environ,
        **closed,
        "SACREBLEU": str(tmp_path / "cache"),
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    environment.pop("no_proxy", None)
    command = [sys.executable, "-m", "t2t_lite.cli.eval", *flags]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, env=environment)
    assert done.returncode == 2, done.stderr
    assert "BLEU's tokeniser flores200 cannot be used" in done.stderr
    assert "Traceback" not in done.stderr
