"""--problem_options, --sampler_options: values for a constructor, each read as its parameter's type."""

from __future__ import annotations

import inspect
import re
import types
import typing
from collections.abc import Sequence
from typing import Any

from t2t_lite import registry
from t2t_lite.errors import UsageError, check_options
from t2t_lite.fields import read_value


def problem_options(problem: str, texts: Sequence[str]) -> dict[str, Any]:
    """Reads the options of a problem.

    Args:
        problem: its registered name.
        texts: each "name=value,...". A comma is part of the value unless a name and an equals sign follow it.

    Raises:
        UsageError: no such option, one given twice, or a value of another type.
    """
    return _options("problem", problem, registry.PROBLEMS.get(problem), texts)


def sampler_options(sampler: str, texts: Sequence[str]) -> dict[str, Any]:
    """Reads the options of a sampler, as `problem_options` does; imports TensorFlow."""
    return _options("sampler", sampler, registry.SAMPLERS.get(sampler), texts)


def _options(kind: str, owner: str, made: Any, texts: Sequence[str]) -> dict[str, Any]:
    if not texts:
        return {}
    flag = f"--{kind}_options"
    try:
        parameters, others = registry.options_of(made, eval_str=True)
    except NameError as error:
        raise UsageError(
            f"{flag}: the types of the options of the {kind} {owner!r} cannot be read: {error}. Import them in its "
            "file outside of TYPE_CHECKING."
        ) from None
    values: dict[str, Any] = {}
    for item in (item for text in texts for item in re.split(r",(?=\s*\w+\s*=)", text)):
        name, equals, value = (part.strip() for part in item.partition("="))
        if not equals or not name:
            raise UsageError(f"{flag}={item} is not of the form name=value.")
        if not others:
            check_options(f"The {kind} {owner!r}", [name], parameters)
        if name in values:
            raise UsageError(f"{flag}: {name} is given twice: {values[name]} and {value}.")
        values[name] = _parsed(flag, name, value, _kind(parameters[name]) if name in parameters else str)
    return values


def _kind(parameter: inspect.Parameter) -> Any:
    """Returns the type of a parameter without None; if it has no annotation, the type of its default."""
    kind = parameter.annotation
    if kind is parameter.empty:
        kind = type(parameter.default) if isinstance(parameter.default, bool | int | float) else str
    if typing.get_origin(kind) in (types.UnionType, typing.Union):
        others = [one for one in typing.get_args(kind) if one is not type(None)]
        kind = others[0] if len(others) == 1 else str
    return kind


def _parsed(flag: str, name: str, text: str, kind: Any) -> Any:
    try:
        return read_value(kind, text)
    except ValueError as error:
        raise UsageError(f"{flag}: {name}={text:.60} is not {error}") from None
    except TypeError:
        kind_name = getattr(kind, "__name__", kind)
        raise UsageError(f"{flag}: {name} is of the type {kind_name}, which has no form on a command line.") from None
