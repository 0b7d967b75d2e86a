"""Scores of a run on a split of its own data."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from t2t_lite.metrics.score import CorpusMetric
from t2t_lite.ops.int8_product import check_machine
from t2t_lite.runs.open_run import open_runs
from t2t_lite.training.evaluate import Evaluator


@dataclasses.dataclass(frozen=True)
class RunScores:
    """Result of `evaluate_run`: loss in nats per target token, perplexity per piece, number of repaired trees.

    decoding: the search's settings, as `Translator.settings`.
    data: the checksum of the prepared data.
    """

    checkpoint: str
    split: str
    loss: float
    perplexity: float
    hypotheses: Sequence[str]
    references: Sequence[str]
    repaired: int
    decoding: Mapping[str, Any]
    data: str


def evaluate_run(
    output_dirs: Sequence[str],
    *,
    metric: CorpusMetric,
    split: str | None = None,
    checkpoint: str | None = None,
    usr_dir: str | None = None,
    precision: str | None = None,
    **decoding: Any,
) -> RunScores:
    """Translates a split of a run's own data and computes its loss.

    Args:
        metric: one that can score these outputs.
        split: None: test, or dev without a test set.
        output_dirs, checkpoint, usr_dir, precision, decoding: as in `open_runs`.

    Raises:
        UsageError: int8 on a machine that cannot run it. Else as `open_runs`.
    """
    if precision == "int8":
        check_machine()
    run = open_runs(output_dirs, checkpoint=checkpoint, usr_dir=usr_dir, precision=precision, **decoding)
    store = run.store()
    split = split or ("test" if "test" in store.splits() else "dev")
    scores = Evaluator(run.model, store, run.translator, metric)(split)
    return RunScores(
        run.checkpoint,
        split,
        scores.loss,
        scores.perplexity,
        scores.hypotheses,
        scores.references,
        scores.repaired,
        run.translator.settings,
        store.checksum,
    )
