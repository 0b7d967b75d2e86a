"""RecipeRequest: an hparams set, changed by a file, then by single values."""

from __future__ import annotations

import dataclasses
import functools
import json
import logging
from collections.abc import Mapping
from typing import Any, NamedTuple

from t2t_lite import config, registry
from t2t_lite.errors import DataError, UsageError
from t2t_lite.recipe_text import value_text

_log = logging.getLogger("t2t_lite")


class Recipe(NamedTuple):
    """A recipe by name, the model that it is for, and its values."""

    hparams_set: str
    model: str
    hparams: config.HParams


@dataclasses.dataclass(frozen=True, kw_only=True)
class RecipeRequest:
    """A recipe, as asked for: a set < a file < overrides.

    Attributes:
        hparams_set: a registered name; None: that of the file, else the problem's own.
        hparams_file: JSON: values by name, or a run's hparams.json, whose set and model are the defaults.
        model: a registered name; None: that of the file, else of the set.
        overrides: values by name; each is read as its field's type.
    """

    hparams_set: str | None = None
    hparams_file: str | None = None
    model: str | None = None
    overrides: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def named_set(self) -> str | None:
        """The hparams set that the request or its file names."""
        return self.hparams_set or self._file.hparams_set

    def make(self, default: str) -> Recipe:
        """Returns the recipe; `default` is the hparams set where none is named. Raises as `change`."""
        name = self.named_set or default
        return self.change(Recipe(name, registry.model_of(name), registry.hparams(name)))

    def change(self, start: Recipe) -> Recipe:
        """Returns `start` changed by the requested model, the file and the overrides, in this order.

        Settings of `start` or of a run's file that the requested model does not read are left out with a warning.

        Raises:
            UsageError, DataError: an unknown name, an invalid value, or a file that cannot be read.
        """
        file, hparams = self._file, start.hparams
        model = self.model or file.model or start.model
        try:
            registry.MODELS.check(model)
        except UsageError as error:
            raise (
                error if model != start.model else UsageError(f"The hparams set {start.hparams_set!r}: {error}")
            ) from None
        if model != start.model:
            hparams, left_out = config.convert(hparams, config.recipe_class(model) or type(hparams))
            _warn(left_out, model, f"the hparams set {start.hparams_set}")
        values = file.values
        if file.of_run:
            values, left_out = config.drop_others(type(hparams), values)
            _warn(left_out, model, str(self.hparams_file))
        try:
            hparams = config.replace(hparams, **values)
        except UsageError as error:
            raise UsageError(f"--hparams_file={self.hparams_file}: {error}") from None
        return Recipe(start.hparams_set, model, config.override(hparams, self.overrides))

    @property
    def _file(self) -> _RecipeFile:
        return _RecipeFile({}) if self.hparams_file is None else _read(self.hparams_file)


class _RecipeFile(NamedTuple):
    """Content of a recipe's file: values alone, or a run's hparams.json, which also has names."""

    values: dict[str, Any]
    of_run: bool = False
    hparams_set: str | None = None
    model: str | None = None


@functools.cache  # a pipe, such as a shell's <(...), can be read only once
def _read(path: str) -> _RecipeFile:
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
        return _RecipeFile(content)
    names = {name: content.get(name) for name in ("hparams_set", "model")}
    for name, value in names.items():
        if not isinstance(value, str | None):
            raise UsageError(f"--hparams_file={path}: {name} is {value!r}, not a name.")
    return _RecipeFile(content["hparams"], of_run=True, **names)


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Makes a dict of an object's entries; rejects a repeated name, of which JSON would silently take the last."""
    values: dict[str, Any] = {}
    for name, value in pairs:
        if name in values:
            raise UsageError(f"{name!r} is given twice: {values[name]!r} and {value!r}.")
        values[name] = value
    return values


def _warn(left_out: dict[str, Any], model: str, where: str) -> None:
    if left_out:
        values = ", ".join(f"{name}={value_text(value)}" for name, value in left_out.items())
        _log.warning("warning: the model %s does not read %s of %s; left out.", model, values, where)
