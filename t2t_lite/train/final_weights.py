"""The weights that a training ends with: the mean of its last checkpoints, or the best one where dev says so."""

from __future__ import annotations

import os
from collections.abc import Callable

from t2t_lite.train.checkpoint import AVERAGED, BEST, Checkpoints, find, list_checkpoints
from t2t_lite.train.default_weights import write_default
from t2t_lite.train.evaluate import Scores
from t2t_lite.train.ranking import DevScore


def choose_weights(
    output_dir: str | os.PathLike[str],
    checkpoints: Checkpoints,
    number: int,
    evaluate: Callable[[], Scores],
    say: Callable[[str], None],
) -> tuple[str, Scores | None]:
    """Averages the last checkpoints (section 6.1), scores mean and best on dev, and loads the better of the two.

    Equal scores: the lower loss; if that is equal, too, the mean. The choice becomes the default of all commands.

    Args:
        number: how many checkpoints are averaged; where it is 1, or there is only one, the best is taken unseen.
        evaluate: scores the loaded weights on the whole of dev.
        say: is given a sentence with both scores.

    Returns:
        (path of the weights, their scores on dev or None where nothing was scored).
    """
    paths, best = list_checkpoints(output_dir)[-number:], list_checkpoints(output_dir, BEST)
    if len(paths) < 2:
        path = find(output_dir, "best")
        checkpoints.load_weights(path)
        write_default(output_dir, BEST, next(iter(list_checkpoints(output_dir, AVERAGED)), None), {})
        return path, None
    scores = {}
    if best:  # first, so that the mean need not be made twice
        checkpoints.load_weights(best[-1])
        scores[BEST] = evaluate()
    checkpoints.average(paths)
    scores[AVERAGED] = evaluate()
    averaged = checkpoints.save_weights(AVERAGED, _step(paths[-1]))
    default = BEST if best and _rank(scores[BEST]).better_than(_rank(scores[AVERAGED])) else AVERAGED
    write_default(output_dir, default, averaged, {kind: each.as_metrics("dev") for kind, each in scores.items()})
    if best:
        say(
            f"On all of dev: averaged {_shown(scores[AVERAGED])}; best (step {_step(best[-1]):,}) "
            f"{_shown(scores[BEST])}. Taking the {default} weights."
        )
    if default == BEST:
        checkpoints.load_weights(best[-1])
    return {AVERAGED: averaged, BEST: best[-1] if best else ""}[default], scores[default]


def _step(path: str) -> int:
    return int(path.rpartition("-")[2])


def _rank(scores: Scores) -> DevScore:
    return DevScore(scores.score.value, scores.loss)


def _shown(scores: Scores) -> str:
    return f"{scores.score.name} {scores.score.value:.2f}, loss {scores.loss:.4f}"
