"""The example metric, which sees the sources: of files with a baseline, as a run's dev score, and of a run."""

import json
from pathlib import Path

import pytest

from tests import commands

USR_DIR = f"--usr_dir={Path(__file__).resolve().parents[2] / 'examples' / 'my_metric'}"
SOURCES = [f"{n} cats and {n + 1} dogs" for n in range(0, 80, 2)]
OURS = [f"{n} Katzen und {n + 1} Hunde" for n in range(0, 80, 2)]
THEIRS = [f"{n} Katzen und Hunde" for n in range(0, 80, 2)]


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    for name, lines in (("source", SOURCES), ("ours", OURS), ("theirs", THEIRS)):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return [f"--hypotheses={tmp_path / 'ours'}", f"--references={tmp_path / 'ours'}"]


def test_files_are_scored_with_their_sources_and_compared(files: list[str], tmp_path: Path) -> None:
    flags = [USR_DIR, "--metric=kept_numbers", f"--sources={tmp_path / 'source'}", "--json"]
    for test, interval in ([], [100.0, 100.0]), (["--paired_ar"], None):
        done = commands.run("t2t_lite.cli.eval", *files, *flags, *test, f"--baseline={tmp_path / 'theirs'}", light=True)
        assert done.returncode == 0, done.stderr
        [score] = json.loads(done.stdout)["scores"]
        assert (score["name"], score["value"], score["signature"]) == ("kept-numbers", 100, "kept-numbers|version:1")
        paired = score["paired"]
        assert (paired["baseline"]["value"], paired["difference"], paired["interval"]) == (50, 50, interval)
        assert paired["p_value"] < 0.01


def test_what_the_metric_needs_is_asked_for(files: list[str], tmp_path: Path) -> None:
    sources = f"--sources={tmp_path / 'source'}"
    for flags, message in (
        (
            ["--metric=kept_numbers"],
            "KeptNumbers is a metric of your own: it takes one --references=FILE and --sources",
        ),
        (["--metric=kept_number", sources], "There is no metric called 'kept_number'. Did you mean 'kept_numbers'?"),
        (["--metric=chrf", sources], "--sources does not go with scores of files"),
        (["--metric=kept_numbers", sources, "--lowercase"], "--lowercase is not for --metric=kept_numbers"),
    ):
        done = commands.run("t2t_lite.cli.eval", USR_DIR, *files, *flags, light=True)
        assert done.returncode == 2
        assert message in done.stderr.decode()


@pytest.mark.nightly
def test_a_run_is_evaluated_by_the_metric(tmp_path: Path) -> None:
    for side, lines in (("en", SOURCES), ("de", OURS)):
        for split in ("train", "dev"):
            (tmp_path / f"{split}.{side}").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    sizes = "num_layers=1,d_model=16,d_ff=16,num_heads=2,batch_tokens=256,max_length=64,beam_size=1,extra_length=1"
    data = ["--problem=text2text", f"--source_dir={tmp_path}", "--languages=en-de", "--vocab_size=60"]
    done = commands.run(
        "t2t_lite.cli.trainer",
        *(USR_DIR, f"--output_dir={tmp_path / 'run'}", *data, "--metric=kept_numbers", "--hparams_set=tiny"),
        f"--hparams=train_steps=1,eval_every=1,{sizes}",
    )
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().split("\n") if line]
    [score] = {line["dev_score"] for line in lines if "dev_score" in line}
    done = commands.run("t2t_lite.cli.eval", USR_DIR, f"--output_dir={tmp_path / 'run'}", "--split=dev", "--json")
    assert done.returncode == 0, done.stderr
    scores = json.loads(done.stdout)["scores"]
    assert [each["name"] for each in scores] == ["kept-numbers", "BLEU", "chrF2"]
    assert scores[0]["value"] == pytest.approx(score, abs=1e-9)
