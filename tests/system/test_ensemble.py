"""Ensembles of a Transformer, an LSTM and a user's own model, with whole commands."""

import itertools
import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from t2t_lite.runs.open_run import open_runs
from t2t_lite.text.vocabulary_training import train_vocabulary

pytestmark = pytest.mark.nightly

Run = Callable[..., subprocess.CompletedProcess[str]]

ROOT = Path(__file__).resolve().parents[2]
RECIPE = (
    "batch_tokens=1024,learning_rate_factor=1,warmup_steps=40,log_every=40,eval_every=40,eval_lines=4,save_every=20,"
    "average_checkpoints=1,extra_length=2"
)
LINES = b"a b c\n1 2 3 4 5 6\n\nd\n8 e f\n"


class Runs(NamedTuple):
    """Three runs with the same data."""

    transformer: Path
    rnn: Path
    gru: Path

    def named(self, *names: str) -> str:
        """Returns the flag for an ensemble of the named runs."""
        return "--output_dir=" + ",".join(str(getattr(self, name)) for name in names)


@pytest.fixture(scope="module")
def runs(run: Run, tmp_path_factory: pytest.TempPathFactory) -> Runs:
    folder = tmp_path_factory.mktemp("ensemble")
    made = Runs(*(folder / name for name in Runs._fields))
    recipes = {
        made.transformer: ("tiny", "num_layers=1,d_model=32,d_ff=32,num_heads=2"),
        made.rnn: ("rnn_tiny", "num_layers=1,d_model=24,dropout=0.1,beam_size=3"),
        made.gru: ("gru_tiny", "units=16"),
    }
    for output_dir, (name, hparams) in recipes.items():
        code = [f"--usr_dir={ROOT / 'examples' / 'my_model' / 'gru'}"] if output_dir == made.gru else []
        flags = (f"--hparams_set={name}", f"--hparams={hparams},{RECIPE}", *code, f"--data_dir={folder / 'data'}")
        run("trainer", "--problem=toy_reverse", *flags, "--train_steps=40", f"--output_dir={output_dir}")
    return made


def _outputs(done: subprocess.CompletedProcess[str]) -> list[Any]:
    return [json.loads(line)["outputs"] for line in done.stdout.removesuffix("\n").split("\n")]


def _assert_same(got: list[Any], wanted: list[Any], tolerance: float) -> None:
    assert [[one["text"] for one in row] for row in got] == [[one["text"] for one in row] for row in wanted]
    scores = [[one["score"] for row in side for one in row] for side in (got, wanted)]
    np.testing.assert_allclose(*scores, rtol=tolerance, atol=tolerance)


def _decoded(run: Run, *flags: str) -> subprocess.CompletedProcess[str]:
    return run("decoder", *flags, "--json", "--nbest=3", input=LINES)


def test_the_order_of_three_kinds_of_models_changes_no_bit(run: Run, runs: Runs) -> None:
    search = ("--trust_run", "--beam_size=3")
    orders = list(itertools.permutations(Runs._fields))[1::2]  # each run is first once
    done = [_decoded(run, runs.named(*names), *search) for names in orders]
    assert len({names[0] for names in orders}) == len(orders) == 3
    assert len({one.stdout for one in done}) == 1
    assert _decoded(run, runs.named("gru"), *search).stdout != done[0].stdout


def test_a_run_named_twice_is_that_run(run: Run, runs: Runs) -> None:
    twice = _decoded(run, f"{runs.named('transformer', 'transformer')}{os.sep}")
    assert twice.stderr == (
        f"{runs.transformer} and {runs.transformer}{os.sep} are the same run, which counts twice in the mean.\n"
    )
    _assert_same(_outputs(twice), _outputs(_decoded(run, runs.named("transformer"))), 1e-5)


def test_the_search_is_the_firsts_and_said(run: Run, runs: Runs) -> None:
    done = _decoded(run, runs.named("transformer", "rnn"))
    said = f"The search is that of {runs.transformer}, also where {runs.rnn} has another: beam_size=4, not 3.\n"
    assert done.stderr == said
    assert _decoded(run, runs.named("transformer", "rnn"), "--beam_size=4").stdout == done.stdout
    other = _decoded(run, runs.named("rnn", "transformer"), "--beam_size=4")
    assert (other.stdout, other.stderr) == (done.stdout, "")


