"""t2t-lite-exporter on a trained run, and t2t-lite-decoder on the export, as whole commands."""

import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import commands
from tests.checkpoints import default_weights

pytestmark = pytest.mark.commit

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.mark.nightly
def test_an_export_translates_as_the_run_does(
    run: Run, trained: tuple[Path, str], corpus: Path, tmp_path: Path
) -> None:
    folder, base = trained[0], tmp_path / "versions"
    # In float32, as the run computes; nbest would be a second search to trace.
    out = run("exporter", f"--output_dir={folder}", f"--export_dir={base}", "--signatures=score").stdout
    assert out.startswith(f"{base}/1: ")
    assert "tensorflow/serving:2.20.0" in out
    card = json.loads((base / "1" / "assets" / "model_card.json").read_text())
    assert (card["problem"]["name"], card["checkpoint"]) == ("text2text", default_weights(folder))
    assert card["checkpoint"].endswith(f"-{card['step']}")
    assert card["training_data"]["pairs"] == {"train": 1000, "dev": 12, "test": 16}
    assert card["training_data"]["options"]["source_dir"] == corpus.name  # not its path on this machine
    score, *_ = card["scores"]
    assert (score["split"], score["metric"], score["weights"]) == ("test", "BLEU", default_weights(folder))
    assert score["signature"].startswith("nrefs:1|case:mixed|")
    assert f"\nscores: BLEU {score['value']:.2f} on test" in out
    lines = (corpus / "test.en").read_bytes() + "\n  \n日本 \u2028 x".encode()
    done = run("decoder", f"--saved_model={base}", "--json", input=lines)
    assert re.fullmatch(r"2 of \d+ source pieces \(0\.\d%\) are unknown to the vocabulary, [^\n]+\n", done.stderr)
    exported = [json.loads(line)["outputs"][0] for line in done.stdout.removesuffix("\n").split("\n")]
    ours = run("decoder", f"--output_dir={folder}", "--json", input=lines).stdout.removesuffix("\n").split("\n")
    assert len(ours) == 19
    for line, other in zip(ours, exported, strict=True):
        wanted = json.loads(line)["outputs"][0]
        assert other["text"] == wanted["text"]
        assert abs(other["score"] - wanted["score"]) <= 1e-4 + 1e-4 * abs(wanted["score"])


@pytest.mark.nightly
@pytest.mark.usefixtures("int8_machine")
def test_eight_bits_in_an_export_and_without(run: Run, trained: tuple[Path, str], corpus: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(trained[0].with_name("as_trained"), tmp_path / "run")
    loss = json.loads((folder / "test.scores.json").read_text())["loss"]
    scored = json.loads(run("eval", f"--output_dir={folder}", "--precision=int8", "--json").stdout)
    assert scored["loss"] == pytest.approx(loss, rel=0.05)
    base = tmp_path / "export"
    done = run("exporter", f"--output_dir={folder}", f"--export_dir={base}", "--precision=int8")
    assert done.stderr == "int8: 100.0% of the numbers in the matrices of the model; all else is float32.\n"
    assert "int8: x86 processors with VNNI instructions" in done.stdout
    card = json.loads((base / "1" / "assets" / "model_card.json").read_text())
    assert card["hparams"]["precision"] == "int8"
    assert [score["value"] for score in card["scores"]] == [score["value"] for score in scored["scores"]]
    assert f" {card['parameters']:,} parameters of {default_weights(folder)}\n" in done.stdout
    weights = (base / "1" / "variables" / "variables.data-00000-of-00001").stat().st_size
    assert card["parameters"] < weights < 1.4 * card["parameters"]
    lines = (corpus / "test.en").read_bytes()
    both = [
        run("decoder", flag, "--json", *more, input=lines).stdout.removesuffix("\n").split("\n")
        for flag, *more in ([f"--saved_model={base}"], [f"--output_dir={folder}", "--precision=int8"])
    ]
    assert len(both[0]) == 16
    for one, other in zip(*([json.loads(line)["outputs"][0] for line in rows] for rows in both), strict=True):
        assert one["text"] == other["text"]
        assert abs(one["score"] - other["score"]) <= 1e-4 + 1e-4 * abs(one["score"])
    plain = run("decoder", f"--output_dir={folder}", "--json", input=lines).stdout.removesuffix("\n").split("\n")
    assert plain != both[1]  # the int8 model differs
    expanded = [  # as if the processor had nothing newer
        run("decoder", flag, "--json", *more, input=lines, env={"ONEDNN_MAX_CPU_ISA": "AVX2"}, fresh=True)
        for flag, *more in ([f"--saved_model={base}"], [f"--output_dir={folder}", "--precision=int8"])
    ]
    assert "int8: this processor has no instructions for it (VNNI)" in expanded[1].stderr
    rows = [done.stdout.removesuffix("\n").split("\n") for done in expanded]
    found = [[json.loads(line)["outputs"][0] for line in each] for each in (*rows, both[1])]
    for one, other, integers in zip(*found, strict=True):
        assert one["text"] == other["text"]
        assert one["score"] == pytest.approx(other["score"], abs=1e-4)
        assert one["text"] != integers["text"] or one["score"] == pytest.approx(integers["score"], abs=0.1)
    assert sum(one["text"] == integers["text"] for one, _, integers in zip(*found, strict=True)) > 12


@pytest.mark.nightly
def test_sigterm_leaves_nothing_of_an_export(trained: tuple[Path, str], tmp_path: Path) -> None:
    out, err = tmp_path / "out", tmp_path / "err"
    flags = [f"--output_dir={trained[0]}", f"--export_dir={tmp_path / 'versions'}"]
    process = commands.start("t2t_lite.cli.exporter", *flags, out=out, err=err)
    try:
        end = time.monotonic() + 120
        while not any(tmp_path.glob("versions/.version.partial-*/*")):
            assert process.exitcode is None, err.read_text()
            assert time.monotonic() < end
            time.sleep(0.001)
        assert process.pid is not None
        os.kill(process.pid, signal.SIGTERM)
        process.join(60)
        assert process.exitcode == 143
    finally:
        process.kill()
    assert err.read_text().endswith("error: interrupted; nothing was exported.\n")
    assert [path.name for path in (tmp_path / "versions").iterdir()] == [".version.lock"]


def test_wrong_flags_of_the_exporter(run: Run, trained: tuple[Path, str], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    cases = [
        (["--checkpoint=7"], 2, "There is no checkpoint '7'"),
        ([f"--export_dir={tmp_path / 'file'}"], 2, f"--export_dir={tmp_path}/file: {tmp_path}/file is not a folder."),
        (["--precision=float64"], 2, "invalid choice: 'float64'"),
        (["--signatures=score,nbst"], 2, "--signatures: there is no 'nbst', only serving_default, nbest, score"),
        (["--format=ctranslate2", "--warmup_batch_size=4"], 2, "--warmup_batch_size is for TensorFlow Serving"),
    ]
    for flags, status, message in cases:
        done = run("exporter", f"--output_dir={trained[0]}", *flags, status=status)
        assert message in done.stderr
    assert not (trained[0] / "export").exists()
    assert "holds no run" in run("exporter", f"--output_dir={tmp_path}", status=1, quick=True).stderr
