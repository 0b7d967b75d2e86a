"""The table of t2t-lite-compare for other programs: CSV with all digits, and a tabular for LaTeX."""

from __future__ import annotations

import csv
import io
import re
import statistics
from collections.abc import Sequence

from t2t_lite.compare.table import Row, grid, notes

_SPECIAL = {
    **{character: f"\\{character}" for character in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
}


def csv_table(rows: Sequence[Row]) -> str:
    """Returns a head and a line for each row; the mean and the spread are those over the seeds."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(
        "name split metric score spread seeds p_value dev_score dev_loss parameters train_steps train_flops "
        "tokens_per_second sentences_per_second peak_mib signature".split()
    )
    for row in rows:
        score = row.scores[0]
        p_value = "" if row.p_value is None else row.p_value
        writer.writerow(
            [
                *(row.name, row.split, score.name, row.mean, row.spread, len(row.scores), p_value),
                *(statistics.fmean(row.dev_scores), statistics.fmean(row.dev_losses), row.parameters),
                *(row.train_steps, row.train_flops, row.tokens_per_second, row.sentences_per_second, row.peak_mib),
                score.signature,
            ]
        )
    return file.getvalue()


def latex_table(rows: Sequence[Row]) -> str:
    """Returns a tabular, with what the columns mean as comments below."""
    head, *cells = grid(rows)
    lines = [" & ".join(map(_cell, line)) + r" \\" for line in (head, *cells)]
    comments = [f"% {note}" for note in notes(rows)]
    return "\n".join(
        [
            rf"\begin{{tabular}}{{l{'r' * (len(head) - 1)}}}",
            *(r"\hline", lines[0], r"\hline", *lines[1:], r"\hline"),
            r"\end{tabular}",
            *(*comments, ""),
        ]
    )


def _cell(text: str) -> str:
    """Returns a cell with LaTeX's special characters escaped; 2.30e+13 is a power of ten."""
    if found := re.fullmatch(r"([\d.]+)e\+?(-?\d+)", text):
        return rf"${found[1]}\cdot10^{{{int(found[2])}}}$"
    return r"$\pm$" if text == "+-" else "".join(_SPECIAL.get(character, character) for character in text)
