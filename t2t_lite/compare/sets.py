"""Entries that t2t-lite-compare compares: hparams sets with their own changes, and ensembles of their runs."""

from __future__ import annotations

import argparse
import re
from typing import NamedTuple

from t2t_lite import config, registry
from t2t_lite.errors import UsageError

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
        """The entry's name in the table."""
        return self.variant if self.members == 1 else f"{self.variant}*{self.members}"

    def groups(self, first: int, seeds: int) -> list[list[int]]:
        """Seeds of the runs that are scored together: all members of an ensemble, or one run at a time."""
        if self.members > 1:
            return [list(range(first, first + self.members))]
        return [[seed] for seed in range(first, first + seeds)]


class Recipe(NamedTuple):
    """An entry's recipe; `changes` are the command's changes to its set, in the form that --hparams takes."""

    changes: list[str]
    hparams: config.HParams


def entries(text: str) -> list[Entry]:
    """Reads --sets; raises argparse.ArgumentTypeError if it is ill-formed."""
    found = []
    for part in text.split(","):
        variant, star, number = part.partition("*")
        name, *changes = re.split(r"\+(?=\w+=)", variant)  # a value may contain a +, too
        many = not star or (number.isdigit() and 2 <= int(number) <= _MOST_MEMBERS)
        changed = all(re.fullmatch(r"\w+=[\w.+-]+", change) for change in changes)
        if not name or "+" in name or not many or not changed:
            raise argparse.ArgumentTypeError(
                f"{part!r} is not NAME, nor NAME+FIELD=VALUE, nor NAME*N with N from 2 to {_MOST_MEMBERS}"
            )
        entry = Entry(name, tuple(changes), int(number or 1))
        if entry in found:
            raise argparse.ArgumentTypeError(f"{part} is given twice")
        found.append(entry)
    return found


def recipe(entry: Entry, args: argparse.Namespace) -> Recipe:
    """Returns the recipe of an entry: its set with --hparams (for all sets), its own changes and --train_steps.

    Raises:
        UsageError: an unknown set or field, a value out of range, a field given twice, or a field that the command
            has its own flags for.
    """
    changes = [*(args.hparams or []), *([",".join(entry.changes)] if entry.changes else [])]
    named = {part.partition("=")[0].strip() for text in changes for part in text.split(",")}
    if "seed" in named:
        raise UsageError("seed=... cannot be changed; give --seed=N instead, for all of the sets.")
    if "train_steps" in named and (args.train_flops or args.train_minutes or args.train_steps):
        raise UsageError("train_steps=... and a budget for all of the sets exclude each other. Leave one of them out.")
    if args.train_steps:
        changes.append(f"train_steps={args.train_steps}")
    return Recipe(changes, config.override(registry.hparams(entry.hparams_set), ",".join(changes)))
