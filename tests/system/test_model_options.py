"""Rotary positions, DeepNorm, a deeper encoder and BPE-dropout in whole commands: training, search, int8, exports."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.system.conftest import RECIPE

pytestmark = pytest.mark.nightly

Run = Callable[..., subprocess.CompletedProcess[str]]
OPTIONS = "positions=rotary,norm=deep,num_layers=3,num_decoder_layers=1,bpe_dropout=0.1,learning_rate_factor=2"


@pytest.fixture(scope="module")
def trained(run: Run, corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("options") / "run"
    flags = ["--problem=text2text", f"--source_dir={corpus}", "--languages=en-de", "--vocab_size=300"]
    recipe = ",".join(item for item in RECIPE.split(",") if item.partition("=")[0] not in OPTIONS)
    done = run("trainer", *flags, "--hparams_set=tiny", f"--hparams={recipe},{OPTIONS}", f"--output_dir={folder}")
    assert "bpe_dropout: 1." in done.stdout + done.stderr
    return folder


def test_search_int8_ensembles_and_exports_agree(run: Run, trained: Path, corpus: Path) -> None:
    lines = (corpus / "test.en").read_bytes()
    plain = run("decoder", f"--output_dir={trained}", input=lines).stdout
    assert len(plain.splitlines()) == len(lines.splitlines())
    assert len(set(plain.splitlines())) > 3
    assert run("decoder", f"--output_dir={trained},{trained}", input=lines).stdout == plain
    eight = run("decoder", f"--output_dir={trained}", "--precision=int8", input=lines).stdout.splitlines()
    assert len(eight) == len(plain.splitlines())  # tests/ops/test_int8.py compares the numbers
    run("exporter", f"--output_dir={trained}")
    assert run("decoder", f"--saved_model={trained / 'export'}", input=lines).stdout == plain


@pytest.mark.parametrize(("kind", "engine"), [("ctranslate2", "CTranslate2"), ("marian", "Marian")])
def test_other_engines_are_refused(run: Run, trained: Path, kind: str, engine: str) -> None:
    said = run("exporter", f"--output_dir={trained}", f"--format={kind}", status=2).stderr
    assert f"{engine} cannot compute " in said
    assert "norm=deep" in said
    assert "positions=rotary" in said


def test_resuming_with_others_is_refused(run: Run, trained: Path) -> None:
    for change in ("positions=sinusoidal", "norm=post", "bpe_dropout=0"):
        said = run("trainer", f"--output_dir={trained}", f"--hparams={change}", status=2).stderr
        assert "holds a run that was started with other settings" in said
        assert change.partition("=")[0] in said
