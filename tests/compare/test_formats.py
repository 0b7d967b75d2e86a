"""The table of t2t-lite-compare as CSV and as a tabular of LaTeX."""

import csv
import io
import re

import pytest

from t2t_lite.compare.formats import csv_table, latex_table
from t2t_lite.compare.table import Row, grid, table
from t2t_lite.metrics import bleu


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


def test_csv_has_all_digits_and_a_name_may_hold_commas(rows: list[Row]) -> None:
    first, second = csv.DictReader(io.StringIO(csv_table(rows)))
    assert [first["name"], second["name"]] == ["tiny+length_penalty=0.6", "rnn_tiny*2,50%&more"]
    assert float(first["score"]) == rows[0].mean
    assert float(first["spread"]) == rows[0].spread > 0
    assert (first["p_value"], float(second["p_value"])) == ("", 0.0123)
    assert (first["seeds"], first["dev_loss"], first["train_flops"]) == ("2", "1.5", "23450000000000.0")
    assert (first["metric"], first["signature"]) == ("BLEU", rows[0].scores[0].signature)
    assert None not in first  # as many cells as names


def test_latex_has_the_cells_of_the_table_with_its_special_characters_escaped(rows: list[Row]) -> None:
    lines = latex_table(rows).split("\n")
    assert lines[0] == r"\begin{tabular}{lrrrrrrrrrrr}"
    body = [line for line in lines if line.endswith(r" \\")]
    assert [line.count(" & ") for line in body] == [len(grid(rows)[0]) - 1] * 3
    assert body[0].startswith(r" & BLEU & $\pm$ & p & dev BLEU & ")
    assert body[1].startswith(r"tiny+length\_penalty=0.6 & ")
    assert body[2].startswith(r"rnn\_tiny*2,50\%\&more & 100.00 &  & 0.012* & 30.00 & ")
    assert r" & $2.35\cdot10^{13}$ & " in body[1] or r" & $2.34\cdot10^{13}$ & " in body[1]
    outside = "\n".join(line for line in lines if not line.startswith("% "))
    assert re.search(r"(?<!\\)[%#_$](?![\\\d])", outside.replace(r"$\pm$", "").replace("}$", "}")) is None
    notes = [line.removeprefix("% ") for line in lines if line.startswith("% ")]
    assert notes
    assert all(note in table(rows, "title") for note in notes)
