"""Whole runs with BPE-dropout: one that resumes ends with the same bits, one on two devices makes the same updates."""

import json
from pathlib import Path
from typing import Any

import pytest

from t2t_lite import registry
from t2t_lite.data.prepare import prepare
from tests import commands
from tests.checkpoints import assert_same_bits, tensors

HPARAMS = (
    "num_layers=1,d_model=32,d_ff=64,num_heads=2,dropout=0.1,batch_tokens=512,train_steps=12,log_every=1,"
    "eval_every=12,save_every=6,average_checkpoints=1,beam_size=1,extra_length=2"
)


def _train(folder: Path, *flags: str) -> str:
    """Trains, and returns what was logged."""
    done = commands.run("t2t_lite.cli.trainer", f"--output_dir={folder}", *flags)
    assert done.returncode == 0, done.stderr
    return (done.stdout + done.stderr).decode()


def _losses(folder: Path) -> list[float]:
    lines: list[dict[str, Any]] = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [line["loss"] for line in lines if "loss" in line]


@pytest.mark.nightly
@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_resumed_and_on_two_devices(tmp_path: Path, kind: str) -> None:
    problem = registry.problem("toy_ende", train_size=120)  # two epochs
    text = tmp_path / "text"
    text.mkdir()
    for split in ("train", "dev"):
        pairs = [pair for pair, _ in zip(problem.samples(split), range(120), strict=False)]
        for ending, lines in zip(("en", "de"), zip(*pairs, strict=True), strict=True):
            (text / f"{split}.{ending}").write_text("".join(f"{line}\n" for line in lines), "utf-8")
    options = {"source_dir": str(text), "languages": "en-de", "vocab_size": 300, "vocab_type": kind}
    prepare(registry.problem("text2text", **options), tmp_path / "data", num_workers=1)
    flags = ["--problem=text2text", *(f"--{name}={value}" for name, value in options.items())]
    flags += ["--hparams_set=tiny", f"--data_dir={tmp_path / 'data'}", f"--hparams={HPARAMS}"]
    _train(tmp_path / "plain", *flags)
    dropped = [*flags, "--hparams=bpe_dropout=0.2"]
    assert "bpe_dropout: 1." in _train(tmp_path / "whole", *dropped)
    assert _losses(tmp_path / "plain") != _losses(tmp_path / "whole")
    _train(tmp_path / "in_two", *dropped, "--train_steps=6")
    _train(tmp_path / "in_two", "--train_steps=12")
    assert_same_bits(tensors(tmp_path / "in_two", 12), tensors(tmp_path / "whole", 12))
    _train(tmp_path / "two", *dropped, "--devices=2")
    assert _losses(tmp_path / "two") == pytest.approx(_losses(tmp_path / "whole"), rel=1e-4)
    refused = commands.run("t2t_lite.cli.trainer", f"--output_dir={tmp_path / 'whole'}", "--hparams=bpe_dropout=0.1")
    assert refused.returncode == 2
    assert b"bpe_dropout: 0.2 -> 0.1" in refused.stderr
