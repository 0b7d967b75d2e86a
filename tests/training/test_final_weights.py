"""At the end, the better of averaged and best weights on dev is loaded, reported, recorded, and made the default."""

import json
from collections.abc import Callable
from pathlib import Path

import keras
import numpy as np
import pytest

from t2t_lite.errors import DataError
from t2t_lite.metrics.score import Score
from t2t_lite.optimizers.ema import Ema
from t2t_lite.optimizers.sgd import SGD
from t2t_lite.runs.checkpoint import Checkpoints, find
from t2t_lite.runs.checkpoint_files import AVERAGED, BEST, EMA
from t2t_lite.runs.default_weights import FILE
from t2t_lite.training.evaluate import Scores
from t2t_lite.training.final_weights import choose_weights


class Run:
    """A folder with checkpoints whose weights are one number, and what each number scores on dev."""

    def __init__(self, folder: Path, scores: dict[float, tuple[float, float]], ema: bool = False) -> None:
        self.folder, self._model, self.scores = folder, keras.layers.Dense(1), scores
        self._model.build((None, 1))
        self._optimizer = SGD([weight.value for weight in self._model.weights])
        self._optimizer.ema = Ema(0.9, self._optimizer.variables) if ema else None
        self._checkpoints = Checkpoints(folder, self._model, self._optimizer, keep=9)
        self.evaluations = 0

    @property
    def weights(self) -> float:
        (value,) = {float(x) for weight in self._model.weights for x in np.unique(weight.value.numpy())}
        return value

    def save(self, step: int, value: float, kind: str | None = None) -> None:
        for weight in self._model.weights:
            weight.assign(np.full(weight.shape, value))
        if self._optimizer.ema is not None:
            self._optimizer.ema.update()
        if kind:
            self._checkpoints.save_weights(kind, step)
        else:
            self._checkpoints.save(step)

    def choose(self, number: int) -> tuple[str, Scores | None, list[str]]:
        def evaluate() -> Scores:
            self.evaluations += 1
            score, loss = self.scores[round(self.weights, 4)]
            return Scores(loss, 0.5, Score("BLEU", score, "BLEU|...", ""), ["a"], ["b"], 0, kind="bleu")

        said: list[str] = []
        path, scores = choose_weights(self.folder, self._checkpoints, number, evaluate, said.append)
        return str(Path(path).relative_to(self.folder)), scores, said


@pytest.fixture
def make_run(tmp_path: Path) -> Callable[[dict[float, tuple[float, float]]], Run]:
    """Gives make_run(scores): checkpoints 1.0 of step 10, 2.0 of 20 and 3.0 of 1,030; the best is 1.0."""

    def make(scores: dict[float, tuple[float, float]]) -> Run:
        run = Run(tmp_path, scores)
        for step, value in ((10, 1.0), (20, 2.0), (1030, 3.0)):
            run.save(step, value)
        run.save(10, 1.0, BEST)
        return run

    return make


MakeRun = Callable[[dict[float, tuple[float, float]]], Run]


@pytest.mark.commit
@pytest.mark.parametrize(
    ("averaged", "best", "default"),
    [
        ((31.2, 1.5), (30.9, 1.4), AVERAGED),
        ((1.59, 4.5), (5.59, 4.6), BEST),
        ((0.0, 5.1), (0.0, 5.0), BEST),  # equal scores: the lower loss
        ((0.0, 5.0), (0.0, 5.1), AVERAGED),
        ((7.0, 5.0), (7.0, 5.0), AVERAGED),  # all equal
    ],
)
def test_the_better_on_dev_is_taken_and_is_the_default(
    make_run: MakeRun, averaged: tuple[float, float], best: tuple[float, float], default: str
) -> None:
    run = make_run({2.5: averaged, 1.0: best})
    path, scores, said = run.choose(2)
    assert path == {AVERAGED: "averaged/model-1030", BEST: "best/model-10"}[default]
    assert run.weights == {AVERAGED: 2.5, BEST: 1.0}[default]  # loaded, too
    assert scores is not None
    assert (scores.score.value, scores.loss) == {AVERAGED: averaged, BEST: best}[default]
    assert said == [
        f"On all of dev: averaged BLEU {averaged[0]:.2f}, loss {averaged[1]:.4f}; best (step 10) BLEU {best[0]:.2f}, "
        f"loss {best[1]:.4f}. Taking the {default} weights."
    ]
    assert find(run.folder) == str(run.folder / path)
    record = json.loads((run.folder / FILE).read_text(encoding="utf-8"))
    assert (record["default"], record["averaged"], record["best"]) == (default, "model-1030", "model-10")
    assert {kind: (s["dev_bleu"], s["dev_loss"]) for kind, s in record["dev"].items()} == {
        "averaged": averaged,
        "best": best,
    }


