"""The trainings of t2t-lite-compare: each a process of the trainer, which goes on where it was stopped."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from t2t_lite import config, registry
from t2t_lite.bin import problem_flags
from t2t_lite.errors import DataError, TrainingError, UsageError
from t2t_lite.files import replace_file
from t2t_lite.runs.run_data import given_vocabulary_of, prepare_run_data
from t2t_lite.runs.run_dir import RunSpec, absolute, relative_data_dir
from t2t_lite.runs.utilisation import planned_flops
from t2t_lite.training.recipe import intervals_of, recipe_plan

if TYPE_CHECKING:
    from t2t_lite.bin.compare import Entry

_FILE = "runs.json"
_MIB = 2**10  # of what the system reports, in KiB


class Run(NamedTuple):
    """A run that is trained: its folder, updates, FLOPs on real tokens, and the peak memory of its process in MiB."""

    folder: str
    train_steps: int
    flops: float
    peak_mib: int


class Runs:
    """The runs in the folder of a comparison; runs.json says which are done, and with how many updates.

    Args:
        args: of the command.
        flags: those of the problem and its data, for the trainer.
    """

    def __init__(self, args: argparse.Namespace, flags: Sequence[str]) -> None:
        self._args, self._flags, self._folder = args, list(flags), Path(args.output_dir)
        self._budgets: dict[str, tuple[int, float]] = {}
        try:
            self._done: dict[str, Any] = json.loads((self._folder / _FILE).read_text("utf-8"))
        except FileNotFoundError:
            self._done = {}
        except ValueError as error:
            raise DataError(
                f"{self._folder / _FILE} is damaged ({error}). Delete it: the trainer sees what is done."
            ) from None

    def trained(self, entry: Entry) -> list[list[Run]]:
        """The entry's runs, in groups that are scored together; they are trained now if they are not yet."""
        groups = entry.groups(self._args.seed, self._args.seeds)
        return [[self._trained(entry, seed) for seed in group] for group in groups]

    def _trained(self, entry: Entry, seed: int) -> Run:
        name = f"{entry.variant}-{seed}"
        steps, flops = self._budget(entry)
        overrides = [f"--hparams={text}" for text in [*self._changes(entry), f"train_steps={steps},seed={seed}"]]
        command = [*self._flags, f"--hparams_set={entry.hparams_set}", *overrides]
        command.append(f"--output_dir={self._folder / name}")
        done = self._done.get(name)
        if done is None or done["flags"] != command:
            print(f"\n{name}: {steps:,} updates, {flops:.2e} FLOP", flush=True)
            self._done[name] = {"flags": command, "peak_mib": _train(command, name)}
            self._folder.mkdir(parents=True, exist_ok=True)
            replace_file(self._folder / _FILE, json.dumps(self._done, indent=2).encode())
        return Run(str(self._folder / name), steps, flops, self._done[name]["peak_mib"])

    def _changes(self, entry: Entry) -> list[str]:
        """What the command changes in the recipe, as --hparams takes it: for all of the sets, and for this one."""
        changes = [*(self._args.hparams or []), *([",".join(entry.changes)] if entry.changes else [])]
        named = {part.partition("=")[0] for text in changes for part in text.split(",")}
        if "seed" in named:
            raise UsageError("seed=... cannot be changed; give --seed=N instead, for all of the sets.")
        if "train_steps" in named and (self._args.train_flops or self._args.train_steps):
            raise UsageError(
                "train_steps=... and a budget for all of the sets exclude each other. Leave one of them out."
            )
        return changes

    def _budget(self, entry: Entry) -> tuple[int, float]:
        """Updates of the entry's trainings within the budget, and their FLOPs on real tokens."""
        if entry.variant not in self._budgets:
            self._budgets[entry.variant] = self._counted(entry)
        return self._budgets[entry.variant]

    def _counted(self, entry: Entry) -> tuple[int, float]:
        args, hparams_set, hparams = self._args, entry.hparams_set, registry.hparams(entry.hparams_set)
        for text in self._changes(entry):
            hparams = config.override(hparams, text)
        folder = str(self._folder / "budget")  # where the data are looked for from; nothing is written there
        spec = RunSpec(
            problem=args.problem,
            options=problem_flags.problem_from(args).options(),
            data_dir=relative_data_dir(args.data_dir or str(self._folder / "data"), folder),
            usr_dir=absolute(args.usr_dir),
            hparams_set=hparams_set,
            model=registry.model_of(hparams_set),
            hparams=hparams,
            vocabulary=None if args.vocabulary is None else given_vocabulary_of(args.vocabulary),
        )
        spec, store = prepare_run_data(spec, folder, again=args.prepare_again)
        source, target = store.source_vocabulary, store.target_vocabulary
        cost = spec.make_model(source.size, target.size, source is target).cost
        split = store.split("train")
        plan = recipe_plan(hparams, split)

        def flops(steps: int) -> float:
            return float(planned_flops(cost, split, plan, steps))

        steps = args.train_steps or intervals_of(hparams).train_steps
        if args.train_flops is not None:
            epoch = flops(plan.steps_per_epoch) / plan.steps_per_epoch  # of an update, in the mean
            steps = max(round(args.train_flops / epoch), 1)
        return steps, flops(steps)


def _train(flags: Sequence[str], name: str) -> int:
    """Trains in a process of its own; returns its peak memory in MiB."""
    process = subprocess.Popen([sys.executable, "-m", "t2t_lite.bin.trainer", *flags])
    try:
        _, status, usage = os.wait4(process.pid, 0)
    except KeyboardInterrupt:  # the process has had the signal too, and saves
        process.wait()
        raise
    process.returncode = code = os.waitstatus_to_exitcode(status)  # it is gone: nobody is to wait for it again
    if code:
        raise TrainingError(f"The training of {name} has ended with status {code}; the same command goes on with it.")
    return int(usage.ru_maxrss / _MIB)
