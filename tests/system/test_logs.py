"""What training writes for people and tools: lines without a terminal, run.json, scores, the model card's scores."""

import dataclasses
import json
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from t2t_lite import config
from t2t_lite.export.model_card import make_card
from t2t_lite.runs.open_run import open_run
from t2t_lite.runs.run_dir import read_run, write_run
from tests import commands
from tests.checkpoints import default_weights

pytestmark = pytest.mark.commit

Run = Callable[..., subprocess.CompletedProcess[str]]

SMALL = "num_layers=1,d_model=16,d_ff=16,num_heads=2,beam_size=1,extra_length=2,eval_every=1000,log_every=1"


@pytest.fixture
def copy(trained: tuple[Path, str], tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained[0].with_name("as_trained"), tmp_path / "copy"))


def _json(path: Path) -> dict[str, Any]:
    values = json.loads(path.read_text(encoding="utf-8"))
    assert isinstance(values, dict)
    return values


def test_the_trainer_begins_with_five_lines_and_measures_the_time(trained: tuple[Path, str]) -> None:
    folder, out = trained
    lines = out.split("\n")
    assert re.fullmatch(r"model:    transformer, hparams set tiny: [\d,]+ parameters", lines[0])
    pattern = (
        r"devices:  (CPU, \d+ processors|\d+ x .+); float32; a batch is (\d+ shares of )?one part \(--accumulate=1\)"
    )
    assert re.fullmatch(pattern, lines[1])
    pattern = (
        r"data:     text2text: 1,000 pairs, vocabulary of 400 pieces; (\d+) steps per epoch, "
        r"120 steps are ([\d.]+) epochs"
    )
    found = re.fullmatch(pattern, lines[2])
    assert found is not None
    assert float(found[2]) == pytest.approx(120 / int(found[1]), abs=0.5)
    assert lines[3] == "time:     measured over the first updates; a line then says it"
    assert lines[4] == f"metrics:  {folder}/metrics.jsonl; tensorboard --logdir={folder}/tensorboard"
    (measured,) = [line for line in lines[5:] if line.startswith("time: ")]
    assert re.fullmatch(
        r"time:     about .+ left(, until .+)? \([\d,.]+ steps per second, measured up to step \d+; evaluations not "
        r"included\)",
        measured,
    )


def test_run_json_says_what_ran_where_and_when(trained: tuple[Path, str]) -> None:
    (entry,) = _json(trained[0] / "run.json")["starts"]
    names = "request version python tensorflow keras host devices computed first_step start end status".split()
    assert list(entry) == names
    assert entry["request"]["data"]["problem"] == "text2text"
    assert {"source_dir", "languages"} <= set(entry["request"]["data"]["options"])
    assert (entry["status"], entry["first_step"]) == ("done", 1)
    assert entry["tensorflow"].startswith("2.")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", entry["start"])
    assert entry["start"] < entry["end"]


