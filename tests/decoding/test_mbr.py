"""Minimum Bayes risk: against sacreBLEU on all pairs of candidates, one by one."""

import numpy as np
import pytest
import sacrebleu

from t2t_lite import registry
from t2t_lite.decoding.line_translator import Hypothesis
from t2t_lite.decoding.mbr import MinimumBayesRisk
from t2t_lite.decoding.sampling import Sampling
from t2t_lite.decoding.score import score_outputs
from t2t_lite.decoding.sentence_translator import SentenceTranslator
from t2t_lite.decoding.translate import Translator
from t2t_lite.errors import UsageError
from t2t_lite.metrics.names import metric
from t2t_lite.metrics.pairwise import score_pairs
from t2t_lite.metrics.score import CorpusMetric, Lines, Score
from t2t_lite.models.transformer import Transformer
from t2t_lite.models.transformer_hparams import TransformerHParams
from t2t_lite.samplers.base import make_sampler
from t2t_lite.text.vocabulary_training import train_vocabulary
from tests import reference

TEXTS = ["die Katze schläft", "Die Katze schläft.", "der Hund schläft tief", "", "a", "die Katze schläft (tief)", "  "]
LINES = ["a small dog", "", "the cat sees a dog", "ein Hund, ein Hund", "the"]
SMALL = TransformerHParams(num_layers=1, d_model=16, d_ff=32, num_heads=2, beam_size=6, extra_length=3)
SENTENCE = {
    "chrf": lambda one, other: sacrebleu.sentence_chrf(one, [other]).score,
    "chrf2": lambda one, other: sacrebleu.sentence_chrf(one, [other], word_order=2).score,
    "bleu": lambda one, other: sacrebleu.sentence_bleu(one, [other]).score,
}


class _SameLength(CorpusMetric):
    """A metric without scores of single lines."""

    signature = "same-length"

    def score(self, hypotheses: Lines, references: Lines, sources: Lines) -> Score:
        same = [len(one) == len(other) for one, other in zip(hypotheses, references, strict=True)]
        return Score("same-length", 100 * sum(same) / len(same), self.signature, sources[0])


@pytest.mark.parametrize("name", SENTENCE)
def test_scores_of_pairs_are_sacrebleus(name: str) -> None:
    wanted = [[SENTENCE[name](one, other) for other in TEXTS] for one in TEXTS]
    np.testing.assert_array_equal(score_pairs(metric(name, "de"), TEXTS, "x"), wanted)


def test_a_metric_of_ones_own() -> None:
    found = score_pairs(_SameLength(), ["ab", "c", "de"], "x")
    np.testing.assert_array_equal(found, [[100, 0, 100], [0, 100, 0], [100, 0, 100]])


def _make(*, samples: int = 0) -> Translator:
    vocabulary = train_vocabulary(
        ["a small dog sees the big cat", "ein kleiner Hund sieht die große Katze"] * 2, size=60
    )
    model = Transformer.from_hparams(SMALL, vocabulary.size, vocabulary.size, True)
    reference.randomise(model, 6)
    translator = Translator(model, vocabulary, vocabulary, SMALL)
    if samples:
        translator.sampling = Sampling(make_sampler("nucleus", {"top_p": 0.4}), 3)
    return translator


def _with_mbr(translator: Translator, utility: str) -> Translator:
    other = translator.with_limits(translator.decode)
    other.mbr = MinimumBayesRisk(utility, registry.PROBLEMS.get("toy_ende")())
    return other


def _expected(candidates: list[Hypothesis], weights: np.ndarray, utility: str) -> list[float]:
    texts = [one.text for one in candidates]
    return [
        sum(w * SENTENCE[utility](one, other) for w, other in zip(weights, texts, strict=True)) / weights.sum()
        for one in texts
    ]


