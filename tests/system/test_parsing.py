"""A parser from files of trees to F1, with real processes: trained, decoded, scored."""

import itertools
import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from t2t_lite.text.trees import parse

Run = Callable[..., subprocess.CompletedProcess[str]]

_RECIPE = (
    "norm=post,num_layers=1,d_model=64,d_ff=64,num_heads=2,dropout=0,batch_tokens=1024,max_length=32,warmup_steps=40,"
    "learning_rate_factor=1,extra_length=40,train_steps=480,log_every=240,eval_every=240,eval_lines=4,save_every=240,"
    "average_checkpoints=0"
)
_SUBJECTS = ("the cat", "a dog", "the old man", "this small bird")
_VERBS = ("sees", "likes", "follows")
_OBJECTS = ("a fish", "the red ball", "that woman")
_TAGS = {"old": "JJ", "small": "JJ", "red": "JJ", **dict.fromkeys(("the", "a", "this", "that"), "DT")}


def _noun_phrase(words: str) -> str:
    leaves = (f"({_TAGS.get(word, 'NN')} {word})" for word in words.split())
    return f"(NP {' '.join(leaves)})"


def _tree(subject: str, verb: str, object_: str) -> str:
    return f"(S {_noun_phrase(subject)} (VP (VBZ {verb}) {_noun_phrase(object_)}) (. .))"


@pytest.fixture(scope="session")
def trees(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Trees of 36 sentences; dev and test have some of the training set's, so that a small model knows them."""
    folder = tmp_path_factory.mktemp("trees")
    lines = list(itertools.starmap(_tree, itertools.product(_SUBJECTS, _VERBS, _OBJECTS)))
    for split, chosen in (("train", lines * 8), ("dev", lines[::5]), ("test", lines[::7])):
        (folder / f"{split}.trees").write_text("".join(f"{line}\n" for line in chosen))
    return folder


@pytest.fixture(scope="session")
def parser(run: Run, trees: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("parser")
    done = run(
        "trainer",
        "--problem=treebank",
        f"--source_dir={trees}",
        "--vocab_size=60",
        f"--output_dir={folder}",
        "--hparams_set=tiny",
        f"--hparams={_RECIPE}",
    )
    assert "(best so far)" in done.stdout
    assert "F1|evalb" in done.stdout
    assert "  the cat sees a fish .\n  -> (S (NP (DT the) (NN cat)) (VP (VBZ sees) (NP (DT a) (NN fish))) (. .))" in (
        done.stdout
    )
    return folder


def test_the_best_checkpoint_is_by_f1(parser: Path) -> None:
    rows = [json.loads(line) for line in (parser / "metrics.jsonl").read_text().splitlines()]
    scores = {row["step"]: row for row in rows if "dev_f1" in row}
    assert list(scores) == [240, 480]
    assert scores[480]["dev_f1"] > 50
    assert all(0 <= row["dev_repaired"] <= 1 for row in scores.values())
    best = max(scores, key=lambda step: (scores[step]["dev_f1"], -step))
    assert (parser / "best" / f"model-{best}.index").exists()


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


def test_a_run_is_scored_as_its_files_are(run: Run, parser: Path, trees: Path) -> None:
    scored = run("eval", f"--output_dir={parser}", "--metric=evalb", "--columns")
    files = run(
        "eval", "--metric=evalb", f"--gold={trees / 'test.trees'}", f"--test={parser / 'test.hyp.txt'}", "--columns"
    )
    assert scored.stdout == files.stdout
    refused = run("eval", f"--output_dir={parser}", "--metric=bleu", status=2, quick=True)
    assert "writes trees: they are scored with --metric=evalb" in refused.stderr
