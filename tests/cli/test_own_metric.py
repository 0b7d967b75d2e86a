"""A problem's own metric: in training and its log, in t2t-lite-eval, and in the reversed problem."""

import importlib.util
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from t2t_lite import problem, registry
from t2t_lite.errors import UsageError
from t2t_lite.export.model_card import make_card
from t2t_lite.metrics import bleu
from t2t_lite.metrics.score import CorpusMetric, Score, check_metric, score_lines
from t2t_lite.problem import reverse
from t2t_lite.runs.open_run import open_run
from tests import commands

pytestmark = pytest.mark.nightly

USERS = '''
from t2t_lite import problem, registry
from t2t_lite.metrics.score import CorpusMetric, Score

class SameLength(CorpusMetric):
    """Share of the outputs that have as many words as their references."""
    signature = "same-length|version:1"

    def score(self, hypotheses, references, sources):
        same = sum(len(h.split()) == len(r.split()) for h, r in zip(hypotheses, references, strict=True))
        return Score("same-length", 100 * same / len(references), self.signature, f"{same}/{len(references)}")

@registry.register_problem
class Digits(problem.Problem):
    """Lines of digits."""
    vocab_size = 40

    def samples(self, split):
        for n in range(60):
            line = " ".join(str(n))
            yield line, line

    def source_files(self, split):
        return []

    def make_metric(self):
        return SameLength()
'''
SIZES = "num_layers=1,d_model=16,d_ff=16,num_heads=2,batch_tokens=256,max_length=64,beam_size=1,extra_length=1"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, str]:
    """The folder of the code, the run in it, and what the trainer printed."""
    users = tmp_path_factory.mktemp("users")
    output = users / "run"
    (users / "__init__.py").write_text(USERS, encoding="utf-8")
    done = commands.run(
        "t2t_lite.cli.trainer",
        f"--usr_dir={users}",
        f"--output_dir={output}",
        "--problem=digits",
        "--hparams_set=tiny",
        f"--hparams=train_steps=2,eval_every=1,{SIZES}",
    )
    assert done.returncode == 0, done.stderr
    return users, output, done.stdout.decode()


@pytest.fixture
def korean(trained: tuple[Path, Path, str], tmp_path: Path) -> list[str]:
    """Flags of the run as that of a problem whose target language is Korean."""
    code = USERS.partition("    def make_metric")[0].replace("vocab_size", 'target_language = "ko"\n    vocab_size')
    (tmp_path / "__init__.py").write_text(code, encoding="utf-8")
    return [f"--usr_dir={tmp_path}", f"--output_dir={trained[1]}", "--json"]


def test_training_log_and_eval(trained: tuple[Path, Path, str]) -> None:
    users, output, said = trained
    flags = [f"--usr_dir={users}", f"--output_dir={output}"]
    lines = [json.loads(line) for line in (output / "metrics.jsonl").read_text().splitlines()]
    names = [{name for name in line if name.startswith("dev_")} for line in lines if "dev_loss" in line]
    assert names == 2 * [{"dev_loss", "dev_perplexity", "dev_accuracy", "dev_score"}]
    assert "same-length " in said
    scores = {}
    for metric in ("all", "bleu"):
        done = commands.run("t2t_lite.cli.eval", *flags, f"--metric={metric}", "--json", "--split=dev")
        assert done.returncode == 0, done.stderr
        scores[metric] = json.loads(done.stdout)["scores"]
    assert [score["name"] for score in scores["all"]] == ["same-length", "BLEU", "chrF2"]
    assert [score["name"] for score in scores["bleu"]] == ["BLEU"]
    own = scores["all"][0]
    assert own["signature"] == "same-length|version:1"
    assert own["detail"].endswith("/60")
    kept = (output / "dev.scores.json").read_text()
    assert "BLEU" in kept
    (output / "dev.scores.json").unlink()
    card = make_card(open_run(str(output), usr_dir=str(users), checkpoint="2"))
    [score] = card["scores"]
    assert (score["metric"], score["signature"]) == ("score", "same-length|version:1")


