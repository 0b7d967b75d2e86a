"""Tables of scores in each format, and that of t2t-lite-compare."""

import csv
import io
import shutil
import subprocess
from pathlib import Path

import pytest

from t2t_lite.compare.table import Row, make_table
from t2t_lite.metrics import bleu
from t2t_lite.table_formats import Table

NAMES = r'a_b|50% & "c" <d>\#1'
TABLE = Table(
    title="toy_ende, test set",
    head=["", "BLEU", "+-", "p", "FLOPs"],
    rows=[["tiny*4", "41.02", "", "", "2.30e+13"], [NAMES, "9.10", "0.25", "0.012*", "1.00e+09"]],
    names=["name", "score", "p_value"],
    values=[["tiny*4", 41.0234567890123, None], ['a, "b"', 9.1, 0.0123]],
    notes=["BLEU|nrefs:1|case:mixed"],
)


def test_text() -> None:
    assert TABLE.format("text").split("\n") == [
        "toy_ende, test set",
        "                       BLEU    +-       p     FLOPs",
        "tiny*4                41.02                2.30e+13",
        rf"{NAMES}   9.10  0.25  0.012*  1.00e+09",
        "BLEU|nrefs:1|case:mixed",
        "",
    ]


def test_markdown() -> None:
    assert TABLE.format("markdown").split("\n") == [
        r"toy\_ende, test set",
        "",
        "|  | BLEU | +- | p | FLOPs |",
        "|---|---:|---:|---:|---:|",
        r"| tiny\*4 | 41.02 |  |  | 2.30e+13 |",
        r'| a\_b\|50% \& "c" \<d\>\\\#1 | 9.10 | 0.25 | 0.012\* | 1.00e+09 |',
        "",
        r"- BLEU\|nrefs:1\|case:mixed",
        "",
    ]


def test_csv() -> None:
    assert TABLE.format("csv").split("\n") == [
        "name,score,p_value",
        "tiny*4,41.0234567890123,",
        '"a, ""b""",9.1,0.0123',
        "",
    ]


def test_latex(tmp_path: Path) -> None:
    lines = TABLE.format("latex").split("\n")
    assert lines == [
        r"% toy_ende, test set; needs \usepackage{booktabs}",
        r"\begin{tabular}{lrrrr}",
        r"\toprule",
        r" & BLEU & $\pm$ & p & FLOPs \\",
        r"\midrule",
        r"tiny*4 & 41.02 &  &  & $2.30\cdot10^{13}$ \\",
        r"a\_b\textbar{}50\% \& ''c'' \textless{}d\textgreater{}\textbackslash{}\#1 & 9.10 & 0.25 & 0.012* & "
        r"$1.00\cdot10^{9}$ \\",
        r"\bottomrule",
        r"\end{tabular}",
        "% BLEU|nrefs:1|case:mixed",
        "",
    ]
    latex = shutil.which("pdflatex")
    if latex is None:
        pytest.skip("needs pdflatex to compile the table")
    (tmp_path / "t.tex").write_text(
        "\n".join([r"\documentclass{article}\usepackage{booktabs}\begin{document}", *lines, r"\end{document}"])
    )
    subprocess.run([latex, "-interaction=nonstopmode", "-halt-on-error", "t.tex"], cwd=tmp_path, check=True)


def test_latex_takes_no_name_for_an_argument() -> None:
    lines = Table("", ["[1]", "p"], [["[2]", "[3]"], ["*.de", "1"]], [], [], []).format("latex").split("\n")
    assert [line for line in lines if "&" in line] == [r"{}[1] & p \\", r"{}[2] & [3] \\", r"{}*.de & 1 \\"]


def _row(name: str, hypotheses: list[list[str]], p_value: float | None) -> Row:
    metric, references = bleu.bleu(), [f"a b c d e {n}" for n in range(4)]
    return Row(
        name=name,
        split="test",
        scores=[metric.score(lines, references) for lines in hypotheses],
        dev_scores=[30.0] * len(hypotheses),
        dev_losses=[1.0, 2.0][: len(hypotheses)],
        parameters=12345,
        train_steps=5,
        train_flops=2.345e13,
        tokens_per_second=1234.5,
        sentences_per_second=7.25,
        peak_mib=2048,
        budget={"train_steps": 5},
        metric=metric,
        p_value=p_value,
    )


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    right = [f"a b c d e {n}" for n in range(4)]
    return [
        _row("tiny+length_penalty=0.6", [right, [*right[:2], "a b x d e 2", "a"]], None),
        _row("rnn_tiny*2,50%&more", [right], 0.0123),
    ]


def test_csv_of_a_comparison_has_all_digits(rows: list[Row]) -> None:
    first, second = csv.DictReader(io.StringIO(make_table(rows, "title").format("csv")))
    assert [first["name"], second["name"]] == ["tiny+length_penalty=0.6", "rnn_tiny*2,50%&more"]
    assert float(first["score"]) == rows[0].mean
    assert float(first["spread"]) == rows[0].spread > 0
    assert (first["p_value"], float(second["p_value"])) == ("", 0.0123)
    assert (first["seeds"], first["dev_loss"], first["train_flops"]) == ("2", "1.5", "23450000000000.0")
    assert (first["metric"], first["signature"]) == ("BLEU", rows[0].scores[0].signature)
    assert None not in first  # as many cells as names


def test_all_formats_of_a_comparison_have_its_cells_and_its_signature(rows: list[Row]) -> None:
    table = make_table(rows, "title")
    assert table.rows[1][:5] == ("rnn_tiny*2,50%&more", "100.00", "", "0.012*", "30.00")
    latex = table.format("latex")
    assert r"rnn\_tiny*2,50\%\&more & 100.00 &  & 0.012* & 30.00 & " in latex
    assert r"tiny+length\_penalty=0.6 & " in latex
    signature = f"BLEU|{rows[0].scores[0].signature}"
    assert f"\n{signature}\n" in table.format("text")
    assert f"\n% {signature}\n" in latex
    assert "\n- " + signature.replace("|", r"\|") + "\n" in table.format("markdown")
