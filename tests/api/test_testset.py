"""t2t-lite-eval --testset as a whole process: the scores are those of the run's translations of the set."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import sacrebleu

from t2t_lite.api.load import LoadedRun
from tests.data import testset_cache


@pytest.mark.nightly  # a new interpreter: the forked ones have sacreBLEU already, with its folder
def test_the_scores_are_of_the_test_set(run: LoadedRun, folder: Path, tmp_path: Path) -> None:
    sources, references = (lines[:9] for lines in run._run.members[0].store().text("test"))
    cache = testset_cache.fill(tmp_path / "cache", sources, references)
    env = os.environ | {"SACREBLEU": str(cache)}
    command = [sys.executable, "-m", "t2t_lite.cli.eval", f"--output_dir={folder}", "--testset=wmt14/full", "--json"]
    done = subprocess.run([*command, "--metric=bleu"], capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    wanted = sacrebleu.corpus_bleu(run.translate(sources), [references])
    assert (found["testset"], found["lines"]) == ("wmt14/full", 9)
    assert found["scores"][0]["value"] == pytest.approx(wanted.score)
    assert wanted.score < 100
