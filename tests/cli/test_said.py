"""How much commands say: --quiet and --verbose of all, --json and --format of those that print scores or facts."""

import argparse
import json
import logging
import os
from pathlib import Path

import pytest

from t2t_lite.cli import common, eval, exporter, importer, insights, trainer
from t2t_lite.distributed import tensorflow_loading
from t2t_lite.errors import UsageError
from t2t_lite.progress import Progress
from t2t_lite.verbosity import said, say
from tests import commands
from tests.cli import evaluated
from tests.importers.marian_golden import GOLDEN

COMMANDS = (
    *"trainer datagen decoder synthesize eval avg_checkpoints exporter importer".split(),
    *"compare query insights demo shortlist".split(),
)


def _speak() -> int:
    say("a remark")
    say("a remark on the work", error=True)
    with Progress(None, " lines") as progress:
        progress._start -= 100
        progress.reach(3, "reading")
    logging.getLogger("t2t_lite").info("news")
    logging.getLogger("t2t_lite").warning("a warning")
    with tensorflow_loading.quiet():
        os.write(2, b"TensorFlow's log\n")
    print("a result")
    raise UsageError("a mistake")


@pytest.mark.parametrize(
    ("flags", "out", "err"),
    [
        ({}, ["a remark", "a result"], ["a remark on the work", "reading: 3 lines", "error: a mistake"]),
        ({"quiet": True}, ["a result"], ["error: a mistake"]),
        ({"json": True}, ["a result"], ["a remark", "a remark on the work", "reading: 3 lines", "error: a mistake"]),
        ({"verbose": True}, ["a remark", "a result"], ["TensorFlow's log", "Traceback (most recent call last):"]),
    ],
)
def test_what_is_said(
    flags: dict[str, bool],
    out: list[str],
    err: list[str],
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert common.run(_speak, args=argparse.Namespace(**flags)) == 2
    found = capfd.readouterr()
    assert found.out.splitlines() == out
    lines = found.err.splitlines()
    assert (lines if "verbose" not in flags else [line for line in lines if line in err]) == err
    assert caplog.messages == [*([] if "quiet" in flags else ["news"]), "a warning"]
    assert vars(said) == {"quiet": False, "verbose": False, "reserved": False}


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_has_both_flags_and_takes_one_of_them(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    parser = __import__(f"t2t_lite.cli.{command}", fromlist=["make_parser"]).make_parser()
    assert {"--quiet", "--verbose"} < {*parser.known_flags()}
    with pytest.raises(SystemExit):
        parser.parse(["-q", "--verbose"])
    assert "--verbose: not allowed with argument -q/--quiet" in capsys.readouterr().err


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    evaluated.write(tmp_path / "hyp", evaluated.HYPOTHESES)
    evaluated.write(tmp_path / "ref", evaluated.REFERENCES)
    return [f"--hypotheses={tmp_path / 'hyp'}", f"--references={tmp_path / 'ref'}"]


def test_scores_of_files_as_tables(files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert eval.main([*files, "--metric=bleu", "--json"]) == 0
    [score] = json.loads(capsys.readouterr().out)["scores"]
    shown, signature = f"{score['value']:.2f}", f"BLEU|{score['signature']}"
    escaped = signature.replace("|", r"\|")
    for form, wanted in {
        "markdown": f"Scores\n\n| metric | score |\n|---|---:|\n| BLEU | {shown} |\n\n- {escaped}\n",
        "csv": f"metric,score,signature\nBLEU,{score['value']!r},{score['signature']}\n",
        "latex": "% Scores; needs \\usepackage{booktabs}\n\\begin{tabular}{lr}\n\\toprule\nmetric & score \\\\\n"
        f"\\midrule\nBLEU & {shown} \\\\\n\\bottomrule\n\\end{{tabular}}\n% {signature}\n",
    }.items():
        assert eval.main([*files, "--metric=bleu", f"--format={form}"]) == 0
        assert capsys.readouterr().out == wanted


def test_a_baseline_in_a_table_has_its_mark(
    files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    evaluated.write(tmp_path / "hyp", evaluated.REFERENCES * 20)
    evaluated.write(tmp_path / "ref", evaluated.REFERENCES * 20)
    other = evaluated.write(tmp_path / "b_1|x", evaluated.HYPOTHESES * 20)
    command = [*files, "--metric=bleu", f"--baseline={other}"]
    assert eval.main([*command, "--json"]) == 0
    paired = json.loads(capsys.readouterr().out)["scores"][0]["paired"]
    assert eval.main([*command, "--format=markdown"]) == 0
    out = capsys.readouterr().out
    name = str(other).replace("_", r"\_").replace("|", r"\|")
    assert f"| {name} | BLEU | {paired['baseline']['value']:.2f} | {paired['p_value']:.4f}\\* |\n" in out
    assert "| translations | metric | score | p |\n" in out
    assert eval.main([*command, "--format=csv"]) == 0
    assert capsys.readouterr().out.startswith("translations,metric,score,p_value,signature\n")


def test_one_form_at_a_time(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    for flags, message in (
        (["--json", "--format=csv"], "--format: not allowed with argument --json"),
        (["--format=html"], "invalid choice: 'html' (choose from"),
    ):
        with pytest.raises(SystemExit):
            eval.main([*files, *flags])
        assert message in capsys.readouterr().err
    with pytest.raises(SystemExit):
        trainer.main(["--output_dir=x", "--json"])
    assert "--json goes with --describe or --registry_help" in capsys.readouterr().err


def test_names_and_fields_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert trainer.main(["--registry_help=samplers", "--json"]) == 0
    assert {*json.loads(capsys.readouterr().out)["samplers"]} >= {"random", "top_k", "nucleus"}
    assert trainer.main(["--registry_help=hparams", "--hparams_set=tiny", "--json"]) == 0
    fields = {name: field for group in json.loads(capsys.readouterr().out).values() for name, field in group.items()}
    assert fields["dropout"] == {**fields["dropout"], "type": "float", "value": fields["dropout"]["value"]}
    assert isinstance(fields["d_model"]["value"], int)


@pytest.mark.commit
def test_a_recipe_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert trainer.main(["--describe", "--hparams_set=tiny", "--vocab_size=500", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["model"], found["hparams_set"], found["hparams"]["d_model"]) == ("transformer", "tiny", 128)
    assert found["memory"]["weights"] == 4 * found["parameters"]
    assert 0 < found["hours"][0] < found["hours"][1]


@pytest.mark.nightly
def test_an_import_an_export_and_a_page_as_json(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").write_text("The brother cooks.\n")
    check = ["--check_input=in", "--check=in"]
    assert importer.main([f"--checkpoint={GOLDEN / 'toy'}", "--output_dir=run", "--json", *check]) == 0
    found = json.loads(capfd.readouterr().out)
    assert found["import"] == json.loads((tmp_path / "run" / "import.json").read_text("utf-8"))
    assert (found["run"], found["check"]["lines"], found["check"]["equal"]) == ("run", 1, 0)
    assert exporter.main(["--output_dir=run", "--json"]) == 0
    written = json.loads(capfd.readouterr().out)
    assert written["model_card"]["parameters"] == found["parameters"]
    assert written["bytes"] == sum(p.stat().st_size for p in Path(written["export"]).rglob("*") if p.is_file())
    assert insights.main(["--output_dir=run", "--sentence=The brother cooks.", "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["files"]["page"]["bytes"] == Path("attention.html").stat().st_size


@pytest.mark.nightly
def test_a_quiet_training_prints_its_result_alone(tmp_path: Path) -> None:
    recipe = "num_layers=1,d_model=16,d_ff=16,num_heads=2,train_steps=2,beam_size=1,extra_length=1,eval_lines=2"
    flags = ["--problem=toy_reverse", "--problem_options=train_size=200", "--hparams_set=tiny", f"--hparams={recipe}"]
    done = commands.run("t2t_lite.cli.trainer", *flags, f"--output_dir={tmp_path / 'run'}", "-q")
    assert done.returncode == 0
    out = done.stdout.decode()
    assert "\ntest set, weights " in out
    assert out.rstrip().endswith("metrics.jsonl")
    assert not [word for word in ("model:", "devices:", "step ", "Next:") if word in out]
    assert "step 2 of 2" not in done.stderr.decode()
