"""Reader of the tables that hold the words of the made-up problems."""

from pathlib import Path


def read(name: str) -> dict[str, list[list[str]]]:
    """Returns the tables of a file of this folder: rows by the name of the table, each row split at spaces.

    `[name]` opens a table, and "#" a comment. What follows a name on its line is a comment, too. An underscore stands
    for a space; a lone underscore is an empty cell.
    """
    tables: dict[str, list[list[str]]] = {}
    for line in Path(__file__).with_name(name).read_text(encoding="utf-8").split("\n"):
        cells = line.partition("#")[0].split()
        if cells and cells[0].startswith("["):
            rows = tables.setdefault(cells[0].strip("[]"), [])
        elif cells:
            rows.append(["" if cell == "_" else cell.replace("_", " ") for cell in cells])
    return tables


def by_first(rows: list[list[str]]) -> dict[str, list[list[str]]]:
    """Returns rows by their first cell, which is removed."""
    groups: dict[str, list[list[str]]] = {}
    for first, *rest in rows:
        groups.setdefault(first, []).append(rest)
    return groups
