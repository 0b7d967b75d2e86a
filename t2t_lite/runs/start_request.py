"""StartRequest: everything that a start of a training run was asked for, by a command, from Python or a comparison."""

from __future__ import annotations

import dataclasses
import json
import shlex
from collections.abc import Mapping
from typing import Any

from t2t_lite.distributed.cluster import STRATEGIES
from t2t_lite.distributed.rendezvous import DEFAULT_SECONDS
from t2t_lite.errors import UsageError, did_you_mean
from t2t_lite.runs.data_request import DataRequest
from t2t_lite.runs.recipe_request import RecipeRequest


@dataclasses.dataclass(frozen=True, kw_only=True)
class StartRequest:
    """The start of a training run, as asked for; run.json records it.

    Attributes:
        output_dir: the run's folder.
        data, recipe: what is trained. With neither a problem nor a recipe, the run in `output_dir` resumes as it was.
        warm_start_from: a run, or one checkpoint of it, whose weights a new run starts from.
        with_optimizer: also take the optimizer's slots and the step from `warm_start_from`.
        reset_optimizer: resume with the optimizer's slots at zero.
        devices, strategy, accumulate, join_timeout: as in `distributed.devices.Devices`.
        skip_bad_batches: how many batches whose loss or gradient is not finite are left out.
        callbacks: names of callbacks, which are told of the run's progress.
    """

    output_dir: str | None
    data: DataRequest = dataclasses.field(default_factory=DataRequest)
    recipe: RecipeRequest = dataclasses.field(default_factory=RecipeRequest)
    warm_start_from: str | None = None
    with_optimizer: bool = False
    reset_optimizer: bool = False
    devices: int | None = None
    strategy: str = "auto"
    accumulate: int | None = None
    join_timeout: float = DEFAULT_SECONDS
    skip_bad_batches: int = 0
    callbacks: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Raises UsageError for a number or a strategy that cannot be, as Python may give it."""
        for name, least in {"devices": 1, "accumulate": 1, "skip_bad_batches": 0}.items():
            value = getattr(self, name)
            if value is not None and (type(value) is not int or value < least):
                raise UsageError(f"{name}={value!r} is not a whole number of at least {least}.")
        if self.strategy not in STRATEGIES:
            near = did_you_mean(str(self.strategy), STRATEGIES)
            raise UsageError(f"strategy={self.strategy!r} is none of {', '.join(STRATEGIES)}.{near}")

    def as_dict(self) -> dict[str, Any]:
        """Returns what was asked for, without what is at its default, as JSON gives it back."""
        changed = _changed(dataclasses.asdict(self), dataclasses.asdict(StartRequest(output_dir=None)))
        found: dict[str, Any] = json.loads(json.dumps(changed))
        return found

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> StartRequest:
        """The inverse of `as_dict`."""
        parts = {"data": DataRequest(**values.get("data", {})), "recipe": RecipeRequest(**values.get("recipe", {}))}
        callbacks = tuple(values.get("callbacks", ()))
        return cls(**{"output_dir": None, **values, **parts, "callbacks": callbacks})

    def resume_command(self) -> str:
        """Returns the shortest command that resumes the run as this request did."""
        flags = {
            "output_dir": self.output_dir,
            "usr_dir": self.data.usr_dir,
            **{name: getattr(self, name) for name in ("devices", "strategy", "accumulate", "skip_bad_batches")},
            "callbacks": ",".join(self.callbacks) or (),
        }
        default = StartRequest(output_dir=None)
        given = [f"--{name}={value}" for name, value in flags.items() if value != getattr(default, name, None)]
        return shlex.join(["t2t-lite-trainer", *given])


def _changed(values: dict[str, Any], default: dict[str, Any]) -> dict[str, Any]:
    """Returns the entries that are not at their default; of the dicts among them, too."""
    return {
        name: _changed(value, default[name]) if default.get(name) and isinstance(value, dict) else value
        for name, value in values.items()
        if value != default.get(name)
    }
