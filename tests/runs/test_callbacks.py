"""Callbacks of a training run: what they are told, that they change nothing, and how they end a run."""

import importlib.util
import json
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

import t2t_lite
from t2t_lite.api.load import LoadedRun
from t2t_lite.errors import TrainingError, UsageError
from t2t_lite.runs.callbacks import Callbacks
from t2t_lite.runs.metrics_log import read_metrics
from t2t_lite.signals import Stopped, StopSignals
from tests import commands
from tests.checkpoints import assert_same_bits, tensors

STEPS = 6
BLOCK = 32768  # bytes, of LevelDB's log
RECIPE = {
    "num_layers": 1,
    "d_model": 16,
    "d_ff": 16,
    "num_heads": 2,
    "batch_tokens": 256,
    "train_steps": STEPS,
    "log_every": 2,
    "save_every": 2,
    "eval_every": 3,
    "eval_lines": 2,
    "beam_size": 1,
    "extra_length": 1,
}


def train(folder: Path, *callbacks: Any, **settings: Any) -> LoadedRun:
    how: dict[str, Any] = {"overrides": RECIPE, "num_workers": 1, "data_dir": folder.parent / "data", **settings}
    return t2t_lite.train("toy_ende", "tiny", folder, callbacks=callbacks, **how)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("callbacks")


@pytest.fixture(scope="module")
def plain(folder: Path) -> LoadedRun:
    return train(folder / "plain")


class Recorder(keras.callbacks.Callback):
    """Records its calls, and does what it can to change the run."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[Any, ...]] = []
        self.weights: list[list[np.ndarray]] = []

    def on_train_begin(self, logs: Any = None) -> None:
        self.calls.append(("begin", dict(self.params)))

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        rate = float(self.model.optimizer.learning_rate.numpy())
        self.calls.append(("batch", batch, int(self.model.optimizer.iterations.numpy()), rate, dict(logs)))
        logs.clear()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self.calls.append(("epoch", epoch, dict(logs)))
        self.weights.append(self.model.get_weights())
        logs["loss"] = float("nan")
        self.model.set_weights([np.zeros_like(array) for array in self.model.get_weights()])
        keras.utils.set_random_seed(epoch)

    def on_train_end(self, logs: Any = None) -> None:
        self.calls.append(("end",))


@pytest.mark.commit
def test_they_are_told_what_metrics_jsonl_has_and_change_nothing(folder: Path, plain: LoadedRun) -> None:
    recorder, told = Recorder(), list[tuple[int, dict[str, float]]]()
    run = train(folder / "watched", recorder, lambda step, logs: told.append((step, logs)))
    for step in (2, 4, 6):
        assert_same_bits(tensors(folder / "watched", step), tensors(folder / "plain", step))
    assert (folder / "watched/test.hyp.txt").read_bytes() == (folder / "plain/test.hyp.txt").read_bytes()

    lines = {kind: [line for line in run.metrics() if kind in line] for kind in ("loss", "dev_loss")}
    assert [call[0] for call in recorder.calls] == ["begin", "batch", "epoch", "batch", "batch", "epoch", "end"]
    begin = recorder.calls[0][1]
    assert (begin["epochs"], begin["steps"], begin["problem"]) == (2, STEPS, "toy_ende")
    assert begin["hparams"]["d_model"] == RECIPE["d_model"]
    assert Path(begin["output_dir"]) == folder / "watched"
    batches = [call[1:] for call in recorder.calls if call[0] == "batch"]
    assert [(step, logs) for step, _, _, logs in batches] == [
        (line["step"], {name: value for name, value in line.items() if name != "step"}) for line in lines["loss"]
    ]
    assert all(step == iterations for step, iterations, _, _ in batches)
    assert [rate for _, _, rate, _ in batches] == pytest.approx([line["learning_rate"] for line in lines["loss"]])
    epochs = [call[1:] for call in recorder.calls if call[0] == "epoch"]
    assert [number for number, _ in epochs] == [0, 1]
    for (_, logs), line in zip(epochs, lines["dev_loss"], strict=True):
        assert logs.items() >= line.items()
        assert logs["val_loss"] == line["dev_loss"]
    assert [step for step, _ in told] == [2, 3, 4, 6, 6]
    # The weights that it saw, and then spoiled, were the run's: after the last evaluation, those of the last step.
    saved = {array.tobytes() for array in tensors(folder / "watched", STEPS).values()}
    assert all(array.tobytes() in saved for array in recorder.weights[-1])


def test_history_has_a_row_for_each_evaluation(plain: LoadedRun, folder: Path) -> None:
    history, lines = plain.history, read_metrics(folder / "plain")
    assert history["step"] == [3, 6]
    assert history["dev_loss"] == [line["dev_loss"] for line in lines if "dev_loss" in line]
    before = {line["step"]: line["loss"] for line in lines if "loss" in line}
    assert history["loss"] == [before[2], before[6]]


class Stops(keras.callbacks.Callback):
    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self.model.stop_training = True


class Breaks(keras.callbacks.Callback):
    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        raise ZeroDivisionError("of a stranger")


@pytest.mark.nightly
def test_one_that_stops_or_breaks_ends_the_run_which_resumes(
    folder: Path, plain: LoadedRun, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(TrainingError, match=r"callback Breaks.on_train_batch_end raised ZeroDivisionError: of a str"):
        train(folder / "ended", Breaks())
    assert read_metrics(folder / "ended")[-1]["step"] == 2
    with pytest.raises(Stopped, match="step 3 of 6 is done and saved"):
        train(folder / "ended", Stops())
    assert "Stops.on_epoch_end set stop_training: this step is the last" in capsys.readouterr().err
    train(folder / "ended")
    assert_same_bits(tensors(folder / "ended", STEPS), tensors(folder / "plain", STEPS))


class Asks(keras.callbacks.Callback):
    """Expects what `params` of Keras' own fit has, as ProgbarLogger does."""

    def set_params(self, params: Any) -> None:
        params["hparams"].clear()
        params["verbose"]


