"""The metric of a problem, checked before any long work."""

from __future__ import annotations

import inspect
import numbers
from typing import TYPE_CHECKING, Any

from t2t_lite.errors import UsageError

if TYPE_CHECKING:
    from t2t_lite.metrics.score import CorpusMetric


def check_metric(metric: CorpusMetric, problem: str, *, own: bool) -> CorpusMetric:
    """Returns the metric that a problem has made.

    Args:
        metric: what its `make_metric` returned.
        problem: its name.
        own: whether the problem overrides `make_metric`.

    Raises:
        UsageError: it is not a metric, returns no score, or is TER, of which lower scores are better.
    """
    lacks = [] if callable(getattr(metric, "score", None)) else ["method score(hypotheses, references)"]
    lacks += [] if isinstance(getattr(metric, "signature", None), str) else ["signature, which is text"]
    if lacks or isinstance(metric, type):
        what = f"has no {' and no '.join(lacks)}" if lacks else "is a class: return an object of it"
        raise UsageError(
            f"The problem {problem!r} has a make_metric() that returned {metric!r:.80}, which {what}; "
            "t2t_lite/metrics/score.py says what a metric has."
        )
    if getattr(metric, "kind", "") == "ter":
        from t2t_lite.metrics.metric import Metric

        if type(metric).score is Metric.score:
            raise UsageError(
                f"The problem {problem!r} has a make_metric() that returned TER. Lower is better there, so the "
                "worst checkpoint would be taken for the best. Return a subclass whose score is negative, or another "
                "metric."
            )
    if own:
        _try(metric)
    return metric


def _try(metric: CorpusMetric) -> None:
    """Raises UsageError if a metric's score() takes other arguments, or returns something else than a Score."""
    from t2t_lite.metrics.score import Score, no_score

    try:
        inspect.signature(metric.score).bind(["a"], ["a"])
    except TypeError as error:
        raise UsageError(f"{type(metric).__name__}.score has to take (hypotheses, references): {error}.") from error
    except ValueError:  # a function of C, which has no signature
        pass
    try:
        found = metric.score(["a"], ["a"])
    except Exception:  # perhaps its references are never such a line
        return
    value: Any = getattr(found, "value", None)
    if not isinstance(found, Score) or not isinstance(value, numbers.Real):
        raise UsageError(no_score(metric, found))
