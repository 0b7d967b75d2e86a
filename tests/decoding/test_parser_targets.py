"""A parser scores and shows a given tree, in brackets or linearised."""

import numpy as np
import pytest

from t2t_lite.decoding import score as score_module
from t2t_lite.decoding.score import score
from t2t_lite.decoding.translate import Translator
from t2t_lite.errors import DataError, UsageError
from t2t_lite.insights.sentence import attend
from t2t_lite.models.transformer import Transformer
from t2t_lite.models.transformer_hparams import TransformerHParams
from t2t_lite.text.trees.codec import TreeText
from t2t_lite.text.vocabulary_training import train_vocabulary
from tests import reference

HPARAMS = TransformerHParams(num_layers=1, d_model=16, d_ff=24, num_heads=2, beam_size=2, extra_length=20)
LINE = "the cat sleeps ."
SYMBOLS = "(S (NP DT NN )NP (VP VBZ )VP . )S"
TREE = "(S (NP (DT the) (NN cat)) (VP (VBZ sleeps)) (. .))"


@pytest.fixture(scope="module")
def parser() -> Translator:
    source, target = train_vocabulary([LINE] * 3, size=40), train_vocabulary([SYMBOLS], size=40, kind="word")
    model = Transformer.from_hparams(HPARAMS, source.size, target.size, False)
    reference.randomise(model, 1)
    return Translator(model, source, target, HPARAMS, outputs=TreeText(target))


@pytest.mark.commit
def test_a_tree_scores_as_its_symbols(parser: Translator) -> None:
    tree, symbols, other, blank = score(parser, [LINE] * 4, [TREE, SYMBOLS, "(S NN )S", " "])
    assert (tree.tokens, symbols.tokens, other.tokens, blank.tokens) == (11, 11, 4, 1)
    assert tree.log_prob == pytest.approx(symbols.log_prob, rel=1e-5)
    target = np.array([[*parser.target_vocabulary.encode(SYMBOLS), 1]])
    source = np.array([[*parser.source_vocabulary.encode(LINE), 1]])
    logits = parser.model({"source": source, "target": target}).numpy()[0].astype(np.float64)
    logp = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    assert tree.log_prob == pytest.approx(logp[np.arange(11), target[0]].sum(), rel=1e-4)


def test_the_attention_of_a_tree_is_over_its_symbols(parser: Translator) -> None:
    tree, symbols = (attend(parser, [LINE], target)[0].translations[0] for target in (TREE, SYMBOLS))
    assert tree.text == TREE
    assert tree.target == symbols.target == [*(f"\u2581{symbol}" for symbol in SYMBOLS.split(" ")), "</s>"]
    np.testing.assert_array_equal(tree.memory, symbols.memory)


def test_symbols_that_the_parser_does_not_have_count_as_unknown_with_a_warning(
    parser: Translator, caplog: pytest.LogCaptureFixture
) -> None:
    [known, _, other] = score(parser, [LINE] * 3, [TREE, SYMBOLS, TREE.replace("VBZ", "XX")])
    assert other.tokens == known.tokens
    assert other.log_prob != pytest.approx(known.log_prob)
    [message] = caplog.messages
    assert message.startswith("1 of 3 targets have symbols that this parser does not have; they count as unknown, such")
    assert "'XX' of target 3" in message


def test_the_attention_of_what_is_no_tree_is_refused(parser: Translator) -> None:
    with pytest.raises(UsageError, match="^'the' is no symbol of this parser, but it is in the target 'the cat'"):
        attend(parser, [LINE], "the cat")
    with pytest.raises(DataError, match=r"^targets, line 2: "):
        score(parser, [LINE] * 2, [TREE, "(S (NN cat)"])


def test_the_graph_is_made_once(parser: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    before = score(parser, [LINE], [TREE])
    monkeypatch.delattr(score_module, "piece_log_probs")  # what another graph would be made of
    assert score(parser, [LINE], [TREE]) == before
