"""t2t-lite-insights: the files that it writes, and its error messages."""

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from t2t_lite.cli import insights
from t2t_lite.errors import UsageError
from t2t_lite.insights.request import AttentionRequest, _fill
from t2t_lite.insights.sentence import Sentence, Translation
from t2t_lite.models.transformer import Transformer
from t2t_lite.models.transformer_hparams import TransformerHParams
from t2t_lite.runs.checkpoint import Checkpoints
from t2t_lite.runs.open_request import OpenRequest
from t2t_lite.runs.record import make_record
from t2t_lite.runs.run_dir import RunSpec, write_run
from t2t_lite.text.vocabulary_training import train_vocabulary
from tests import commands

pytestmark = pytest.mark.commit

HPARAMS = TransformerHParams(num_layers=2, d_model=16, d_ff=16, num_heads=2, beam_size=2, extra_length=3)
PLUGIN = """
from t2t_lite import problem, registry
from t2t_lite.models.transformer import Transformer


@registry.register_problem
class Mine(problem.Problem):
    '''A problem of a user's own.'''


@registry.register_model("mine")
class MyTransformer(Transformer):
    '''A model of a user's own.'''
"""


def _make_run(folder: Path, problem: str, model: str, usr_dir: str | None) -> Path:
    """Writes a run as the trainer does, with untrained weights."""
    vocabulary = train_vocabulary(
        ["a small dog sees the big cat", "ein kleiner Hund sieht die große Katze"] * 2, size=60
    )
    spec = RunSpec(problem, {}, "data", usr_dir, "base", model, HPARAMS)
    write_run(folder, spec)
    vocabulary.save(folder / "vocabulary.model")
    net = Transformer.from_hparams(HPARAMS, vocabulary.size, vocabulary.size, True)
    Checkpoints(folder, net, record=make_record(spec)).save(7)
    return folder


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _make_run(tmp_path_factory.mktemp("run"), "toy_ende", "transformer", None)


def _data(page: Path) -> dict:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page.read_text("utf-8"), re.DOTALL)
    assert found is not None
    return json.loads(found[1])


@pytest.mark.nightly
def test_a_page_and_a_picture_of_a_users_own_problem_and_model(tmp_path: Path) -> None:
    usr_dir = tmp_path / "mine"
    usr_dir.mkdir()
    (usr_dir / "__init__.py").write_text(PLUGIN, "utf-8")
    run_dir = _make_run(tmp_path / "run", "mine", "mine", str(usr_dir))
    flags = [
        f"--output_dir={run_dir}",
        "--trust_run",
        "--sentence=the dog",
        "--page=a.html",
        "--picture=a.svg",
        "--layer=1",
        "--head=2",
    ]
    done = commands.run("t2t_lite.cli.insights", *flags, cwd=tmp_path)
    assert done.returncode == 0, done.stderr.decode()
    size = (tmp_path / "a.html").stat().st_size
    assert done.stdout.decode() == f"page = a.html\nbytes = {size:,}\npicture = a.svg\n"
    data = _data(tmp_path / "a.html")
    assert data["show"] == {"attention": "memory", "view": "lines", "layer": 1, "heads": [2]}
    (sentence,) = data["sentences"]
    assert (sentence["text"], sentence["source"][-1], len(sentence["translations"])) == ("the dog", "</s>", 2)
    assert "mine · base · model-7 · step 7" in (tmp_path / "a.html").read_text("utf-8")
    assert (tmp_path / "a.svg").read_text("utf-8").startswith("<?xml")


@pytest.mark.nightly
def test_several_sentences_on_the_default_page(
    run_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("in.txt").write_text("a cat\n\nthe dog\n", "utf-8")
    assert insights.main([f"--output_dir={run_dir}", "--input=in.txt", "--beam_size=1", "--layer=all"]) == 0
    assert capsys.readouterr().out.startswith("page = attention.html\n")
    data = _data(Path("attention.html"))
    assert [(s["text"], len(s["translations"])) for s in data["sentences"]] == [("a cat", 1), ("the dog", 1)]
    assert data["show"] == {"attention": "memory", "view": "layers"}
    assert insights.main([f"--output_dir={run_dir}", "--input=in.txt", "--beam_size=1", "--heads=heads.tsv"]) == 0
    assert capsys.readouterr().out == "heads = heads.tsv\n"
    assert Path("heads.tsv").read_text("utf-8").startswith("kind\tlayer\thead\tentropy\tdistance\nmemory\t1\t1\t")


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"attention": "encoder"}, "--attention=encoder: a Rnn has attention of the kind memory only."),
        ({"layer": 3}, "--layer=3: the model has 2 layers, counted from 1"),
        ({"head": 9}, "--head=9: the model has 8 heads"),
    ],
)
def test_attention_that_the_model_does_not_have(asked: dict[str, Any], message: str) -> None:
    sentence = Sentence("a", ["a"], None, [Translation("b", None, ["b"], None, np.ones((2, 8, 1, 1)))])
    request = AttentionRequest(runs=OpenRequest(folders=("run",)), sentences=("a",), files={})
    filled = _fill(request, "Rnn", sentence)
    assert (filled.attention, filled.layer) == ("memory", 2)
    with pytest.raises(UsageError, match=message):
        _fill(dataclasses.replace(request, **asked), "Rnn", sentence)


@pytest.mark.parametrize(
    ("flags", "status", "message"),
    [
        (["--sentence="], 2, "--sentence is blank"),
        (["--sentence=a", "--target=b", "--head=3"], 2, "--head=3: the model has 2 heads, counted from 1"),
        (["--sentence=\udcff"], 2, "--sentence is not valid UTF-8"),
        (["--sentence=a", "--page={tmp}"], 2, "is a folder, not a file"),
        (["--sentence=a", "--heads={tmp}/a.tsv.gz"], 2, "a.tsv.gz: it is written uncompressed. Leave the ending .gz"),
        (["--input={tmp}/many", "--page={tmp}/many"], 2, "many would overwrite the input"),
        (["--input={tmp}/blank"], 1, "blank has no sentence in it"),
        (["--input={tmp}/many"], 1, "many has 21 sentences; a page shows at most 20"),
    ],
)
def test_what_cannot_be_done(
    run_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: list[str], status: int, message: str
) -> None:
    (tmp_path / "blank").write_text("\n \n", "utf-8")
    (tmp_path / "many").write_text("a\n" * 21, "utf-8")
    page = tmp_path / "page.html"
    given = [flag.replace("{tmp}", str(tmp_path)) for flag in flags]
    assert insights.main(commands.with_defaults(given, f"--output_dir={run_dir}", f"--page={page}")) == status
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.err.startswith("error: ")
    assert not page.exists()


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ([], "one of the arguments --sentence --input is required"),
        (["--sentence=a", "--input=b"], "not allowed with"),
        (["--input=b", "--target=a"], "--target goes with --sentence"),
        (["--sentence=a", "--picture=a.gif"], "must end in .png, .svg or .pdf"),
    ],
)
def test_wrong_flags(capsys: pytest.CaptureFixture[str], flags: list[str], message: str) -> None:
    with pytest.raises(SystemExit, match="2"):
        insights.main(["--output_dir=x", *flags])
    assert message in capsys.readouterr().err
