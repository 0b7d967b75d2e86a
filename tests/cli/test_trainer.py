"""t2t-lite-trainer --describe: what a recipe will do, shown before training."""

import re
from pathlib import Path

import pytest

from t2t_lite import registry
from t2t_lite.cli import trainer
from t2t_lite.runs.run_dir import RunSpec, write_run


@pytest.mark.commit
def test_describe_with_vocab_size_needs_no_data(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Checks the parameters of `base` against a count by hand, biases and norms included.

    Table 3 says 65M, with a vocabulary of about 37,000 pieces.
    """
    monkeypatch.chdir(tmp_path)
    assert trainer.main(["--describe", "--hparams_set=base", "--vocab_size=37000"]) == 0
    out = capsys.readouterr().out
    d, f, v, n = 512, 2048, 37000, 6
    attention, feed_forward, norm = 4 * d * d, 2 * d * f + f + d, 2 * d
    encoder, decoder = attention + feed_forward + 2 * norm, 2 * attention + feed_forward + 3 * norm
    assert v * d + n * (encoder + decoder) == 63_045_632
    assert out.startswith("transformer, hparams set base: 63,045,632 parameters\n")
    for name, count in (("target_embedding", v * d), ("encoder/layer_5", encoder), ("decoder/layer_0", decoder)):
        assert re.search(rf"^  {name} +{count:,}$", out, re.MULTILINE)
    assert re.search(r"^Arithmetic at 32 \+ 32 pieces: [\d,.]+ MFLOP per target token in training", out, re.MULTILINE)
    assert re.search(r"^Memory per device, estimated: [\d.,]+ [MG]iB$", out, re.MULTILINE)
    assert re.search(
        r"^Disk: [\d.,]+ [MG]iB\n  \d+ checkpoints of [\d.,]+ [MG]iB and one that is being written, best ",
        out,
        re.MULTILINE,
    )
    assert "Batches: 25,000 padded tokens per side and update at most; pairs of up to 256 pieces a side\n" in out
    flags = ["--problem=toy_ende", "--hparams_set=tiny", "--vocab_size=900", f"--output_dir={tmp_path / 'run'}"]
    assert trainer.main(["--describe", *flags]) == 0
    assert "hparams set tiny: 1,038,336 parameters" in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []


@pytest.mark.commit
def test_describe_of_a_problem_prepares_its_data_and_shows_batches(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    flags = ["--problem=toy_reverse", "--hparams_set=tiny", f"--output_dir={tmp_path}"]
    assert trainer.main(["--describe", *flags]) == 0
    out = capsys.readouterr().out
    updates = re.search(
        r"^Batches: ([\d,]+) updates per epoch of 10,000 pairs \(0 left out as too long\)$", out, re.MULTILINE
    )
    assert updates is not None
    per_update = re.search(
        r"^  per update: ([\d,]+) source and ([\d,]+) target tokens, ([\d,]+) places on both sides, ([\d.]+)% of them "
        r"padding$",
        out,
        re.MULTILINE,
    )
    assert per_update is not None
    source, target, places = (int(number.replace(",", "")) for number in per_update.groups()[:3])
    assert places <= 2 * 2048  # tiny's batch_tokens, on each side
    assert float(per_update[4]) == pytest.approx(100 * (1 - (source + target) / places), abs=0.1)
    shapes = re.search(r"^  (\d+) shapes, rows x \(source \+ target\): (.+)$", out, re.MULTILINE)
    assert shapes is not None
    assert len(re.findall(r"\d+ x \(\d+ \+ \d+\)", shapes[2])) == int(shapes[1]) <= 13
    assert "Memory per device, estimated: " in out
    assert [path.name for path in tmp_path.iterdir()] == ["data"]  # no run was started

    assert trainer.main(["--describe", *flags, "--hparams=packing=true"]) == 0
    packed = capsys.readouterr().out
    assert "Batches: " in packed
    assert "shapes, rows x" not in packed


@pytest.mark.commit
@pytest.mark.parametrize("what", [["--vocab_size=500"], ["--problem=toy_reverse"]])
@pytest.mark.parametrize("asked", ["jit=on", "packing=true"])
def test_describe_says_what_a_model_cannot_do(
    what: list[str], asked: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    words = {"jit=on": "XLA cannot compile the training of a Rnn.", "packing=true": "A Rnn reads no packed rows"}
    flags = ["--describe", "--hparams_set=rnn_tiny", f"--hparams={asked}", f"--output_dir={tmp_path}"]
    assert trainer.main([*flags, *what]) == 2
    assert words[asked] in capsys.readouterr().err


@pytest.mark.parametrize("what", [["--vocab_size=500"], ["--problem=toy_reverse", "--output_dir=run"]])
@pytest.mark.parametrize(
    ("flags", "status", "message"),
    [
        (["--devices=2", "--strategy=one_device"], 2, "--strategy=one_device, but --devices=2"),
        (["--warm_start_from=nope"], 1, "There is no run or checkpoint at nope."),
        (["--reset_optimizer"], 2, "no checkpoint whose optimizer --reset_optimizer could reset"),
    ],
)
def test_describe_refuses_a_start_that_training_refuses(
    what: list[str],
    flags: list[str],
    status: int,
    message: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert trainer.main(["--describe", "--hparams_set=tiny", *what, *flags]) == status
    said = capsys.readouterr()
    assert message in said.err
    assert said.out == ""
    assert list(tmp_path.iterdir()) == []


def test_what_accumulate_takes(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        trainer.main(["--accumulate=Auto"])
    assert "'Auto' is not a whole number of at least 1, nor auto" in capsys.readouterr().err


@pytest.fixture
def started(tmp_path: Path) -> Path:
    """A run that has been started, and has no checkpoint yet."""
    spec = RunSpec(
        problem="toy_reverse",
        options={"train_size": 200},
        data_dir="data",
        usr_dir=None,
        hparams_set="tiny",
        model="transformer",
        hparams=registry.hparams("tiny"),
    )
    write_run(tmp_path / "run", spec)
    return tmp_path / "run"


@pytest.mark.parametrize(
    ("flag", "option"),
    [
        ("--source_dir=corpus", "source_dir=corpus"),
        ("--separate_vocabularies", "shared_vocab=False"),
        ("--problem_options=a=b", "a=b"),
    ],
)
def test_flags_of_a_problem_without_its_name_are_refused(
    flag: str, option: str, started: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert trainer.main([f"--output_dir={started}", flag]) == 2
    refused = f"error: {option} goes with --problem=NAME. Without that, the run in {started} resumes with its own"
    assert refused in capsys.readouterr().err


@pytest.mark.commit
def test_a_run_alone_takes_another_set_and_another_folder_of_data(
    started: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    moved = tmp_path / "moved"
    flags = [f"--output_dir={started}", f"--data_dir={moved}", "--hparams_set=multi30k", "--describe"]
    assert trainer.main(flags) == 0
    assert "transformer, hparams set multi30k: " in capsys.readouterr().out
    assert (moved / "toy_reverse").is_dir()
    assert not (started / "data").exists()
