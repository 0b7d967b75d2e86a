"""HParams: one frozen, typed record of everything a recipe decides, and its typed overrides.

Its fields are in five groups: model, optimization, batch, run, decode. The last four are the same for all models
(groups.py); each family of models has a subclass of HParams with a model group of its own (models/*_hparams.py).
--hparams and hparams.json are flat, and so are attributes; `hparams.run` has the fields of one group.

Section and table numbers are those of "Attention Is All You Need" (Vaswani et al., 2017). The defaults are those of its
base model.
"""

import dataclasses
import functools
import typing
from collections.abc import Collection, Iterable, Mapping
from typing import Any, ClassVar, TypeVar

from t2t_lite import other_names
from t2t_lite.errors import UsageError, did_you_mean
from t2t_lite.fields import Field, fields_of
from t2t_lite.fields import field as field
from t2t_lite.groups import GROUPS, BatchGroup, DecodeGroup, OptimizerGroup, RunGroup
from t2t_lite.name_table import full_name

G = TypeVar("G")
H = TypeVar("H", bound="HParams")

_MOST_PARAMETERS = 10**11


def _group(cls: type[G]) -> functools.cached_property[G]:
    names = [field.name for field in dataclasses.fields(cls)]  # type: ignore[arg-type]
    return functools.cached_property(lambda hparams: cls(**{name: getattr(hparams, name) for name in names}))


@dataclasses.dataclass(frozen=True)
class HParams(DecodeGroup, RunGroup, BatchGroup, OptimizerGroup):
    """A recipe. Change a copy with `replace(hparams, dropout=0.2)`.

    A subclass adds the group of a family of models:

        @dataclasses.dataclass(frozen=True)
        class GruHParams(config.HParams):
            model = "gru"  # its registered name
            units: int = config.field(256, "size of states", (1, 65_536))

    Raises:
        UsageError: a value outside its range, or values that contradict each other.
    """

    model: ClassVar[str] = ""  # the model that reads these recipes

    optimization = _group(OptimizerGroup)
    batch = _group(BatchGroup)
    run = _group(RunGroup)
    decode = _group(DecodeGroup)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if clash := vars(cls).get("__annotations__", {}).keys() & set(GROUPS.values()):
            raise UsageError(
                f"{full_name(cls)}: {', '.join(clash)} is the name of a group of settings. Give the field another one."
            )
        if "model" not in vars(cls):
            return
        taken = _FAMILIES.get(cls.model, cls)
        if full_name(taken) == full_name(cls):  # new, or a module that is loaded again
            _FAMILIES[cls.model] = cls
        elif not issubclass(cls, taken):
            raise UsageError(
                f"Two classes of recipes have model = {cls.model!r}: {full_name(taken)} and {full_name(cls)}. Give "
                "your own the name of another model; or derive it from the other one, for more settings of that model."
            )

    def __post_init__(self) -> None:
        for name, declared in fields(type(self)).items():
            declared.check(getattr(self, name))
        rates = [name for name in fields(type(self)) if name.endswith("dropout") and name != "bpe_dropout"]
        if self.r_drop and rates and not any(getattr(self, name) for name in rates):
            raise UsageError(
                f"hparams: r_drop={self.r_drop} compares two passes with different dropout masks, and "
                f"{', '.join(rates)} are all 0 here. Set one of them, such as dropout=0.3, or leave r_drop out."
            )
        if self.beam_size % self.beam_groups:
            raise UsageError(
                f"hparams: beam_groups={self.beam_groups} groups cannot share beam_size={self.beam_size} equally. "
                f"Choose a multiple, such as beam_size={self.beam_groups * -(-self.beam_size // self.beam_groups)}."
            )
        if self.parameters() > _MOST_PARAMETERS:
            sizes = [f"{f.name}={getattr(self, f.name)}" for f in model_fields(type(self)) if f.kind is int]
            raise UsageError(
                f"hparams: {', '.join(sizes[:4])} and the like give a model of {self.parameters():.1e} parameters; at "
                f"most {_MOST_PARAMETERS:,} are taken. Choose a smaller one."
            )

    def check_asked(self, names: Collection[str]) -> None:
        """Raises UsageError if one of the fields `names`, which a user has set, has no effect in this recipe."""
        usual = type(self).diversity_strength
        if "diversity_strength" in names and self.beam_groups == 1 and self.diversity_strength != usual:
            raise UsageError(
                f"hparams: diversity_strength={self.diversity_strength} has no effect with beam_groups=1. Add groups, "
                "such as beam_groups=2, or leave it out."
            )

    def parameters(self, vocab_size: int = 0) -> int:
        """A lower bound on the model's parameters; 0 if its family gives none."""
        return 0


_FAMILIES: dict[str, type[HParams]] = {}  # by the name of the model
_FIELDS: dict[type[HParams], dict[str, Field]] = {}


def fields(cls: type[HParams]) -> dict[str, Field]:
    """The fields of a recipe's class by name, group after group."""
    if cls not in _FIELDS:  # cached: evaluating the annotations takes a millisecond
        _FIELDS[cls] = fields_of(cls, GROUPS)
    return _FIELDS[cls]


