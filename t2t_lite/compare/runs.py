"""The training runs of t2t-lite-compare; each is a process of the trainer that resumes where it was stopped."""

import contextlib
import dataclasses
import functools
import itertools
import json
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from t2t_lite import config, registry
from t2t_lite.compare import speed
from t2t_lite.compare.process import train
from t2t_lite.compare.sets import CompareRequest, Entry
from t2t_lite.data.pipeline import make_plan
from t2t_lite.data.plan import Plan
from t2t_lite.data.sampled_split import training_split
from t2t_lite.data.store import Store
from t2t_lite.errors import DataError, UsageError
from t2t_lite.files import read_json, replace_file
from t2t_lite.runs.lock import only_trainer
from t2t_lite.runs.metrics_log import METRICS_FILE, read_metrics
from t2t_lite.runs.recipe_request import RecipeRequest
from t2t_lite.runs.resume import check_settings
from t2t_lite.runs.run_data import given_vocabulary_of, prepare_run_data
from t2t_lite.runs.run_dir import RunSpec, has_weights, make_absolute, read_run, relative_data_dir
from t2t_lite.runs.start_request import StartRequest
from t2t_lite.runs.utilisation import planned_flops
from t2t_lite.training.build import build_model, training_cost
from t2t_lite.verbosity import say

_FILE, _FORMAT = "runs.json", 1
_OF_SPEED = ("jit", "remat")  # change no update, but how fast it is; remat is a field of some models only
# These change no update either, but which updates' weights are compared; a run that is trained keeps all that it has.
_FIXED = ("eval_every", "eval_lines", "save_every", "save_minutes", "early_stopping", *_OF_SPEED)


class Run(NamedTuple):
    """A trained run; all but `peak_mib`, of its process, is read from its metrics.jsonl.

    Attributes:
        train_steps: updates made; early stopping may have ended the run before its recipe's train_steps.
        flops: of these updates, on real tokens.
        tokens_per_second: real target tokens; the median of the run's reports.
    """

    folder: str
    train_steps: int
    flops: float
    tokens_per_second: float
    peak_mib: int


class _Plan(NamedTuple):
    """Plan of a run: changes to its set, its updates and their FLOPs, and the budget that they follow from."""

    changes: dict[str, Any]
    steps: int
    flops: float
    budget: Mapping[str, float]


@dataclasses.dataclass(frozen=True)
class _Cost:
    """Cost of a set's runs on the data: the plan of their batches, and the FLOPs of their first N updates."""

    entry: Entry
    data_sha256: str | None
    plan: Plan
    flops: Callable[[int], float]

    @functools.cached_property
    def average(self) -> float:
        """FLOPs of an update on average."""
        return self.flops(self.plan.steps_per_epoch) / self.plan.steps_per_epoch