class StopsAtTheEnd(keras.callbacks.Callback):
    def on_train_end(self, logs: Any = None) -> None:
        self.model.stop_training = True


def test_each_hears_of_the_end_whatever_another_one_did() -> None:
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    line, params = {"step": 1, "loss": 1.0, "learning_rate": 1.0}, {"steps": 1, "hparams": {"seed": 1}}
    for breaks, when in ((Breaks(), "on_train_batch_end"), (Asks(), "set_params"), (BreaksAtTheEnd(), "on_train_end")):
        others, stop = [Recorder(), Recorder()], StopSignals()
        told = Callbacks([others[0], breaks, others[1]], model, {}, params, stop)
        told.begin()
        told.report(line)
        if when == "on_train_end":
            assert "complete" in str(told.end())
        else:
            assert stop.received
            with pytest.raises(TrainingError, match=f"{type(breaks).__name__}.{when} raised"):
                told.end()
        for other in others:
            assert other.calls[0] == ("begin", params)
            assert other.calls[-1] == ("end",)


def test_a_wish_to_stop_at_the_end_is_none() -> None:
    stop = StopSignals()
    told = Callbacks([StopsAtTheEnd()], keras.Sequential([keras.layers.Dense(1)]), {}, {}, stop)
    told.begin()
    assert told.end() is None
    assert not stop.received


class BreaksAtTheEnd(keras.callbacks.Callback):
    def on_train_end(self, logs: Any = None) -> None:
        raise ZeroDivisionError("of a stranger")


@pytest.mark.nightly
def test_one_that_breaks_at_the_end_is_an_error_after_the_scores(folder: Path, plain: LoadedRun) -> None:
    with pytest.raises(TrainingError, match=r"BreaksAtTheEnd.on_train_end .* complete: its weights and scores are sav"):
        train(folder / "complete", BreaksAtTheEnd())
    assert (folder / "complete/test.scores.json").exists()
    assert (folder / "complete/test.hyp.txt").read_bytes() == (folder / "plain/test.hyp.txt").read_bytes()
    with pytest.raises(TrainingError, match="BreaksAtTheEnd.on_train_end .* the same command resumes it"):
        train(folder / "stopped", BreaksAtTheEnd(), Stops())
    assert not (folder / "stopped/test.scores.json").exists()


@pytest.mark.commit
def test_what_is_no_callback_is_refused(folder: Path) -> None:
    for wrong, message in (
        ("wandbb", r"no callback called 'wandbb'\. Did you mean 'wandb'"),
        (3, "callbacks has 3. Give registered names"),
        (Stops, "callbacks has <class .*Stops.*Give registered names, objects"),
    ):
        with pytest.raises(UsageError, match=message):
            train(folder / "refused", wrong)
    for alone in ("wandb", Stops(), print, {"wandb": 1}):
        with pytest.raises(UsageError, match="callbacks=.* is not a list"):
            t2t_lite.train("toy_ende", "tiny", folder / "refused", callbacks=alone)  # type: ignore[arg-type]
    assert not (folder / "refused").exists()


