"""--accumulate: a property of the machine, which a run keeps when it resumes, and which changes no result."""

import json
from pathlib import Path

import numpy as np
import pytest

from t2t_lite.cli import trainer
from tests.faults.material import LARGE, SMALL, write_corpus

HPARAMS = "num_layers=1,d_model=16,d_ff=16,num_heads=2,dropout=0.3,batch_tokens=300,log_every=1,beam_size=1"


def _losses(run: Path) -> list[float]:
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text("utf-8").split("\n")[:-1]]
    return [line["loss"] for line in lines if "loss" in line]


@pytest.mark.nightly
def test_a_run_keeps_the_number_of_parts_unless_another_is_given(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus = write_corpus(tmp_path / "corpus", LARGE[:300], SMALL[:4])
    flags = [*corpus, f"--data_dir={tmp_path}", "--num_workers=1", "--hparams_set=tiny"]
    flags += [f"--hparams={HPARAMS},eval_lines=1,extra_length=2"]
    run = tmp_path / "run"
    assert trainer.main([*flags, f"--output_dir={tmp_path / 'whole'}", "--train_steps=5"]) == 0
    assert "; a batch is one part (--accumulate=1)\n" in capsys.readouterr().out
    starts = (
        (["--train_steps=2", "--accumulate=3"], 3, None),
        (["--train_steps=3"], 3, None),
        (["--train_steps=4", "--accumulate=2"], 2, "step 4 on"),
        (["--train_steps=5", "--accumulate=auto"], 2, None),
    )
    for more, parts, differs in starts:
        assert trainer.main([*flags, f"--output_dir={run}", *more]) == 0
        out = capsys.readouterr().out
        assert f"; a batch is {parts} parts (--accumulate={parts})\n" in out
        assert ("last bits of the weights may differ" in out) is (differs is not None)
        if differs:
            assert f"From {differs} the last bits of the weights may differ from those of a run that was never " in out
            assert "stopped: parts of a device's share (--accumulate) 3 -> 2.\n" in out
        computed = json.loads((run / "run.json").read_text("utf-8"))["starts"][-1]["computed"]
        assert computed["accumulate"] == parts
    assert len(_losses(run)) == 5
    np.testing.assert_allclose(_losses(run), _losses(tmp_path / "whole"), rtol=1e-5)