class Runs:
    """The runs in the folder of a comparison.

    runs.json has FORMAT; "runs": by name, the request with which one is done, {} if it is not, and its peak memory; and
    "speeds" by set.
    """

    def __init__(self, request: CompareRequest) -> None:
        self._request, self._folder = request, Path(request.output_dir)
        self._plans: dict[str, _Plan] = {}
        remedy = "Delete it: only how much memory runs took, and speeds for --train_minutes, are lost."
        self._state: dict[str, Any] = {"format": _FORMAT, "runs": {}, "speeds": {}}
        with contextlib.suppress(FileNotFoundError):
            self._state = read_json(self._folder / _FILE, _FORMAT, {"runs": dict, "speeds": dict}, remedy)

    def plan(self, entries: Sequence[Entry]) -> None:
        """Counts the budgets of all entries, so that an error in one ends the command before any training."""
        shared, store = self._data(entries[0])
        costs: dict[str, _Cost] = {}
        for entry in entries:
            model, hparams = registry.model_of(entry.hparams_set), self._request.recipe(entry).hparams
            spec = dataclasses.replace(shared, hparams_set=entry.hparams_set, model=model, hparams=hparams)
            for seed in itertools.chain(*entry.groups(self._request.seed, self._request.seeds)):
                seeded = dataclasses.replace(spec, hparams=config.replace(hparams, seed=seed))
                _check_run(self._folder / f"{entry.variant}-{seed}", seeded)
            if entry.variant not in costs:
                costs[entry.variant] = _cost(entry, spec, store)
        self._plans = {variant: self._count(cost) for variant, cost in costs.items()}

    def budget(self, entry: Entry) -> Mapping[str, float]:
        """Returns the budget of each training of a planned entry, with the speed by which minutes became updates."""
        return self._plans[entry.variant].budget

    def train_entry(self, entry: Entry) -> list[list[Run]]:
        """Returns the runs of a planned entry, in groups that are scored together; trains those not trained yet."""
        groups = entry.groups(self._request.seed, self._request.seeds)
        return [[self._train(entry, seed) for seed in group] for group in groups]

    def _train(self, entry: Entry, seed: int) -> Run:
        name, plan = f"{entry.variant}-{seed}", self._plans[entry.variant]
        start, run = self._start(entry, {**plan.changes, "seed": seed}, name), self._folder / name
        request, done = start.as_dict(), self._state["runs"].get(name, {"request": {}, "peak_mib": 0})
        if done["request"] != request or not _reports(run):
            say(f"\n{name}: {plan.steps:,} updates, {plan.flops:.2e} FLOP")
            before = done["peak_mib"] if run.exists() else 0
            with only_trainer(run):  # not one that a killed command has left, which is about to end
                pass
            self._record(name, {}, before)  # if the training is stopped, the run is not done
            # A process that has nothing left to train takes less memory.
            self._record(name, request, max(train(start, name), before))
        return _measure(run, self._state["runs"][name]["peak_mib"])

    def _start(self, entry: Entry, changes: Mapping[str, Any], name: str) -> StartRequest:
        """Returns the start of a training run of an entry; the data are prepared."""
        data = self._request.data
        data = dataclasses.replace(
            data, data_dir=data.data_dir or str(self._folder / "data"), prepare_again=False, num_workers=None
        )
        recipe = RecipeRequest(hparams_set=entry.hparams_set, overrides=dict(changes))
        return StartRequest(output_dir=str(self._folder / name), data=data, recipe=recipe)

    def _record(self, name: str, request: dict[str, Any], peak_mib: int) -> None:
        self._state["runs"][name] = {"request": request, "peak_mib": peak_mib}
        self._write()

    def _write(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        replace_file(self._folder / _FILE, json.dumps(self._state, indent=2))

    def _data(self, entry: Entry) -> tuple[RunSpec, Store]:
        """Prepares the data, which all entries share; returns them with the specification of one entry's run."""
        data, folder = self._request.data, str(self._folder / "budget")  # paths start here; nothing is written there
        problem = data.make_problem()
        spec = RunSpec(
            problem=problem.name,
            options=problem.all_options(),
            data_dir=relative_data_dir(data.data_dir or str(self._folder / "data"), folder),
            usr_dir=make_absolute(data.usr_dir),
            hparams_set=entry.hparams_set,
            model=registry.model_of(entry.hparams_set),
            hparams=self._request.recipe(entry).hparams,
            vocabulary=None if data.vocabulary is None else given_vocabulary_of(data.vocabulary),
        )
        return prepare_run_data(spec, folder, again=data.prepare_again)

    def _count(self, cost: _Cost) -> _Plan:
        """Updates of a set's runs within the budget, and their FLOPs on real tokens."""
        args, (changes, hparams) = self._request, self._request.recipe(cost.entry)
        steps, budget, variant = hparams.train_steps, {}, cost.entry.variant
        if args.train_flops is not None:
            budget = {"train_flops": args.train_flops}
            steps = round(_updates("train_flops", args.train_flops, cost.average, "FLOPs", variant))
        elif args.train_minutes is not None:
            speed = self._flops_per_second(cost, changes) / cost.average
            budget = {"train_minutes": args.train_minutes, "updates_per_second": speed}
            steps = int(_updates("train_minutes", args.train_minutes, 1 / speed / 60, "minutes", variant))
        if budget:
            config.replace(hparams, train_steps=steps)  # raises UsageError if they are too many
            changes["train_steps"] = steps
        return _Plan(changes, steps, cost.flops(steps), budget or {"train_steps": steps})

    def _flops_per_second(self, cost: _Cost, changes: Mapping[str, Any]) -> float:
        """Speed of a set's runs; kept in runs.json, so that an interrupted run ends at the same update."""
        name, speeds = cost.entry.variant, self._state["speeds"]
        of = {"recipe": _timed(self._request.recipe(cost.entry).hparams), "data_sha256": cost.data_sha256}
        kept: dict[str, Any] = speeds.get(name, {})
        if {field: kept.get(field) for field in of} != of:
            say(f"\n{name}: its speed is being measured")
            found = speed.measure(self._start(cost.entry, changes, name), cost.plan, self._folder, name)
            say(f"{name}: {found / cost.average:,.2f} updates/s, {found:.2e} FLOP/s")
            speeds[name] = kept = {**of, "flops_per_second": found}
            self._write()
        return float(kept["flops_per_second"])


def _timed(hparams: config.HParams) -> dict[str, Any]:
    """Fields of a recipe that its updates or their speed depend on; with others changed, a run keeps its budget."""
    fields, values = config.fields(type(hparams)), config.to_dict(hparams)
    names = [name for name in values if fields[name].meta.resume != "always" or name in _OF_SPEED]
    found: dict[str, Any] = json.loads(json.dumps({name: values[name] for name in names}))
    return found


def _cost(entry: Entry, spec: RunSpec, store: Store) -> _Cost:
    batch, seed = spec.hparams.batch, spec.hparams.seed
    split, source, target = training_split(store, batch, seed), store.source_vocabulary, store.target_vocabulary
    model = build_model(spec.model, spec.hparams, source.size, target.size, source is target, training=True)
    cost = training_cost(model, spec.hparams)
    plan = make_plan(split, batch, seed)
    found = _Cost(entry, spec.data_sha256, plan, lambda steps: float(planned_flops(cost, split, plan, steps)))
    if not found.average > 0:
        raise UsageError(
            f"{entry.variant}: an update has {found.average:g} FLOPs by the `cost` of its model, {spec.model}. A "
            "comparison needs the real number; see t2t_lite/models/base.py."
        )
    return found


def _updates(flag: str, budget: float, each: float, unit: str, variant: str) -> float:
    """Returns how many updates fit into the budget of a flag if one takes `each`; UsageError if not one does."""
    if budget < each:
        raise UsageError(
            f"--{flag}={budget:.4g} is not enough for an update of {variant}, which takes {each:.4g} {unit} on "
            "average. Give more, or smaller batches: --hparams=batch_tokens=N."
        )
    return budget / each


def _check_run(folder: Path, spec: RunSpec) -> None:
    """Raises T2TError if the run in `folder` has weights that were trained on other data, or with other settings."""
    if not has_weights(folder):
        return
    old = read_run(folder, spec.usr_dir)
    if old.data_sha256 != spec.data_sha256:
        raise DataError(
            f"{folder} was trained on other data than those that are prepared now, so its scores and those of new runs "
            "cannot be compared. Give another --output_dir."
        )
    new = dataclasses.replace(spec, vocabulary=old.vocabulary)  # the data hold the vocabulary
    check_settings(old, new, folder, fixed=_FIXED)
    kept, asked = old.hparams.run.num_kept, spec.hparams.run.num_averaged
    if asked > kept:
        raise UsageError(
            f"average_checkpoints={asked}, but {folder} has kept only its {kept} newest checkpoints. Give at most "
            f"{kept}, or another --output_dir."
        )


def _reports(folder: Path) -> list[dict[str, Any]]:
    """Returns the lines of metrics.jsonl that report on the training."""
    return [line for line in read_metrics(folder) if "flops" in line]


def _measure(folder: Path, peak_mib: int) -> Run:
    reports = _reports(folder)
    if not reports:
        raise DataError(
            f"{folder / METRICS_FILE} has no report of a training, from which its updates and FLOPs are taken. "
            f"Delete {folder}: the same command trains it again."
        )
    speed = statistics.median(line["tokens_per_second"] for line in reports)
    return Run(str(folder), read_metrics(folder)[-1]["step"], reports[-1]["flops"], speed, peak_mib)
