"""A run that goes on with other data, or scores dev in another way, forgets the scores that no longer compare."""

import dataclasses
import json
from pathlib import Path

import keras
import pytest

from t2t_lite import config
from t2t_lite.config import HParams
from t2t_lite.data.store import Store
from t2t_lite.runs.checkpoint import Checkpoints
from t2t_lite.runs.metrics_log import METRICS_FILE
from t2t_lite.runs.ranking import DevScore, past_scores
from t2t_lite.runs.record import METRIC, make_record, read_record
from t2t_lite.runs.run_dir import RunSpec
from t2t_lite.schedules.base import Schedule
from t2t_lite.training.comparable_scores import forget_scores
from t2t_lite.training.trainer import Trainer

SEARCH = "best weights and early stopping go by the scores from here on only."


class _Listening(Schedule):
    forgotten = False

    def rate(self, step: int) -> float:
        return 1.0

    def forget_losses(self) -> None:
        self.forgotten = True


@pytest.mark.parametrize(
    ("changes", "data", "start", "line"),
    [
        ("", "a", 0, None),
        ("eval_lines=0", "a", 0, f"Dev is scored in another way now (eval_lines=0, before 2): {SEARCH}"),
        (
            "beam_size=5,length_penalty=1.0",
            "a",
            0,
            f"Dev is scored in another way now (beam_size=5, before 1, length_penalty=1.0, before 0.6): {SEARCH}",
        ),
        ("beam_size=5,train_steps=4", "a", 0, None),  # nothing is left to train
        ("beam_size=5,early_stopping=1", "a", 0, None),  # it has stopped early
        ("beam_size=5,early_stopping=1", "a", 4, f"Dev is scored in another way now (beam_size=5, before 1): {SEARCH}"),
        ("early_stopping=1", "b", 0, f"The data are other data now: {SEARCH}"),
        ("train_steps=4", "b", 0, None),
    ],
)
def test_scores_that_do_not_compare(
    changes: str, data: str, start: int, line: str | None, small_hparams: HParams, tmp_path: Path
) -> None:
    hparams = config.override(small_hparams, "train_steps=8,eval_lines=2,beam_size=1")
    spec = RunSpec("toy_ende", {}, "data", None, "tiny", "transformer", hparams, data_sha256="a")
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    path = Checkpoints(tmp_path, model, record=make_record(spec) | {METRIC: "m"}).save(4)
    lines = [{"step": step, "dev_loss": 2.0, "dev_bleu": 41.0} for step in (2, 4)]
    (tmp_path / METRICS_FILE).write_text("".join(json.dumps(line) + "\n" for line in lines))
    scores = dict.fromkeys((2, 4), DevScore(41.0, 2.0))

    now = dataclasses.replace(spec, hparams=config.override(hparams, changes), data_sha256=data)
    said: list[str] = []
    schedule = _Listening()
    forget_scores(tmp_path, path, now, "m", schedule, said.append, start=start, writes=False)
    assert past_scores(tmp_path) == scores
    forget_scores(tmp_path, path, now, "m", schedule, said.append, start=start, writes=True)
    assert said == ([] if line is None else [line, line])
    assert past_scores(tmp_path) == (scores if line is None else {})
    assert schedule.forgotten == (data == "b" and line is not None)


@pytest.mark.parametrize(("before", "changed"), [("mine|0-1", False), ("mine|0-100", True)])
def test_scores_of_another_metric_do_not_compare(
    before: str, changed: bool, small_hparams: HParams, tmp_path: Path
) -> None:
    hparams = config.override(small_hparams, "train_steps=8")
    spec = RunSpec("toy_ende", {}, "data", None, "tiny", "transformer", hparams, data_sha256="a")
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    path = Checkpoints(tmp_path, model, record=make_record(spec) | {METRIC: before}).save(4)
    (tmp_path / METRICS_FILE).write_text('{"step": 4, "dev_loss": 2.0, "dev_score": 41.0}\n')
    said: list[str] = []
    forget_scores(tmp_path, path, spec, "mine|0-1", _Listening(), said.append, start=0, writes=True)
    line = f"Dev is scored in another way now (metric=mine|0-1, before mine|0-100): {SEARCH}"
    assert said == ([line] if changed else [])
    assert past_scores(tmp_path) == ({} if changed else {4: DevScore(41.0, 2.0)})


def test_the_checkpoints_of_a_training_record_its_metric(
    toy_store: Store, small_hparams: HParams, tmp_path: Path
) -> None:
    data_dir = str(toy_store.folder.parent)
    spec = RunSpec("toy_ende", {"train_size": 240}, data_dir, None, "tiny", "transformer", small_hparams)
    record = read_record(Trainer(tmp_path, spec, toy_store).checkpoints.save(4))
    assert record is not None
    assert record[METRIC] == "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp"  # an update of sacreBLEU changes nothing
