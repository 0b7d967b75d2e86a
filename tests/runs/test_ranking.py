"""Which evaluation is the best, and which counts as progress: the score first, the loss if scores are equal."""

import json
import math
from pathlib import Path

import pytest

from t2t_lite.runs.metrics_log import METRICS_FILE, note_other_scores, read_metrics
from t2t_lite.runs.ranking import DevScore, evaluations_without_progress, past_scores


@pytest.mark.parametrize(
    ("one", "other", "better"),
    [
        (DevScore(2.0, 9.0), DevScore(1.0, 1.0), True),
        (DevScore(0.0, 1.0), DevScore(0.0, 2.0), True),
        (DevScore(0.0, 2.0), DevScore(0.0, 2.0), False),
        (DevScore(0.001, 9.0), DevScore(0.0, 1.0), True),  # equal only if every digit is
        (DevScore(0.0, math.nan), DevScore(0.0, 1.0), False),
        (DevScore(0.0, 1.0), DevScore(0.0), True),  # metrics.jsonl had no loss
    ],
)
def test_the_higher_score_is_better_and_of_equal_scores_the_lower_loss(
    one: DevScore, other: DevScore, better: bool
) -> None:
    assert one.better_than(other) is better
    assert not other.better_than(one) or not better


@pytest.mark.parametrize(
    ("scores", "start", "since"),
    [
        ([], 0, 0),
        ([(0, 5)], 0, 0),
        ([(0, 5), (0, 5)], 0, 1),
        ([(0, 5), (0, 4), (0, 3)], 0, 0),  # the loss falls while the score stands still
        ([(0, 5), (1, 6), (2, 7)], 0, 0),  # the score rises while the loss does, too
        ([(5, 5), (4, 4), (4, 4.5), (4.5, 4.2)], 0, 2),
        ([(5, 5), (4, math.nan), (4, 4)], 0, 0),
        ([(5, 5), (4, 6), (4, 6)], 3, 0),  # reset after the last one
        ([(5, 5), (4, 6), (4, 6)], 2, 1),
        ([(5, 5), (4, 6), (6, 6)], 2, 0),
    ],
)
def test_progress_is_a_better_score_or_a_lower_loss(scores: list[tuple[float, float]], start: int, since: int) -> None:
    by_step = {step: DevScore(*each) for step, each in enumerate(scores, 1)}
    assert evaluations_without_progress(by_step, start) == since


def test_the_results_of_past_evaluations_are_found_again(tmp_path: Path) -> None:
    assert past_scores(tmp_path) == {}
    lines = [{"step": 5, "loss": 3.0}, {"step": 5, "dev_loss": 1.0, "dev_bleu": 7.0}, {"step": 10, "dev_bleu": 9.0}]
    lines += [{"step": 15, "dev_bleu_paper": 8.0, "dev_loss": 1 / 3}, {"step": 20, "dev_chrf": 50.0}]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (tmp_path / METRICS_FILE).write_text(text, encoding="utf-8")
    found = {5: DevScore(7.0, 1.0), 10: DevScore(9.0), 15: DevScore(8.0, 1 / 3), 20: DevScore(50.0)}
    assert past_scores(tmp_path) == found
    note_other_scores(tmp_path, 15)
    assert past_scores(tmp_path) == {}
    with open(tmp_path / METRICS_FILE, "a", encoding="utf-8") as file:
        file.write('{"step": 15, "dev_bleu": 1.0}\n')
    assert past_scores(tmp_path) == {15: DevScore(1.0)}
    assert [line["step"] for line in read_metrics(tmp_path)] == [5, 5, 10, 15, 20, 15, 15]
