"""metrics.jsonl: its fields, their sums, and what a restart leaves of it."""

import json
import re
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from t2t_lite import config, registry
from t2t_lite.data.pipeline import assemble, make_plan
from t2t_lite.data.store import Store
from t2t_lite.groups import BatchGroup
from t2t_lite.models.transformer_cost import TransformerCost
from t2t_lite.models.transformer_hparams import TransformerHParams
from t2t_lite.progress import time_left
from t2t_lite.runs import console as console_module
from t2t_lite.runs.console import Console
from t2t_lite.runs.metrics_log import METRICS_FILE, Report, flops_before, read_metrics

FIELDS = (
    "step loss learning_rate source_tokens target_tokens padded_tokens tokens_per_second input_seconds grad_norm flops "
    "flops_per_second utilisation trained_seconds goodput"
).split()
COST = TransformerCost(TransformerHParams(num_layers=1, d_model=16, d_ff=32, num_heads=2), target_vocab_size=50)


def _lines(folder: Path) -> list[dict[str, Any]]:
    text = (folder / METRICS_FILE).read_text(encoding="utf-8")
    assert text.endswith("\n") or not text
    return [json.loads(line) for line in text.split("\n")[:-1]]


def _report(folder: Path, first_step: int = 1, flops: int = 0, speed: float = 1e9) -> Report:
    return Report(folder, first_step, 30, cost=COST, flops=flops, device_flops_per_second=speed)


BATCH = {"source": np.ones((2, 3), np.int32), "target": np.array([[4, 1, 0, 0], [1, 0, 0, 0]], np.int32)}


