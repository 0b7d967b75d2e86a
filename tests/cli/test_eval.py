"""t2t-lite-eval as a whole process, on real files."""

import gzip
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sacrebleu

from t2t_lite.cli.eval_scores import Defaults, ScoreRequest, text_metrics
from tests.cli.evaluated import HYPOTHESES, REFERENCES, evaluate, sgm, write


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    hypotheses, references = write(tmp_path / "hyp", HYPOTHESES), write(tmp_path / "ref", REFERENCES)
    return f"--hypotheses={hypotheses}", f"--references={references}"


def test_prints_bleu_and_chrf_as_sacrebleu_does(files: tuple[str, str]) -> None:
    done = evaluate(*files)
    assert done.returncode == 0, done.stderr
    bleu = sacrebleu.BLEU()
    chrf = sacrebleu.CHRF()
    expected = []
    for metric in (bleu, chrf):
        result = metric.corpus_score(HYPOTHESES, [REFERENCES])
        expected.append(result.format(signature=str(metric.get_signature())))
    assert done.stdout.rstrip("\n").split("\n") == [line.rstrip() for line in expected]
    assert done.stdout.startswith("BLEU|nrefs:1|case:mixed|eff:no|tok:13a|")
    assert " = 42.12 69.2/54.5/38.9/21.4 (BP = 1.000 " in done.stdout
    assert done.stderr == ""


@pytest.mark.commit
def test_bleu_of_the_paper_beside_sacrebleus(files: tuple[str, str]) -> None:
    """BLEU-paper treats the low quote of the reference as '"'; sacreBLEU's BLEU does not."""
    done = evaluate(*files, "--language=de", "--json")
    assert done.returncode == 0, done.stderr
    first, second, paper = json.loads(done.stdout)["scores"]
    assert [first["name"], second["name"]] == ["BLEU", "chrF2"]
    assert paper["name"] == "BLEU-paper (tokenised, compound-split)"
    assert paper["signature"].startswith("nrefs:1|case:mixed|lang:de|tok:moses|compounds:split|")
    assert paper["value"] > first["value"] + 2
    assert evaluate(*files, "--language=deu_AT", "--json").stdout == done.stdout
    alone = evaluate(*files, "--language=de", "--metric=bleu_paper")
    assert alone.stdout == f"{paper['name']}|{paper['signature']} = {paper['value']:.2f} {paper['detail']}\n"
    french = evaluate(*files, "--language=fr", "--metric=bleu_paper")
    assert french.stdout.startswith("BLEU-paper (tokenised)|nrefs:1|case:mixed|lang:fr|tok:moses|compounds:whole|")
    other = evaluate(*files, "--language=fi", "--metric=bleu_paper")
    assert other.returncode == 2
    assert other.stderr.startswith("error: BLEU-paper is not defined for text in 'fi', only for")


@pytest.mark.commit
def test_a_baseline_is_compared_under_every_metric(tmp_path: Path, files: tuple[str, str]) -> None:
    baseline = write(tmp_path / "old", ["A cat was on a mat.", "Dogs run.", "Hello!", "Hallo, sagte sie."])
    flags = (*files, f"--baseline={baseline}", "--language=de")
    done = evaluate(*flags)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    lines = done.stdout.removesuffix("\n").split("\n")
    assert lines[0::3] == evaluate(*files, "--language=de").stdout.removesuffix("\n").split("\n")
    assert all(line.startswith("  baseline ") for line in lines[1::3])
    assert all(line.endswith("(paired bootstrap, 1,000 resamples, seed 12345)") for line in lines[2::3])
    records = json.loads(evaluate(*flags, "--json").stdout)["scores"]
    alone = json.loads(evaluate(f"--hypotheses={baseline}", files[1], "--language=de", "--json").stdout)["scores"]
    assert [record["paired"]["baseline"] for record in records] == alone
    for record, line in zip(records, lines[2::3], strict=True):
        paired = record["paired"]
        assert paired["difference"] == record["value"] - paired["baseline"]["value"] > 0
        assert line.startswith(f"  difference +{paired['difference']:.2f}, p = {paired['p_value']:.4f} (")
    short = evaluate(*files, f"--baseline={write(tmp_path / 'short', HYPOTHESES[:3])}")
    assert short.returncode == 1
    assert short.stderr.startswith(f"error: {tmp_path / 'short'} has 3 lines but {tmp_path / 'ref'} has 4;")


def test_sgm_gives_what_the_plain_files_give(tmp_path: Path, files: tuple[str, str]) -> None:
    """SGML translations in another order are matched by document and segment; plain lines are taken in order."""
    names = [("a", 1), ("a", 2), ("b", 1), ("b", 2)]
    references = sgm(tmp_path / "ref.sgm", "refset", [(*n, t) for n, t in zip(names, REFERENCES, strict=True)])
    backwards = [(*n, t) for n, t in zip(names, HYPOTHESES, strict=True)][::-1]
    hypotheses = sgm(tmp_path / "tst.sgm", "tstset", backwards)
    expected = evaluate(*files).stdout
    both = evaluate(f"--hypotheses={hypotheses}", f"--references={references}", "--sgm")
    assert (both.stdout, both.stderr) == (expected, "")
    plain = evaluate(files[0], f"--references={references}", f"--baseline={hypotheses}", "--sgm")
    assert plain.stdout.startswith(expected[: expected.index("\n")])
    assert "\n  difference +0.00, p = 1.0000 (" in plain.stdout  # the same translations, once as lines and once as SGML


