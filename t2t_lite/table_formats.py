"""Tables of scores as plain text, Markdown, CSV and LaTeX."""

import csv
import dataclasses
import io
import re
from collections.abc import Callable, Sequence
from typing import Any

_OF_LATEX = {
    **{character: f"\\{character}" for character in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "|": r"\textbar{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    '"': "''",  # straight quotes need another encoding of fonts
}


@dataclasses.dataclass(frozen=True)
class Table:
    """A table.

    Attributes:
        title: what it is about; not in CSV.
        head, rows: the cells as people read them.
        names, values: the columns of CSV and their cells, with all digits; None: an empty cell.
        notes: what the columns mean and how scores were computed; not in CSV, whose columns say it.
    """

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    names: Sequence[str]
    values: Sequence[Sequence[Any]]
    notes: Sequence[str]

    def format(self, form: str) -> str:
        """Returns the text, with a line break at its end; `form` is one of FORMATS."""
        return FORMATS[form](self)


def _text(table: Table) -> str:
    cells = [table.head, *table.rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = [
        f"{line[0]:<{widths[0]}}  " + "  ".join(f"{c:>{w}}" for c, w in zip(line[1:], widths[1:], strict=True))
        for line in cells
    ]
    return "\n".join([table.title, *(line.rstrip() for line in lines), *table.notes, ""])


def _markdown(table: Table) -> str:
    head, *rows = ["| " + " | ".join(map(_in_markdown, line)) + " |" for line in (table.head, *table.rows)]
    rule = "|---|" + "---:|" * (len(table.head) - 1)
    notes = [f"- {_in_markdown(note)}" for note in table.notes]
    return "\n".join([_in_markdown(table.title), "", head, rule, *rows, "", *notes, ""])


def _in_markdown(text: str) -> str:
    return re.sub(r"([\\`*_{}\[\]<>#|~&])", r"\\\1", text)


def _csv(table: Table) -> str:
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(table.names)
    writer.writerows(table.values)
    return file.getvalue()


def _latex(table: Table) -> str:
    """A tabular for the package booktabs, with title and notes as comments."""
    # "{}": after \\ or \midrule, LaTeX would take [ and * for an argument.
    lines = [" & ".join(map(_in_latex, line)) + r" \\" for line in (table.head, *table.rows)]
    head, *rows = [re.sub(r"\A(?=[\[*])", "{}", line) for line in lines]
    return "\n".join(
        [
            f"% {table.title}; needs \\usepackage{{booktabs}}",
            rf"\begin{{tabular}}{{l{'r' * (len(table.head) - 1)}}}",
            *(r"\toprule", head, r"\midrule", *rows, r"\bottomrule"),
            r"\end{tabular}",
            *(f"% {note}" for note in table.notes),
            "",
        ]
    )


def _in_latex(text: str) -> str:
    """Returns a cell with LaTeX's special characters escaped; 2.30e+13 is a power of ten."""
    if found := re.fullmatch(r"([\d.]+)e\+?(-?\d+)", text):
        return rf"${found[1]}\cdot10^{{{int(found[2])}}}$"
    return r"$\pm$" if text == "+-" else "".join(_OF_LATEX.get(character, character) for character in text)


FORMATS: dict[str, Callable[[Table], str]] = {"text": _text, "markdown": _markdown, "csv": _csv, "latex": _latex}
