"""t2t-lite-decoder --shortlist: what is recorded of it, and the steps of Apache Beam: the output of one process."""

from pathlib import Path

import numpy as np
import pytest

from t2t_lite.cli import shortlist
from t2t_lite.cli.decode import DecodeRequest, decode
from t2t_lite.cli.decode_beam import decode_on
from t2t_lite.data.vocabulary_files import load_pair
from t2t_lite.files import sha256_of
from t2t_lite.models.transformer_hparams import TransformerHParams
from t2t_lite.runs.open_request import OpenRequest
from t2t_lite.runs.run_dir import RunSpec, write_run
from t2t_lite.text.shortlist import NAME, Shortlist
from tests.cli import untrained
from tests.cli.test_decode_beam import _ByHand, _write


@pytest.mark.nightly
def test_workers_have_the_shortlist(tmp_path: Path) -> None:
    folder = untrained.make_run(tmp_path / "run", 2)
    _write(tmp_path, 30)
    vocabularies = load_pair(folder)
    size = vocabularies[0].size
    pieces = np.random.default_rng(1).integers(3, size, (size, 2)).astype(np.int32)
    Shortlist(pieces, np.array([5], np.int32)).write(folder, *vocabularies)
    outputs = []
    for name, shortens in (("one", True), ("beam", True), ("without", False)):
        request = DecodeRequest(
            runs=OpenRequest(folders=(str(folder),)),
            input=str(tmp_path / "whole.en"),
            output=str(tmp_path / name),
            shortlist=shortens,
        )
        if name == "beam":
            decode_on(_ByHand(), request)
        else:
            # So --resume refuses to resume with another one.
            settings = decode(request)["settings"]
            assert settings.get("shortlist") == (sha256_of(folder / NAME) if shortens else None)
        outputs.append((tmp_path / name).read_text("utf-8"))
    assert outputs[0] == outputs[1] != outputs[2]


def test_a_parser_is_refused(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    spec = RunSpec("toy_parsing", {}, "data", None, "base", "transformer", TransformerHParams())
    write_run(tmp_path, spec)
    assert shortlist.main([f"--output_dir={tmp_path}"]) == 2
    assert "is a parser, whose searches take no shortlist." in capfd.readouterr().err
