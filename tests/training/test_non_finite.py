"""Numbers that are not finite: a rare piece without a finite embedding decides which batches are bad."""

import contextlib
import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from t2t_lite import config
from t2t_lite.config import HParams
from t2t_lite.data.plan import Plan
from t2t_lite.data.store import Store
from t2t_lite.distributed.devices import Devices
from t2t_lite.errors import TrainingError
from t2t_lite.models.rnn_hparams import RnnHParams
from t2t_lite.models.transformer_cost import TransformerCost
from t2t_lite.models.transformer_hparams import TransformerHParams
from t2t_lite.runs.checkpoint import list_checkpoints
from t2t_lite.runs.checkpoint_files import step_of
from t2t_lite.runs.metrics_log import Report, read_metrics
from t2t_lite.runs.run_dir import RunSpec, make_model
from t2t_lite.training.non_finite import NonFiniteGuard, _watch_layers
from t2t_lite.training.trainer import Trainer
from tests import commands

pytestmark = pytest.mark.commit

STEPS, PARTS = 12, 2
COST = TransformerCost(TransformerHParams(num_layers=1, d_model=16, d_ff=32, num_heads=2), target_vocab_size=50)


@dataclasses.dataclass
class Case:
    """A trainer at step 0, the piece that spoils batches, and the bad steps with their bad parts."""

    trainer: Trainer
    piece: int
    bad: dict[int, list[int]]

    def pairs(self, step: int, part: int) -> list[int]:
        rows = _rows_of(self.plan().batch(step).rows, part)
        return [int(pair) for pair in rows[rows >= 0]]

    def plan(self) -> Plan:
        return self.trainer._make_plan()

    def begin(self) -> None:
        self.trainer.begin()
        table = self.trainer.model.source_embedding.table
        values = table.numpy()
        values[self.piece] = 3e38  # finite, and infinite once it is scaled
        table.assign(values)


