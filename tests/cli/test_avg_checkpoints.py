"""t2t-lite-avg-checkpoints: which checkpoints it refuses to average."""

from pathlib import Path

import pytest

from t2t_lite import registry
from t2t_lite.cli import avg_checkpoints
from t2t_lite.runs.run_dir import RunSpec, write_run


@pytest.mark.parametrize(("number", "said"), [(1, "1 checkpoint. Give --last=1"), (2, "2 checkpoints. Give --last=2")])
def test_more_checkpoints_than_were_kept_are_refused(
    number: int, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_run(tmp_path, RunSpec("toy_ende", {}, "data", None, "tiny", "transformer", registry.hparams("tiny")))
    (tmp_path / "checkpoints").mkdir()
    for step in range(number):
        for ending in ("index", "data-00000-of-00001"):
            (tmp_path / "checkpoints" / f"model-{step}.{ending}").touch()
    before = sorted(tmp_path.rglob("*"))
    assert avg_checkpoints.main([f"--output_dir={tmp_path}", "--last=20"]) == 2
    assert capsys.readouterr().err == (
        f"error: --last=20, but {tmp_path} has {said}, or train on with --hparams=keep_checkpoints=20.\n"
    )
    assert sorted(tmp_path.rglob("*")) == before