def test_an_export_translates_as_the_ensemble_does(run: Run, runs: Runs, tmp_path: Path) -> None:
    same = (runs.named("transformer", "rnn"), "--beam_size=3")
    assert run("exporter", *same, f"--export_dir={tmp_path}").stderr == ""
    _assert_same(_outputs(_decoded(run, f"--saved_model={tmp_path}")), _outputs(_decoded(run, *same)), 1e-4)
    card = json.loads((tmp_path / "1" / "assets" / "model_card.json").read_text("utf-8"))
    models = {member["run"]: member["model"] for member in card["members"].values()}
    assert models == {"transformer": "transformer", "rnn": "rnn"}
    assert card["parameters"] == sum(member["parameters"] for member in card["members"].values())


def test_eval_scores_the_mean_and_writes_into_no_run(run: Run, runs: Runs, tmp_path: Path) -> None:
    both, before = runs.named("transformer", "rnn"), _files(runs)
    done = run("eval", both, "--split=dev", "--beam_size=1", "--json")
    assert "These scores are of an ensemble; they are kept in no run's folder.\n" in done.stderr
    found = json.loads(done.stdout)
    assert len(found["checkpoint"].split(", ")) == 2
    for side, name in (("source", "in"), ("target", "out")):
        text = open_runs([str(runs.transformer)]).store().text("dev")[("source", "target").index(side)]
        (tmp_path / name).write_text("".join(f"{line}\n" for line in text), encoding="utf-8")
    files = (f"--sources={tmp_path / 'in'}", f"--targets={tmp_path / 'out'}")
    pairs = [json.loads(line) for line in run("eval", both, "--score", "--json", *files).stdout.split("\n")[:-1]]
    loss = -sum(pair["log_prob"] for pair in pairs) / sum(pair["tokens"] for pair in pairs)
    assert found["loss"] == pytest.approx(loss, abs=1e-5)
    alone = [
        json.loads(run("eval", runs.named(name), "--split=dev", "--json").stdout)["loss"]
        for name in ("transformer", "rnn")
    ]
    assert found["loss"] < sum(alone) / 2  # because the logarithm is concave
    assert min(abs(found["loss"] - loss) for loss in alone) > 1e-3
    assert before <= _files(runs)


def _files(runs: Runs) -> set[tuple[str, float]]:
    found = (path for folder in runs for path in folder.rglob("*"))
    return {(str(path), path.stat().st_mtime) for path in found if path.is_file()}


def _refused(run: Run, command: str, *flags: str, status: int = 2) -> str:
    return run(command, *flags, status=status, quick=True).stderr


def test_what_cannot_be_an_ensemble_is_refused_before_tensorflow_is_loaded(
    run: Run, runs: Runs, tmp_path: Path
) -> None:
    one, other = runs.transformer, runs.rnn
    german = Path(shutil.copytree(one, tmp_path / "german"))
    train_vocabulary(["ein kleiner Hund sieht die Katze"], size=30).save(german / "vocabulary.model")
    both = runs.named("transformer", "rnn")
    said = _refused(run, "decoder", f"--output_dir={one},{german}")
    assert said.startswith(f"error: {one} and {german} cannot be an ensemble: their source vocabularies differ. ")
    for command, more in (("eval", []), ("exporter", [f"--export_dir={tmp_path}"]), ("decoder", [])):
        assert "cannot be an ensemble" in _refused(run, command, f"--output_dir={one},{german}", *more)
    for empty in (f"{one},,{other}", f"{one},", f",{one}"):
        assert f"--output_dir={empty} has an empty name" in _refused(run, "decoder", f"--output_dir={empty}")
    missing = tmp_path / "none"
    assert f"{missing} holds no run" in _refused(run, "decoder", f"--output_dir={one},{missing}", status=1)
    said = _refused(run, "decoder", runs.named("transformer", "gru"))
    assert said.startswith(f"error: {runs.gru} was trained with code of its own")
    assert "An ensemble belongs to none of its runs' folders" in _refused(run, "exporter", both)
    assert "CTranslate2 runs one model" in _refused(run, "exporter", both, "--format=ctranslate2")
    assert "is an ensemble: the attention of several models has no mean" in _refused(
        run, "insights", both, "--sentence=a"
    )


def test_checkpoint_is_of_each_member(run: Run, runs: Runs) -> None:
    both = (runs.named("transformer", "rnn"), "--beam_size=3")
    early = _decoded(run, *both, "--checkpoint=20")
    assert early.stdout != _decoded(run, *both, "--checkpoint=40").stdout
    said = run("decoder", *both, "--checkpoint=30", input=LINES, status=2).stderr
    assert f"There is no checkpoint '30' in {runs.transformer}" in said
