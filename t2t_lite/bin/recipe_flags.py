"""The flags that name a recipe and change it: an hparams set < a file < --hparams < --train_steps."""

from __future__ import annotations

import argparse
import functools
import json
import sys
from typing import Any, NamedTuple

from t2t_lite import config, registry
from t2t_lite.errors import DataError, UsageError


class RecipeFile(NamedTuple):
    """What --hparams_file holds; the names are None where the file holds values alone."""

    values: dict[str, Any]
    hparams_set: str | None = None
    model: str | None = None


def add_recipe_flags(parser: argparse.ArgumentParser, of: str = "") -> None:
    """Adds the flags; their help starts with `of`."""
    parser.add_argument("--hparams_set", metavar="NAME", help=f"{of}the recipe; default: the problem's own")
    parser.add_argument(
        "--hparams_file",
        metavar="FILE",
        help=f"{of}changes to the recipe in JSON: {{NAME: VALUE, ...}}, or a run's hparams.json, whose hparams set and "
        "model then are the defaults",
    )
    parser.add_argument(
        "--hparams",
        action="append",
        metavar="NAME=VALUE,...",
        help=f"{of}changes to the recipe (after those of --hparams_file), such as dropout=0.2; may be given again",
    )


def read_file(args: argparse.Namespace) -> RecipeFile:
    """Reads --hparams_file; nothing is changed where it is not given.

    Raises:
        DataError: the file cannot be read, or is not JSON.
        UsageError: it holds something else than hparams.
    """
    return RecipeFile({}) if args.hparams_file is None else _read(args.hparams_file)


@functools.cache  # a pipe, such as <(...) of a shell, can be read once
def _read(path: str) -> RecipeFile:
    try:
        with open(path, encoding="utf-8") as file:
            content = json.load(file, object_pairs_hook=_each_once)
    except UsageError as error:
        raise UsageError(f"--hparams_file={path}: {error}") from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"--hparams_file={path} is not JSON: {error}.") from None
    if not isinstance(content, dict):
        raise UsageError(f'--hparams_file={path} holds no JSON object; write {{"dropout": 0.2}}, for example.')
    if not isinstance(content.get("hparams"), dict):
        return RecipeFile(content)
    names = {name: content.get(name) for name in ("hparams_set", "model")}
    for name, value in names.items():
        if not isinstance(value, str | None):
            raise UsageError(f"--hparams_file={path}: {name} is {value!r}, not a name.")
    return RecipeFile(content["hparams"], **names)


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Makes an object of its entries; JSON itself would take the last of a repeated name in silence."""
    values: dict[str, Any] = {}
    for name, value in pairs:
        if name in values:
            raise UsageError(f"{name!r} is given twice: {values[name]!r} and {value!r}.")
        values[name] = value
    return values


def changed(hparams: config.HParams, args: argparse.Namespace) -> config.HParams:
    """Returns `hparams` as the file and the flags change them, in this order.

    Raises:
        UsageError: an unknown name, a value out of range, or a name given twice in --hparams.
    """
    try:
        hparams = config.replace(hparams, **read_file(args).values)
    except UsageError as error:
        raise UsageError(f"--hparams_file={args.hparams_file}: {error}") from None
    hparams = config.override(hparams, ",".join(args.hparams or []))
    steps = getattr(args, "train_steps", None)
    return hparams if steps is None else config.replace(hparams, train_steps=steps)


def recipe(args: argparse.Namespace, default: str) -> tuple[str, config.HParams]:
    """Returns the hparams set's name and the recipe; `default` is the set where none is named."""
    name = args.hparams_set or read_file(args).hparams_set or default
    return name, changed(registry.hparams(name), args)


def model(args: argparse.Namespace, default: str) -> str:
    """Returns the model's name: --model, or that of --hparams_file, or `default`.

    Raises:
        UsageError: there is no such model.
    """
    name = args.model or read_file(args).model or default
    registry.MODELS.check(name)
    if default not in (name, registry.DEFAULT_MODEL):
        print(
            f"warning: this hparams set is a recipe of the model {default}; {name} ignores what only {default} reads.",
            file=sys.stderr,
        )
    return name