OWN = '''
import keras
from t2t_lite import registry


@registry.register_callback
class Writes(keras.callbacks.Callback):
    """Writes the steps that it sees."""

    def on_train_batch_end(self, batch, logs=None):
        with open(self.params["output_dir"] + "/seen", "a") as file:
            file.write(f"{batch}\\n")
'''


@pytest.mark.nightly
def test_a_command_takes_the_name_of_ones_own(folder: Path, plain: LoadedRun) -> None:
    (folder / "code").mkdir()
    (folder / "code/own.py").write_text(OWN, encoding="utf-8")
    hparams = ",".join(f"{name}={value}" for name, value in RECIPE.items())
    flags = [f"--output_dir={folder / 'own'}", f"--usr_dir={folder / 'code'}", "--callbacks=writes", "--num_workers=1"]
    recipe = ["--problem=toy_ende", "--hparams_set=tiny", f"--hparams={hparams}", f"--data_dir={folder / 'data'}"]
    done = commands.run("t2t_lite.cli.trainer", *flags, *recipe)
    assert done.returncode == 0, done.stderr.decode()
    assert (folder / "own/seen").read_text().split() == ["2", "4", "6"]
    record = json.loads((folder / "own/run.json").read_text(encoding="utf-8"))
    assert '"callbacks": ["writes"]' in json.dumps(record)


@pytest.mark.skipif(importlib.util.find_spec("wandb") is None, reason="needs wandb (offline)")
@pytest.mark.nightly
def test_weights_and_biases_has_losses_scores_and_settings(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_MODE", "offline")
    run = train(folder / "wandb", "wandb")
    (file,) = (folder / "wandb").glob("wandb/offline-run-*/*.wandb")
    sent = _sent_to_wandb(file)
    assert [row["loss"] for row in sent if "loss" in row] == [line["loss"] for line in run.metrics() if "loss" in line]
    assert [row["dev_loss"] for row in sent if "dev_loss" in row] == run.history["dev_loss"]


@pytest.mark.skipif(importlib.util.find_spec("wandb") is None, reason="needs wandb (offline)")
@pytest.mark.nightly
def test_the_callback_of_weights_and_biases_itself_works(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import wandb
    from wandb.integration.keras import WandbMetricsLogger

    monkeypatch.setenv("WANDB_MODE", "offline")
    (folder / "theirs").mkdir()
    with wandb.init(dir=folder / "theirs"):
        run = train(folder / "with_theirs", WandbMetricsLogger(log_freq=1))
    (file,) = (folder / "theirs").glob("wandb/offline-run-*/*.wandb")
    sent = _sent_to_wandb(file)
    assert [row["epoch/dev_loss"] for row in sent if "epoch/dev_loss" in row] == run.history["dev_loss"]
    rates = [line["learning_rate"] for line in run.metrics() if "loss" in line]
    assert [row["batch/learning_rate"] for row in sent if "batch/learning_rate" in row] == pytest.approx(rates)


def _sent_to_wandb(file: Path) -> list[dict[str, float]]:
    """The rows of a .wandb file: records in LevelDB's log format, after a header of 7 bytes."""
    from wandb.proto import wandb_internal_pb2

    data, at, part, rows = file.read_bytes(), 7, b"", []
    while len(data) - at >= 7:
        if (left := BLOCK - at % BLOCK) < 7:  # the rest of a block, too small for a header
            at += left
            continue
        length, kind = int.from_bytes(data[at + 4 : at + 6], "little"), data[at + 6]
        part, at = part + data[at + 7 : at + 7 + length], at + 7 + length
        if kind in (1, 4):  # whole, or the last part
            record = wandb_internal_pb2.Record()
            record.ParseFromString(part)
            part = b""
            if record.WhichOneof("record_type") == "history":
                rows.append({"/".join(i.nested_key) or i.key: json.loads(i.value_json) for i in record.history.item})
    return rows


@pytest.mark.skipif(importlib.util.find_spec("mlflow") is None, reason="needs mlflow-skinny")
@pytest.mark.nightly
def test_mlflow_has_losses_scores_and_settings(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import mlflow

    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri((folder / "mlruns").as_uri())
    run = train(folder / "mlflow", "mlflow")
    number = (folder / "mlflow/mlflow_id").read_text().strip()
    client = mlflow.MlflowClient()
    data = client.get_run(number).data
    assert data.params["d_model"] == str(RECIPE["d_model"])
    sent = {name: [m.value for m in client.get_metric_history(number, name)] for name in ("loss", "dev_loss")}
    assert sent["loss"] == [line["loss"] for line in run.metrics() if "loss" in line]
    assert sent["dev_loss"] == run.history["dev_loss"]
