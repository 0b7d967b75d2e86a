"""The optimizer and the schedule that a recipe names, made with the fields that their constructors name.

The only reader of those fields of HParams.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from t2t_lite import config, registry
from t2t_lite.config import HParams
from t2t_lite.errors import UsageError, did_you_mean
from t2t_lite.recipe_text import value_text
from t2t_lite.schedules.base import Schedule

if TYPE_CHECKING:
    from t2t_lite.optimizers.base import Optimizer


def make_optimizer(hparams: HParams, variables: Sequence[Any]) -> Optimizer:
    """The optimizer, with fresh slots for `variables`.

    Raises:
        UsageError: there is none of this name, it does not read a field that was changed, or it is not an Optimizer.
    """
    from t2t_lite.optimizers.base import Optimizer

    found: Optimizer = _make("optimizer", _optimizer_class(hparams), Optimizer, hparams, variables=variables)
    return found


def make_schedule(hparams: HParams, d_model: int) -> Schedule:
    """The learning rate by step; raises UsageError as `make_optimizer`, and if a field that it needs is not given.

    Args:
        d_model: the model's; see `model_schedule`.
    """
    _check_read("schedule", hparams.schedule, _schedule_class(hparams), hparams)
    found: Schedule = _make("schedule", _schedule_class(hparams), Schedule, hparams, d_model=d_model)
    return found


def model_schedule(hparams: HParams, model: Any) -> Schedule:
    """The schedule of a model's training; its d_model is the width of what the model's softmax layer is given."""
    return make_schedule(hparams, model.output()[0].shape[-1])


def check_choices(hparams: HParams, load_tensorflow: Callable[[], None]) -> None:
    """Raises UsageError as the two above would; TensorFlow is loaded only if needed."""
    registry.OPTIMIZERS.check(hparams.optimizer)
    make_schedule(hparams, d_model=1)
    if hparams.optimizer != HParams.optimizer or _changed(hparams, "optimizer"):
        load_tensorflow()
        make_optimizer(hparams, [])


def by_evaluations(hparams: HParams) -> bool:
    """Whether the learning rate depends on evaluations."""
    return bool(getattr(_schedule_class(hparams), "listens", False))


def _schedule_class(hparams: HParams) -> Any:
    return registry.SCHEDULES.get(hparams.schedule)


def _optimizer_class(hparams: HParams) -> Any:
    found = registry.OPTIMIZERS.get(hparams.optimizer)
    _check_read("optimizer", hparams.optimizer, found, hparams)
    return found


def _only_read_by(kind: str, hparams: HParams) -> dict[str, Any]:
    """Fields, with their defaults, that only optimizers (or schedules) whose constructors name them read."""
    return {name: field.default for name, field in config.fields(type(hparams)).items() if field.meta.read_by == kind}


def _changed(hparams: HParams, kind: str) -> list[str]:
    return [name for name, default in _only_read_by(kind, hparams).items() if getattr(hparams, name) != default]


def _check_read(kind: str, name: str, made: Any, hparams: HParams) -> None:
    """Raises UsageError if a field of this kind is not at its default, and `made` does not read it."""
    fields = _only_read_by(kind, hparams)
    read = [field for field in fields if field in registry.options_of(made)[0]]
    for field in _changed(hparams, kind):
        if field not in read:
            default = value_text(fields[field])
            raise UsageError(
                f"hparams: {kind}={name} does not read {field}={value_text(getattr(hparams, field))} (it reads "
                f"{', '.join(read) or 'no field of its own'}); leave it at its default, {field}={default}."
            )


def _make(kind: str, made: Any, base: type, hparams: HParams, **given: Any) -> Any:
    """Calls `made` with the arguments that it asks for: those in `given`, and fields of the recipe."""
    where = f"The {kind} {made.__module__}.{made.__qualname__}"
    registry.check_class(where, made, base)
    known = list(config.fields(type(hparams)))
    values = {}
    for name, parameter in registry.options_of(made)[0].items():
        if name in given:
            values[name] = given[name]
        elif name in known:
            values[name] = getattr(hparams, name)
        elif parameter.default is parameter.empty:
            raise UsageError(
                f"{where} asks for {name!r}, which is no field of a recipe.{did_you_mean(name, known)} Give it a "
                "default, or take a field's name."
            )
    return made(**values)