def test_faults_of_sgm(tmp_path: Path, files: tuple[str, str]) -> None:
    references = sgm(tmp_path / "ref.sgm", "refset", [("a", 1, "x"), ("a", 2, "y")])
    fewer = sgm(tmp_path / "fewer.sgm", "tstset", [("a", 2, "y")])
    cut = write(tmp_path / "cut.sgm", ['<refset><doc docid="a">', '<seg id="1">x'])
    for hypotheses, wanted, flags, message in (
        (fewer, references, ["--sgm"], f"{fewer} lacks segment 1 of document a, which {references} has."),
        (fewer, cut, ["--sgm"], f"{cut}: segment 1 of document a has no </seg>; the file is not whole."),
        (fewer, tmp_path / "hyp", ["--sgm"], f"{tmp_path / 'hyp'} holds no segments; --sgm is for files with <doc"),
        (tmp_path / "hyp", references, ["--sgm"], f"{tmp_path / 'hyp'} has 4 lines but {references} has 2;"),
        (fewer, tmp_path / "hyp", [], f"{fewer} is not plain text but SGML; --sgm reads it"),
        (tmp_path / "hyp", references, [], f"{references} is not plain text but SGML; --sgm reads it"),
    ):
        done = evaluate(f"--hypotheses={hypotheses}", f"--references={wanted}", *flags)
        assert done.returncode == 1
        assert done.stderr.startswith(f"error: {message}")
        assert "Traceback" not in done.stderr


def test_gzipped_real_text_and_a_line_separator_inside_a_line(tmp_path: Path, shared_data: Callable[..., Path]) -> None:
    """U+2028 is an ordinary character: splitting at it would misalign the two files."""
    source = shared_data("multi30k") / "test_2016_flickr.de.gz"
    with gzip.open(source, "rt", encoding="utf-8", newline="\n") as file:
        lines = file.read().removesuffix("\n").split("\n")
    lines[0] += "\u2028!"
    done = evaluate(f"--hypotheses={write(tmp_path / 'hyp', lines)}", f"--references={source}", "--metric=bleu")
    assert done.returncode == 0, done.stderr
    assert 99.9 < float(done.stdout.split(" = ")[1].split()[0]) < 100


def test_empty_missing_and_undecodable_files(tmp_path: Path) -> None:
    empty, bad = write(tmp_path / "empty", []), tmp_path / "bad"
    bad.write_bytes(b"good\n\xff\xfe\n")
    for path, message in ((empty, "empty"), (tmp_path / "absent", "absent"), (bad, "line 2")):
        done = evaluate(f"--hypotheses={path}", f"--references={path}")
        assert done.returncode == 1
        assert done.stderr.startswith("error: ")
        assert message in done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.commit
@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ([], "give --output_dir=RUN, or --hypotheses=FILE and --references=FILE"),
        (["--testset=wmt14"], "--testset goes with --output_dir=RUN, whose problem says the languages"),
        (["--output_dir=x", "--testset=wmt14", "--split=dev"], "--split does not go with --testset"),
        (["--output_dir=runs/x", "--hypotheses=a"], "--hypotheses does not go with --output_dir"),
        (["--hypotheses=a"], "give --output_dir=RUN, or --hypotheses=FILE and --references=FILE"),
        (["--hypotheses=a", "--references=b", "--beam_size=4"], "--beam_size does not go with scores of files"),
        (["--hypotheses=a", "--references=b", "--tokenize=13b"], "invalid choice: '13b'"),
        (["--output_dir=x", "--baseline=a"], "--baseline does not go with --output_dir"),
        (["--output_dir=x", "--language=de"], "--language does not go with --output_dir"),
        (["--hypotheses=a", "--references=b", "--metric=bleu_paper"], "needs the files' language, such as --language="),
        (["--output_dir=x", "--metric=bleu_paper", "--lowercase"], "--lowercase is not for --metric=bleu_paper"),
        (["--hypotheses=a", "--references=b", "--metric=chrf", "--language=de"], "--language is for BLEU and TER, not"),
    ],
)
def test_bad_flags(flags: list[str], message: str) -> None:
    done = evaluate(*flags)
    assert done.returncode == 2
    assert message in done.stderr
    assert "usage: t2t-lite-eval" in done.stderr