@pytest.mark.skipif(importlib.util.find_spec("mecab_ko") is not None, reason="the tokeniser is installed")
def test_a_tokeniser_that_is_not_installed_is_named_with_advice(korean: list[str]) -> None:
    done = commands.run("t2t_lite.cli.eval", *korean, light=True)
    assert done.returncode == 2
    assert b"t2t-lite-eval --tokenize=char), or chrF (--metric=chrf)." in done.stderr


@pytest.mark.parametrize("line", ["import absent_package", 'return bleu.bleu(tokenize="absent")'])
def test_a_run_is_exported_where_its_metric_cannot_be_made(
    trained: tuple[Path, Path, str], tmp_path: Path, line: str
) -> None:
    code = USERS.replace("        return SameLength()", f"        from t2t_lite.metrics import bleu\n        {line}")
    (tmp_path / "__init__.py").write_text(code, encoding="utf-8")
    (trained[1] / "dev.scores.json").unlink(missing_ok=True)  # has the signature of where it was written
    flags = [f"--usr_dir={tmp_path}", f"--output_dir={trained[1]}", f"--export_dir={tmp_path / 'export'}"]
    done = commands.run("t2t_lite.cli.exporter", *flags, "--checkpoint=2")
    assert done.returncode == 0, done.stderr
    card = json.loads((tmp_path / "export" / "1" / "assets" / "model_card.json").read_text(encoding="utf-8"))
    assert [(score["metric"], score["signature"]) for score in card["scores"]] == [("score", None)]


class _Own(CorpusMetric):
    signature = "own"

    def score(self, hypotheses: Sequence[str], references: Sequence[str], sources: Sequence[str]) -> Score:
        return Score("own", 1.0, self.signature, "")


class _Mine(problem.Problem):
    name = "mine"
    source_language, target_language = "de", "en"

    def make_metric(self) -> _Own:
        return _Own()


def _check(made: problem.Problem) -> object:
    return check_metric(made.make_metric(), f"The problem {made.name!r}")


def test_the_other_way_round() -> None:
    """A reversed problem keeps its own metric; without one, the metric is made for its new target language."""
    reversed_problem = reverse(_Mine)()
    assert reversed_problem.has_own_metric
    assert isinstance(reversed_problem.make_metric(), _Own)
    toy = registry.problem("toy_ende_rev")
    assert not toy.has_own_metric
    assert "BLEU" in toy.make_metric().score(["a b c d"], ["a b c d"]).name


def test_a_metric_of_which_lower_scores_are_better_would_choose_the_worst_checkpoint() -> None:
    made = _Mine()
    made.make_metric = bleu.ter  # type: ignore[method-assign, assignment]
    with pytest.raises(UsageError, match=r"'mine' has the metric TER. Lower is better there, so"):
        _check(made)


def test_what_is_no_metric() -> None:
    made = _Mine()
    for other in ("bleu", _Own):
        made.make_metric = lambda other=other: other  # type: ignore[method-assign, assignment, return-value]
        with pytest.raises(UsageError, match="'mine' has the metric .*, which is no metric; derive it from "):
            _check(made)
    metric = _Own()
    made.make_metric = lambda: metric  # type: ignore[method-assign]
    metric.score = lambda hypotheses, references, sources: 1.0  # type: ignore[method-assign, assignment, return-value]
    with pytest.raises(UsageError, match=r"_Own.score returned 1.0; a metric returns a t2t_lite.metrics"):
        _check(made)
    metric.score = lambda hypotheses: Score("own", 1.0, "own", "")  # type: ignore[method-assign, assignment, misc]
    with pytest.raises(UsageError, match=r"_Own.score has to take \(hypotheses, references, sources\): too many "):
        _check(made)
    metric.score = lambda *_: Score("own", float("nan"), "own", "")  # type: ignore[method-assign]
    with pytest.raises(UsageError, match="whose value is a finite number"):
        score_lines(metric, ["a"], ["a"], ["a"])
