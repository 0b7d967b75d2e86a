"""A parser from tree files to F1, with real processes: trained, decoded, scored, exported.

The full stop has TIGER's tag. EVALB leaves it out because the treebank's own parameters say so.
"""

import dataclasses
import itertools
import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from t2t_lite.runs.run_dir import read_run, write_run
from t2t_lite.text.trees.tree import parse

pytestmark = pytest.mark.commit

Run = Callable[..., subprocess.CompletedProcess[str]]

_RECIPE = (
    "norm=post,num_layers=1,d_model=64,d_ff=64,num_heads=2,dropout=0,batch_tokens=1024,max_length=32,warmup_steps=40,"
    "learning_rate_factor=1,extra_length=40,train_steps=480,log_every=240,eval_every=240,eval_lines=4,save_every=240,"
    "average_checkpoints=0"
)
_SUBJECTS = ("the cat", "a dog", "the old man", "this small bird")
_VERBS = ("sees", "likes", "follows")
_OBJECTS = ("a fish", "the red ball", "that woman")
_SIGNATURE = "F1|evalb|labeled:yes|delete:TOP $, $.|quote:none|equal:none|equal-words:none|unlabelled:left-out"
_TAGS = {"old": "JJ", "small": "JJ", "red": "JJ", **dict.fromkeys(("the", "a", "this", "that"), "DT")}


def _noun_phrase(words: str) -> str:
    leaves = (f"({_TAGS.get(word, 'NN')} {word})" for word in words.split())
    return f"(NP {' '.join(leaves)})"


def _tree(subject: str, verb: str, object_: str) -> str:
    return f"(S {_noun_phrase(subject)} (VP (VBZ {verb}) {_noun_phrase(object_)}) ($. .))"


@pytest.fixture(scope="session")
def trees(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Trees of 36 sentences. Those of dev and test are also in the training set, so that a small model knows them."""
    folder = tmp_path_factory.mktemp("trees")
    lines = list(itertools.starmap(_tree, itertools.product(_SUBJECTS, _VERBS, _OBJECTS)))
    for split, chosen in (("train", lines * 8), ("dev", lines[::5]), ("test", lines[::7])):
        (folder / f"{split}.trees").write_text("".join(f"{line}\n" for line in chosen))
    (folder / "german.prm").write_text("DELETE_LABEL TOP\nDELETE_LABEL $,\nDELETE_LABEL $.\n")
    return folder


@pytest.fixture(scope="session")
def parser(run: Run, trees: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose EVALB parameter file is no longer at its original path."""
    folder = tmp_path_factory.mktemp("parser")
    done = run(
        "trainer",
        "--problem=treebank",
        f"--source_dir={trees}",
        f"--prm={trees / 'german.prm'}",
        "--vocab_size=60",
        f"--output_dir={folder}",
        "--hparams_set=tiny",
        f"--hparams={_RECIPE}",
    )
    assert "(best so far)" in done.stdout
    assert f"{_SIGNATURE} = " in done.stdout
    assert "6 of 6 sentences, 0 in error, 0 skipped)" in done.stdout
    (trees / "german.prm").rename(trees / "moved.prm")
    assert "  the cat sees a fish .\n  -> (S (NP (DT the) (NN cat)) (VP (VBZ sees) (NP (DT a) (NN fish))) ($. .))" in (
        done.stdout
    )
    return folder


@pytest.mark.nightly
def test_the_best_checkpoint_is_by_f1(parser: Path) -> None:
    rows = [json.loads(line) for line in (parser / "metrics.jsonl").read_text().splitlines()]
    scores = {row["step"]: row for row in rows if "dev_f1" in row}
    assert list(scores) == [240, 480]
    assert scores[480]["dev_f1"] > 50
    assert all(0 <= row["dev_repaired"] <= 1 for row in scores.values())
    assert [row["dev_errors"] for row in scores.values()] == [0, 0]
    best = max(scores, key=lambda step: (scores[step]["dev_f1"], -scores[step]["dev_loss"]))
    assert (parser / "best" / f"model-{best}.index").exists()


@pytest.mark.nightly
def test_sentences_of_any_form_give_a_tree_each(run: Run, parser: Path) -> None:
    text = "a dog likes that woman .\n\n  (  \nthis small bird sees unheard-of \u96ea words\n"
    done = run("decoder", f"--output_dir={parser}", input=text.encode())
    lines = done.stdout.split("\n")
    assert lines[0] == _tree("a dog", "likes", "that woman")
    assert lines[1] == ""
    assert parse(lines[2]).words == ["-LRB-"]
    assert parse(lines[3]).words == ["this", "small", "bird", "sees", "unheard-of", "\u96ea", "words"]
    assert lines[4:] == [""]
    pretty = run("decoder", f"--output_dir={parser}", "--pretty", input=text.encode())
    assert pretty.stdout.startswith(f"{parse(lines[0]).pretty()}\n\n\n\n")


@pytest.mark.nightly
def test_a_run_is_scored_as_its_files_are(run: Run, parser: Path, trees: Path, tmp_path: Path) -> None:
    scored = run("eval", f"--output_dir={parser}", "--metric=evalb", "--columns")
    gold, prm = trees / "test.trees", trees / "moved.prm"
    files = run(
        "eval", "--metric=evalb", f"--gold={gold}", f"--test={parser / 'test.hyp.txt'}", f"--prm={prm}", "--columns"
    )
    assert scored.stdout == files.stdout
    pretty = run("decoder", f"--output_dir={parser}", "--split=test", "--pretty").stdout
    (tmp_path / "pretty").write_text(pretty, encoding="utf-8")
    assert pretty.startswith("(S\n  (NP")
    files = run(
        "eval", "--metric=evalb", f"--gold={gold}", f"--test={tmp_path / 'pretty'}", f"--prm={prm}", "--columns"
    )
    assert scored.stdout == files.stdout
    sentences = "".join(f"{' '.join(parse(line).words)}\n" for line in gold.read_text().split("\n")[:-1])
    (tmp_path / "sentences").write_text(sentences)
    flags = ("eval", f"--output_dir={parser}", "--score", f"--sources={tmp_path / 'sentences'}")
    one_a_line, over_several = (
        run(*flags, f"--targets={file}") for file in (parser / "test.hyp.txt", tmp_path / "pretty")
    )
    assert one_a_line.stdout == over_several.stdout
    refused = run("eval", f"--output_dir={parser}", "--metric=bleu", status=2, quick=True)
    assert "writes trees: they are scored with --metric=evalb" in refused.stderr


@pytest.mark.nightly
def test_a_run_without_tags_opens_and_what_cannot_be_scored_is_said(run: Run, parser: Path, tmp_path: Path) -> None:
    """Without tags.json the full stop gets the Wall Street Journal's tag: EVALB leaves it out of gold trees only."""
    folder = tmp_path / "untagged"
    shutil.copytree(parser, folder)
    (folder / "tags.json").unlink()
    spec = read_run(folder)
    write_run(
        folder, dataclasses.replace(spec, files={k: v for k, v in (spec.files or {}).items() if k != "tags.json"})
    )
    done = run("eval", f"--output_dir={folder}", "--split=dev", "--json")
    found = json.loads(done.stdout)
    assert (found["all"]["sentences"], found["all"]["valid"], found["scores"][0]["errors"]) == (8, 0, 8)
    assert done.stderr.startswith(f"{folder} has no tags.json, as its training trees have no tags.")
    assert "1 : Length unmatch" in done.stderr
    assert "8 of 8 sentences are in error and not in the score, which is of the other 0: EVALB leaves" in done.stderr