@pytest.mark.parametrize(
    ("metric", "bleu_tokenize", "flags", "computed"),
    [
        ("bleu_tok_lc", None, {}, "case:lc|eff:no|tok:none"),
        ("bleu_tok_lc", None, {"tokenize": "intl"}, "case:lc|eff:no|tok:intl"),
        ("bleu_lc", "char", {"lowercase": True}, "case:lc|eff:no|tok:char"),
        ("bleu", "char", {"tokenize": "none"}, "case:mixed|eff:no|tok:none"),
        ("chrf", None, {"lowercase": True}, "case:lc|eff:no|tok:13a"),
    ],
)
def test_a_flag_changes_only_its_part_of_the_problems_bleu(
    metric: str, bleu_tokenize: str | None, flags: dict[str, Any], computed: str
) -> None:
    request = ScoreRequest(metric="bleu", **flags)
    [bleu] = text_metrics(request, Defaults(metric, "en", bleu_tokenize))
    assert f"|{computed}|" in bleu.signature


@pytest.mark.commit
@pytest.mark.parametrize("flags", [[], ["--metric=bleu"], ["--metric=chrf++"], ["--metric=ter"], ["--metric=accuracy"]])
def test_text_cut_by_subword_nmt_has_one_warning(tmp_path: Path, flags: list[str]) -> None:
    cut = write(tmp_path / "cut", ["ein Leh@@ rer fin@@ det das Haus .", "die Kat@@ ze sah den Hund heute ."])
    plain = write(tmp_path / "plain", ["ein Lehrer findet das Haus .", "die Katze sah den Hund heute ."])
    both = evaluate(f"--hypotheses={cut}", f"--references={cut}", *flags)
    assert both.stderr == (
        "warning: 19% of the words of the references and 19% of the words of the translations end in @@, the joint of "
        "subword-nmt: scores are of pieces, not of words. Undo it in the files: sed -r 's/(@@ )|(@@ ?$)//g'\n"
    )
    one = evaluate(f"--hypotheses={cut}", f"--references={plain}", *flags)
    assert one.stderr.startswith("warning: 19% of the words of the translations end in @@")
    undo = one.stderr.partition("Undo it in the files: ")[2].strip()
    done = subprocess.run(f"{undo} {cut}", shell=True, capture_output=True, text=True, check=True)
    assert done.stdout == plain.read_text(encoding="utf-8")


@pytest.mark.commit
def test_tokenised_text_has_one_sentence_that_names_flags_of_this_command(tmp_path: Path) -> None:
    lines = write(tmp_path / "lines", ["der Hund sieht ein Auto ."] * 120)
    done = evaluate(f"--hypotheses={lines}", f"--references={lines}", f"--baseline={lines}")
    assert done.stderr == (
        'warning: the text of the references is tokenised: 120 of 120 lines end in " .". Its BLEU does not compare '
        "with that of plain text. --bleu_tokenize=none or --metric=bleu_tok_lc (of t2t-lite-eval --tokenize=none) "
        "scores it as it is.\n"
    )
    assert evaluate(f"--hypotheses={lines}", f"--references={lines}", "--tokenize=none").stderr == ""
    plain = write(tmp_path / "plain", ["der Hund sieht ein Auto."] * 120)
    mixed = evaluate(f"--hypotheses={lines}", f"--references={plain}")
    assert mixed.stderr.startswith("warning: the text of the translations is tokenised")


def test_short_lines_are_scored_as_wholes(tmp_path: Path) -> None:
    references = write(tmp_path / "references", ["Save", "Open file", "Cancel", "Größe ändern"])
    hypotheses = write(tmp_path / "hypotheses", ["Save", "Open file", "Stop", "Größe ändern"])
    flags = f"--hypotheses={hypotheses}", f"--references={references}"
    bleu = evaluate(*flags, "--metric=bleu")
    assert "= 0.00 " in bleu.stdout
    assert bleu.stderr.startswith("warning: 0% of the lines in the text of the references have 4 tokens or more")
    order = evaluate(*flags, "--metric=bleu", "--effective_order", "--json")
    assert order.stderr == ""
    assert json.loads(order.stdout)["scores"][0]["value"] > 50
    accuracy = evaluate(*flags, "--metric=accuracy")
    assert accuracy.stdout == "accuracy|nrefs:1|case:mixed|space:folded = 75.00 (3 of 4 outputs right)\n"
    assert accuracy.stderr == ""
    refused = evaluate(*flags, "--metric=accuracy", "--effective_order")
    assert refused.returncode == 2
    assert "--effective_order is for BLEU, not for --metric=accuracy" in refused.stderr


@pytest.mark.parametrize(
    ("metric", "names"),
    [
        ("bleu", ["BLEU", "chrF2"]),
        ("chrf2", ["BLEU", "chrF2", "chrF2++"]),
        ("accuracy", ["BLEU", "chrF2", "accuracy"]),
    ],
)
def test_the_scores_of_a_run_hold_its_dev_score(metric: str, names: list[str]) -> None:
    metrics = text_metrics(ScoreRequest(), Defaults(metric, "de", effective_order=True))
    scores = [each.score(REFERENCES, REFERENCES) for each in metrics]
    assert [score.name for score in scores] == names
    assert "|eff:yes|" in scores[0].signature
