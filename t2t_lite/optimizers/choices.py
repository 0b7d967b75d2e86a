"""The optimizer and the schedule that a recipe names, made with the fields that their constructors name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal

from t2t_lite import config, registry
from t2t_lite.config import HParams
from t2t_lite.errors import UsageError, did_you_mean
from t2t_lite.fields import Field
from t2t_lite.recipe_text import value_text
from t2t_lite.schedules.base import Schedule

if TYPE_CHECKING:
    from t2t_lite.optimizers.base import Optimizer

Kind = Literal["optimizer", "schedule"]


def make_optimizer(hparams: HParams, variables: Sequence[Any]) -> Optimizer:
    """The optimizer, with fresh slots for `variables`, a fresh loss scale for float16, and the average of `ema`.

    Raises:
        UsageError: there is none of this name, it does not read a field that was changed, or it is not an Optimizer.
    """
    from t2t_lite.optimizers.base import Optimizer
    from t2t_lite.optimizers.ema import Ema
    from t2t_lite.optimizers.loss_scale import LossScale

    _check_read(hparams, "optimizer")
    found: Optimizer = _make("optimizer", Optimizer, hparams, variables=variables)
    if hparams.precision == "float16":
        found.loss_scale = LossScale()
    if hparams.ema:
        found.ema = Ema(hparams.ema, variables)
    return found


def make_schedule(hparams: HParams, d_model: int) -> Schedule:
    """The learning rate by step; raises UsageError as `make_optimizer`, and if a field that it needs is not given.

    Args:
        d_model: the model's; see `model_schedule`.
    """
    _check_read(hparams, "schedule")
    found: Schedule = _make("schedule", Schedule, hparams, d_model=d_model)
    return found


def model_schedule(hparams: HParams, model: Any) -> Schedule:
    """The schedule of a model's training; its d_model is the width of what the model's softmax layer is given."""
    return make_schedule(hparams, model.output()[0].shape[-1])


def check_choices(hparams: HParams, load_tensorflow: Callable[[], None]) -> None:
    """Raises UsageError as the two above would, with all fields that neither reads; loads TensorFlow only if needed."""
    registry.OPTIMIZERS.check(hparams.optimizer)
    custom = hparams.optimizer != HParams.optimizer or bool(_changed(hparams, "optimizer"))
    if custom:
        load_tensorflow()
    _check_read(hparams, *(("optimizer", "schedule") if custom else ("schedule",)))
    make_schedule(hparams, d_model=1)
    if custom:
        make_optimizer(hparams, [])


def by_evaluations(hparams: HParams) -> bool:
    """Whether the learning rate depends on evaluations."""
    return bool(getattr(_chosen("schedule", hparams), "needs_evaluations", False))


def reader_of(field: str, hparams: HParams) -> str | None:
    """Returns "schedule=NAME" or "optimizer=NAME" if the recipe's schedule or optimizer reads `field`, else None."""
    # The default optimizer reads the adam_* fields alone; to ask it would load TensorFlow.
    kinds: list[Kind] = ["schedule", "optimizer"] if hparams.optimizer != HParams.optimizer else ["schedule"]
    readers = (f"{kind}={getattr(hparams, kind)}" for kind in kinds if field in _read(kind, hparams))
    return next(readers, None)


def _chosen(kind: Kind, hparams: HParams) -> Any:
    """The class of the recipe's optimizer or schedule."""
    return (registry.OPTIMIZERS if kind == "optimizer" else registry.SCHEDULES).get(getattr(hparams, kind))


def _read(kind: Kind, hparams: HParams) -> list[str]:
    """The fields that the constructor of the recipe's optimizer or schedule names; d_model is the model's."""
    fields = config.fields(type(hparams)).keys() - {"d_model"}
    return [name for name in registry.options_of(_chosen(kind, hparams))[0] if name in fields]


def _changed(hparams: HParams, kind: Kind) -> list[Field]:
    """The fields not at their default that only optimizers (or schedules) whose constructors name them read."""
    declared = config.fields(type(hparams)).values()
    return [field for field in declared if field.meta.read_by == kind and getattr(hparams, field.name) != field.default]


def _check_read(hparams: HParams, *kinds: Kind) -> None:
    """Raises UsageError with all changed fields of these kinds that the chosen optimizer or schedule does not read."""
    sentences = []
    for kind in kinds:
        read = _read(kind, hparams)
        if unread := [field for field in _changed(hparams, kind) if field.name not in read]:
            changed = ", ".join(f"{field.name}={value_text(getattr(hparams, field.name))}" for field in unread)
            defaults = ", ".join(f"{field.name}={value_text(field.default)}" for field in unread)
            sentences.append(
                f"{kind}={getattr(hparams, kind)} does not read {changed} (it reads {', '.join(read) or 'no field'}). "
                f"Take the default, {defaults}."
            )
    if sentences:
        raise UsageError(f"hparams: {' '.join(sentences)}")


def _make(kind: Kind, base: type, hparams: HParams, **given: Any) -> Any:
    """Calls the chosen class with the arguments that it asks for: those in `given`, and fields of the recipe."""
    made = _chosen(kind, hparams)
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
