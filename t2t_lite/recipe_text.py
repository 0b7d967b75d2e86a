"""Recipes as text: what each hparam means, read from the comments beside it, and the values of a whole recipe."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import io
import textwrap
import tokenize
import typing
from typing import Any, Literal

from t2t_lite.config import HParams


@dataclasses.dataclass(frozen=True)
class Field:
    """One field of HParams, or of a recipe's own subclass.

    Attributes:
        group: the comment above its group, such as "Model (section 3, Table 3)".
        kind: of its values, such as "int" or "post|pre".
        meaning: the comment beside it; "" where there is none.
    """

    name: str
    group: str
    kind: str
    default: Any
    meaning: str


def fields(cls: type[HParams]) -> list[Field]:
    """The fields of `cls` in order; group and meaning are "" where the source of a class is not at hand."""
    comments: dict[str, tuple[str, str]] = {}
    for base in reversed(cls.__mro__):
        if dataclasses.is_dataclass(base):
            comments |= _comments(base)
    kinds = typing.get_type_hints(cls)
    return [
        Field(field.name, group, _kind(kinds[field.name]), field.default, meaning)
        for field in dataclasses.fields(cls)
        for group, meaning in [comments.get(field.name, ("", ""))]
    ]


def help_text(hparams: HParams, of: str) -> str:
    """Returns a line for each field of a recipe: its type, its value, its meaning; `of` says whose values they are."""
    rows = [(field, field.kind, value_text(getattr(hparams, field.name))) for field in fields(type(hparams))]
    widths = [max(map(len, column)) for column in zip(*((f.name, kind, value) for f, kind, value in rows), strict=True)]
    lines = [f"Hparams, with {of}; change them with --hparams=NAME=VALUE,..."]
    group = None
    for field, kind, value in rows:
        if field.group != group:
            group = field.group
            lines += ["", f"{group or 'Others'}:"]
        cells = zip((field.name, kind, value), widths, strict=True)
        lines.append(f"  {'  '.join(f'{text:<{width}}' for text, width in cells)}  {field.meaning}".rstrip())
    return "\n".join(lines)


def recipe(hparams: HParams) -> str:
    """Returns all values of a recipe by group, several to a line; a star marks those that are not the paper's base."""
    groups: dict[str, list[str]] = {}
    for field in fields(type(hparams)):
        value = getattr(hparams, field.name)
        star = "" if value == field.default else "*"
        groups.setdefault(field.group or "Others", []).append(f"{field.name}={value_text(value)}{star}")
    lines = ["Recipe (* differs from the paper's base):"]
    for group, items in groups.items():
        wrapped = textwrap.wrap(", ".join(items), 116, break_long_words=False, break_on_hyphens=False)
        lines += [f"  {group}:", *(f"    {line}" for line in wrapped)]
    return "\n".join(lines)


def value_text(value: Any) -> str:
    """Returns a value as --hparams takes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _kind(kind: Any) -> str:
    if typing.get_origin(kind) is Literal:
        return "|".join(map(str, typing.get_args(kind)))
    return "true|false" if kind is bool else str(getattr(kind, "__name__", kind))


def _comments(cls: type) -> dict[str, tuple[str, str]]:
    """Name -> (comment above its group, comment beside it) of the fields that `cls` itself declares."""
    try:
        source = textwrap.dedent(inspect.getsource(cls))
    except OSError:  # compiled code without its source
        return {}
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    comments = {token.start[0]: token for token in tokens if token.type == tokenize.COMMENT}
    lines = source.split("\n")
    found: dict[str, tuple[str, str]] = {}
    group, last = "", 0
    [body] = [node.body for node in ast.parse(source).body if isinstance(node, ast.ClassDef)]
    for node in body:
        if not (isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)):
            continue
        above = [n for n in comments if last < n < node.lineno and lines[n - 1].lstrip().startswith("#")]
        if above:
            group = " ".join(_text(comments[n]) for n in above).removesuffix(".")
        last = node.end_lineno or node.lineno
        found[node.target.id] = (group, _text(comments[last]) if last in comments else "")
    return found


def _text(token: tokenize.TokenInfo) -> str:
    return token.string.lstrip("#").strip()
