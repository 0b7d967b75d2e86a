"""The flags that name a recipe and change it: an hparams set < a file < --hparams < --train_steps."""

from __future__ import annotations

import argparse
import functools
import json
import sys
from typing import Any, NamedTuple

from t2t_lite import config, registry
from t2t_lite.errors import DataError, UsageError
from t2t_lite.recipe_text import value_text


class RecipeFile(NamedTuple):
    """Content of --hparams_file: values alone, or a run's hparams.json, which also has names."""

    values: dict[str, Any]
    of_run: bool = False
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
    """Reads --hparams_file; returns no changes if it is not given.

    Raises:
        DataError: the file cannot be read, or is not JSON.
        UsageError: it holds something other than hparams.
    """
    return RecipeFile({}) if args.hparams_file is None else _read(args.hparams_file)


@functools.cache  # a pipe, such as a shell's <(...), can be read only once
def _read(path: str) -> RecipeFile:
    try:
        with open(path, "rb") as file:  # json finds out whether it is UTF-8 or UTF-16, with or without a mark
            content = json.loads(file.read(), object_pairs_hook=_each_once)
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
    return RecipeFile(content["hparams"], of_run=True, **names)


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Makes a dict of an object's entries; rejects a repeated name, of which JSON would silently take the last."""
    values: dict[str, Any] = {}
    for name, value in pairs:
        if name in values:
            raise UsageError(f"{name!r} is given twice: {values[name]!r} and {value!r}.")
        values[name] = value
    return values


class Recipe(NamedTuple):
    """A recipe by name, the model that it is for, and its values."""

    hparams_set: str
    model: str
    hparams: config.HParams


def recipe(args: argparse.Namespace, default: str) -> Recipe:
    """Returns the recipe that the flags ask for; `default` is the hparams set where none is named.

    Raises:
        UsageError: as `changed`.
    """
    name = args.hparams_set or read_file(args).hparams_set or default
    return changed(Recipe(name, registry.model_of(name), registry.hparams(name)), args)


def changed(start: Recipe, args: argparse.Namespace) -> Recipe:
    """Returns `start` changed by the requested model, the file and the flags, in this order.

    Settings of `start` or of a run's file that the requested model does not read are left out with a warning.

    Raises:
        UsageError: there is no such model, an unknown name, a setting that the model does not read, a value out of
            range, or a name given twice in --hparams.
    """
    file, hparams = read_file(args), start.hparams
    model = getattr(args, "model", None) or file.model or start.model
    try:
        registry.MODELS.check(model)
    except UsageError as error:
        raise error if model != start.model else UsageError(f"The hparams set {start.hparams_set!r}: {error}") from None
    if model != start.model:
        hparams, left_out = config.convert(hparams, config.recipe_class(model) or type(hparams))
        _warn(left_out, model, f"the hparams set {start.hparams_set}")
    values = file.values
    if file.of_run:
        values, left_out = config.without_others(type(hparams), values)
        _warn(left_out, model, args.hparams_file)
    try:
        hparams = config.replace(hparams, **values)
    except UsageError as error:
        raise UsageError(f"--hparams_file={args.hparams_file}: {error}") from None
    hparams = config.override(hparams, ",".join(args.hparams or []))
    steps = getattr(args, "train_steps", None)
    return Recipe(start.hparams_set, model, hparams if steps is None else config.replace(hparams, train_steps=steps))


def _warn(left_out: dict[str, Any], model: str, where: str) -> None:
    if left_out:
        values = ", ".join(f"{name}={value_text(value)}" for name, value in left_out.items())
        print(f"warning: the model {model} does not read {values} of {where}; left out.", file=sys.stderr)
