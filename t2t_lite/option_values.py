"""Options of problems and samplers: values for a constructor, where text is read as its parameter's type."""

import inspect
import types
import typing
from collections.abc import Mapping
from typing import Any

from t2t_lite import registry
from t2t_lite.errors import UsageError, check_options
from t2t_lite.fields import read_value
from t2t_lite.problem import COMMON_OPTIONS


def problem_options(problem: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Reads the options of a problem.

    Args:
        problem: its registered name.
        given: values by name. Text is read as the type of the constructor's parameter; other values stay as they are.

    Raises:
        UsageError: no such option, or text that is no value of its type.
    """
    return _read("problem", problem, registry.PROBLEMS.get(problem), given, dict.fromkeys(COMMON_OPTIONS, bool))


def sampler_options(sampler: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Reads the options of a sampler, as `problem_options` does; imports TensorFlow."""
    return _read("sampler", sampler, registry.SAMPLERS.get(sampler), given, {})


def _read(kind: str, owner: str, made: Any, given: Mapping[str, Any], common: Mapping[str, Any]) -> dict[str, Any]:
    """Reads `given` as options of `made`, or as one of `common`, whose types are given by name."""
    if not given:
        return {}
    flag = f"--{kind}_options"
    try:
        parameters, others = registry.options_of(made, eval_str=True)
    except NameError as error:
        raise UsageError(
            f"{flag}: the types of the options of the {kind} {owner!r} cannot be read: {error}. Import them in its "
            "file outside of TYPE_CHECKING."
        ) from None
    kinds = {**common, **{name: _kind(parameter) for name, parameter in parameters.items()}}
    if not others:
        check_options(f"The {kind} {owner!r}", [name for name in given if name not in common], parameters)
    return {
        name: _parse(flag, name, value, kinds.get(name, str)) if isinstance(value, str) else value
        for name, value in given.items()
    }


def _kind(parameter: inspect.Parameter) -> Any:
    """Returns the type of a parameter without None; if it has no annotation, the type of its default."""
    kind = parameter.annotation
    if kind is parameter.empty:
        kind = type(parameter.default) if isinstance(parameter.default, bool | int | float) else str
    if typing.get_origin(kind) in (types.UnionType, typing.Union):
        others = [one for one in typing.get_args(kind) if one is not type(None)]
        kind = others[0] if len(others) == 1 else str
    return kind


def _parse(flag: str, name: str, text: str, kind: Any) -> Any:
    try:
        return read_value(kind, text)
    except ValueError as error:
        raise UsageError(f"{flag}: {name}={text:.60} is not {error}") from None
