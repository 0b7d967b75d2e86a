"""t2t-lite-import of an OpenNMT-tf model: the decoder and a SavedModel give its translations."""

import json
import re
from pathlib import Path

import pytest

from tests.importers.opennmt_golden import SETTINGS, best, golden, save
from tests.system.conftest import Run, write_lines

pytestmark = pytest.mark.nightly


def test_it_translates_as_opennmt(run: Run, tmp_path: Path) -> None:
    found = golden("shared")
    flags = [*save(tmp_path / "there", found), f"--hparams={SETTINGS['shared']}"]
    inputs, outputs = write_lines(tmp_path / "in", list(found["lines"])), write_lines(tmp_path / "out", best(found))
    output_dir = tmp_path / "run"
    check = [f"--check_input={inputs}", f"--check={outputs}", "--length_penalty=0.6"]
    said = dict(
        re.findall(r"^([\w ]+): +(.+)$", run("importer", *flags, *check, f"--output_dir={output_dir}").stdout, re.M)
    )
    assert (
        "2 + 2 layers, d_model 16, d_ff 24, 2 heads of 8, attention with biases, pre-norm, one table" in said["model"]
    )
    assert said["source"].startswith("without an end symbol (assumed; ")
    assert said["variables"] == "90, each used once; left out: 180 of the optimizer, 5 of counters"
    assert said["check"] == f"16 of 16 outputs are equal to those of {outputs}"
    record = json.loads((output_dir / "import.json").read_text("utf-8"))
    named = {"ffn_activation": "relu", "position_encoder_class": "SinusoidalPositionEncoder"}
    assert record["OpenNMT-tf_hparams"] == {"num_heads": 2, **named}
    assert record["usual_in_OpenNMT-tf"] == {"norm_epsilon": 1e-3, "source_end": False}
    decoded = run("decoder", f"--output_dir={output_dir}", f"--input={inputs}").stdout
    assert decoded == "".join(f"{line}\n" for line in best(found))
    run("exporter", f"--output_dir={output_dir}")
    assert run("decoder", f"--saved_model={output_dir}/export", f"--input={inputs}").stdout == decoded
    refused = run("importer", *flags, "--sentencepiece=a,b", f"--output_dir={tmp_path}/other", status=2).stderr
    assert "--sentencepiece names 2 models for 1 vocabularies" in refused
    refused = run("importer", *flags, "--with_optimizer", f"--output_dir={tmp_path}/other", status=2).stderr
    assert "is of OpenNMT-tf, whose optimizer is not taken over. Leave the flag out." in refused


def test_learned_positions_by_default_flags(run: Run, tmp_path: Path) -> None:
    """OpenNMT-tf's last position serves all later ones, as here; this table has 9 rows."""
    found = golden("learned")
    flags = [*save(tmp_path / "there", found), "--hparams=num_heads=2", f"--output_dir={tmp_path}/run"]
    inputs, outputs = write_lines(tmp_path / "in", list(found["lines"])), write_lines(tmp_path / "out", best(found))
    said = run("importer", *flags, f"--check_input={inputs}", f"--check={outputs}").stdout
    assert f"16 of 16 outputs are equal to those of {outputs}\n" in said
    assert "extra_length=50, inputs of at most 512 pieces\n" in said
