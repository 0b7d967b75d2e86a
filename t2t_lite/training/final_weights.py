"""Choice of a run's final weights: the mean of the last checkpoints, or the best one if it scores better on dev."""

from __future__ import annotations

import os
from collections.abc import Callable

from t2t_lite.runs.checkpoint import Checkpoints, find, list_checkpoints
from t2t_lite.runs.checkpoint_files import AVERAGED, BEST, step_of
from t2t_lite.runs.default_weights import write_default
from t2t_lite.runs.ranking import DevScore
from t2t_lite.training.evaluate import Scores


def choose_weights(
    output_dir: str | os.PathLike[str],
    checkpoints: Checkpoints,
    number: int,
    evaluate: Callable[[], Scores],
    say: Callable[[str], None],
) -> tuple[str, Scores | None]:
    """Averages the last checkpoints (section 6.1), scores mean and best on dev, and loads the better of the two.

    If the scores are equal, the lower loss wins; if that is equal, too, the mean. The choice becomes the default of all
    commands.

    Args:
        number: how many checkpoints are averaged; if it is 1, or there is only one, the best is taken without scoring.
        evaluate: scores the loaded weights on the whole of dev.
        say: called with a sentence that names both scores.

    Returns:
        (path of the weights, their scores on dev or None where nothing was scored).
    """
    paths, best = list_checkpoints(output_dir)[-number:], _load_best(output_dir, checkpoints)
    if len(paths) < 2:
        path = best or find(output_dir, "newest")
        if not best:
            say(f"{output_dir}/best holds no weights: taking the newest, of step {step_of(path):,}.")
            checkpoints.load_weights(path)
        averaged = next(iter(list_checkpoints(output_dir, AVERAGED)), None)
        write_default(output_dir, BEST if best else "newest", averaged, best, {})
        return path, None
    scores = {}
    if best:  # first, so that the mean is computed only once
        scores[BEST] = evaluate()
    read = checkpoints.average(paths)
    scores[AVERAGED] = evaluate()
    averaged = checkpoints.save_weights(AVERAGED, step_of(read[-1]))
    default = BEST if best and _rank(scores[BEST]).better_than(_rank(scores[AVERAGED])) else AVERAGED
    on_dev = {kind: each.as_metrics("dev") for kind, each in scores.items()}
    write_default(output_dir, default, averaged, best, on_dev)
    if best:
        say(
            f"On all of dev: averaged {_show(scores[AVERAGED])}; best (step {step_of(best):,}) "
            f"{_show(scores[BEST])}. Taking the {default} weights."
        )
    if best and default == BEST:
        checkpoints.load_weights(best)
    return {AVERAGED: averaged, BEST: best or ""}[default], scores[default]


def _load_best(output_dir: str | os.PathLike[str], checkpoints: Checkpoints) -> str | None:
    """Loads the best weights and returns their path, or None if there are none that can be read."""
    for path in reversed(list_checkpoints(output_dir, BEST)):
        if checkpoints.try_weights(path, "the end of the run is made without it"):
            return path
    return None


def _rank(scores: Scores) -> DevScore:
    return DevScore(scores.score.value, scores.loss)


def _show(scores: Scores) -> str:
    return f"{scores.score.name} {scores.score.value:.2f}, loss {scores.loss:.4f}"
