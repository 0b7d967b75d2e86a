"""An exported parser takes sentences and gives the same trees as Python, without code of t2t-lite."""

import itertools
from pathlib import Path

import numpy as np
import pytest

from t2t_lite import config, registry
from t2t_lite.decoding.translate import Translator
from t2t_lite.errors import UsageError
from t2t_lite.export import ctranslate2_export
from t2t_lite.export.export import export
from t2t_lite.export.export_folder import SIGNATURES
from t2t_lite.export.saved_model import ServedModel
from t2t_lite.models.transformer import Transformer
from t2t_lite.text.trees import tree as trees
from t2t_lite.text.trees.codec import TreeText
from t2t_lite.text.trees.linearize import sentence
from t2t_lite.text.trees.tag_table import WSJ, TagLearner, load_table
from t2t_lite.text.vocabulary_training import train_vocabulary
from tests import reference
from tests.export.conftest import EXPORTED, Exported, decoded, run
from tests.serving.served_model import Version

pytestmark = pytest.mark.nightly

HPARAMS = config.replace(EXPORTED, extra_length=20)
K = HPARAMS.beam_size
ODD = ["(", "  a ( b )\tc\r", "a\u00a0b c", "naïve 🌍 ?", "\x1c x", ". , ' `` --", "", " \t", "\u3000\u00a0", "\x85"]


@pytest.fixture(scope="module")
def parser(tmp_path_factory: pytest.TempPathFactory) -> Exported:
    """An export of a small parser with random weights: most of its outputs are not trees."""
    pairs = list(itertools.islice(registry.problem("toy_parsing").samples("train"), 300))
    counts = TagLearner(WSJ.deleted)
    sources, targets = (list(side) for side in zip(*counts.watch(pairs), strict=True))
    source, target = train_vocabulary(sources, size=200), train_vocabulary(targets, size=200, kind="word")
    model = Transformer.from_hparams(HPARAMS, source.size, target.size, False)
    reference.randomise(model, 3)
    translator = Translator(model, source, target, HPARAMS, outputs=TreeText(target, counts.table()))
    with pytest.raises(UsageError, match="which have no prefixes: leave the signature prefix out"):
        ServedModel(translator, SIGNATURES)
    served = ServedModel(translator, [name for name in SIGNATURES if name != "prefix"])
    version = export(served, tmp_path_factory.mktemp("parser"), {"hparams": config.to_dict(HPARAMS)})
    return Exported(translator, served, version, [*sources[:12], *ODD])


@pytest.fixture(scope="module")
def loaded(parser: Exported) -> Version:
    return Version(parser.version)


def test_trees_are_those_of_the_translator(parser: Exported, loaded: Version) -> None:
    one, many = (parser.translator.translate(parser.lines, nbest=n) for n in (1, K))
    best, nbest = (run(loaded, signature, parser.lines) for signature in ("serving_default", "nbest"))
    assert decoded(best["outputs"]) == [row[0].text for row in one]
    np.testing.assert_allclose(best["scores"], [row[0].score for row in one], rtol=1e-4)
    assert decoded(nbest["outputs"]) == [[h.text for h in row] for row in many]
    np.testing.assert_allclose(nbest["scores"], [[h.score for h in row] for row in many], rtol=1e-4)
    assert decoded(run(loaded, "attention", parser.lines[:4])["outputs"]) == decoded(best["outputs"])[:4]
    assert any(h.repaired for row in many for h in row)
    for line, row in zip(parser.lines, decoded(nbest["outputs"]), strict=True):
        if line.strip():
            assert [trees.parse(tree).words for tree in row] == [sentence(line).split(" ")] * K
        else:
            assert row == [""] * K


def test_a_long_sentence_is_cut_for_the_model_but_not_in_its_tree(parser: Exported, loaded: Version) -> None:
    lines = [" ".join(parser.lines[:6]), "( " * 100_000, parser.lines[0]]
    answer = decoded(run(loaded, "serving_default", lines)["outputs"])
    assert answer == [row[0].text for row in parser.translator.translate(lines)]
    assert answer[1].count("-LRB-") == 100_000


def test_a_score_is_of_symbols_over_a_sentence_as_read(loaded: Version) -> None:
    answer = run(loaded, "score", ["a  (", "a -LRB-", "a b"], ["(S (NP NN )NP )S"] * 3)
    first, same, other = answer["log_probs"]
    np.testing.assert_allclose(first, same, rtol=1e-5)
    assert other != first
    assert answer["tokens"].tolist() == [6, 6, 6]


def test_another_engine_is_said_to_give_symbols(parser: Exported, tmp_path: Path) -> None:
    version = ctranslate2_export.export_ctranslate2(parser.translator, tmp_path, {}, precision="float32")
    readme = (version / "README.txt").read_text()
    assert "prints the symbols of a tree" in readme
    for folder in (version, parser.version / "assets"):
        assert load_table(folder) == parser.translator.outputs.table