def test_the_lines_of_an_epoch_add_up_to_the_plans_sums(toy_store: Store, tmp_path: Path) -> None:
    split = toy_store.split("train")
    plan = make_plan(split, BatchGroup(batch_tokens=256, max_length=64), 1)
    report = _report(tmp_path)
    for step in range(1, plan.steps_per_epoch + 1):
        batch = assemble(split, plan.batch(step), packing=False)
        report.add(step, batch, float(step), step / 10, step / 1000)
        if step % 4 == 0 or step == plan.steps_per_epoch:
            report.write()
    report.close()
    lines = _lines(tmp_path)
    assert len(lines) == -(-plan.steps_per_epoch // 4)
    statistics = plan.statistics()
    for name in ("source_tokens", "target_tokens", "padded_tokens"):
        assert sum(line[name] for line in lines) == getattr(statistics, name)
    for line in lines:
        assert list(line) == FIELDS
    assert [line["step"] for line in lines[:2]] == [4, 8]
    assert [line["loss"] for line in lines[:2]] == [2.5, 6.5]  # the mean over steps 1 to 4, 5 to 8
    assert [line["grad_norm"] for line in lines[:2]] == pytest.approx([0.25, 0.65])
    assert [line["learning_rate"] for line in lines[:2]] == [0.004, 0.008]


@pytest.mark.commit
def test_the_speed_counts_real_target_tokens_and_leaves_out_pauses(tmp_path: Path) -> None:
    report = _report(tmp_path)
    start = time.perf_counter()
    for step in (1, 2):
        report.add(step, BATCH, 1.0, 1.0, 0.1)
    time.sleep(0.05)
    with report.pause():
        time.sleep(0.5)
    report.write()
    whole = time.perf_counter() - start
    report.close()
    (line,) = _lines(tmp_path)
    assert (line["source_tokens"], line["target_tokens"], line["padded_tokens"]) == (12, 6, 2 * (6 + 8))
    seconds = 6 / line["tokens_per_second"]
    assert 0.04 < seconds < whole - 0.45


def test_the_speed_is_that_of_the_updates_without_a_compilation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr(console_module.time, "perf_counter", lambda: now[0])
    report = _report(tmp_path)
    for compiled, updates in ((2, 10), (3, 3), (0, 5)):
        for number in range(updates):
            now[0] += 60.0 if number < compiled else 0.5
            if number < compiled:
                report.leave_out(60.0)
            report.add(number + 1, BATCH, 1.0, 1.0, 0.1, timed=number >= compiled)
        report.write()
    report.close()
    rates = [line["tokens_per_second"] for line in _lines(tmp_path)]
    assert rates == [pytest.approx(3 / seconds, abs=0.06) for seconds in (0.5, 60.0, 0.5)]


def test_flops_go_on_from_those_before_and_their_speed_is_of_the_time_between(tmp_path: Path) -> None:
    pairs = COST.training_flops([3, 3], [2, 1])  # of BATCH
    report = _report(tmp_path, 11, flops=2**70, speed=1e6)
    for step in (11, 12, 13):
        report.add(step, BATCH, 1.0, 1.0, 0.1)
        if step > 11:
            report.write()
    report.close()
    lines = _lines(tmp_path)
    assert [line["flops"] for line in lines] == [2**70 + 2 * pairs, 2**70 + 3 * pairs]  # integers, so exact
    for line, since in zip(lines, (2 * pairs, pairs), strict=True):
        assert line["utilisation"] == pytest.approx(line["flops_per_second"] / 1e6, rel=1e-2)
        tokens = 6 if since > pairs else 3
        seconds = tokens / line["tokens_per_second"]
        assert line["flops_per_second"] == pytest.approx(since / seconds, rel=1e-2)


def test_flops_before_a_start_are_those_of_the_last_line_and_the_steps_since(tmp_path: Path) -> None:
    def planned(steps: int, after: int) -> int:
        return 10 * (steps - after)

    assert flops_before(tmp_path, 1, planned) == 0
    assert flops_before(tmp_path, 41, planned) == 400  # without metrics.jsonl, all are taken to be the run's
    assert flops_before(tmp_path, 41, planned, others=40) == 0
    lines = [{"step": 44, "flops": 40}, {"step": 46, "dev_bleu": 1.0}, {"step": 48, "flops": 80}]
    (tmp_path / METRICS_FILE).write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    assert [flops_before(tmp_path, step, planned) for step in (45, 47, 49)] == [40, 60, 80]


def test_nothing_new_writes_no_line_and_scores_write_their_own(tmp_path: Path) -> None:
    report = _report(tmp_path)
    report.write()
    report.add(1, BATCH, 1.0, 1.0, 0.1)
    report.write()
    report.write()
    report.write_scores(1, {"dev_loss": 2.0, "dev_bleu": 10.5})
    report.close()
    lines = _lines(tmp_path)
    assert len(lines) == 2
    assert lines[1] == {"step": 1, "dev_loss": 2.0, "dev_bleu": 10.5}


def test_a_restart_drops_later_lines_and_one_that_was_cut_off(tmp_path: Path) -> None:
    before = [
        {"step": 5, "loss": 3.0},
        {"step": 5, "dev_bleu": 1.0},
        {"step": 10, "loss": 2.0},
        {"step": 15, "loss": 1.0},
    ]
    text = "".join(json.dumps(line) + "\n" for line in before) + '{"step": 20, "lo'
    (tmp_path / METRICS_FILE).write_text(text, encoding="utf-8")
    report = _report(tmp_path, 11)
    assert _lines(tmp_path) == before[:3]
    report.add(11, BATCH, 1.0, 1.0, 0.1)
    report.write()
    report.close()
    assert [line["step"] for line in _lines(tmp_path)] == [5, 5, 10, 11]
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_damaged_lines_are_left_out(tmp_path: Path) -> None:
    good = b'{"step": 5, "loss": 3.0}\n'
    damaged = [
        b"12\n",
        b"[]\n",
        b"{}\n",
        b'{"step": "5"}\n',
        b'{"step": true}\n',
        b'{"step": 5, "dev_bleu": "23.4", "dev_loss": 2.0}\n',
        b'{"step": 5, "dev_bleu": [1], "dev_loss": null}\n',
        b'{"step": 5, "lo\xff\n',
        b"[" * 100_000 + b"\n",
        b"\0\0\n",
    ]
    (tmp_path / METRICS_FILE).write_bytes(good.join([b"", *damaged, b""]))
    assert read_metrics(tmp_path) == [{"step": 5, "loss": 3.0}] * 11


def _events(folder: Path) -> dict[str, tuple[int, Any]]:
    """(step, summary) by tag, of the only event file."""
    (path,) = (folder / "tensorboard").iterdir()
    events = [tf.compat.v1.Event.FromString(r.numpy()) for r in tf.data.TFRecordDataset(str(path))]
    return {value.tag: (event.step, value) for event in events for value in event.summary.value}


def test_tensorboard_gets_the_same_numbers_in_groups(tmp_path: Path) -> None:
    report = _report(tmp_path)
    report.add(3, BATCH, 2.5, 1.0, 0.1)
    report.write()
    report.write_scores(3, {"dev_bleu": 30.0})
    report.skip(3, 1)
    report.close()
    found = {tag: (step, float(tf.make_ndarray(value.tensor))) for tag, (step, value) in _events(tmp_path).items()}
    train = "loss learning_rate source_tokens target_tokens padded_tokens grad_norm flops skipped_batches".split()
    speed = "tokens_per_second input_seconds flops_per_second utilisation trained_seconds goodput".split()
    assert set(FIELDS) | {"skipped_batches"} == {"step", *train, *speed}
    assert set(found) == {*(f"train/{name}" for name in train), *(f"speed/{name}" for name in speed), "dev/bleu"}
    assert found["train/loss"] == (3, 2.5)
    assert found["dev/bleu"] == (3, 30.0)


def test_tensorboard_shows_sample_translations_as_they_are(tmp_path: Path) -> None:
    report = _report(tmp_path)
    report.write_scores(3, {"dev_bleu": 30.0}, [("a *b* | c", "ein <b>", "d_e_f"), ("2", "zwei", "zwei")])
    report.close()
    step, value = _events(tmp_path)["dev/samples"]
    assert step == 3
    assert value.metadata.plugin_data.plugin_name == "text"
    head, *rows = tf.make_ndarray(value.tensor).tolist()
    assert head == [b"source", b"translation", b"reference"]
    assert rows == [[rb"a \*b\* \| c", rb"ein \<b\>", rb"d\_e\_f"], [b"2", b"zwei", b"zwei"]]


def test_tensorboard_gets_the_recipe(tmp_path: Path) -> None:
    from tensorboard.plugins.hparams import plugin_data_pb2

    hparams = {"hparams_set": "tiny", **config.to_dict(registry.hparams("base"))}
    Report(tmp_path, 1, 30, cost=COST, flops=0, device_flops_per_second=1e9, hparams=hparams).close()
    _, value = _events(tmp_path)["_hparams_/session_start_info"]
    data = plugin_data_pb2.HParamsPluginData.FromString(value.metadata.plugin_data.content).session_start_info.hparams
    assert data["hparams_set"].string_value == "tiny"
    assert data["d_model"].number_value == 512
    assert data["packing"].bool_value is False
    assert len(data) == len(hparams)


def _err(capsys: pytest.CaptureFixture[str]) -> list[str]:
    text = capsys.readouterr().err
    assert "\r" not in text
    return text.split("\n")[:-1]


def test_a_file_gets_a_plain_line_for_each_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = _report(tmp_path)
    for step in (1, 2, 15, 30):
        report.add(step, BATCH, 2.5, 1.0, 0.001)
        report.write()
    report.close()
    start, *_, last = lines = _err(capsys)
    assert len(lines) == 4
    numbers = r"loss 2\.500, lr 1\.00e-03, [\d,]+ tok/s"
    assert re.fullmatch(rf"step 1 of 30: {numbers}, about \d+ s left", start)
    assert re.fullmatch(rf"step 30 of 30: {numbers}", last)


def test_a_quiet_report_prints_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = Report(tmp_path, 1, 30, cost=COST, flops=0, device_flops_per_second=1e9, quiet=True)
    for step in range(1, 20):
        report.add(step, BATCH, 2.5, 1.0, 0.001)
    report.write()
    report.console.say("a line")
    report.close()
    assert capsys.readouterr() == ("", "")


def test_the_time_left_has_evaluations_in_it_but_not_the_first_reports_tracing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    console = Console(1, 1100, quiet=False)
    console.report(100, 100, seconds=5000.0, text="slow", more="")
    console.report(200, 100, seconds=100.0, text="fast", more="")
    console.add_paused(300.0, evaluations=3)
    console.add_paused(60.0)
    console.report(300, 100, seconds=100.0, text="after an evaluation and a checkpoint", more="")
    console.add_paused(200.0, evaluations=1)
    console.report(400, 100, seconds=100.0, text="one evaluation is to come", more="")
    console.close()
    lines = _err(capsys)
    assert lines[1] == "step 200 of 1,100: fast, about " + time_left(900.0)
    assert lines[2].endswith(" checkpoint, about " + time_left(800 * (1 + 60 / 300) + 3 * 300))
    assert "31 min 00 s left, until " in lines[2]
    assert lines[3].endswith(" to come, about " + time_left(700 * (1 + 60 / 400) + 200))


def test_the_whole_time_is_said_once_after_updates_of_shapes_seen_before(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr(console_module.time, "perf_counter", lambda: now[0])
    console = Console(1, 1000, quiet=False)
    for step in range(1, 41):
        new = step <= 5
        now[0] += 60.0 if new else 0.5  # a program is compiled for each new shape
        console.update(step, step if new else step % 5 + 1)
        if step == 8:  # a program is compiled while the device still works on this update
            now[0] += 60.0
            console.leave_out(60.0)
    console.close()
    assert capsys.readouterr().out == (
        "time:     about 8 min 12 s left (2.00 steps per second, measured up to step 17; evaluations not included)\n"
    )
