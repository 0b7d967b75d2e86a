"""CompareRequest: the hparams sets that are compared, with their own changes, as runs or ensembles, and the budget."""

import dataclasses
import re
from typing import Any, NamedTuple

from t2t_lite import config, registry
from t2t_lite.errors import UsageError
from t2t_lite.runs.data_request import DataRequest

_MOST_MEMBERS = 64


class Entry(NamedTuple):
    """A row of the table: an hparams set with changes, or an ensemble of `members` runs that differ in their seeds."""

    hparams_set: str
    changes: tuple[str, ...] = ()
    members: int = 1

    @property
    def variant(self) -> str:
        """The set and its changes, as given; the folders of its runs are named after it."""
        return "+".join((self.hparams_set, *self.changes))

    @property
    def name(self) -> str:
        return self.variant if self.members == 1 else f"{self.variant}*{self.members}"

    def groups(self, first: int, seeds: int) -> list[list[int]]:
        """Seeds of the runs that are scored together: all members of an ensemble, or one run at a time."""
        if self.members > 1:
            return [list(range(first, first + self.members))]
        return [[seed] for seed in range(first, first + seeds)]


class Recipe(NamedTuple):
    """An entry's recipe; `changes` are the changes to its set, values by name."""

    changes: dict[str, Any]
    hparams: config.HParams


@dataclasses.dataclass(frozen=True, kw_only=True)
class CompareRequest:
    """A comparison, as asked for.

    Attributes:
        output_dir: the folder of its runs and tables.
        entries: its rows; the others are compared with the first.
        data: the problem, which all of them are trained on.
        changes: changes to all sets, each in the form of --hparams.
        train_flops, train_minutes, train_steps: the budget of each run, one of them; without, each set's own steps.
        seed: of the first run of each set.
        seeds: runs of each set.
    """

    output_dir: str
    entries: tuple[Entry, ...]
    data: DataRequest
    changes: tuple[str, ...] = ()
    train_flops: float | None = None
    train_minutes: float | None = None
    train_steps: int | None = None
    seed: int = 1
    seeds: int = 1

    def recipe(self, entry: Entry) -> Recipe:
        """Returns the recipe of an entry: its set with the changes to all sets, its own and train_steps."""
        changes: dict[str, Any] = dict(config.read_overrides(",".join((*self.changes, *entry.changes))))
        if "seed" in changes:
            raise UsageError("seed=... cannot be changed; give --seed=N instead, for all of the sets.")
        if "train_steps" in changes and (self.train_flops or self.train_minutes or self.train_steps):
            raise UsageError(
                "train_steps=... and a budget for all of the sets exclude each other. Leave one of them out."
            )
        if self.train_steps:
            changes["train_steps"] = self.train_steps
        return Recipe(changes, config.override(registry.hparams(entry.hparams_set), changes))


def read_entries(text: str) -> list[Entry]:
    """Reads --sets; raises ValueError if it is ill-formed."""
    found = []
    for part in text.split(","):
        variant, star, number = part.partition("*")
        name, *changes = re.split(r"\+(?=\w+=)", variant)  # a value may contain a +, too
        many = not star or (number.isdigit() and 2 <= int(number) <= _MOST_MEMBERS)
        changed = all(re.fullmatch(r"\w+=[\w.+-]+", change) for change in changes)
        if not name or "+" in name or not many or not changed:
            raise ValueError(f"{part!r} is not NAME, nor NAME+FIELD=VALUE, nor NAME*N with N from 2 to {_MOST_MEMBERS}")
        entry = Entry(name, tuple(changes), int(number or 1))
        if entry in found:
            raise ValueError(f"{part} is given twice")
        found.append(entry)
    return found
