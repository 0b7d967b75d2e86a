"""A tensor2tensor training as fields of a recipe: what an import takes over from it, and what it cannot."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from t2t_lite.errors import DataError, UsageError

# tensor2tensor's name -> ours.
FIELDS = {
    "layer_prepostprocess_dropout": "dropout",
    "attention_dropout": "attention_dropout",
    "relu_dropout": "relu_dropout",
    "label_smoothing": "label_smoothing",
    "optimizer_adam_beta1": "adam_beta1",
    "optimizer_adam_beta2": "adam_beta2",
    "optimizer_adam_epsilon": "adam_epsilon",
    "clip_grad_norm": "clip_norm",
    "learning_rate_warmup_steps": "warmup_steps",
}
_ADAM = tuple(name for name in FIELDS if name.startswith("optimizer_adam_"))
_ADAMS = ("adam", "trueadam", "true_adam")  # in names of any release; the recipe's adam computes the same
# Factors of a schedule that has a counterpart here -> the hparams that it needs.
_WARMUP, _CONSTANT = "learning_rate_warmup_steps", "learning_rate_constant"
_NEEDS = {
    frozenset({"constant", "linear_warmup", "rsqrt_decay", "rsqrt_hidden_size"}): (_WARMUP, _CONSTANT),
    frozenset({"constant", "linear_warmup", "rsqrt_decay"}): (_WARMUP, _CONSTANT),
    frozenset({"constant", "linear_warmup", "rsqrt_normalized_decay"}): (_WARMUP, _CONSTANT),
    frozenset({"rsqrt_decay"}): (_WARMUP,),
    frozenset({"legacy"}): (_WARMUP, "learning_rate_decay_scheme", "learning_rate"),
}
# hparams of an update that continues with tensor2tensor's slots -> the values that our update has.
SLOTS_NEED = {
    "weight_decay": (0.0, None),
    "grad_noise_scale": (0.0, None),
    "optimizer_adafactor_beta1": (0.0, None),
    "optimizer_adafactor_decay_type": ("pow",),
    "optimizer_adafactor_memory_exponent": (0.8,),
    "optimizer_adafactor_clipping_threshold": (1.0,),
    "optimizer_adafactor_factored": (True,),
    "optimizer_adafactor_multiply_by_parameter_scale": (True,),
}
SCHEDULE = ("learning_rate_schedule", "learning_rate_constant", "learning_rate_decay_scheme", "learning_rate")


def recipe(hparams: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the fields of a recipe that tensor2tensor's hparams give, as far as these are known.

    Of the optimizers, adam and Adafactor are taken over. If `schedule` finds none, the recipe keeps the paper's
    schedule.
    """
    found = {ours: hparams[name] for name, ours in FIELDS.items() if name in hparams}
    if _is_adafactor(hparams):
        found = {name: value for name, value in found.items() if not name.startswith("adam_")}
        found["optimizer"] = "adafactor"
    found.pop("warmup_steps", 0)
    return found | (schedule(hparams) or {})


def schedule(hparams: Mapping[str, Any]) -> dict[str, Any] | None:
    """Returns schedule, warm-up and learning rate; None if they are not given or there is no such schedule here.

    Raises:
        DataError: one of them is not a number.
    """
    warmup = _number(hparams, _WARMUP, 0)
    if not warmup or _unknown_of_schedule(hparams):
        return None
    constant = _number(hparams, _CONSTANT, 1.0)
    factors = _factors(hparams)
    if factors == {"constant", "linear_warmup", "rsqrt_decay", "rsqrt_hidden_size"}:
        return {"warmup_steps": warmup, "learning_rate_factor": constant}
    if factors == {"legacy"} and hparams.get("learning_rate_decay_scheme") == "noam":
        factor = 5000 * (0.002 if "adam" in _optimizer(hparams) else 1.0)
        return {"warmup_steps": warmup, "learning_rate_factor": factor * _number(hparams, "learning_rate", 0.1)}
    peaks = {
        # Its first steps, at the highest rate, are not taken over.
        frozenset({"rsqrt_decay"}): warmup**-0.5,
        frozenset({"constant", "linear_warmup", "rsqrt_decay"}): constant * warmup**-0.5,
        frozenset({"constant", "linear_warmup", "rsqrt_normalized_decay"}): constant,
    }
    peak = peaks.get(factors)
    return None if peak is None else {"schedule": "inverse_sqrt", "warmup_steps": warmup, "learning_rate": peak}


