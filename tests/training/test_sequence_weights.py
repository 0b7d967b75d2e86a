"""Weights of training pairs: loss and gradients are those of pairs that are repeated; files; a run from the command."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from t2t_lite.cli import trainer
from t2t_lite.data.pipeline import assemble, make_plan
from t2t_lite.data.prepare import prepare
from t2t_lite.data.store import open_store
from t2t_lite.distributed.devices import Devices, make_strategy
from t2t_lite.errors import DataError, UsageError
from t2t_lite.groups import BatchGroup, OptimizerGroup
from t2t_lite.optimizers.adam import Adam
from t2t_lite.problem import Problem, WeightedPair
from t2t_lite.registry import problem as make_problem
from t2t_lite.training.step import TrainStep

WORDS = "ba be bi bo bu da de di do du".split()
WEIGHTS = [2.0, 0.0, 1.0, 3.0, 1.0]


def _line(number: int, offset: int) -> str:
    return " ".join(WORDS[(number * k + offset) % 10] for k in range(1, 3 + number % 4))


def _write(folder: Path, weights: list[str], pairs: int = 5, name: str = "weight") -> Path:
    folder.mkdir()
    for split, number in (("train", pairs), ("dev", 3)):
        for ending, offset in (("en", 0), ("de", 3)):
            text = "".join(f"{_line(i, offset)}\n" for i in range(number))
            (folder / f"{split}.{ending}").write_text(text, "utf-8")
    (folder / f"train.{name}").write_text("".join(f"{weight}\n" for weight in weights), "utf-8")
    return folder


def _problem(folder: Path, **options: Any) -> Problem:
    given = {"source_dir": str(folder), "languages": "en-de", "vocab_size": 30, "vocab_type": "char"}
    return make_problem("text2text", **given, **options)


@pytest.fixture(scope="module")
def batches(tmp_path_factory: pytest.TempPathFactory) -> dict[bool, dict[str, np.ndarray]]:
    """All pairs in one batch, by whether it is packed."""
    folder = tmp_path_factory.mktemp("weights")
    text = _write(folder / "text", [f"{weight:g}" for weight in WEIGHTS])
    store = prepare(_problem(text, sequence_weights="weight"), folder / "data", num_workers=1)
    found = {}
    for packing in (False, True):
        split, group = open_store(store.folder).split("train"), BatchGroup(256, 64, packing)
        assert split.weights is not None
        assert split.weights.tolist() == WEIGHTS
        found[packing] = assemble(split, make_plan(split, group, 1).batch(1), packing)
    return found


class _Step:
    """Loss, norm and moments, which are the gradients, of one update from the same weights."""

    def __init__(self, model: Any, **how: Any) -> None:
        self.adam = Adam([w.value for w in model.trainable_weights], 0.9, 0.98, 1e-9)
        parts = model, self.adam, make_strategy(Devices(1)), OptimizerGroup()
        self._step = TrainStep(*parts, seed=1, jit=False, **{"accumulate": 1, **how})

    def __call__(self, batch: dict[str, np.ndarray]) -> list[np.ndarray]:
        self.adam.reset(0)
        self._step(batch, 1, 0.0)  # with this rate the weights stay
        loss, norm, *_ = self._step.outcome()
        return [np.array(loss), np.array(norm), *(m.numpy() for m in self.adam.m)]


@pytest.mark.parametrize(
    "how",
    [
        pytest.param({}, marks=pytest.mark.commit),
        pytest.param({"accumulate": 3}, marks=pytest.mark.nightly),
        pytest.param({"packed": True}, marks=pytest.mark.nightly),
    ],
)
def test_a_pair_of_weight_two_counts_like_two_pairs(batches: Any, make_model: Callable[..., Any], how: Any) -> None:
    model, weighted = make_model(40), batches[False]
    of_rows = weighted["weight"].view(np.float32)[:, 0]
    assert sorted(of_rows[of_rows > 0].tolist()) == [1.0, 1.0, 2.0, 3.0]
    for row, real in zip(weighted["weight"].view(np.float32), weighted["target"] > 0, strict=True):
        assert set(row[real]) <= {row[0]}
        assert not row[~real].any()
    times = of_rows.astype(int)
    repeated = {name: np.repeat(weighted[name], times, axis=0) for name in ("source", "target")}
    found = _Step(model, weighted=True, **how)(batches["packed" in how])
    for got, other in zip(found, _Step(model)(repeated), strict=True):
        np.testing.assert_allclose(got, other, rtol=0, atol=1e-4 * np.abs(other).max())


@pytest.mark.nightly
def test_the_loss_is_divided_by_the_sum_of_weights(batches: Any, make_model: Callable[..., Any]) -> None:
    model, batch = make_model(40), batches[False]
    weights, total = batch["weight"].view(np.float32), 0.0
    logp = tf.math.log_softmax(model({name: batch[name] for name in ("source", "target")})).numpy().astype(np.float64)
    for (row, place), label in np.ndenumerate(batch["target"]):
        smoothed = 0.9 * logp[row, place, label] + 0.1 / 40 * logp[row, place].sum()
        total -= weights[row, place] * smoothed
    assert float(_Step(model, weighted=True)(batch)[0]) == pytest.approx(total / weights.sum(), rel=1e-5)


@pytest.mark.parametrize("line", ["-1", "nan", "inf", "", "1e7", "much"])
def test_what_is_no_weight_is_named_with_file_and_line(tmp_path: Path, line: str) -> None:
    folder = _write(tmp_path / "text", ["1", line, "1", "1", "1"])
    with pytest.raises(DataError, match=rf"train\.weight, line 2: '{line}' is no weight, which is a number from 0 to"):
        list(_problem(folder, sequence_weights="weight").samples("train"))


def test_other_faults_of_the_files(tmp_path: Path) -> None:
    fewer = _write(tmp_path / "fewer", ["1"] * 4)
    with pytest.raises(DataError, match=r"train\.weight does not fit its text: there are more pairs than the 4 lines"):
        list(_problem(fewer, sequence_weights="weight").samples("train"))
    with pytest.raises(DataError, match=r"--sequence_weights=score: .* has no train\.score"):
        list(_problem(fewer, sequence_weights="score").samples("train"))
    with pytest.raises(UsageError, match="--alignments=align and --sequence_weights=weight exclude each other"):
        _problem(fewer, sequence_weights="weight", alignments="align")
    zeros = _write(tmp_path / "zeros", ["0"] * 5)
    with pytest.raises(DataError, match="The weights of all training pairs are 0"):
        prepare(_problem(zeros, sequence_weights="weight"), tmp_path / "data", num_workers=1)


class _Own(Problem):
    name, weighted, vocab_size, vocab_type = "own_weights", True, 30, "char"
    weight: Any = 0.5

    def samples(self, split: str) -> Any:
        for number in range(4):
            pair = _line(number, 0), _line(number, 3)
            yield pair if self.weight is None or split != "train" else WeightedPair(*pair, self.weight)


def test_a_problem_of_ones_own(tmp_path: Path) -> None:
    own = _Own()
    store = prepare(own, tmp_path / "data", num_workers=1)
    assert open_store(store.folder).split("train").weights.tolist() == [0.5] * 4  # type: ignore[union-attr]
    for weight, message in (
        (-1.0, "gave pair 1 the weight -1.0"),
        (math.nan, "weight nan"),
        (None, "without a weight"),
    ):
        own.weight = weight
        with pytest.raises(DataError, match=message):
            prepare(own, tmp_path / "other", num_workers=1)


@pytest.mark.nightly
def test_a_run_learns_what_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each source has two targets, of which one weighs nothing."""
    text = tmp_path / "text"
    text.mkdir()
    pairs = [(f"{a} {b}", side, weight) for a in WORDS for b in WORDS for side, weight in ((a, 1), (b, 0))]
    for ending, column in (("en", 0), ("de", 1), ("weight", 2)):
        (text / f"train.{ending}").write_text("".join(f"{pair[column]}\n" for pair in pairs), "utf-8")
        if column < 2:
            right = [pair for pair in pairs if pair[2]][::5]
            (text / f"dev.{ending}").write_text("".join(f"{pair[column]}\n" for pair in right), "utf-8")
    recipe = "num_layers=1,d_model=32,d_ff=64,num_heads=2,train_steps=300,eval_every=300,save_every=150,warmup_steps=50"
    flags = ["--problem=text2text", f"--source_dir={text}", "--languages=en-de", "--vocab_size=30", "--metric=accuracy"]
    more = ["--vocab_type=char", "--hparams_set=tiny", f"--hparams={recipe}", f"--output_dir={tmp_path / 'run'}"]
    assert trainer.main([*flags, *more, "--sequence_weights=weight", "--accumulate=2"]) == 0
    assert "accuracy 100.00" in capsys.readouterr().out
