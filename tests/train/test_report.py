"""metrics.jsonl: its fields, their sums, and what a restart leaves of it."""

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from t2t_lite.data.pipeline import assemble, make_plan
from t2t_lite.data.store import Store
from t2t_lite.models.flops import Sizes
from t2t_lite.train.report import METRICS_FILE, Report, read_metrics

FIELDS = (
    "step loss learning_rate source_tokens target_tokens padded_tokens tokens_per_second input_seconds grad_norm flops "
    "flops_per_second utilisation"
).split()
SIZES = Sizes(num_layers=1, d_model=16, d_ff=32, num_heads=2, d_k=8, d_v=8, target_vocab_size=50)


def _lines(folder: Path) -> list[dict[str, Any]]:
    text = (folder / METRICS_FILE).read_text(encoding="utf-8")
    assert text.endswith("\n") or not text
    return [json.loads(line) for line in text.split("\n")[:-1]]


def _report(folder: Path, first_step: int = 1, flops: int = 0, speed: float = 1e9) -> Report:
    return Report(folder, first_step, 30, sizes=SIZES, flops=flops, device_flops_per_second=speed)


BATCH = {"source": np.ones((1, 2, 3), np.int32), "target": np.array([[[4, 1, 0, 0], [1, 0, 0, 0]]], np.int32)}


def test_the_lines_of_an_epoch_add_up_to_the_plans_sums(toy_store: Store, tmp_path: Path) -> None:
    split = toy_store.split("train")
    plan = make_plan(split, batch_tokens=256, micro_batches=4, max_length=64, packing=False, seed=1)
    report = _report(tmp_path)
    for step in range(1, plan.steps_per_epoch + 1):
        batch = assemble(split, plan.batch(step), 4, packing=False)
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


def test_flops_go_on_from_those_before_and_their_speed_is_of_the_time_between(tmp_path: Path) -> None:
    pairs = SIZES.training_flops([3, 3], [2, 1])  # of BATCH
    report = _report(tmp_path, 11, flops=2**70, speed=1e6)
    for step in (11, 12, 13):
        report.add(step, BATCH, 1.0, 1.0, 0.1)
        if step > 11:
            report.write()
    report.close()
    lines = _lines(tmp_path)
    assert [line["flops"] for line in lines] == [2**70 + 2 * pairs, 2**70 + 3 * pairs]  # no float: exact
    for line, since in zip(lines, (2 * pairs, pairs), strict=True):
        assert line["utilisation"] == pytest.approx(line["flops_per_second"] / 1e6, rel=1e-2)
        tokens = 6 if since > pairs else 3
        seconds = tokens / line["tokens_per_second"]
        assert line["flops_per_second"] == pytest.approx(since / seconds, rel=1e-2)


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
        b'{"step": 5, "lo\xff\n',
        b"[" * 100_000 + b"\n",
        b"\0\0\n",
    ]
    (tmp_path / METRICS_FILE).write_bytes(good.join([b"", *damaged, b""]))
    assert read_metrics(tmp_path) == [{"step": 5, "loss": 3.0}] * 8


@pytest.mark.parametrize("cut", ['{"step": 10, "loss": 1.5}', "", '{"st'])
def test_a_last_line_without_its_end_never_runs_into_the_next(tmp_path: Path, cut: str) -> None:
    (tmp_path / METRICS_FILE).write_text('{"step": 9, "loss": 1.0}\n' + cut, encoding="utf-8")
    report = _report(tmp_path, 11)
    report.add(11, BATCH, 1.0, 1.0, 0.1)
    report.write()
    report.close()
    assert [line["step"] for line in _lines(tmp_path)][-1] == 11
    assert _lines(tmp_path)[0] == {"step": 9, "loss": 1.0}


def test_a_new_run_in_a_folder_with_old_lines_starts_an_empty_file(tmp_path: Path) -> None:
    (tmp_path / METRICS_FILE).write_text('{"step": 1, "loss": 1.0}\n', encoding="utf-8")
    _report(tmp_path).close()
    assert _lines(tmp_path) == []


def test_tensorboard_gets_the_same_numbers(tmp_path: Path) -> None:
    report = _report(tmp_path)
    report.add(3, BATCH, 2.5, 1.0, 0.1)
    report.write()
    report.write_scores(3, {"dev_bleu": 30.0})
    report.close()
    (path,) = (tmp_path / "tensorboard").iterdir()
    found = {}
    for record in tf.data.TFRecordDataset(str(path)):
        event = tf.compat.v1.Event.FromString(record.numpy())
        for value in event.summary.value:
            found[value.tag] = (event.step, float(tf.make_ndarray(value.tensor)))
    assert set(found) == {*FIELDS, "dev_bleu"} - {"step"}
    assert found["loss"] == (3, 2.5)
    assert found["dev_bleu"] == (3, 30.0)
