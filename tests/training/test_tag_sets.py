"""A perfect model scores 100.00 with no sentence in error, whatever the tags of its treebank are."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from t2t_lite import registry
from t2t_lite.data.prepare import prepare
from t2t_lite.data.sources import read_lines
from t2t_lite.data.store import Store
from t2t_lite.decoding.given import Given
from t2t_lite.decoding.line_translator import Hypothesis
from t2t_lite.decoding.translate import Translator
from t2t_lite.groups import DecodeGroup
from t2t_lite.metrics import bracketing
from t2t_lite.problem import Problem
from t2t_lite.problems.parsing import as_pair
from t2t_lite.runs.run_data import write_vocabularies
from t2t_lite.text.trees.tag_table import load_table
from t2t_lite.text.trees.tree import normalize, parse, read_trees
from t2t_lite.training.evaluate import Evaluator
from tests.tag_sets import TAG_SETS


def open_problem(name: str, folder: Path, **options: Any) -> tuple[Problem, Store]:
    problem = registry.problem("treebank", source_dir=str(folder), vocab_size=90, **options)
    return problem, prepare(problem, folder / f"data-{bool(options)}", num_workers=1)


class Perfect(Translator):
    """Writes the gold trees' symbols; all else works as with a model."""

    def __init__(self, store: Store) -> None:
        vocabularies = store.source_vocabulary, store.target_vocabulary
        super().__init__(None, *vocabularies, DecodeGroup(beam_size=1, extra_length=0), outputs=store.outputs)
        lines = [store.text(split) for split in ("dev", "test")]
        self._symbols = {words: symbols for sides in lines for words, symbols in zip(*sides, strict=True)}

    def _decode(
        self, lines: Sequence[str], ids: Sequence[Sequence[int]], nbest: int, given: Given
    ) -> list[list[Hypothesis]]:
        encoded = [self.target_vocabulary.encode(self._symbols[line]) for line in lines]
        return [[self.hypothesis(line, np.array(row), 0.0)] for line, row in zip(lines, encoded, strict=True)]


@pytest.mark.commit("ptb-False")
@pytest.mark.parametrize("own_parameters", [False, True])
@pytest.mark.parametrize("name", TAG_SETS)
def test_a_perfect_model_scores_100_with_0_in_error(
    name: str, own_parameters: bool, tmp_path: Path, make_model: Callable[..., Any]
) -> None:
    folder = TAG_SETS[name].write(tmp_path)
    problem, store = open_problem(name, folder, **({"prm": str(folder / "evalb.prm")} if own_parameters else {}))
    model = make_model(max(store.source_vocabulary.size, store.target_vocabulary.size), shared=False)
    evaluate = Evaluator(model, store, Perfect(store), problem.make_metric())
    for split in ("dev", "test"):
        scores = evaluate(split)
        metrics = scores.as_metrics(split)
        assert (metrics[f"{split}_f1"], metrics[f"{split}_errors"], metrics[f"{split}_repaired"]) == (100, 0, 0)
        assert "0 in error" in scores.score.format()
        path = folder / f"{split}.trees"
        gold = [str(normalize(tree)) for tree in read_trees(read_lines(path), path)]
        assert scores.hypotheses == scores.references == gold
    if own_parameters:
        assert problem.evalb.delete_label == ("TOP", *TAG_SETS[name].deleted)


@pytest.mark.nightly
@pytest.mark.parametrize("name", TAG_SETS)
def test_where_a_word_says_whether_it_is_left_out_no_wrong_tag_puts_a_sentence_in_error(
    name: str, tmp_path: Path
) -> None:
    """All tags wrong, on a training tree whose words are tagged in one of the two ways only."""
    folder = TAG_SETS[name].write(tmp_path)
    problem, store = open_problem(name, folder, prm=str(folder / "evalb.prm"))
    words, symbols = as_pair(parse(TAG_SETS[name].train[2 if name == "ontonotes" else 0])) or ("", "")
    text = store.outputs
    gold = text.reference(words, symbols)
    tags = [symbol for symbol in store.target_vocabulary.words()[3:] if symbol[0] not in "()"]
    for tag in tags:
        wrong = " ".join(symbol if symbol[0] in "()" else tag for symbol in symbols.split(" "))
        tree, _ = text.output(words, wrong)
        found = bracketing.evaluate([gold], [tree], problem.evalb)
        assert (found.total.f1, found.total.errors) == (100, 0), tag


@pytest.mark.commit
def test_a_run_keeps_the_tags_of_its_data_and_says_when_they_change(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    _, store = open_problem("ctb", TAG_SETS["ctb"].write(tmp_path / "trees"))
    caplog.clear()
    run = tmp_path / "run"
    run.mkdir()
    write_vocabularies(run, store)
    assert load_table(run) == store.outputs.table
    (run / "checkpoints").mkdir()
    (run / "checkpoints" / "model-1.index").touch()
    write_vocabularies(run, store)
    assert caplog.messages == []
    (run / "tags.json").unlink()  # as if the trees with which the run began had no tags
    write_vocabularies(run, store)
    assert [message.partition(" are")[0] for message in caplog.messages] == [f"From here on outputs of {run}"]
    assert load_table(run) == store.outputs.table
