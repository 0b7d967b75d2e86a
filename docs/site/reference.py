"""Pages of the site's reference, generated from parsers, recipes, the registry, the export and docstrings."""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import inspect
import re
from collections.abc import Iterable, Iterator

from t2t_lite import registry
from t2t_lite.export.export_folder import DEFAULT_SIGNATURES, SIGNATURES
from t2t_lite.recipe_text import all_groups, value_text

_RESUME = {
    "never": "no",
    "reset": "with --reset_optimizer",
    "unless_by_evaluations": "yes, but not where the schedule needs evaluations",
    "always": "yes",
}

_CODE_OR_BAR = re.compile(r"(`[^`]+`)|\|")
_CODE_OR_MARKUP = re.compile(r"(`[^`]+`)|[\\*_<>\[\]]")

_MEMBERS = {  # heading -> what mkdocstrings describes
    "Opening and using a model": [f"t2t_lite.api.load.{name}" for name in ("load", "Loaded", "LoadedRun")],
    "Data": ["t2t_lite.api.dataset.dataset", "t2t_lite.text.pairs.pairs_of"],
    "Training": ["t2t_lite.api.train.train"],
    "Problems": ["t2t_lite.problem.Problem", "t2t_lite.registry.register_problem"],
    "Recipes": ["t2t_lite.config.HParams", "t2t_lite.fields.field", "t2t_lite.registry.register_hparams"],
    "Models": ["t2t_lite.models.base.Model", "t2t_lite.models.base.Cost", "t2t_lite.registry.register_model"],
    "Errors": ["t2t_lite.errors"],
}


def pages() -> dict[str, str]:
    """The text of each page by its place in the site."""
    return {
        "reference/commands.md": "\n".join(_commands()),
        "reference/hparams.md": "\n".join(_hparams()),
        "reference/registry.md": "\n".join(_registry()),
        "reference/signatures.md": "\n".join(_signatures()),
        "reference/python.md": "\n".join(_python()),
    }


def _commands() -> Iterator[str]:
    yield "# Commands"
    yield "Every command prints this with `--help`. Flags are given by their whole names."
    for command in sorted(importlib.metadata.distribution("t2t-lite").entry_points.select(group="console_scripts")):
        parser = importlib.import_module(command.module).make_parser()
        yield f"\n## {command.name}\n\n{_text(parser.description)}\n"
        for group in parser._action_groups:
            shown = [action for action in group._group_actions if action.help != argparse.SUPPRESS]
            if not shown:
                continue
            title = (group.title or "").capitalize()
            yield f"\n**{title}**{'. ' + _text(group.description) if group.description else ''}\n"
            yield from _table(("flag", "meaning"), ((_flag(action), _text(_expanded(action))) for action in shown))
        if parser.epilog:
            yield f"\n{_text(parser.epilog)}"


def _flag(action: argparse.Action) -> str:
    names = [name for name in action.option_strings if name.startswith("--")] or [action.dest]
    values = action.metavar or ("|".join(map(str, action.choices)) if action.choices else action.dest.upper())
    return ", ".join(f"`{name}`" if action.nargs == 0 else f"`{name}={values}`" for name in names)


def _expanded(action: argparse.Action) -> str:
    """The help of a flag, with %(default)s and its like filled in."""
    return (action.help or "") % {**vars(action), "prog": ""}


def _hparams() -> Iterator[str]:
    registry.HPARAMS.load()
    yield "# Recipes and their fields"
    yield "\n`--hparams_set=NAME` names a recipe; `--hparams=FIELD=VALUE,...` changes fields of it.\n\n## Recipes\n"
    rows = ((f"`{name}`", registry.model_of(name), _text(line)) for name, line in registry.HPARAMS.describe())
    yield from _table(("recipe", "model", "what it is"), rows)
    for title, fields in all_groups().items():
        yield f"\n## {title[0].upper()}{title[1:]}\n"
        cells = (
            (
                f"`{field.name}`",
                _text(field.kind_text),
                f"`{value_text(value)}`" if value != "" else "none",
                str(field.meta.within or ""),
                _RESUME[field.meta.resume],
                _text(field.meta.meaning),
            )
            for field, value in fields
        )
        yield from _table(("field", "type", "default", "range", "may change on resume", "meaning"), cells)


def _registry() -> Iterator[str]:
    yield "# Problems and models"
    yield "\nWhat `--problem`, `--model`, `--sampler` and the fields `optimizer` and `schedule` may name."
    for title, names in registry.TABLES.items():
        if names is registry.HPARAMS:  # they have a page of their own
            continue
        yield f"\n## {title}\n"
        for name, line in names.describe():
            if names is not registry.PROBLEMS:
                yield f"- `{name}`: {_text(line)}"
                continue
            options = [_option(each) for each in inspect.signature(names.get(name)).parameters.values()]
            yield f"- `{name}`: {_text(line)}" + (f" Options: {', '.join(options)}." if options else "")
    yield "\nA problem's name with `_rev` behind it is the same problem from target to source."


def _option(parameter: inspect.Parameter) -> str:
    default = parameter.default
    return f"`{parameter.name}`" if default in (parameter.empty, None) else f"`{parameter.name}={default}`"


def _signatures() -> Iterator[str]:
    from t2t_lite.export.saved_model import ServedModel  # loads TensorFlow

    yield "# Export signatures"
    yield "\nWhat a SavedModel of `t2t-lite-exporter` answers; [serving.md](../serving.md) has requests and answers."
    for name in SIGNATURES:
        chosen = "In each export that does not choose others" if name in DEFAULT_SIGNATURES else "Asked for by name"
        yield f"\n## {name}\n\n{'Always there' if name == 'serving_default' else chosen}.\n"
        yield inspect.getdoc(getattr(ServedModel, f"_{name}"))


def _python() -> Iterator[str]:
    yield "# Python"
    names = "`t2t_lite.load`, `t2t_lite.train`, `t2t_lite.dataset`, `t2t_lite.Problem`, `t2t_lite.HParams`"
    yield f"\n{names} and `t2t_lite.register_*` are"
    yield "imported from the package itself. [From Python](../python.md) is the way in."
    for title, names in _MEMBERS.items():
        yield f"\n## {title}\n"
        yield from (f"::: {name}\n" for name in names)


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    head = list(head)
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(_CODE_OR_BAR.sub(lambda found: found[1] or '&#124;', cell) for cell in row)} |"


def _text(text: str | None) -> str:
    """Plain text as Markdown: markup outside of code spans stands for itself, and names keep their underscores."""
    return _CODE_OR_MARKUP.sub(lambda found: found[1] or f"\\{found[0]}", text or "")