def _number(hparams: Mapping[str, Any], name: str, default: float) -> Any:
    found = hparams.get(name, default)
    if type(found) not in (int, float) or found < 0:
        raise DataError(f"hparams: {name}={found!r:.60} of the training of tensor2tensor is no number of at least 0.")
    return found


def check_resumable(hparams: Mapping[str, Any]) -> None:
    """Raises DataError, naming them all, if hparams make other updates from the same slots than our optimizer."""
    wrong = [
        f"{name}={hparams[name]} (only {values[0]})"
        for name, values in SLOTS_NEED.items()
        if name in hparams and hparams[name] not in values and (_is_adafactor(hparams) or "adafactor" not in name)
    ]
    if (name := _schedule_name(hparams)) and not _unknown_of_schedule(hparams) and schedule(hparams) is None:
        wrong.append(f"learning_rate_schedule={name}")
    if wrong:
        raise DataError(
            f"--with_optimizer: this training of tensor2tensor cannot continue here: {'; '.join(wrong)}. The weights "
            "alone can be imported; leave the flag out."
        )


def describe_schedule(hparams: Mapping[str, Any]) -> str | None:
    """Returns what the report of an import says if the recipe does not have tensor2tensor's schedule."""
    if schedule(hparams) is not None:
        return None
    there, unsaid = _schedule_name(hparams), _unknown_of_schedule(hparams)
    why = f"tensor2tensor's, {there}, has no counterpart"
    if unsaid:
        why = "nothing says tensor2tensor's" + (f" {' and '.join(unsaid)}" if there else "")
    return f"the paper's ({why}; only continued training has it)"


def describe_optimizer(hparams: Mapping[str, Any]) -> str | None:
    """Returns what the report of an import says if the recipe does not have tensor2tensor's optimizer."""
    if _optimizer(hparams) in (*_ADAMS, "adafactor"):
        return None
    return f"adam (tensor2tensor's, {hparams['optimizer']}, is not taken over; only continued training has it)"


def find_assumed(hparams: Mapping[str, Any], recipe: Mapping[str, Any]) -> dict[str, Any]:
    """Returns hparams of a training, but for the schedule, that nothing says, with the values that the recipe has."""
    names = {**FIELDS, "optimizer": "optimizer"}
    left_out = (_WARMUP, *_ADAM) if _is_adafactor(hparams) else (_WARMUP,)
    return {there: recipe[ours] for there, ours in names.items() if there not in (*hparams, *left_out)}


def check_known(hparams: Mapping[str, Any]) -> None:
    """Raises UsageError, naming them all, if nothing says hparams without which updates cannot continue as before."""
    needed = ("optimizer", *(() if _is_adafactor(hparams) else _ADAM))
    if unsaid := [*(name for name in needed if name not in hparams), *_unknown_of_schedule(hparams)]:
        raise UsageError(
            "--with_optimizer: this training of tensor2tensor would not continue as it was, as nothing says its "
            f"{', '.join(unsaid)}. Copy its hparams.json beside the checkpoint, or give --hparams_set=NAME, or "
            f"--hparams={'=VALUE,'.join(unsaid)}=VALUE."
        )


def _unknown_of_schedule(hparams: Mapping[str, Any]) -> list[str]:
    """The hparams that the schedule needs and that nothing says; [] if it has no counterpart here."""
    if not _schedule_name(hparams):
        return ["learning_rate_schedule", *(name for name in (_WARMUP, _CONSTANT) if name not in hparams)]
    return [name for name in _NEEDS.get(_factors(hparams), ()) if name not in hparams]


def _factors(hparams: Mapping[str, Any]) -> frozenset[str]:
    """The factors of the schedule, in any order."""
    return frozenset(filter(None, str(_schedule_name(hparams)).replace(" ", "").split("*")))


def _schedule_name(hparams: Mapping[str, Any]) -> str | None:
    """The name of the schedule; the oldest releases have only a decay scheme, as "legacy" of later ones has."""
    oldest = "legacy" if hparams.get("learning_rate_decay_scheme") else None
    found: str | None = hparams.get("learning_rate_schedule", oldest)
    return found


def _optimizer(hparams: Mapping[str, Any]) -> str:
    """The name of the optimizer in lower case; older releases wrote "Adam", "TrueAdam" and "Adafactor"."""
    return str(hparams.get("optimizer", "adam")).lower()


def _is_adafactor(hparams: Mapping[str, Any]) -> bool:
    return _optimizer(hparams) == "adafactor"
