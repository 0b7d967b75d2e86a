"""t2t-lite-eval --metric=evalb; files are scored by the command as a whole process."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from t2t_lite.cli import eval as command
from t2t_lite.cli.eval_scores import ScoreRequest, explain_faults
from t2t_lite.metrics import bracketing
from t2t_lite.problems.parsing import as_pair
from t2t_lite.text.trees.codec import TreeText
from t2t_lite.text.trees.tag_table import TagLearner
from t2t_lite.text.trees.tree import parse
from t2t_lite.text.vocabulary_training import train_vocabulary
from tests import commands
from tests.tag_sets import TAG_SETS

GOLD = "(S (NP (DT the) (NN cat)) (VP (VBZ sleeps)) (. .))"
TEST = "(S (NP (DT the) (NN cat)) (ADVP (VBZ sleeps)) (. .))"


def evaluate(*flags: object) -> subprocess.CompletedProcess[str]:
    return commands.call("eval", "--metric=evalb", *flags)


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    (tmp_path / "gold").write_text(f"{GOLD}\n" * 3, encoding="utf-8")
    (tmp_path / "test").write_text(f"{GOLD}\n{TEST}\n(S\n", encoding="utf-8")
    (tmp_path / "my.prm").write_text("EQ_LABEL VP ADVP\nDELETE_LABEL .\n", encoding="utf-8")
    return [f"--gold={tmp_path / 'gold'}", f"--test={tmp_path / 'test'}"]


def test_prints_f1_with_its_signature_and_tells_faults(files: list[str]) -> None:
    done = evaluate(*files)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("F1|evalb|labeled:yes|delete:TOP -NONE- , : `` '' .|")
    assert " = 83.33 (recall 83.33, precision 83.33, complete match 50.00," in done.stdout
    assert done.stderr == "3 : Bracketing is unbalanced (too many open bracket), test tree\n"


def test_trees_over_several_lines_are_scored_as_those_of_one_line(tmp_path: Path) -> None:
    lines = {"gold": [GOLD] * 3, "test": [GOLD, TEST, f"( {TEST})"]}
    for name, trees in lines.items():
        (tmp_path / name).write_text("".join(f"{tree}\n" for tree in trees))
        (tmp_path / f"{name}.pretty").write_text("".join(f"{parse(tree).pretty()}\n\n" for tree in trees))
    scored = [
        evaluate(f"--gold={tmp_path / gold}", f"--test={tmp_path / test}", "--columns").stdout
        for gold in ("gold", "gold.pretty")
        for test in ("test", "test.pretty")
    ]
    assert "   3   " in scored[0]
    assert len(set(scored)) == 1


@pytest.mark.parametrize("gold", ["(S (NP (DT the) (NN (cat))) (VP (VBZ sleeps)))", "(S (NP (the) (cat)) (VB is))"])
def test_gold_words_in_brackets_of_their_own_are_refused(tmp_path: Path, gold: str) -> None:
    (tmp_path / "gold").write_text(f"{GOLD}\n{gold}\n")
    done = evaluate(f"--gold={tmp_path / 'gold'}", f"--test={tmp_path / 'gold'}")
    assert (done.returncode, done.stdout) == (1, "")
    assert "/gold, line 2: (" in done.stderr
    assert "has one word and no tag" in done.stderr


def test_columns_are_evalbs(shared_data: Callable[[str], Path]) -> None:
    folder = shared_data("evalb") / "bug"
    done = evaluate(f"--gold={folder / 'bug.gld'}", f"--test={folder / 'bug.tst'}", "--columns")
    lines = done.stdout.split("\n")
    assert lines[3] == "   1   37    1    0.00   0.00     0      0    0      0      0     0     0.00"
    assert lines[5] == "   3   47    0   80.00  80.00    28     35   35      4     44    40    90.91"
    assert "-- len<=40 --" in lines
    assert done.stderr == "1 : Length unmatch (32|34)\n2 : Length unmatch (18|20)\n"


@pytest.mark.commit
@pytest.mark.parametrize("name", TAG_SETS)
def test_the_trees_of_a_perfect_model_score_100_with_0_in_error(name: str, tmp_path: Path) -> None:
    folder = TAG_SETS[name].write(tmp_path)
    counts = TagLearner(TAG_SETS[name].deleted)
    pairs = [as_pair(parse(line)) or ("", "") for line in TAG_SETS[name].train]
    text = TreeText(
        train_vocabulary([symbols for _, symbols in counts.watch(pairs)], size=99, kind="word"), counts.table()
    )
    written = [text.output(*(as_pair(parse(line)) or ("", "")))[0] for line in TAG_SETS[name].dev]
    (tmp_path / "written").write_text("".join(f"{line}\n" for line in written), encoding="utf-8")
    done = evaluate(f"--gold={folder / 'dev.trees'}", f"--test={tmp_path / 'written'}", f"--prm={folder / 'evalb.prm'}")
    assert done.stderr == ""
    assert " = 100.00 (recall 100.00, precision 100.00, complete match 100.00," in done.stdout
    assert "2 of 2 sentences, 0 in error, 0 skipped)" in done.stdout


def test_unlabelled_brackets_count_as_in_evalb_where_asked(tmp_path: Path) -> None:
    (tmp_path / "gold").write_text(f"( {GOLD} )\n")
    (tmp_path / "test").write_text(f"( {TEST} )\n")
    flags = [f"--gold={tmp_path / 'gold'}", f"--test={tmp_path / 'test'}"]
    for flag, score, said in (([], 66.67, "left-out"), (["--count_unlabelled"], 75.0, "counted")):
        done = evaluate(*flags, *flag)
        assert f"|unlabelled:{said} = {score:.2f} (recall" in done.stdout


def test_of_a_run_columns_show_all_sentences_in_error(capsys: pytest.CaptureFixture[str]) -> None:
    found = bracketing.evaluate([GOLD] * 12, [GOLD.replace("cat", "dog")] * 12)
    for columns, shown in ((True, 12), (False, 10)):
        explain_faults(ScoreRequest(metric="evalb", columns=columns), found)
        *faults, _ = capsys.readouterr().err.removesuffix("\n").split("\n")
        more = ["... and 2 more (--metric=evalb --columns shows them all)."]
        assert faults[shown:] == ([] if columns else more)
        assert [fault.partition(" : ")[0] for fault in faults[:shown]] == [str(n) for n in range(1, shown + 1)]


def test_files_that_are_no_trees(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("A sentence.\n" * 20, encoding="utf-8")
    done = evaluate(f"--gold={tmp_path / 'text'}", f"--test={tmp_path / 'text'}")
    assert done.returncode == 1
    assert done.stderr.startswith("error: 20 of 20 sentences are in error, too many for MAX_ERROR 10.")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--metric=evalb", "--gold=x"], "--metric=evalb needs --gold=FILE and --test=FILE, two files of trees; or"),
        (["--metric=evalb", "--output_dir=x", "--gold=y"], "--gold does not go with --metric=evalb of a run"),
        (["--metric=evalb", "--gold=x", "--test=y", "--beam_size=2"], "--beam_size does not go with --metric=evalb"),
        (["--metric=evalb", "--gold=x", "--test=y", "--hypotheses=z"], "--hypotheses does not go with --metric=evalb"),
        (["--metric=evalb", "--gold=x", "--test=y", "--lowercase"], "--lowercase does not go with --metric=evalb"),
        (["--metric=evalb", "--gold=x", "--test=y", "--json", "--columns"], "give --columns or --json, not both"),
        (
            ["--hypotheses=x", "--references=y", "--count_unlabelled"],
            "; trees are scored with --metric=evalb",
        ),
        (["--output_dir=x", "--gold=y"], "--gold does not go with --output_dir"),
    ],
)
def test_flags_that_do_not_go_together(capsys: pytest.CaptureFixture[str], flags: list[str], message: str) -> None:
    with pytest.raises(SystemExit) as stop:
        command.main(flags)
    assert stop.value.code == 2
    assert message in capsys.readouterr().err
