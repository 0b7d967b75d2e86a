"""Recipes of models other than the Transformer, with whole commands."""

import itertools
import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from t2t_lite import registry
from tests.checkpoints import assert_same_bits, tensors

pytestmark = pytest.mark.commit

Run = Callable[..., subprocess.CompletedProcess[str]]

RNN, EXPERTS = "d_model=32,num_layers=", "d_model=32,d_ff=32,num_experts=4"
SIZES = {  # the hparams set, and its sizes
    "gnmt": ("rnn_tiny", f"{RNN}3,encoder=gnmt,wiring=gnmt,attention_score=normed_additive"),  # the third is residual
    "vinyals": ("rnn_tiny", f"{RNN}2,encoder=reversed,wiring=vinyals,share_embeddings=false"),
    "bytenet": ("bytenet_tiny", "num_layers=3,d_model=32"),
    "moe": ("moe_tiny", f"{EXPERTS},cells=32"),
    "transformer_moe": ("transformer_moe_tiny", f"{EXPERTS},num_layers=2,num_heads=2"),
    "convs2s": ("convs2s_tiny", "encoder_layers=2x32x3,decoder_layers=32x3+48x2,d_model=32,d_out=32"),
}
HPARAMS = (
    "batch_tokens=1024,learning_rate_factor=1,warmup_steps=40,log_every=10,eval_every=60,eval_lines=8,"
    "average_checkpoints=2,save_every=30,dropout=0.1,extra_length=2"
)
UNKNOWN = {"bytenet": ("1 of 24", "z"), "vinyals": ("7 of 21", "1 2 3 4 5 6")}  # of the pieces of LINES
LINES = b"a b c\n1 2 3 4 5 6\n\nz\n"


@pytest.fixture(scope="module", params=SIZES)
def a_run(request: Any, run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    name: str = request.param
    hparams_set, sizes = SIZES[name]
    model = hparams_set.removesuffix("_tiny")
    folder = tmp_path_factory.mktemp(name) / "run"
    flags = (
        *_problem(name, folder.parent / "corpus"),
        *(f"--hparams_set={hparams_set}", f"--hparams={sizes},{HPARAMS}"),
        f"--output_dir={folder}",
    )
    done = run("trainer", *flags, "--train_steps=40")
    assert f"model:    {model}, hparams set {hparams_set}: " in done.stdout
    assert json.loads((folder / "hparams.json").read_text("utf-8"))["model"] == model
    return folder


def _problem(name: str, folder: Path) -> tuple[str, ...]:
    """Returns the flags of a model's problem.

    ByteNet gets a folder of text and a character vocabulary; Vinyals' parser gets trees.
    """
    if name == "vinyals":
        return ("--problem=toy_parsing",)
    if name != "bytenet":
        return ("--problem=toy_reverse",)
    folder.mkdir()
    for split, number in (("train", 400), ("dev", 10)):
        pairs = itertools.islice(registry.problem("toy_reverse").samples(split), number)
        for code, lines in zip(("en", "de"), zip(*pairs, strict=True), strict=True):
            (folder / f"{split}.{code}").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return ("--problem=text2text", f"--source_dir={folder}", "--languages=en-de", "--vocab_type=char")


def _outputs(done: subprocess.CompletedProcess[str]) -> list[Any]:
    return [json.loads(line)["outputs"][0] for line in done.stdout.removesuffix("\n").split("\n")]


@pytest.mark.nightly
def test_a_run_goes_on_with_the_same_bits(run: Run, a_run: Path, tmp_path: Path) -> None:
    again = tmp_path / "again"  # as if the run had been killed after step 30
    shutil.copytree(a_run, again, ignore=shutil.ignore_patterns("model-40.*", "default_weights.json"))
    assert "Resuming from step 30 of 40." in run("trainer", f"--output_dir={again}").stdout
    losses = []
    for folder in (a_run, again):
        lines = (folder / "metrics.jsonl").read_text("utf-8").removesuffix("\n").split("\n")
        losses.append({row["step"]: row["loss"] for row in map(json.loads, lines) if "loss" in row})
    assert list(losses[0]) == [10, 20, 30, 40]
    assert losses[0] == losses[1]
    assert_same_bits(tensors(again, 40), tensors(a_run, 40))


@pytest.mark.nightly
def test_an_export_translates_as_the_run_does(run: Run, a_run: Path, tmp_path: Path) -> None:
    assert run("exporter", f"--output_dir={a_run}", f"--export_dir={tmp_path}").stderr == ""
    exported = _outputs(run("decoder", f"--saved_model={tmp_path}", "--json", input=LINES))
    done = run("decoder", f"--output_dir={a_run}", "--json", input=LINES)
    # The vocabularies differ: that of characters cuts more pieces, and one has no digits either.
    number, first = UNKNOWN.get(a_run.parent.name.rstrip("0123456789"), ("1 of 15", "z"))
    assert re.fullmatch(rf"{number} source pieces .* \(first in '{first}'\)\.\n", done.stderr)
    ours = _outputs(done)
    assert len(ours) == 4
    for one, other in zip(exported, ours, strict=True):
        assert one["text"] == other["text"]
        assert abs(one["score"] - other["score"]) <= 1e-4 + 1e-4 * abs(one["score"])
