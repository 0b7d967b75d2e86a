"""The table of t2t-lite-compare: what each row scores and costs, as a table and JSON."""

from __future__ import annotations

import dataclasses
import logging
import statistics
import time
from collections.abc import Mapping, Sequence
from typing import Any

from t2t_lite.compare.runs import Run
from t2t_lite.errors import UsageError
from t2t_lite.metrics.score import CorpusMetric, Score
from t2t_lite.metrics.significance import RESAMPLES, paired_bootstrap
from t2t_lite.runs.open_request import OpenRequest
from t2t_lite.table_formats import Table
from t2t_lite.training.evaluate import Evaluator, Scores

_log = logging.getLogger("t2t_lite")


@dataclasses.dataclass(frozen=True)
class Row:
    """A row of the table: a model, or an ensemble whose parameters and training FLOPs are its members' sum.

    Attributes:
        scores: on the test set, or on dev where there is none; one for each seed, or one for an ensemble.
        dev_scores, dev_losses: the same on the dev set; losses are in nats per piece.
        p_value: for the hypothesis that this row and the first one have equal scores, each with its first seed (paired
            bootstrap); None in the first row, and where the metric gives no scores of lines.
        sentences_per_second: of the search.
        train_steps, train_flops: updates and FLOPs of the training, as means over seeds.
        tokens_per_second: real target tokens in the training of the first run.
        peak_mib: peak memory of the largest training process, in MiB.
        budget: of each training: train_flops, train_steps, or train_minutes and the updates_per_second with which these
            were counted.
    """

    name: str
    split: str
    scores: list[Score]
    dev_scores: list[float]
    dev_losses: list[float]
    parameters: int
    train_steps: int
    train_flops: float
    sentences_per_second: float
    tokens_per_second: float
    peak_mib: int
    budget: Mapping[str, float]
    metric: CorpusMetric
    p_value: float | None = None

    @property
    def mean(self) -> float:
        return statistics.fmean(score.value for score in self.scores)

    @property
    def spread(self) -> float:
        """Standard deviation of the scores over seeds; 0 for a single score."""
        return statistics.stdev(score.value for score in self.scores) if len(self.scores) > 1 else 0.0

    def against(self, first: Row) -> Row:
        """Returns the row with its p-value against the first row."""
        if self is first:
            return self
        try:
            found = paired_bootstrap(first.metric, self.scores[0], first.scores[0])
        except UsageError as error:
            _log.warning("%s", error)
            return self
        return dataclasses.replace(self, p_value=found.p_value)

    def as_dict(self) -> dict[str, Any]:
        """The row, JSON-ready."""
        left_out = ("metric", "scores")
        shown = {name: value for name, value in vars(self).items() if name not in left_out}
        return {**shown, "scores": [s.as_dict() for s in self.scores], "mean": self.mean, "spread": self.spread}


def measure(name: str, groups: Sequence[Sequence[Run]], budget: Mapping[str, float], usr_dir: str | None) -> Row:
    """Scores each group of runs, an ensemble or one run, which differ in their seeds; times the first one's search."""
    found: list[tuple[Scores, Scores]] = []  # of the test set, or of dev where there is none, and of dev
    for group in groups:
        opened = OpenRequest(folders=tuple(run.folder for run in group), usr_dir=usr_dir).open_to_decode()
        store, metric = opened.store(), opened.spec.make_problem().make_metric()
        evaluate = Evaluator(opened.model, store, opened.translator, metric)
        split, dev = "test" if "test" in store.splits() else "dev", evaluate("dev")
        found.append((dev if split == "dev" else evaluate(split), dev))
        if len(found) == 1:
            sources, parameters = store.text(split)[0], sum(m.model.count_params() for m in opened.members)
            start = time.perf_counter()  # the evaluation has already traced the search
            opened.translator.translate(sources)
            speed = len(sources) / (time.perf_counter() - start)
        del opened, evaluate  # one group is in memory at a time
    runs = [run for group in groups for run in group]
    return Row(
        name=name,
        split=split,
        scores=[each.score for each, _ in found],
        dev_scores=[dev.score.value for _, dev in found],
        dev_losses=[dev.loss for _, dev in found],
        parameters=parameters,
        train_steps=round(statistics.fmean(run.train_steps for run in runs)),
        train_flops=statistics.fmean(sum(run.flops for run in group) for group in groups),
        sentences_per_second=speed,
        tokens_per_second=runs[0].tokens_per_second,
        peak_mib=max(run.peak_mib for run in runs),
        budget=budget,
        metric=metric,
    )