@pytest.mark.commit("6-chrf")
@pytest.mark.parametrize(("samples", "utility"), [(6, "chrf"), (6, "bleu"), (0, "chrf")])
def test_the_best_is_that_of_all_pairs(samples: int, utility: str) -> None:
    translator = _make(samples=samples)
    chosen = _with_mbr(translator, utility)
    found = chosen.translate(LINES, nbest=6)
    changed = 0
    for candidates, row in zip(translator.translate(LINES, nbest=6), found, strict=True):
        if not row[0].ids:
            assert row == candidates  # of a blank line
            continue
        weights = np.ones(6)
        if not samples:  # probabilities, from scores by equation 14 of Wu et al.
            lengths = np.array([len(one.ids) for one in candidates])
            weights = np.exp(np.array([one.score for one in candidates]) * ((5 + lengths) / 6) ** SMALL.length_penalty)
        expected = _expected(candidates, weights, utility)
        assert sorted(map(tuple, [one.ids for one in row])) == sorted(map(tuple, [one.ids for one in candidates]))
        assert row[0].score == pytest.approx(max(expected), abs=1e-4)
        by_text = dict(zip([one.text for one in candidates], expected, strict=True))
        assert [one.score for one in row] == pytest.approx([by_text[one.text] for one in row], abs=1e-4)
        changed += row[0].text != candidates[0].text
    assert changed
    for i, line in enumerate(LINES):  # whatever its batch
        [[alone]] = chosen.translate([line])
        assert (alone.text, alone.score) == (found[i][0].text, pytest.approx(found[i][0].score, abs=1e-4))


@pytest.mark.parametrize("search", [None, SMALL])
def test_repeated_texts_come_last_and_count(search: TransformerHParams | None) -> None:
    texts, log_probs = [*TEXTS, TEXTS[2], TEXTS[0], TEXTS[2]], np.linspace(-4, -2, 10)
    weights = np.ones(10)
    scores = log_probs
    if search is not None:  # the last one is none, and its probability is 0
        weights = np.exp([*log_probs[:-1], -np.inf])
        scores = np.array([*log_probs[:-1] / ((5 + 2) / 6) ** search.length_penalty, -np.inf])
    candidates = [
        Hypothesis(text, score, ids=[i, 1]) for i, (text, score) in enumerate(zip(texts, scores, strict=True))
    ]
    found = MinimumBayesRisk("chrf", registry.PROBLEMS.get("toy_ende")()).choose("x", candidates, search)
    expected = np.array(_expected(candidates, weights, "chrf"))
    by_utility = sorted(range(7), key=lambda i: -expected[i])
    repeats = sorted((7, 8) if search else (7, 8, 9), key=lambda i: -expected[i])
    order = [*by_utility, *repeats, *([9] if search else [])]
    assert [one.ids for one in found] == [candidates[i].ids for i in order]
    wanted = [-np.inf if search and i == 9 else expected[i] for i in order]
    assert [one.score for one in found] == pytest.approx(wanted, abs=1e-4)


@pytest.mark.nightly
def test_it_goes_with_scores_of_words_and_with_sentences() -> None:
    chosen = _with_mbr(_make(samples=6), "chrf")
    best = chosen.translate(LINES)
    assert SentenceTranslator(chosen).translate(LINES) == best
    for [plain], [scored] in zip(best, score_outputs(chosen, LINES, best, words=True, quality=False), strict=True):
        assert (scored.text, scored.score) == (plain.text, plain.score)
        assert scored.words is not None
        assert len(scored.words.pieces) == len(plain.ids)


def test_a_metric_that_is_none_and_a_model_of_trees() -> None:
    with pytest.raises(UsageError, match="There is no metric called 'blue'"):
        MinimumBayesRisk("blue", registry.PROBLEMS.get("toy_ende")())
    with pytest.raises(UsageError, match="compares outputs as text, and this model writes trees. Leave it out"):
        MinimumBayesRisk("chrf", registry.PROBLEMS.get("toy_parsing")())
