"""From two text files to scored translations, with whole commands, in the order in which a user runs them."""

import gzip
import json
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from t2t_lite.runs.checkpoint import find
from t2t_lite.runs.default_weights import write_default
from tests.checkpoints import default_weights

pytestmark = pytest.mark.commit

Run = Callable[..., subprocess.CompletedProcess[str]]

TRAINING_FIELDS = (
    "step loss learning_rate source_tokens target_tokens padded_tokens tokens_per_second input_seconds grad_norm flops "
    "flops_per_second utilisation trained_seconds goodput"
).split()
EVALUATION_FIELDS = "step dev_loss dev_perplexity dev_accuracy dev_bleu".split()
AWKWARD = ["", "The doors\u2028are new.", "   ", "He brings\u0085me a table."]  # U+2028 and U+0085 end no line here


def read_lines(path: Path) -> list[str]:
    return path.read_bytes().decode("utf-8").removesuffix("\n").split("\n")


def metrics(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in read_lines(folder / "metrics.jsonl")]


def weights(prefix: Path) -> dict[str, np.ndarray]:
    """The weights in a checkpoint, by key."""
    import tensorflow as tf

    reader = tf.train.load_checkpoint(str(prefix))
    return {key: reader.get_tensor(key) for key in reader.get_variable_to_shape_map() if key.startswith("weights/")}


@pytest.fixture
def folder(trained: tuple[Path, str]) -> Path:
    return trained[0]


@pytest.fixture
def copy(folder: Path, tmp_path: Path) -> Path:
    """A copy of the run that a test may change; it also shows that a run's folder can be moved."""
    return Path(shutil.copytree(folder, tmp_path / "copy"))


def test_the_trainer_writes_all_it_promises(folder: Path) -> None:
    lines = metrics(folder)
    training, evaluations = ([row for row in lines if ("loss" in row) is kind] for kind in (True, False))
    assert [list(row) for row in training] == [TRAINING_FIELDS] * 4
    assert [list(row) for row in evaluations] == [EVALUATION_FIELDS] * 2
    assert [row["step"] for row in lines] == [30, 60, 60, 90, 120, 120]
    assert training[-1]["loss"] < training[0]["loss"] - 1
    assert all(0 < row["target_tokens"] < row["padded_tokens"] <= 30 * 2 * 1024 for row in training)
    assert all(0 < row["utilisation"] <= 1 for row in training)
    assert all(0 < row["goodput"] < 1 for row in training)
    for row in evaluations:
        assert row["dev_perplexity"] == pytest.approx(np.exp(row["dev_loss"]))
    hparams = json.loads((folder / "hparams.json").read_text())
    assert (hparams["hparams_set"], hparams["model"]) == ("tiny", "transformer")
    assert hparams["hparams"]["d_model"] == 64
    assert hparams["hparams"]["label_smoothing"] == 0.1  # from the hparams set, as no flag changed it
    problem = json.loads((folder / "problem.json").read_text())
    assert (problem["problem"], problem["data_dir"]) == ("text2text", "data")
    assert problem["options"]["languages"] == "en-de"
    names = {path.name.partition(".")[0] for path in (folder / "checkpoints").glob("model-*")}
    assert names == {f"model-{step}" for step in (40, 60, 80, 100, 120)}
    assert (folder / "averaged" / "model-120.index").is_file()
    record = json.loads((folder / "default_weights.json").read_text())
    assert record["averaged"] == "model-120"
    ranks = {name: (values["dev_bleu"], -values["dev_loss"]) for name, values in record["dev"].items()}
    assert record["default"] == max(("averaged", "best"), key=ranks.__getitem__)
    best = max(evaluations, key=lambda row: (row["dev_bleu"], -row["dev_loss"]))
    assert record["dev"]["best"] == pytest.approx({name: best[name] for name in EVALUATION_FIELDS[1:]})
    assert list((folder / "tensorboard").iterdir())


