"""DeepNorm trains 18 + 6 layers where the paper's order of layers does not learn."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.nightly

Run = Callable[..., subprocess.CompletedProcess[str]]
RECIPE = (
    "num_layers=18,num_decoder_layers=6,d_model=64,d_ff=64,batch_tokens=1024,warmup_steps=200,learning_rate_factor=0.4,"
    "train_steps=300,log_every=100,eval_every=300,eval_lines=4,save_every=300,beam_size=1"
)


def test_a_deep_stack_learns_with_deep_norm_alone(run: Run, tmp_path: Path) -> None:
    losses = {}
    for norm in ("post", "deep"):
        folder = tmp_path / norm
        flags = ["--problem=toy_ende", "--hparams_set=tiny", f"--data_dir={tmp_path / 'data'}", "--num_workers=1"]
        run("trainer", *flags, f"--hparams=norm={norm},{RECIPE}", f"--output_dir={folder}")
        lines = (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
        losses[norm] = [line["loss"] for line in map(json.loads, lines) if "loss" in line][-1]
    # The loss of post-norm stays near 5.4 and that of DeepNorm is 3.4; 6.7 is the beginning.
    assert losses["post"] > 5
    assert losses["deep"] < 4