@pytest.mark.nightly
def test_a_killed_start_long_pairs_and_hundreds_of_epochs_are_noted(run: Run, tmp_path: Path) -> None:
    """SIGKILL ends a run on 41 pairs with text2text's own recipe, made small: 100,000 steps of one batch per epoch."""
    for side, words in (("en", "one two three four"), ("de", "eins zwei drei vier")):
        text = "".join(f"{words} {i}\n" for i in range(40))
        for split in ("train", "dev"):
            long = f"{words} " * 20 + "\n" if split == "train" else ""
            (tmp_path / f"{split}.{side}").write_text(text + long, encoding="utf-8")
    flags = ["--problem=text2text", f"--source_dir={tmp_path}", "--languages=en-de", "--vocab_size=40"]
    flags += [f"--hparams={SMALL},max_length=40", f"--output_dir={tmp_path / 'run'}"]
    out, err = tmp_path / "out", tmp_path / "err"
    err.touch()
    process = commands.start("t2t_lite.cli.trainer", *flags, out=out, err=err)
    try:
        end = time.monotonic() + 120
        while time.monotonic() < end and "\nstep 3 of 100,000: loss " not in err.read_text():
            assert process.exitcode is None, err.read_text()
            time.sleep(0.1)
    finally:
        process.kill()
        process.join()
    said = err.read_text().split("\n")
    overlap = "dev: 40 of 40 pairs (100.0%) and 40 sources are also in train. "
    assert f"{overlap}--drop_overlap leaves such pairs out of train." in said
    long, warning = [line for line in said if line.startswith("warning: ")][:2]
    wanted = "1 of 41 training pairs (2.44%) have a side longer than max_length=40 pieces, and are left out."
    assert long == f"warning: {wanted} If they matter, raise max_length."
    assert warning.startswith("warning: 100,000 steps of hparams set base are 100,000 epochs of 41 pairs; ")
    assert "multi30k for some 30,000 pairs" in warning
    assert "--train_steps=50 makes it 50 epochs." in warning
    assert [(e["status"], e["end"]) for e in _json(tmp_path / "run" / "run.json")["starts"]] == [("running", None)]

    done = run("trainer", *flags, "--train_steps=2")
    assert "epochs" not in done.stderr
    killed, second = _json(tmp_path / "run" / "run.json")["starts"]
    assert (killed["status"], killed["end"]) == ("killed", None)
    assert second["status"] == "done"
    assert second["request"]["recipe"]["overrides"]["train_steps"] == 2
    assert process.exitcode == -signal.SIGKILL


@pytest.mark.nightly
def test_scores_are_kept_with_the_weights_they_are_of(run: Run, copy: Path) -> None:
    first, dev = _json(copy / "test.scores.json"), _json(copy / "dev.scores.json")
    assert (first["split"], first["hypotheses"], first["dev_loss"]) == ("test", "test.hyp.txt", dev["loss"])
    assert dev["weights"] == first["weights"]
    assert first["weights"]["path"] == default_weights(copy)
    assert first["weights"]["path"].endswith(f"/model-{first['weights']['step']}")
    assert first["weights"]["checksum"].startswith("sha256:")
    assert first["decoding"]["beam_size"] == 4

    done = run("eval", f"--output_dir={copy}", "--json")
    found, again = json.loads(done.stdout), _json(copy / "test.scores.json")
    assert again["scores"] == found["scores"]
    assert [score["name"] for score in again["scores"]] == ["BLEU", "chrF2"]
    assert again["scores"][:1] == first["scores"]
    assert (again["loss"], again["perplexity"]) == pytest.approx((found["loss"], found["perplexity"]))
    assert again["loss"] == pytest.approx(first["loss"], rel=1e-6)
    same = ("split", "weights", "decoding", "hypotheses", "dev_loss", "version", "in_train")
    assert {name: again[name] for name in same} == {name: first[name] for name in same}
    assert re.fullmatch(
        rf"{copy}/test\.scores\.json holds these scores now, in place of those of {default_weights(copy)} "
        r"\(BLEU [\d.]+, \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ\)\.\n",
        done.stderr,
    )