@pytest.mark.parametrize(
    ("number", "scores", "default"),
    [
        (2, {1.0: (1.0, 1.0), 2.5: (1.0, 1.0), 1.75: (2.0, 9.0)}, EMA),
        (2, {1.0: (1.0, 1.0), 2.5: (1.0, 0.9), 1.75: (1.0, 0.9)}, AVERAGED),
        (2, {1.0: (3.0, 1.0), 2.5: (1.0, 0.9), 1.75: (2.0, 0.9)}, BEST),
        (1, {1.0: (1.0, 1.0), 1.75: (2.0, 1.0)}, EMA),  # no mean
        (1, {1.0: (2.0, 1.0), 1.75: (1.0, 1.0)}, BEST),
    ],
)
def test_a_moving_average_is_chosen_like_them(
    tmp_path: Path, number: int, scores: dict[float, tuple[float, float]], default: str
) -> None:
    run = Run(tmp_path, scores, ema=True)
    run.save(10, 1.0)
    run.save(10, 1.0, BEST)  # an update more, to the same weights
    run.save(20, 2.0)
    run.save(1030, 3.0)
    # After 1 and 1: 1. After 2, with 3/12 of it: 1.75. After 3, with 4/13 of that: 2.615...
    value = (4 * 1.75 + 9 * 3) / 13
    run.scores = {round(value, 4) if key == 1.75 else key: score for key, score in scores.items()}
    path, found, said = run.choose(number)
    wanted = {AVERAGED: (2.5, "averaged/model-1030"), BEST: (1.0, "best/model-10"), EMA: (value, "ema/model-1030")}
    assert (run.weights, path) == (pytest.approx(wanted[default][0]), wanted[default][1])
    assert found is not None
    assert said[0].endswith(f"Taking the {default} weights.")
    assert "; ema BLEU" in said[0]
    assert find(run.folder) == str(run.folder / path)
    assert find(run.folder, "ema") == str(run.folder / "ema" / "model-1030")
    run.save(1040, 4.0, BEST)  # the run continues
    assert find(run.folder) == str(run.folder / "best" / "model-1040")


def test_where_one_checkpoint_is_to_be_averaged_the_best_is_taken_unseen(make_run: MakeRun) -> None:
    run = make_run({})
    run.save(20, 1.5, AVERAGED)  # from a time when the recipe still averaged
    assert run.choose(1) == ("best/model-10", None, [])
    assert run.weights == 1.0
    assert find(run.folder) == str(run.folder / "best" / "model-10")


def test_where_there_is_no_best_the_mean_is_taken(make_run: MakeRun) -> None:
    run = make_run({2.0: (1.0, 1.0)})
    for file in (run.folder / "best").iterdir():
        file.unlink()
    path, scores, said = run.choose(3)
    assert (path, said, run.evaluations) == ("averaged/model-1030", [], 1)
    assert scores is not None
    assert find(run.folder) == str(run.folder / path)


@pytest.mark.commit
@pytest.mark.parametrize("best", [(0.5, 0.5), (2.0, 2.0)])
def test_the_choice_counts_until_a_new_best_is_found(make_run: MakeRun, best: tuple[float, float]) -> None:
    run = make_run({2.5: (1.0, 1.0), 1.0: best})
    path, _, _ = run.choose(2)
    run.save(1040, 4.0)  # the run continues
    assert find(run.folder) == str(run.folder / path)
    run.save(1040, 4.0, BEST)
    assert find(run.folder) == str(run.folder / "best" / "model-1040")
    run.save(1050, 5.0, AVERAGED)  # these have not been scored
    assert find(run.folder) == str(run.folder / "averaged" / "model-1050")
    assert find(run.folder, "best") == str(run.folder / "best" / "model-1040")


def test_a_run_without_a_record_takes_the_averaged_weights_unless_the_best_are_newer(make_run: MakeRun) -> None:
    run = make_run({2.5: (1.0, 1.0), 1.0: (2.0, 2.0)})
    run.choose(2)
    assert find(run.folder) == str(run.folder / "best" / "model-10")
    (run.folder / FILE).unlink()
    assert find(run.folder) == str(run.folder / "averaged" / "model-1030")
    run.save(1030, 3.0, BEST)
    assert find(run.folder) == str(run.folder / "averaged" / "model-1030")
    run.save(1040, 4.0, BEST)
    assert find(run.folder) == str(run.folder / "best" / "model-1040")


@pytest.mark.commit
@pytest.mark.parametrize("text", ["", '{"default": "oldest"}', "[" * 100_000])
def test_a_damaged_record_is_named(make_run: MakeRun, text: str) -> None:
    run = make_run({2.5: (1.0, 1.0), 1.0: (2.0, 2.0)})
    run.choose(2)
    (run.folder / FILE).write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=rf"{FILE} .*\. Remove it, or choose the weights with --checkpoint\.$"):
        find(run.folder)
    assert find(run.folder, "best").endswith("best/model-10")
