"""Recipes as text: what each field means, and the values of a whole recipe."""

import textwrap
from collections.abc import Iterable, Mapping
from typing import Any

from t2t_lite import config
from t2t_lite.config import HParams
from t2t_lite.fields import Field

Rows = Mapping[str, Iterable[tuple[Field, Any]]]  # fields and their values by the title of the group


def help_text(hparams: HParams, of: str) -> str:
    """Returns a line for each field of a recipe: type, value, range and meaning; `of` says whose values they are."""
    return _table(groups(hparams), of)


def help_of_all() -> str:
    """Returns the same for the fields of all models, with their defaults."""
    return _table(all_groups(), "their defaults")


def all_groups() -> Rows:
    """Returns the fields of all models and their defaults; the models' own groups come before the others."""
    found: dict[str, Iterable[tuple[Field, Any]]] = {}
    for cls in config.families().values():
        title = config.group_title(cls, "model")
        found[title] = [(field, field.default) for field in config.model_fields(cls)]
    return found | groups(HParams())


def recipe(hparams: HParams) -> str:
    """Returns all values of a recipe by group, several to a line; a star marks those that are not the default."""
    lines = ["Recipe (* differs from the default):"]
    for title, rows in groups(hparams).items():
        items = [f"{field.name}={value_text(value)}{'' if value == field.default else '*'}" for field, value in rows]
        wrapped = textwrap.wrap(", ".join(items), 116, break_long_words=False, break_on_hyphens=False)
        lines += [f"  {title}:", *(f"    {line}" for line in wrapped)]
    return "\n".join(lines)


def value_text(value: Any) -> str:
    """Returns a value as --hparams takes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def groups(hparams: HParams) -> dict[str, list[tuple[Field, Any]]]:
    """Returns the fields of a recipe and their values by group."""
    found: dict[str, list[tuple[Field, Any]]] = {}
    for name, field in config.fields(type(hparams)).items():
        found.setdefault(config.group_title(type(hparams), field.group), []).append((field, getattr(hparams, name)))
    return found


def _table(groups: Rows, of: str) -> str:
    cells = {
        title: [
            (field.name, field.kind_text, value_text(value), str(field.meta.within or ""), field.meta.meaning)
            for field, value in rows
        ]
        for title, rows in groups.items()
    }
    widths = [max(map(len, column)) for column in zip(*(row for rows in cells.values() for row in rows), strict=True)]
    lines = [f"Hparams, with {of}; change them with --hparams=NAME=VALUE,..."]
    for title, rows in cells.items():
        lines += ["", f"{title}:"]
        for row in rows:
            columns = [f"{text:<{width}}" for text, width in zip(row[:-1], widths, strict=False)]
            lines.append(f"  {'  '.join(columns)}  {row[-1]}".rstrip())
    return "\n".join(lines)