def model_fields(cls: type[HParams]) -> list[Field]:
    """The fields of the model group."""
    return [declared for declared in fields(cls).values() if declared.group == "model"]


def recipe_class(model: str) -> type[HParams] | None:
    """The recipe class of `model`, if it is imported; None: the model reads recipes of other models."""
    return _FAMILIES.get(model)


def families() -> dict[str, type[HParams]]:
    """The imported recipe classes, by the name of their model."""
    return dict(sorted(_FAMILIES.items()))


def group_title(cls: type[HParams], group: str) -> str:
    """What the group is called in a list of fields."""
    if group == "model":
        return f"Model {cls.model}".rstrip()
    [base] = [base for base, name in GROUPS.items() if name == group]
    return (base.__doc__ or group).removesuffix(".")


def _check_names(cls: type[HParams], names: Iterable[str]) -> None:
    """Raises UsageError if one of `names` is no field."""
    known = fields(cls)
    for name in names:
        if name in known:
            continue
        if readers := _other_readers(cls, name):
            own = ", ".join(declared.name for declared in model_fields(cls)) or "none"
            reader = f"the model {cls.model}" if cls.model else f"a recipe of the class {cls.__name__}"
            raise UsageError(
                f"hparams: {reader} does not read {name!r}, a setting of {' and '.join(readers)}; its own are {own}."
            )
        answer = other_names.answer("setting", name)
        raise UsageError(f"hparams: there is no {name!r}.{answer or did_you_mean(name, known)}")


def _other_readers(cls: type[HParams], name: str) -> list[str]:
    """The models that have the field `name`, if `cls` lacks it."""
    return [] if name in fields(cls) else [model for model, other in families().items() if name in fields(other)]


def replace(hparams: H, **changes: Any) -> H:
    """Returns a copy with `changes`; an unknown name raises UsageError with a did-you-mean."""
    _check_names(type(hparams), changes)
    return dataclasses.replace(hparams, **changes)


def override(hparams: H, changes: str | Mapping[str, Any]) -> H:
    """Returns a copy with `changes`, values by name or text such as 'd_model=1024,norm=pre', each read as its type.

    Raises:
        UsageError: as `read_overrides`; an unknown name, a value of another type, or one without effect.
    """
    known, given = fields(type(hparams)), read_overrides(changes) if isinstance(changes, str) else changes
    _check_names(type(hparams), given)
    changed = replace(hparams, **{name: known[name].parse(str(value)) for name, value in given.items()})
    changed.check_asked(given)
    return changed


def read_overrides(text: str) -> dict[str, str]:
    """Splits text such as 'd_model=1024,norm=pre' into values by name; UsageError for other text or a name twice."""
    given: dict[str, str] = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        name, equals, value = (part.strip() for part in item.partition("="))
        if not equals or not name or not value:
            raise UsageError(f"hparams: {item!r} is not of the form name=value.")
        if name in given:
            raise UsageError(f"hparams: {name!r} is given twice: {given[name]} and {value}.")
        given[name] = value
    return given


def to_dict(hparams: HParams) -> dict[str, Any]:
    """Returns the fields as a JSON-ready dict."""
    return {name: getattr(hparams, name) for name in fields(type(hparams))}


def from_dict(cls: type[H], values: Mapping[str, Any]) -> H:
    """The inverse of `to_dict`; names that `cls` does not have raise UsageError."""
    _check_names(cls, values)
    return cls(**values)


def drop_others(cls: type[HParams], values: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns `values` without settings of other models, and the left-out settings that are not at their default."""
    kept, left_out = {}, {}
    for name, value in values.items():
        if not (readers := _other_readers(cls, name)):
            kept[name] = value
        elif all(value != fields(families()[model])[name].default for model in readers):
            left_out[name] = value
    return kept, left_out


def same_field(name: str, one: type[HParams], other: type[HParams]) -> bool:
    """Whether both classes have the field with the same type; one name may have different choices in two models."""
    kinds = [fields(cls)[name].kind for cls in (one, other) if name in fields(cls)]
    return len(kinds) == 2 and kinds[0] == kinds[1]


def _has_all_choices(name: str, kind: Any, cls: type[HParams]) -> bool:
    """Whether a field of choices may have those of `kind` in another class, too."""
    theirs = typing.get_args(fields(cls)[name].kind) if name in fields(cls) else ()
    return bool(theirs) and {*typing.get_args(kind)} <= {*theirs}


def convert(hparams: HParams, cls: type[H]) -> tuple[H, dict[str, Any]]:
    """Returns the recipe as a `cls`, and the settings that are not at their default and that `cls` cannot hold."""
    kept, left_out = {}, {}
    for name, declared in fields(type(hparams)).items():
        if same_field(name, type(hparams), cls) or _has_all_choices(name, declared.kind, cls):
            kept[name] = getattr(hparams, name)
        elif getattr(hparams, name) != declared.default:
            left_out[name] = getattr(hparams, name)
    return cls(**kept), left_out