def test_the_trainer_shows_translations_scores_and_what_to_do_next(trained: tuple[Path, str], corpus: Path) -> None:
    folder, out = trained
    hypotheses, sources, references = (
        read_lines(path) for path in (folder / "test.hyp.txt", corpus / "test.en", corpus / "test.de")
    )
    assert len(hypotheses) == len(sources) == 16
    assert len(set(hypotheses)) >= 4  # the tests below compare texts, so lines must differ
    for source, hypothesis, reference in list(zip(sources, hypotheses, references, strict=True))[:10]:
        assert f"\n  {source}\n  -> {hypothesis}\n     ({reference})\n" in out
    assert re.search(r"^step 60: dev loss [\d.]+, perplexity [\d.]+, BLEU [\d.]+ \(best so far\)$", out, re.MULTILINE)
    found = re.search(
        r"^On all of dev: averaged BLEU ([\d.]+), loss [\d.]+; best \(step \d+\) BLEU ([\d.]+), loss [\d.]+\. Taking "
        r"the (\w+) weights\.$",
        out,
        re.MULTILINE,
    )
    assert found is not None
    assert float(found[{"averaged": 1, "best": 2}[found[3]]]) == max(float(found[1]), float(found[2]))
    assert f"test set, weights {folder}/{default_weights(folder)}:\nBLEU|nrefs:1|case:mixed|eff:no|tok:13a|" in out
    assert f"translations: {folder}/test.hyp.txt\n" in out
    assert f"Next: t2t-lite-decoder --output_dir={folder} " in out


def test_decoding_a_file_and_standard_input(run: Run, folder: Path, corpus: Path, tmp_path: Path) -> None:
    sources = read_lines(corpus / "test.en")
    text = "\n".join([*AWKWARD, *sources]).encode("utf-8")  # the last line has no line end
    (tmp_path / "lines.gz").write_bytes(gzip.compress(text))
    plain = run("decoder", f"--output_dir={folder}", f"--input={tmp_path / 'lines.gz'}", fresh=True)
    assert re.fullmatch(  # AWKWARD has two characters that training lacks
        r"2 of \d+ source pieces \(0\.\d%\) are unknown to the vocabulary, [^\n]+ U\+2028, U\+0085 [^\n]+\n",
        plain.stderr,
    )
    lines = plain.stdout.removesuffix("\n").split("\n")
    assert len(lines) == len(AWKWARD) + len(sources)
    assert [bool(line) for line in lines[: len(AWKWARD)]] == [False, True, False, True]
    assert lines[len(AWKWARD) :] == read_lines(folder / "test.hyp.txt")
    records = run("decoder", f"--output_dir={folder}", "--json", input=text).stdout.removesuffix("\n").split("\n")
    values = [json.loads(record) for record in records]
    assert [value["input"] for value in values] == [*AWKWARD, *sources]
    assert [value["outputs"][0]["text"] for value in values] == lines
    assert {len(value["outputs"]) for value in values} == {1}
    assert values[0]["outputs"] == [{"text": "", "score": 0.0}]
    assert all(value["outputs"][0]["score"] < 0 for value in values[4:])


