"""Choice of a run's final weights, by dev: the mean of the last checkpoints, the best one, or the moving average."""

from __future__ import annotations

import os
from collections.abc import Callable

from t2t_lite.runs.checkpoint import Checkpoints, find, list_checkpoints
from t2t_lite.runs.checkpoint_files import AVERAGED, BEST, EMA, step_of
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
    """Averages the last checkpoints (section 6.1), scores mean, best and moving average on dev, and loads the best one.

    If scores are equal, the lower loss wins; if that is equal, too, the mean. The choice becomes the default of all
    commands.

    Args:
        number: how many checkpoints are averaged; if it is 1, or there is only one, there is no mean. Without a moving
            average the best is then taken without scoring.
        evaluate: scores the loaded weights on the whole of dev.
        say: called with a sentence that names the scores.

    Returns:
        (path of the weights, their scores on dev or None where nothing was scored).
    """
    paths, best = list_checkpoints(output_dir)[-number:], _load_best(output_dir, checkpoints)
    averaged = next(iter(list_checkpoints(output_dir, AVERAGED)), None)
    if len(paths) < 2 and not checkpoints.has_ema:
        path = best or find(output_dir, "newest")
        if not best:
            say(f"{output_dir}/best holds no weights: taking the newest, of step {step_of(path):,}.")
            checkpoints.load_weights(path)
        write_default(output_dir, BEST if best else "newest", averaged, best, {})
        return path, None
    files = {BEST: best} if best else {}
    scores = {kind: evaluate() for kind in files}
    if checkpoints.has_ema:
        checkpoints.take_ema()
        scores[EMA] = evaluate()
        files[EMA] = checkpoints.save_weights(EMA, step_of(find(output_dir, "newest")))
    if len(paths) > 1:  # last, so that the mean is computed only once
        read = checkpoints.average(paths)
        scores[AVERAGED] = evaluate()
        files[AVERAGED] = averaged = checkpoints.save_weights(AVERAGED, step_of(read[-1]))
    default, *others = kinds = [kind for kind in (AVERAGED, BEST, EMA) if kind in scores]
    for kind in others:
        if _rank(scores[kind]).better_than(_rank(scores[default])):
            default = kind
    on_dev = {kind: each.as_metrics("dev") for kind, each in scores.items()}
    write_default(output_dir, default, averaged, best, on_dev, files.get(EMA))
    if others:
        steps = {BEST: f" (step {step_of(files[BEST]):,})"} if best else {}
        found = "; ".join(f"{kind}{steps.get(kind, '')} {_show(scores[kind])}" for kind in kinds)
        say(f"On all of dev: {found}. Taking the {default} weights.")
    if default != AVERAGED:
        checkpoints.load_weights(files[default])
    return files[default], scores[default]


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
