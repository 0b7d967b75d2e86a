"""Ranking of evaluations: by higher score, then by lower loss."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping

from t2t_lite.files import StrPath
from t2t_lite.runs.metrics_log import read_comparable

# How the score entries of an evaluation line begin.
SCORES = ("dev_bleu", "dev_chrf", "dev_f1", "dev_accuracy_per_sequence", "dev_score")


@dataclasses.dataclass(frozen=True)
class DevScore:
    """Result of one evaluation: the problem's metric, higher is better, and the loss in nats per target token."""

    score: float
    loss: float = math.inf

    def better_than(self, other: DevScore) -> bool:
        """Whether the score is higher, or exactly equal (as with 0.00) and the loss lower."""
        return (self.score, -self.loss) > (other.score, -other.loss)


def past_scores(output_dir: StrPath) -> dict[int, DevScore]:
    """The evaluations in metrics.jsonl whose scores compare with those to come, by step."""
    return {
        line["step"]: DevScore(value, line.get("dev_loss", math.inf))
        for line in read_comparable(output_dir)
        for name, value in line.items()
        if name.startswith(SCORES)
    }


def evaluations_without_progress(scores: Mapping[int, DevScore], start: int) -> int:
    """How many evaluations there were since the last one with a better score or a lower loss than all before it.

    Args:
        start: the step of the optimizer's last reset, or 0; evaluations up to it are not counted.
    """
    best_score, best_loss, since = -math.inf, math.inf, 0
    for step, each in scores.items():
        progress = each.score > best_score or each.loss < best_loss
        since = 0 if progress or step <= start else since + 1
        best_score, best_loss = max(best_score, each.score), min(best_loss, each.loss)
    return since
