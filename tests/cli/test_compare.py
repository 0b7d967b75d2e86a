"""t2t-lite-compare: real training runs, what it prints about them, and the flags that it refuses."""

import contextlib
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from t2t_lite import registry
from t2t_lite.cli import compare
from t2t_lite.compare.table import Row, make_table
from t2t_lite.errors import TrainingError
from t2t_lite.metrics import bleu
from t2t_lite.models.transformer_cost import TransformerCost
from t2t_lite.runs.lock import only_trainer
from t2t_lite.runs.start_request import StartRequest
from tests import commands

SMALL = "--hparams=num_layers=1,d_model=16,d_ff=16,num_heads=2,eval_every=6,save_every=3"
WAYS = (  # how a signal is sent, its name, and which one the training gets first
    (os.kill, "SIGTERM", "SIGHUP"),
    (os.killpg, "SIGTERM", "SIGTERM"),
    (os.kill, "SIGINT", "SIGHUP"),
)
FLAGS = ["--problem=toy_reverse", "--problem_options=train_size=200", SMALL]


@pytest.mark.nightly
def test_a_set_and_an_ensemble_of_it(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    command = [
        *FLAGS,
        "--sets=tiny+dropout=0.2,tiny+dropout=0.2*2",
        "--seeds=2",
        f"--output_dir={tmp_path}",
        "--train_flops=3e8",
    ]
    assert compare.main(command) == 0
    said = capfd.readouterr().out
    rows = json.loads((tmp_path / "table.json").read_text("utf-8"))
    assert [row["name"] for row in rows] == ["tiny+dropout=0.2", "tiny+dropout=0.2*2"]
    assert (tmp_path / "table.txt").read_text("utf-8") in said
    assert "\nbudget: 3e+08 FLOP of each training, to the nearest update\n" in said
    one, two = rows
    assert (one["p_value"], one["split"]) == (None, "test")
    assert 0 < two["p_value"] <= 1
    assert [len(row["scores"]) for row in rows] == [len(row["dev_losses"]) for row in rows] == [2, 1]
    values = [score["value"] for score in one["scores"]]
    assert (one["mean"], one["spread"]) == pytest.approx((sum(values) / 2, abs(values[0] - values[1]) / 2**0.5))
    assert two["parameters"] == 2 * one["parameters"] > 5_000
    assert two["train_flops"] == 2 * one["train_flops"]
    steps = one["train_steps"]
    assert 2 < steps < 50
    assert abs(one["train_flops"] / 3e8 - 1) < 1 / steps  # rounded to the nearest number of updates
    for seed in (1, 2):
        lines = (tmp_path / f"tiny+dropout=0.2-{seed}" / "metrics.jsonl").read_text("utf-8").splitlines()
        trained = [json.loads(line) for line in lines if "flops" in line]
        assert trained[-1]["step"] == steps
        assert trained[-1]["flops"] == pytest.approx(one["train_flops"], rel=0.2)  # of its own batches, not the mean
        recipe = json.loads((tmp_path / f"tiny+dropout=0.2-{seed}" / "hparams.json").read_text("utf-8"))["hparams"]
        assert (recipe["seed"], recipe["dropout"]) == (seed, 0.2)
    score = json.loads((tmp_path / "tiny+dropout=0.2-1" / "test.scores.json").read_text("utf-8"))["scores"][0]
    assert one["scores"][0]["value"] == pytest.approx(score["value"])
    assert one["scores"][0]["signature"] == score["signature"]
    assert min(one["sentences_per_second"], one["tokens_per_second"], one["peak_mib"]) > 0

    done = json.loads((tmp_path / "runs.json").read_text("utf-8"))
    done["runs"]["tiny+dropout=0.2-2"].update(request={}, peak_mib=10**6)  # as where the run was stopped
    (tmp_path / "runs.json").write_text(json.dumps(done), "utf-8")
    assert compare.main([*command, "--json"]) == 0  # nothing is trained again
    out, said = capfd.readouterr()
    assert json.loads(out)["rows"] == json.loads((tmp_path / "table.json").read_text("utf-8"))
    begun = [line for line in said.splitlines() if " updates, " in line]
    assert [line.partition(",")[0] for line in begun] == [f"tiny+dropout=0.2-2: {steps} updates"]
    assert compare.main([*command, "--format=latex", "--quiet"]) == 0
    assert capfd.readouterr().out == (tmp_path / "table.tex").read_text("utf-8")
    assert json.loads((tmp_path / "table.json").read_text("utf-8"))[0]["peak_mib"] == 10**6
    assert (tmp_path / "tiny+dropout=0.2-2" / "metrics.jsonl").read_text("utf-8").splitlines() == lines


TREES = [f"(S (NP (DT the) (NN {noun})) (VP (VBZ {verb})))" for noun in ("cat", "dog") for verb in ("runs", "eats")]


@pytest.mark.nightly
def test_trees_without_a_test_set_and_a_training_that_stops_early(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for split, trees in (("train", TREES * 8), ("dev", TREES)):
        (tmp_path / f"{split}.trees").write_text("".join(f"{tree}\n" for tree in trees), "utf-8")
    command = [
        *("--problem=treebank", f"--source_dir={tmp_path}", "--vocab_size=30", f"--output_dir={tmp_path / 'out'}"),
        "--sets=tiny+train_steps=2,tiny+train_steps=6+early_stopping=1+learning_rate_factor=0",
        "--hparams=num_layers=1,d_model=16,d_ff=16,num_heads=2,eval_every=2,log_every=3,beam_size=1,extra_length=20",
    ]
    assert compare.main(command) == 0
    said, warned = capfd.readouterr()
    assert warned.count("warning: the learning rate still rises at the last update") == 1  # the other rate is 0
    assert "Stopping at step 4: 1 evaluations in a row" in said
    rows = json.loads((tmp_path / "out" / "table.json").read_text("utf-8"))
    assert [(row["train_steps"], row["split"]) for row in rows] == [(2, "dev"), (4, "dev")]
    assert [row["p_value"] is None for row in rows] == [True, False]
    for row in rows:
        metrics = (tmp_path / "out" / f"{row['name']}-1" / "metrics.jsonl").read_text("utf-8").splitlines()
        reports = [line for line in map(json.loads, metrics) if "flops" in line]
        assert (reports[-1]["step"], reports[-1]["flops"]) == (row["train_steps"], row["train_flops"])
        assert row["dev_scores"] == [row["scores"][0]["value"]]
    table = (tmp_path / "out" / "table.txt").read_text("utf-8")
    assert table.splitlines()[1].split()[:4] == ["F1", "p", "dev", "F1"]

    (tmp_path / "out" / "tiny+train_steps=2-1" / "metrics.jsonl").unlink()
    assert compare.main(command) == 1
    assert "metrics.jsonl has no report of a training, from which its updates and FLOPs" in capfd.readouterr().err


def _row(name: str, hypotheses: list[str], flops: float = 1e9, **budget: float) -> Row:
    metric, references = bleu.bleu(), [f"a b c d e {n}" for n in range(len(hypotheses))]
    score, costs = metric.score(hypotheses, references), (10, 5, flops, 3.0, 7.0, 100)
    budget = budget or {"train_steps": 5}
    return Row(name, "test", [score], [score.value], [2.5], *costs, budget, metric)


def test_the_table() -> None:
    rows = [_row("one", ["a b c d e 0"] * 9), _row("<two>", ["a b c d e 0"] * 8 + ["x"], 4e9)]
    rows = [row.against(rows[0]) for row in rows]
    lines = make_table(rows, "title").format("text").splitlines()
    assert lines[0] == "title"
    assert lines[1].split() == "BLEU p dev BLEU dev loss parameters updates FLOPs tokens/s sent/s MiB".split()
    assert lines[2].split()[:2] == ["one", f"{rows[0].mean:.2f}"]
    assert len({len(line) for line in lines[1:4]}) == 1
    assert "budget: 5 updates of each training" in lines


@pytest.mark.parametrize(
    ("budgets", "shown"),
    [
        ([{"train_steps": 1200}, {"train_steps": 1200}], "1,200 updates of each training"),
        ([{"train_steps": 5}, {"train_steps": 6}], "train_steps of each set"),
        ([{"train_flops": 2e15}] * 2, "2e+15 FLOP of each training, to the nearest update"),
        (
            [{"train_minutes": 30, "updates_per_second": speed} for speed in (1234.567, 0.5)],
            "30 minutes of each training; updates/s measured for that: a 1,234.57, b 0.50",
        ),
    ],
)
def test_the_table_says_the_budget(budgets: list[dict[str, float]], shown: str) -> None:
    rows = [_row(name, ["a"], **budget) for name, budget in zip(("a", "b*2"), budgets, strict=True)]
    assert f"budget: {shown}" in make_table(rows, "title").format("text").split("\n")


@pytest.mark.commit
@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--sets=tiny,tiny"], "tiny is given twice"),
        (["--sets=tiny*1"], "'tiny*1' is not NAME, nor NAME+FIELD=VALUE, nor NAME*N with N from 2 to 64"),
        (["--sets=tiny", "--train_flops=many"], "many is not a number of FLOPs, such as 2e15"),
        (["--sets=tiny", "--train_minutes=0"], "0 is not a number of minutes above 0, such as 30 or 0.5"),
        (["--sets=tiny", "--train_flops=1e9", "--train_steps=3"], "not allowed with argument"),
        (["--sets=tiny,tinny"], "Did you mean 'tiny'"),
        (["--sets=tiny+seed=3"], "seed=... cannot be changed; give --seed=N instead"),
        (["--sets=rnn_tiny,tiny", "--hparams=num_heads=2"], "the model rnn does not read 'num_heads'"),
        # A mistake in the last set is reported before the first set is trained.
        (["--sets=tiny,tiny+dropuot=0.2"], "Did you mean 'dropout'"),
        (["--sets=tiny,tiny+dropout=0.2", "--hparams=dropout=0.1"], "'dropout' is given twice: 0.1 and 0.2."),
        (["--sets=tiny,tiny+schedule=noan"], "Did you mean 'noam'"),
        (["--sets=tiny,rnn_tiny+packing=true"], "reads no packed rows: leave packing=true out."),
        (
            ["--sets=tiny", "--train_flops=1e6"],
            "--train_flops=1e+06 is not enough for an update of tiny, which",
        ),
        (
            ["--problem=text2text", "--source_dir=.", "--languages=en-xx", "--metric=bleu_paper", "--sets=tiny"],
            "BLEU-paper is not defined for text in 'xx'",
        ),
    ],
)
def test_wrong_flags(flags: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    problem = [] if any(flag.startswith("--problem") for flag in flags) else FLAGS[:2]
    try:
        status = compare.main([*problem, f"--output_dir={tmp_path / 'out'}", *flags])
    except SystemExit as end:
        status = int(end.code or 0)
    assert status == 2
    assert message in capsys.readouterr().err
    assert not list(tmp_path.glob("out/*-1"))  # nothing is trained


def test_a_seed_that_the_test_of_the_scores_does_not_take_is_refused_before_anything_is_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SACREBLEU_SEED", "x")
    flags = [*FLAGS, "--train_flops=1", f"--output_dir={tmp_path / 'out'}"]
    for sets, message in (("tiny,tiny+dropout=0.2", "SACREBLEU_SEED=x is neither"), ("tiny", "is not enough for an")):
        assert compare.main([*flags, f"--sets={sets}"]) == 2  # one set alone is compared with nothing
        assert message in capsys.readouterr().err


@pytest.mark.commit
def test_the_data_are_opened_once_for_all_sets(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    sets = "tiny+batch_tokens=100,tiny+batch_tokens=200,tiny"  # the budget is too small for the last one alone
    for prepared in (0, 1):
        with caplog.at_level("INFO", "t2t_lite"):
            assert compare.main([*FLAGS, f"--sets={sets}", "--train_flops=1e7", f"--output_dir={tmp_path}"]) == 2
        assert "is not enough for an update of tiny, which" in capsys.readouterr().err
        assert caplog.text.count("Data prepared on ") == prepared


@pytest.mark.nightly
def test_runs_of_other_data_or_settings_are_refused_before_anything_is_trained(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    lines = [f"{n} {n % 7} {n % 5}\n" for n in range(40)]
    for name in ("train.en", "train.de", "dev.en", "dev.de"):
        (tmp_path / name).write_text("".join(lines), "utf-8")
    problem = ["--problem=text2text", f"--source_dir={tmp_path}", "--languages=en-de", "--vocab_size=30"]
    out, run, sizes = tmp_path / "out", tmp_path / "out" / "tiny-1", f"{SMALL},beam_size=1,extra_length=1"
    trained = [*problem, "--hparams_set=tiny", sizes, f"--data_dir={out / 'data'}", f"--output_dir={run}"]
    done = commands.run("t2t_lite.cli.trainer", *trained, "--train_steps=1")
    assert done.returncode == 0, done.stderr

    def refused(
        *flags: str, sets: str = "tiny+dropout=0.2,tiny", sizes: str = sizes, budget: str = "--train_steps=1"
    ) -> str:
        assert compare.main([*problem, f"--sets={sets}", sizes, budget, f"--output_dir={out}", *flags]) > 0
        assert [path.name for path in out.glob("*-1")] == ["tiny-1"]
        return capfd.readouterr().err

    for free in ("log_every=7", "average_checkpoints=2,length_penalty=1"):
        said = refused(f"--hparams={free}", sets="tiny", budget="--train_flops=1")
        assert "is not enough for an update of tiny, which" in said
    for other in ("eval_every=7", "save_every=7"):
        field = other.partition("=")[0]
        said = refused(sizes=re.sub(rf"{field}=\d", other, sizes))
        assert f"{run} holds a run that was started with other settings:\n  {field}: " in said
    for other in ("eval_lines=7", "save_minutes=7", "early_stopping=7", "jit=on", "remat=true"):
        assert " holds a run that was started with other settings:\n" in refused(f"--hparams={other}", sets="tiny")
    kept = registry.hparams("tiny").keep_checkpoints
    said = refused(f"--hparams=average_checkpoints={kept + 1}", sets="tiny")
    assert f"average_checkpoints={kept + 1}, but {run} has kept only its {kept} newest checkpoints." in said
    said = refused("--hparams=batch_tokens=99")
    assert f"{run} holds a run that was started with other settings:\n  batch_tokens: " in said
    assert " -> 99\nResume with the old settings, or give another --output_dir." in said
    (tmp_path / "train.en").write_text("".join(reversed(lines)), "utf-8")
    for again in (["--prepare_again"], []):  # the second time they are prepared
        assert refused(*again).endswith(
            f"error: {run} was trained on other data than those that are prepared now, so its scores and those of new "
            "runs cannot be compared. Give another --output_dir.\n"
        )


@pytest.mark.commit
def test_a_training_that_fails_is_named(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "tiny-1").mkdir()
    (tmp_path / "tiny-1" / "hparams.json").write_text("{", "utf-8")
    assert compare.main([*FLAGS, "--sets=tiny", "--train_steps=2", f"--output_dir={tmp_path}"]) == 1
    said = capfd.readouterr().err
    assert "The training of tiny-1 has ended with status" in said
    assert "If it ends so again, leave its set out of --sets" in said


@pytest.mark.parametrize("text", ["null", "{", '{"format": 1, "speeds": {"tiny": {}}}'])
def test_a_damaged_list_of_runs(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "runs.json").write_text(text, "utf-8")
    assert compare.main([*FLAGS, "--sets=tiny", "--train_steps=2", f"--output_dir={tmp_path}"]) == 1
    assert f"error: {tmp_path / 'runs.json'} is damaged (" in capsys.readouterr().err


@pytest.mark.commit
@pytest.mark.parametrize("budget", ["--train_minutes=1", "--train_steps=2"])
def test_a_model_that_counts_no_flops_is_refused_before_anything_is_trained(
    budget: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(TransformerCost, "forward_flops", lambda self, source, target: 0)
    assert compare.main([*FLAGS, "--sets=tiny", budget, f"--output_dir={tmp_path}"]) == 2
    assert "tiny: an update has 0 FLOPs by the `cost` of its model, transformer." in capsys.readouterr().err
    assert not (tmp_path / "tiny-1").exists()


def test_a_stopped_training_is_not_done_whatever_was_recorded_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first run is finished and deleted; the second one, of the same flags, is stopped after a report."""
    from t2t_lite.compare import runs as compare_runs

    run, calls = tmp_path / "out" / "tiny-1", []

    def train(request: StartRequest, name: str) -> int:
        calls.append(name)
        report = {"step": len(calls), "flops": 1e9 * len(calls), "tokens_per_second": 5.0}
        run.mkdir(parents=True, exist_ok=True)
        (run / "metrics.jsonl").write_text(json.dumps(report) + "\n", "utf-8")
        if len(calls) == 2:
            raise KeyboardInterrupt
        return 100 if len(calls) == 1 else 50

    monkeypatch.setattr(compare_runs, "train", train)

    def trained() -> compare_runs.Run:
        """As a new process of the command."""
        args = compare.make_parser().parse([*FLAGS, "--sets=tiny", f"--output_dir={run.parent}"])
        runs = compare_runs.Runs(compare.compare_request(args))
        runs._plans["tiny"] = compare_runs._Plan({}, 3, 3e9, {})
        [[found]] = runs.train_entry(args.sets[0])
        return found

    assert (trained().train_steps, trained().peak_mib, len(calls)) == (1, 100, 1)
    shutil.rmtree(run)
    with pytest.raises(KeyboardInterrupt):
        trained()
    assert (trained().train_steps, trained().peak_mib, len(calls)) == (3, 50, 3)
    assert capsys.readouterr().out.count("tiny-1: 3 updates") == 3


@pytest.mark.commit
def test_the_memory_of_a_training_is_its_own() -> None:
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss > 200 * 2**10  # this process has loaded TensorFlow
    script = "from t2t_lite.cli.compare_training import peak_mib; print(peak_mib())"
    assert 5 < int(subprocess.check_output([sys.executable, "-c", script], text=True)) < 120  # that one has not


@contextlib.contextmanager
def _endless(folder: Path) -> Iterator[Callable[[], subprocess.Popen[bytes]]]:
    """A function that starts a comparison of one endless run, which has made another update when it returns."""
    hparams = "num_layers=1,d_model=16,d_ff=16,num_heads=2,log_every=1,eval_every=90000,save_every=90000"
    flags = [*FLAGS[:2], f"--hparams={hparams}", "--sets=tiny", "--train_steps=90000", f"--output_dir={folder}"]
    started: list[subprocess.Popen[bytes]] = []

    def start() -> subprocess.Popen[bytes]:
        saved, out = _last_step(folder / "tiny-1"), folder / "out"
        with open(out, "wb") as file:
            command = [sys.executable, "-m", "t2t_lite.cli.compare", *flags]
            started.append(subprocess.Popen(command, stdout=file, stderr=file, start_new_session=True))
        while _last_step(folder / "tiny-1") <= saved:
            assert started[-1].poll() is None, out.read_text()
            time.sleep(0.05)
        return started[-1]

    try:
        yield start
    finally:
        for process in started:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


@pytest.mark.nightly
def test_a_signal_ends_the_training_too_which_saves(tmp_path: Path) -> None:
    """The training gets it from the command or, as from `timeout`, also from whoever sends it to the whole group."""
    run = tmp_path / "tiny-1"
    with _endless(tmp_path) as start:
        for kill, sent, name in WAYS:
            process = start()
            kill(process.pid, signal.Signals[sent])
            said = (tmp_path / "out").read_text
            assert process.wait(60) == 128 + signal.Signals[sent], said()
            saved = _last_step(run)
            *_, stopped, last = said().splitlines()
            assert stopped.startswith(f"{name}: step {saved} of 90,000 is done and saved."), said()
            assert last == "error: interrupted; the same command continues."
            assert max(int(path.stem.rpartition("-")[2]) for path in run.glob("checkpoints/*.index")) == saved


@pytest.mark.nightly
def test_a_training_ends_and_saves_when_the_command_is_killed(tmp_path: Path) -> None:
    """Then the same command resumes; before that it names the process that still writes."""
    run = tmp_path / "tiny-1"
    with _endless(tmp_path) as start:
        process = start()
        second = subprocess.run(process.args, capture_output=True, text=True, check=False)
        assert second.returncode == 1
        assert f"error: Another t2t-lite-compare writes to {tmp_path}: process {process.pid} on " in second.stderr
        process.kill()
        process.wait()
        end = time.monotonic() + 60
        while _is_locked(run) or not list(run.glob("checkpoints/*.index")):
            assert time.monotonic() < end, (tmp_path / "out").read_text()
            time.sleep(0.05)
        assert f"step {_last_step(run)} of 90,000 is done and saved." in (tmp_path / "out").read_text()


def _is_locked(run: Path) -> bool:
    try:
        with only_trainer(run):
            return False
    except TrainingError:
        return True


def _last_step(run: Path) -> int:
    metrics = run / "metrics.jsonl"
    lines = metrics.read_text("utf-8").split("\n")[:-1] if metrics.exists() else []
    return json.loads(lines[-1])["step"] if lines else 0
