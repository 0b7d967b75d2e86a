"""One field of a recipe: its default, its meaning, the values that it takes, and when it may change on resume."""

import dataclasses
import math
import sys
import typing
from typing import Any, Literal, NamedTuple

from t2t_lite.errors import UsageError, did_you_mean

# When a field may change on resume. "reset": with --reset_optimizer. "always": the field does not affect the updates;
# one that the run's schedule or optimizer reads counts as "reset".
# "unless_by_evaluations": like "reset" if the schedule needs evaluations, else like "always".
Resume = Literal["never", "reset", "unless_by_evaluations", "always"]

_LARGEST = sys.float_info.max  # JSON may hold larger integers; the range excludes NaN, too
_METADATA = "t2t_lite"


class Range(NamedTuple):
    """The numbers that a field takes.

    No recipe in use comes near `largest`. Larger values would run for ever or fill any memory.
    """

    least: float
    largest: float
    below: bool = False  # `largest` itself is excluded

    def __str__(self) -> str:
        return f"{_number(self.least)} to {'below ' * self.below}{_number(self.largest)}"


FRACTION = Range(0, 1, below=True)
COUNT = Range(1, 10**9)
COUNT_OR_NONE = Range(0, 10**9)
RATE = Range(0, 1e38)  # fits float32


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
        within: the allowed numbers, as a Range or (least, largest); None: all finite numbers.
        resume: when it may change on resume.
        read_by: "optimizer" or "schedule" if it is read only by optimizers, or schedules, that name it in their
            constructors. All others refuse a value that is not the default.
    """
    meta = Meta(meaning, None if within is None else Range(*within), resume, read_by)
    return dataclasses.field(default=default, metadata={_METADATA: meta})


@dataclasses.dataclass(frozen=True)
class Field:
    """A field of a recipe's class.

    Attributes:
        group: "model", "optimization", "batch", "run" or "decode".
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
        """The type as text, such as "int" or "post|pre"."""
        if typing.get_origin(self.kind) is Literal:
            return "|".join(map(str, typing.get_args(self.kind)))
        return "true|false" if self.kind is bool else str(getattr(self.kind, "__name__", self.kind))

    def check(self, value: Any) -> None:
        """Raises UsageError if `value` is of another type, or outside the range."""
        self._check_type(value)
        within = self.meta.within
        if within and not (within.least <= value <= within.largest and not (within.below and value == within.largest)):
            raise UsageError(f"hparams: {self.name}={_short(value)} must be from {within}.")

    def _check_type(self, value: Any) -> None:
        kind, name = self.kind, self.name
        if typing.get_origin(kind) is Literal:
            choices = [str(choice) for choice in typing.get_args(kind)]
            if value not in typing.get_args(kind):
                raise UsageError(
                    f"hparams: {name}={value!r} is not one of: {', '.join(choices)}.{did_you_mean(str(value), choices)}"
                )
        elif kind is float and (type(value) not in (int, float) or not -_LARGEST <= value <= _LARGEST):
            raise UsageError(f"hparams: {name}={value!r:.60} is not a finite number.")
        elif kind is str and type(value) is not str:
            raise UsageError(f"hparams: {name}={value!r:.60} is not a name.")
        elif kind in (int, bool) and type(value) is not kind:
            raise UsageError(f"hparams: {name}={value!r} is not {'an integer' if kind is int else 'true or false'}.")

    def parse(self, text: str) -> Any:
        """Reads a value of the command line; raises UsageError if it is of another type."""
        try:
            return read_value(self.kind, text)
        except ValueError as error:
            raise UsageError(f"hparams: {self.name}={text:.60} is not {error}") from None


def read_value(kind: Any, text: str) -> Any:
    """Reads a value of a type from the text that a command line gives.

    Args:
        kind: int, float, bool, str or a Literal.

    Raises:
        ValueError: text of another type, or another `kind`. Its message is what was expected, such as "an integer.".
    """
    if kind is str:
        return text
    if kind is bool:
        words = {"true": True, "1": True, "false": False, "0": False}
        if text.lower() not in words:
            raise ValueError("true or false.")
        return words[text.lower()]
    if kind is int:
        return _integer(text)
    if kind is float:
        try:
            number = float(text)
        except ValueError:
            raise ValueError("a number.") from None
        if not math.isfinite(number):
            raise ValueError("a finite number.")
        return number
    if typing.get_origin(kind) is not Literal:
        raise ValueError(
            f"read: only an int, float, bool, str or Literal can be, no {getattr(kind, '__name__', kind)}."
        )
    choices = {str(choice): choice for choice in typing.get_args(kind)}  # a Literal may hold numbers
    if text not in choices:
        raise ValueError(f"one of: {', '.join(choices)}.{did_you_mean(text, choices)}")
    return choices[text]


def _integer(text: str) -> int:
    try:
        if text.lstrip("+-").isdigit():
            return int(text)
        if (number := float(text)) == int(number):  # such as 1e6
            return int(number)
    except (ValueError, OverflowError):
        pass
    raise ValueError("an integer.")


def fields_of(cls: type, groups: typing.Mapping[type, str]) -> dict[str, Field]:
    """The fields of a dataclass by name, group after group.

    A field belongs to the base that first declares it; a subclass with another default keeps its meaning and range.

    Args:
        groups: the group of each base, in order; fields of all other classes belong to "model", which comes first.
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
    """A number as it was given; abbreviated if it has many digits."""
    return str(value) if abs(value) < 10**30 else f"{'-' * (value < 0)}1e{int(math.log10(abs(value)))} or so"


def _number(value: float) -> str:
    return f"{value:,.10g}" if abs(value) < 10**8 else f"{value:.0e}".replace("e+0", "e").replace("e+", "e")
