"""The metric of a problem, checked before any long work."""

from __future__ import annotations

import inspect
import numbers
from typing import Any

from t2t_lite.errors import UsageError
from t2t_lite.metrics.score import CorpusMetric, Score, no_score


def check_metric(metric: CorpusMetric, where: str) -> CorpusMetric:
    """Returns a metric.

    Args:
        where: who has made it, with which errors begin, such as "The problem 'toy_ende'".

    Raises:
        UsageError: it is not a metric, returns no score, or is TER, of which lower scores are better.
    """
    what = f"{where} has the metric {metric!r:.80}, which"
    if not isinstance(metric, CorpusMetric):
        raise UsageError(f"{what} is no metric; derive it from t2t_lite.metrics.score.CorpusMetric.")
    if not isinstance(getattr(metric, "signature", None), str):
        raise UsageError(f"{what} has no signature, which is text that says how its scores are computed.")
    if metric.kind == "ter":
        from t2t_lite.metrics.metric import Metric

        if type(metric).score is Metric.score:
            raise UsageError(
                f"{where} has the metric TER. Lower is better there, so the worst checkpoint would be taken for the "
                "best. Return a subclass whose score is negative, or another metric."
            )
    _try(metric)
    return metric


def _try(metric: CorpusMetric) -> None:
    """Raises UsageError if a metric's score() takes other arguments, or returns something else than a Score."""
    try:
        inspect.signature(metric.score).bind(["a"], ["a"], ["a"])
    except TypeError as error:
        name = type(metric).__name__
        raise UsageError(f"{name}.score has to take (hypotheses, references, sources): {error}.") from error
    try:
        found = metric.score(["a"], ["a"], ["a"])
    except Exception:  # perhaps its references are never such a line
        return
    value: Any = getattr(found, "value", None)
    if not isinstance(found, Score) or not isinstance(value, numbers.Real):
        raise UsageError(no_score(metric, found))
