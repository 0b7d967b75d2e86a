"""One field of a recipe: its default, its meaning, the values that it takes, and when it may change on resume."""

from __future__ import annotations

import dataclasses
import math
import sys
import typing
from typing import Any, Literal, NamedTuple

from t2t_lite.errors import UsageError, did_you_mean

# When a field may change as a run goes on: "always" is for what leaves the updates the same; "reset" is with
# --reset_optimizer; "unless_listening" is always, but where the schedule listens to evaluations with "reset".
Resume = Literal["never", "reset", "unless_listening", "always"]

_LARGEST = sys.float_info.max  # JSON may hold integers above it; NaN is not in the range either
_METADATA = "t2t_lite"


class Range(NamedTuple):
    """The numbers that a field takes.

    No recipe in use comes near `largest`: what lies above would run for ever or fill any memory.
    """

    least: float
    largest: float
    below: bool = False  # `largest` itself is not one of them

    def __str__(self) -> str:
        return f"{_number(self.least)} to {'below ' * self.below}{_number(self.largest)}"


FRACTION = Range(0, 1, below=True)
COUNT = Range(1, 10**9)
COUNT_OR_NONE = Range(0, 10**9)
RATE = Range(0, 1e38)  # of float32


class Meta(NamedTuple):
    """Metadata of a field besides its type and default."""

    meaning: str = ""
    within: Range | None = None
    resume: Resume = "never"
    read_by: str = ""


def field(
    default: Any,
    meaning: str,
    within: Range | tuple[float, float] | None = None,
    *,
    resume: Resume = "never",
    read_by: Literal["", "optimizer", "schedule"] = "",
) -> Any:
    """Declares a field of a recipe, in the body of a dataclass that derives from `config.HParams`.

    Args:
        meaning: what --registry_help=hparams prints.
        within: the numbers that are taken, as a Range or (least, largest); None: all that are finite.
        resume: when it may change as a run goes on.
        read_by: "optimizer" or "schedule" where only those read it whose constructors name it; another one refuses a
            value that is not the default.
    """
    meta = Meta(meaning, None if within is None else Range(*within), resume, read_by)
    return dataclasses.field(default=default, metadata={_METADATA: meta})


@dataclasses.dataclass(frozen=True)
class Field:
    """A field of a recipe's class.

    Attributes:
        group: "model", "optimizer", "batch", "run" or "decode".
        kind: type of its values: int, float, bool, str or a Literal.
        meta: what `field` was given.
    """

    name: str
    group: str
    kind: Any
    default: Any
    meta: Meta

    @property
    def kind_text(self) -> str:
        """Such as "int" or "post|pre"."""
        if typing.get_origin(self.kind) is Literal:
            return "|".join(map(str, typing.get_args(self.kind)))
        return "true|false" if self.kind is bool else str(getattr(self.kind, "__name__", self.kind))

    def check(self, value: Any) -> None:
        """Raises UsageError if `value` is of another type, or outside the range."""
        self._check_type(value)
        if (within := self.meta.within) is None:
            return
        if within.below and not within.least <= value < within.largest:
            raise UsageError(
                f"hparams: {self.name}={_short(value)} must be at least {within.least} and below {within.largest}."
            )
        if value < within.least:
            raise UsageError(f"hparams: {self.name}={_short(value)} must be at least {within.least}.")
        if value > within.largest:
            raise UsageError(f"hparams: {self.name}={_short(value)} must be at most {within.largest:,}.")

    def _check_type(self, value: Any) -> None:
        kind, name = self.kind, self.name
        if typing.get_origin(kind) is Literal:
            if value not in typing.get_args(kind):
                choices = typing.get_args(kind)
                raise UsageError(
                    f"hparams: {name}={value!r} is not one of: {', '.join(map(str, choices))}."
                    f"{did_you_mean(str(value), choices)}"
                )
        elif kind is float and (type(value) not in (int, float) or not -_LARGEST <= value <= _LARGEST):
            raise UsageError(f"hparams: {name}={value!r:.60} is not a finite number.")
        elif kind is str and type(value) is not str:
            raise UsageError(f"hparams: {name}={value!r:.60} is not a name.")
        elif kind in (int, bool) and type(value) is not kind:
            raise UsageError(f"hparams: {name}={value!r} is not {'an integer' if kind is int else 'true or false'}.")

    def parse(self, text: str) -> Any:
        """Reads a value of the command line; raises UsageError if it is of another type."""
        if self.kind is bool:
            words = {"true": True, "1": True, "false": False, "0": False}
            if text.lower() not in words:
                raise UsageError(f"hparams: {self.name}={text} is not true or false.")
            return words[text.lower()]
        if self.kind in (int, float):
            try:
                if self.kind is int and text.lstrip("+-").isdigit():
                    return int(text)
                number = float(text)
                if self.kind is int and number == int(number):
                    return int(number)
                if self.kind is float:
                    return number
            except (ValueError, OverflowError):
                pass
            kind = "an integer" if self.kind is int else "a number"
            raise UsageError(f"hparams: {self.name}={text:.60} is not {kind}.")
        return text


def fields_of(cls: type, groups: typing.Mapping[type, str]) -> dict[str, Field]:
    """The fields of a dataclass by name, group after group.

    A field belongs to the base that first declares it; a subclass with another default keeps its meaning and range.

    Args:
        groups: of the bases, in order; a field of any other class is one of "model", which comes first.
    """
    kinds = typing.get_type_hints(cls)
    found: dict[str, Field] = {}
    for declared in dataclasses.fields(cls):
        bases = [base for base in cls.__mro__ if declared.name in vars(base).get("__annotations__", {})]
        metas = [vars(base)["__dataclass_fields__"][declared.name].metadata.get(_METADATA) for base in bases]
        found[declared.name] = Field(
            declared.name,
            groups.get(bases[-1], "model"),
            kinds[declared.name],
            declared.default,
            next(filter(None, metas), Meta()),
        )
    order = ["model", *groups.values()]
    return dict(sorted(found.items(), key=lambda item: order.index(item[1].group)))


def _short(value: float) -> str:
    """A number as it was given, unless it has many digits."""
    return str(value) if abs(value) < 10**30 else f"{'-' * (value < 0)}1e{int(math.log10(abs(value)))} or so"


def _number(value: float) -> str:
    return f"{value:,.10g}" if abs(value) < 10**8 else f"{value:.0e}".replace("e+0", "e").replace("e+", "e")