def _rows_of(rows: np.ndarray, part: int) -> np.ndarray:
    n = -(-len(rows) // PARTS)
    return rows[part * n : (part + 1) * n]


def _find_piece(trainer: Trainer) -> tuple[int, dict[int, list[int]]]:
    """A piece that two or three of the batches have, not the first and not dev, and where it is."""
    split = trainer.store.split("train")
    plan = trainer._make_plan()
    holds: dict[int, dict[int, set[int]]] = {}
    for step in range(1, STEPS + 1):
        for part in range(PARTS):
            for pair in _rows_of(plan.batch(step).rows, part).ravel():
                for piece in split.source[pair].tolist() if pair >= 0 else []:
                    holds.setdefault(piece, {}).setdefault(step, set()).add(part)
    dev = trainer.store.split("dev").source
    of_dev = {piece for number in range(len(dev)) for piece in dev[number].tolist()}
    for piece, steps in holds.items():
        if (
            piece not in of_dev
            and 1 not in steps
            and len(steps) in (2, 3)
            and [1] in [sorted(parts) for parts in steps.values()]
        ):
            return piece, {step: sorted(parts) for step, parts in sorted(steps.items())}
    raise AssertionError


@pytest.fixture(scope="module")
def case(toy_store: Store, small_hparams: HParams, tmp_path_factory: pytest.TempPathFactory) -> Case:
    hparams = config.replace(
        small_hparams,
        share_embeddings=False,
        dropout=0.1,
        train_steps=STEPS,
        log_every=1,
        eval_every=1000,
        eval_lines=1,
        extra_length=1,
        beam_size=1,
        save_every=1,
        keep_checkpoints=STEPS,
    )
    spec = RunSpec("toy_ende", {"train_size": 240}, str(toy_store.folder.parent), None, "tiny", "transformer", hparams)
    trainer = Trainer(tmp_path_factory.mktemp("run"), spec, toy_store, Devices(accumulate=PARTS))
    return Case(trainer, *_find_piece(trainer))


@pytest.fixture(scope="module")
def stopped(case: Case) -> tuple[str, dict[str, Any]]:
    """The error message and the report of a run that tolerates no bad batch."""
    case.begin()
    with pytest.raises(TrainingError) as error:
        case.trainer.run()
    (path,) = case.trainer.output_dir.glob("bad_step_*.json")
    assert str(path) in str(error.value)

    def no_constant(name: str) -> float:
        raise AssertionError(name)  # NaN is not JSON

    return str(error.value), json.loads(path.read_text(encoding="utf-8"), parse_constant=no_constant)


def test_the_run_stops_before_the_update_and_says_what_to_do(case: Case, stopped: tuple[str, dict[str, Any]]) -> None:
    step = min(case.bad)
    assert stopped[0].startswith(
        f"Step {step}: the loss is nan and the gradient's norm nan. The update was not applied"
    )
    for advice in ("learning_rate_factor", "clip_norm=1", "--skip_bad_batches=1 leaves out 1 such in all."):
        assert advice in stopped[0]
    assert [step_of(path) for path in list_checkpoints(case.trainer.output_dir)] == list(range(1, step))
    assert [line["step"] for line in read_metrics(case.trainer.output_dir)] == list(range(1, step))


def test_the_report_names_rows_and_pairs(case: Case, stopped: tuple[str, dict[str, Any]]) -> None:
    step, report = min(case.bad), stopped[1]
    assert (report["step"], report["loss"], report["grad_norm"]) == (step, "nan", "nan")
    assert report["weights_not_finite"] == []
    n = -(-len(case.plan().batch(step).rows) // PARTS)
    assert [part["first_row"] for part in report["parts"]] == [n * part for part in case.bad[step]]
    store = case.trainer.store
    for part in report["parts"]:
        assert part["loss"] == "nan"
        assert [pair["id"] for pair in part["pairs"]] == case.pairs(step, part["first_row"] // n)
        for pair in part["pairs"]:
            (ids,) = store.source_vocabulary.encode_many([pair["source"]])
            assert ids == store.split("train").source[pair["id"]].tolist()[:-1]
            assert pair["target"]


def test_the_report_shows_where_the_numbers_went_wrong(stopped: tuple[str, dict[str, Any]]) -> None:
    part = stopped[1]["parts"][0]
    largest = part["largest_activations"]
    assert largest["transformer/source_embedding"] == "inf"
    assert largest["transformer/encoder/layer_0/around_attention/self_attention"] == "nan"
    assert largest["transformer"] == "nan"  # the logits
    assert math.isfinite(largest["transformer/target_embedding"])
    assert math.isfinite(largest["transformer/decoder/layer_0/around_self/self_attention"])  # before it sees the source
    assert list(largest).index("transformer/source_embedding") < list(largest).index("transformer/encoder")
    norms = part["gradient_norms"]
    assert set(norms.values()) == {"nan"}
    assert any("encoder" in name for name in norms)


@pytest.mark.nightly
def test_tolerated_batches_are_left_out_and_counted_over_restarts(
    case: Case, stopped: tuple[str, dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    first, *others = case.bad
    with pytest.raises(TrainingError, match=rf"Step {others[0]}: .*--skip_bad_batches=2 leaves out 2"):
        _again(case, 1)
    assert f"Step {first}: the loss is nan" in capsys.readouterr().err
    _again(case, len(case.bad))
    lines = read_metrics(case.trainer.output_dir)
    assert {line["step"]: line["skipped_batches"] for line in lines if "skipped_batches" in line} == {
        step: number for number, step in enumerate(case.bad, start=1)
    }
    trained = [line["step"] for line in lines if "loss" in line]
    assert trained == [step for step in range(1, STEPS + 1) if step not in case.bad]
    assert f"bad batch {len(case.bad)} of the {len(case.bad)} that may be left out" in capsys.readouterr().err


def _again(case: Case, tolerated: int) -> None:
    """Goes on from the newest checkpoint; in it, too, the piece has no finite embedding."""
    case.trainer.begin()
    case.trainer.run(skip_bad_batches=tolerated)


@pytest.mark.nightly
def test_layers_in_loops_over_positions_are_left_out() -> None:
    hparams = RnnHParams(num_layers=1, d_model=8, share_embeddings=False)
    model = make_model(hparams.model, hparams, 50, 50, shared=False)
    paths: list[str] = []

    @tf.function(autograph=False)
    def outputs(batch: Any) -> list[Any]:
        with _watch_layers(model) as seen:
            model(batch, seed=np.array([1, 2, 0], np.int32))
        paths[:] = [path for path, _ in seen]
        return [value for _, value in seen]

    table = model.source_embedding.table
    table.assign(np.full(table.shape, 3e38, np.float32))
    batch = {side: tf.constant([[5, 6, 1]]) for side in ("source", "target")}
    values = outputs(batch)
    largest = dict(zip(paths, values, strict=True))
    assert largest[f"{model.name}/source_embedding"] == math.inf
    assert math.isnan(largest[model.name])  # the logits


def test_an_examination_that_fails_does_not_hide_the_step(tmp_path: Path) -> None:
    def fail(step: int, batch: Any) -> dict[str, Any]:
        return {"loss": tf.constant([1.0])[step].numpy()}  # TensorFlow's error: out of bounds

    with contextlib.closing(
        Report(tmp_path, 1, 9, cost=COST, flops=0, device_flops_per_second=1e9, quiet=True)
    ) as report:
        guard = NonFiniteGuard(tmp_path, report, fail, list, tolerated=0, skipped=0)
        with pytest.raises(
            TrainingError,
            match=r"^Step 3: the loss is nan .*bad_step_3\.json has only these numbers, because .*Error\)",
        ):
            guard(3, {}, math.nan, 1.0)
        guard = NonFiniteGuard(tmp_path, report, fail, list, tolerated=0, skipped=0, precision="float16")
        with pytest.raises(TrainingError, match="In float16 a number above 65,504 is infinite; a new run with"):
            guard(3, {}, math.nan, 1.0)
    written = json.loads((tmp_path / "bad_step_3.json").read_text(encoding="utf-8"))
    assert written["loss"] == "nan"
    assert "out of bounds" in written["not_examined"]


@pytest.mark.nightly
def test_the_command_ends_with_status_1_and_the_report_also_on_two_devices(tmp_path: Path) -> None:
    hparams = (
        "num_layers=1,d_model=16,d_ff=16,num_heads=2,batch_tokens=256,learning_rate_factor=1e30,"
        "train_steps=9,save_every=1"
    )
    flags = ["--problem=toy_reverse", "--hparams_set=tiny", f"--hparams={hparams}", "--devices=2", "--num_workers=1"]
    done = commands.run("t2t_lite.cli.trainer", *flags, f"--output_dir={tmp_path / 'run'}")
    assert done.returncode == 1, done.stderr
    warned, said = commands.without_progress(done.stderr.decode()).split("\n", 1)
    assert warned.startswith("warning: the learning rate still rises at the last update, step 9.")
    assert said.startswith("error: Step 2: the loss is ")
    report = json.loads((tmp_path / "run" / "bad_step_2.json").read_text(encoding="utf-8"))
    assert report["weights_not_finite"] == []  # they are huge, but finite
    assert len(report["parts"]) == 2
    assert report["parts"][0]["first_row"] == 0
    assert [path.name for path in (tmp_path / "run" / "checkpoints").glob("*.index")] == ["model-1.index"]


@pytest.mark.nightly
@pytest.mark.parametrize("save_every", [1, 5])
def test_weights_that_are_not_finite_end_the_run_and_are_never_saved(tmp_path: Path, save_every: int) -> None:
    """Without an epsilon Adam divides 0 by 0 where a gradient is 0, as for a piece that is in no pair."""
    hparams = (
        "num_layers=1,d_model=16,d_ff=16,num_heads=2,batch_tokens=256,share_embeddings=false,adam_epsilon=0,"
        f"train_steps=9,save_every={save_every}"
    )
    flags = ["--problem=toy_reverse", "--hparams_set=tiny", f"--hparams={hparams}", "--num_workers=1"]
    done = commands.run("t2t_lite.cli.trainer", *flags, "--skip_bad_batches=9", f"--output_dir={tmp_path / 'run'}")
    *_, message = done.stderr.decode().rstrip("\n").split("\n")
    assert done.returncode == 1, done.stderr
    assert b"Traceback" not in done.stderr
    assert message.startswith("error: Step 1: " if save_every == 1 else "error: Step 2: the loss is nan")
    assert " weights, such as transformer/" in message
    assert "the run has diverged" in message
    assert not list((tmp_path / "run" / "checkpoints").glob("*.index"))