def make_table(rows: Sequence[Row], title: str) -> Table:
    """The rows as a table; CSV has the mean and the spread over the seeds with all digits."""
    head, *cells = grid(rows)
    names = "name split metric score spread seeds p_value dev_score dev_loss parameters train_steps train_flops"
    names += " tokens_per_second sentences_per_second peak_mib signature"
    values = [
        [
            *(row.name, row.split, row.scores[0].name, row.mean, row.spread, len(row.scores), row.p_value),
            *(statistics.fmean(row.dev_scores), statistics.fmean(row.dev_losses), row.parameters),
            *(row.train_steps, row.train_flops, row.tokens_per_second, row.sentences_per_second, row.peak_mib),
            row.scores[0].signature,
        ]
        for row in rows
    ]
    return Table(title, head, cells, names.split(), values, notes(rows))


def grid(rows: Sequence[Row]) -> list[tuple[str, ...]]:
    """The head and the cells of each row; * marks scores that differ from the first one's with p < 0.05."""
    name, seeds, tested = rows[0].scores[0].name, _seeds(rows), _has_test(rows)
    head = (
        *("", name, *(["+-"] if seeds > 1 else []), *(["p"] if tested else [])),
        *(f"dev {name}", "dev loss", "parameters"),
        *("updates", "FLOPs", "tokens/s", "sent/s", "MiB"),
    )
    return [head, *(_cells(row, seeds, tested) for row in rows)]


def notes(rows: Sequence[Row]) -> list[str]:
    """What the columns mean, and how the scores and the budget were computed."""
    score, seeds, tested = rows[0].scores[0], _seeds(rows), _has_test(rows)
    several = [f"{score.name}, dev: means over {seeds} seeds; +-: standard deviation; *N: an ensemble, scored once"]
    return [
        f"{score.name}|{score.signature}",
        f"budget: {_budget(rows)}",
        *(several if seeds > 1 else []),
        *([f"p: paired bootstrap against {rows[0].name}, {RESAMPLES:,} resamples; * below 0.05"] if tested else []),
        "FLOPs: of the updates that were made, on real tokens; of one training, or of all members of an ensemble",
        "tokens/s: of training; sent/s: of the search; on this machine. MiB: peak of the training process",
    ]


def _seeds(rows: Sequence[Row]) -> int:
    return max(len(row.scores) for row in rows)


def _has_test(rows: Sequence[Row]) -> bool:
    return any(row.p_value is not None for row in rows)


def _budget(rows: Sequence[Row]) -> str:
    budget = rows[0].budget
    if "train_flops" in budget:
        return f"{budget['train_flops']:.4g} FLOP of each training, to the nearest update"
    if "train_minutes" in budget:
        speeds = {row.name.partition("*")[0]: row.budget["updates_per_second"] for row in rows}
        measured = ", ".join(f"{name} {speed:,.2f}" for name, speed in speeds.items())
        return f"{budget['train_minutes']:g} minutes of each training; updates/s measured for that: {measured}"
    steps = {row.budget["train_steps"] for row in rows}
    return f"{steps.pop():,.0f} updates of each training" if len(steps) == 1 else "train_steps of each set"


def _cells(row: Row, seeds: int, tested: bool) -> tuple[str, ...]:
    p = "" if row.p_value is None else f"{row.p_value:.3f}{'*' if row.p_value < 0.05 else ''}"
    spread = f"{row.spread:.2f}" if len(row.scores) > 1 else ""
    return (
        *(row.name, f"{row.mean:.2f}", *([spread] if seeds > 1 else []), *([p] if tested else [])),
        *(f"{statistics.fmean(row.dev_scores):.2f}", f"{statistics.fmean(row.dev_losses):.3f}"),
        *(f"{row.parameters:,}", f"{row.train_steps:,}", f"{row.train_flops:.2e}"),
        *(f"{row.tokens_per_second:,.0f}", f"{row.sentences_per_second:.1f}", f"{row.peak_mib:,}"),
    )
