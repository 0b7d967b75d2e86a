"""A run whose score stands still goes on while its dev loss falls; its best weights are those of the lowest loss."""

from pathlib import Path

import pytest

from t2t_lite import config
from t2t_lite.config import HParams
from t2t_lite.data.store import Store
from t2t_lite.runs.checkpoint import list_checkpoints
from t2t_lite.runs.checkpoint_files import BEST
from t2t_lite.runs.metrics_log import read_metrics
from t2t_lite.runs.run_dir import RunSpec
from t2t_lite.training.trainer import Trainer

pytestmark = pytest.mark.nightly

RUN = (
    "train_steps=12,eval_every=3,log_every=3,save_every=3,early_stopping=1,eval_lines=2,beam_size=1,extra_length=1,"
    "warmup_steps=4"
)
SLOW = "learning_rate_factor=0.01"  # so low that the outputs of an untrained model stay as they are


def _spec(store: Store, hparams: HParams) -> RunSpec:
    return RunSpec("toy_ende", {"train_size": 240}, str(store.folder.parent), None, "tiny", "transformer", hparams)


def _train(folder: Path, store: Store, hparams: HParams, *, reset_optimizer: bool = False) -> list[dict[str, float]]:
    """Returns the evaluations of the run."""
    trainer = Trainer(folder, _spec(store, hparams), store)
    trainer.begin(reset_optimizer=reset_optimizer)
    trainer.run()
    return [line for line in read_metrics(folder) if "dev_loss" in line]


def test_a_falling_loss_is_progress_also_after_a_restart(
    toy_store: Store, small_hparams: HParams, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hparams = config.override(small_hparams, f"{RUN},{SLOW}")
    evaluations = _train(tmp_path, toy_store, hparams)
    assert [line["step"] for line in evaluations] == [3, 6, 9, 12]  # early_stopping=1 has not ended it
    assert len({line["dev_bleu"] for line in evaluations}) == 1
    losses = [line["dev_loss"] for line in evaluations]
    assert losses == sorted(losses, reverse=True)
    assert capsys.readouterr().out.count("(best so far)") == 4
    assert [Path(path).name for path in list_checkpoints(tmp_path, BEST)] == ["model-12"]
    # As if the run had been killed before step 9 was saved: the losses of earlier steps are in metrics.jsonl.
    for path in list_checkpoints(tmp_path)[2:]:
        Path(f"{path}.index").unlink()
    assert _train(tmp_path, toy_store, hparams) == evaluations
    out = capsys.readouterr().out
    assert out.startswith("Resuming from step 6 of 12.\n")
    assert out.count("(best so far)") == 2
    assert [Path(path).name for path in list_checkpoints(tmp_path, BEST)] == ["model-12"]


def test_neither_a_better_score_nor_a_lower_loss_ends_the_run(
    toy_store: Store, small_hparams: HParams, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hparams = config.override(small_hparams, f"{RUN},learning_rate_factor=0")
    assert [line["step"] for line in _train(tmp_path, toy_store, hparams)] == [3, 6]
    said = "Stopping at step 6: 1 evaluations in a row brought neither a better score nor a lower loss.\n"
    assert capsys.readouterr().out.endswith(said)
    assert [Path(path).name for path in list_checkpoints(tmp_path, BEST)] == ["model-3"]  # the first of all equal


def test_early_stopping_counts_from_a_reset_of_the_optimizer(
    toy_store: Store, small_hparams: HParams, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hparams = config.override(small_hparams, f"{RUN},learning_rate_factor=0")
    assert [line["step"] for line in _train(tmp_path, toy_store, hparams)] == [3, 6]
    capsys.readouterr()
    assert [line["step"] for line in _train(tmp_path, toy_store, hparams, reset_optimizer=True)] == [3, 6, 9]
    said = "Stopping at step 9: 1 evaluations in a row brought neither a better score nor a lower loss.\n"
    assert capsys.readouterr().out.endswith(said)
    assert [Path(path).name for path in list_checkpoints(tmp_path, BEST)] == ["model-3"]  # by all scores
    _train(tmp_path, toy_store, hparams)  # a restart without the flag
    assert capsys.readouterr().out.endswith(
        "This run has stopped early already; --hparams=early_stopping=0 makes it continue.\n"
    )