@pytest.mark.nightly
def test_the_card_shows_the_scores_of_the_weights_it_ships_and_of_no_others(run: Run, copy: Path) -> None:
    rows = [json.loads(line) for line in (copy / "metrics.jsonl").read_text().split("\n")[:-1]]
    best = int(next((copy / "best").glob("*.index")).stem.rpartition("-")[2])
    (row,) = [row for row in rows if row["step"] == best and "dev_bleu" in row]
    assert run("eval", f"--output_dir={copy}", "--checkpoint=best", "--metric=chrf").stderr != ""
    record = _json(copy / "test.scores.json")
    assert record["dev_loss"] == row["dev_loss"]

    def card(*flags: str) -> dict[str, Any]:
        base = copy / "exports"
        run("exporter", f"--output_dir={copy}", f"--export_dir={base}", *flags)
        return _json(base / str(len(list(base.glob("[!.]*")))) / "assets" / "model_card.json")

    shown = card("--checkpoint=best")
    assert [(s["split"], s["metric"].lower(), s["value"], s["weights"]) for s in shown["scores"]] == [
        ("test", "chrf2", record["scores"][0]["value"], f"best/model-{best}"),
        ("dev", "bleu", row["dev_bleu"], f"best/model-{best}"),
    ]
    assert "scores_note" not in shown
    assert shown["training_data"]["in_train"].keys() == {"dev", "test"}
    assert shown["training_data"]["in_train"]["test"] == record["in_train"]
    assert record["in_train"].keys() == {"pairs", "sources"}
    dev = _json(copy / "dev.scores.json")
    shown = [(s["split"], s["value"], s["weights"]) for s in card("--checkpoint=averaged")["scores"]]
    chosen = default_weights(copy)
    assert dev["weights"]["path"] == chosen
    assert shown == ([("dev", dev["scores"][0]["value"], chosen)] if chosen.startswith("averaged/") else [])
    other = card("--checkpoint=best", "--beam_size=2")
    assert other["scores"] == []
    assert other["scores_note"].startswith("not scored: the run has no score of these weights with this search")


@pytest.mark.nightly
def test_scores_of_data_that_were_prepared_again_are_said_and_on_no_card(run: Run, corpus: Path, copy: Path) -> None:
    source = Path(shutil.copytree(corpus, copy / "source"))
    for side in ("en", "de"):
        with open(source / f"test.{side}", "a", encoding="utf-8") as file:
            file.write("one\n")
    assert {score["split"] for score in make_card(open_run(copy))["scores"]} == {"test", "dev"}
    flags = ["--problem=text2text", f"--source_dir={source}", "--languages=en-de", "--vocab_size=400", "--force"]
    run("datagen", *flags, f"--data_dir={copy / 'data'}", quick=True)
    done = run("eval", f"--output_dir={copy}", "--metric=bleu")
    warning = f"warning: {copy}/data/text2text does not hold the data that {copy} was trained with"
    assert done.stderr.startswith(warning)
    assert run("decoder", f"--output_dir={copy}", "--split=test").stderr.startswith(warning)
    assert [score["split"] for score in make_card(open_run(copy))["scores"]] == ["dev"]


def test_the_card_shows_the_dev_score_of_the_search_in_the_training(copy: Path) -> None:
    """The recipe of a finished run may get another search, which trains nothing."""
    for split in ("test", "dev"):
        (copy / f"{split}.scores.json").unlink()
    spec = read_run(copy)
    write_run(copy, dataclasses.replace(spec, hparams=config.replace(spec.hparams, beam_size=10, eval_lines=5)))

    def scores(**decoding: int) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = make_card(open_run(copy, checkpoint="best", **decoding))["scores"]
        return found

    assert scores() == []
    [score] = scores(beam_size=4)
    assert (score["split"], score["metric"]) == ("dev", "bleu")
    assert "lines" not in score


def test_a_run_whose_data_cannot_be_read_has_a_card(copy: Path) -> None:
    manifest = copy / "data" / "text2text" / "manifest.json"
    assert make_card(open_run(copy))["training_data"]["pairs"]["train"] == 1000
    manifest.unlink()
    manifest.mkdir()  # as a file on a disk that is gone, not an error of the data
    assert make_card(open_run(copy))["training_data"]["pairs"] == {}


def test_a_damaged_scores_file_is_not_believed(copy: Path) -> None:
    def splits() -> list[str]:
        return [score["split"] for score in make_card(open_run(copy))["scores"]]

    assert "test" in splits()
    (copy / "test.scores.json").write_text('{"scores": [{"name": "BLEU", "value": ', encoding="utf-8")
    assert "test" not in splits()