def test_decoding_a_split_with_the_n_best(run: Run, folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "dev.3best"
    assert run("decoder", f"--output_dir={folder}", "--split=dev", "--nbest=3", f"--output={out}").stdout == ""
    rows = [line.split("\t") for line in read_lines(out)]
    assert len(rows) == 12 * 3
    for start in range(0, len(rows), 3):
        scores, texts = zip(*rows[start : start + 3], strict=True)
        assert list(map(float, scores)) == sorted(map(float, scores), reverse=True)
        assert len(set(texts)) == 3
    assert [path.name for path in tmp_path.iterdir()] == ["dev.3best"]


def test_eval_of_a_run_equals_scoring_its_files(run: Run, folder: Path, corpus: Path) -> None:
    of_run = json.loads(run("eval", f"--output_dir={folder}", "--json").stdout)
    files = [f"--hypotheses={folder / 'test.hyp.txt'}", f"--references={corpus / 'test.de'}"]
    of_files = json.loads(run("eval", *files, "--json", quick=True).stdout)
    assert of_run["scores"] == of_files["scores"]
    assert of_run["scores"][0]["value"] > 0
    assert of_run["scores"][0]["signature"].startswith("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:")
    assert (of_run["split"], of_run["checkpoint"]) == ("test", f"{folder}/{default_weights(folder)}")
    assert 0 < of_run["loss"] < np.log(400)
    assert of_run["perplexity"] == pytest.approx(np.exp(of_run["loss"]))


@pytest.mark.parametrize(("flag", "steps"), [("--last=2", (100, 120)), ("--steps=80,40", (40, 80))])
def test_averaging(run: Run, copy: Path, flag: str, steps: Sequence[int]) -> None:
    copy = copy.rename(copy.with_name("a run"))
    write_default(copy, "best", f"averaged/model-{steps[-1]}", find(copy, "best"), {})
    done = run("avg_checkpoints", f"--output_dir={copy}", flag)
    path = copy / "averaged" / f"model-{steps[-1]}"
    listed = "".join(f"  {copy}/checkpoints/model-{step}\n" for step in steps)
    assert done.stdout.startswith(f"{path}: the mean of 2 checkpoints:\n{listed}")
    assert "\nThe mean has not been scored on dev. The other commands take it from now on, unless " in done.stdout
    assert done.stdout.endswith(f"\nNext: t2t-lite-eval --output_dir='{copy}' --split=dev [--checkpoint=best]\n")
    assert find(copy) == str(path)  # averaging by hand overrides the trainer's choice
    assert done.stderr == ""
    assert [p.name for p in (copy / "averaged").glob("*.index")] == [f"{path.name}.index"]
    parts = [weights(copy / "checkpoints" / f"model-{step}") for step in steps]
    averaged = weights(path)
    assert averaged.keys() == parts[0].keys()
    assert len(averaged) > 20
    for key, value in averaged.items():
        np.testing.assert_allclose(value, np.mean([part[key] for part in parts], axis=0), rtol=1e-5, atol=1e-7)


@pytest.mark.nightly
def test_a_warm_start_and_early_stopping(run: Run, folder: Path, tmp_path: Path) -> None:
    """With a learning rate of 0 the weights stay those of the other run, and no score improves."""
    flags = [
        f"--data_dir={folder / 'data'}",
        f"--warm_start_from={folder}",
        "--problem=text2text",
        f"--source_dir={json.loads((folder / 'problem.json').read_text())['options']['source_dir']}",
        "--languages=en-de",
        "--vocab_size=400",
        "--hparams_set=tiny",
        "--hparams=norm=post,num_layers=1,d_model=64,d_ff=64,num_heads=2,max_length=32,extra_length=5,batch_tokens=1024,"
        "learning_rate_factor=0,train_steps=50,log_every=5,eval_every=5,early_stopping=2",
        f"--output_dir={tmp_path / 'warm'}",
    ]
    out = run("trainer", *flags).stdout
    step = default_weights(folder).rpartition("-")[2]
    assert out.startswith(f"Starting from the weights of {folder}, step {step}.\n")
    assert "\nStopping at step 15: 2 evaluations in a row brought neither a better score nor a lower loss.\n" in out
    before, after = weights(folder / default_weights(folder)), weights(tmp_path / "warm" / "checkpoints" / "model-15")
    assert before.keys() == after.keys()
    assert all(np.array_equal(value, after[key]) for key, value in before.items())
    scores = [row["dev_bleu"] for row in metrics(tmp_path / "warm") if "dev_bleu" in row]
    assert len(scores) == 3
    assert len(set(scores)) == 1
    again = run("trainer", *flags).stdout  # the same command again: only translating is left
    assert "Starting from" not in again
    assert "\nThis run has stopped early already; --hparams=early_stopping=0 makes it continue.\n" in again
    assert again.partition("test set, weights ")[2] == out.partition("test set, weights ")[2] != ""
    assert json.loads((tmp_path / "warm" / "problem.json").read_text())["data_dir"] == str(folder / "data")
