"""Beam search with caches against a plain NumPy search without caches, and against trying every output."""

import fractions
import functools
import itertools
import math
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from t2t_lite import config
from t2t_lite.decoding.beam_search import beam_search, length_penalty
from t2t_lite.decoding.rules import Rules
from t2t_lite.decoding.search import longest_output, longest_outputs
from t2t_lite.models.bytenet import ByteNet
from t2t_lite.models.bytenet_hparams import ByteNetHParams
from t2t_lite.models.convs2s import ConvS2S
from t2t_lite.models.convs2s_hparams import ConvS2SHParams
from t2t_lite.models.ensemble import Ensemble
from t2t_lite.models.moe import Moe
from t2t_lite.models.moe_hparams import MoeHParams
from t2t_lite.models.rnn import Rnn
from t2t_lite.models.rnn_hparams import RnnHParams
from t2t_lite.models.transformer import Transformer
from t2t_lite.models.transformer_hparams import TransformerHParams
from t2t_lite.models.transformer_moe import TransformerMoe
from t2t_lite.models.transformer_moe_hparams import TransformerMoeHParams
from tests import convs2s_reference, reference
from tests.searches import EOS, EXTRA, PAD, Searches, hypotheses, penalty, random_sources, without_padding

V = 30
TINY = TransformerHParams(num_layers=1, d_model=16, d_ff=32, num_heads=2)


class _Searches(Searches):
    """Searches of a Transformer with random weights; the slow one is NumPy alone.

    The decoder's output has length sqrt(d_model) with any weights, so the table of the tied softmax decides how far
    apart probabilities are: entries of `scale` / sqrt(d_model) give logits a deviation of `scale`.
    """

    def __init__(
        self, vocab_size: int = V, seed: int = 4, scale: float = 2.0, hparams: TransformerHParams = TINY
    ) -> None:
        super().__init__(Transformer.from_hparams(hparams, vocab_size, vocab_size, True))
        reference.randomise(self.model, seed, 2.0)
        table = self.model.target_embedding.table
        table.assign(scale * TINY.d_model**-0.5 * np.random.default_rng(seed).standard_normal(tuple(table.shape)))
        kinds = (hparams.norm, hparams.num_decoder_layers, hparams.positions, hparams.attention_score)
        self.plain = reference.Transformer(reference.weights_of(self.model), 1, 2, *kinds)
        self._memories: dict[tuple[int, ...], np.ndarray] = {}
        self._answers: dict[tuple[tuple[int, ...], ...], np.ndarray] = {}

    def logits(self, source: tuple[int, ...], prefixes: list[tuple[int, ...]]) -> np.ndarray:
        asked = (source, *prefixes)  # searches that differ only in alpha ask for the same
        if asked not in self._answers:
            ids = np.array([source])
            if source not in self._memories:
                self._memories[source] = self.plain.encode(ids)
            inputs = np.array([(PAD, *prefix) for prefix in prefixes])
            self._answers[asked] = self.plain.decode(inputs, self._memories[source], ids)[:, -1]
        return self._answers[asked]


SOURCES = random_sources(V)


@pytest.fixture(scope="module")
def searches() -> _Searches:
    return _Searches()


@pytest.fixture(scope="module")
def looping() -> _Searches:
    """Without rules, its outputs repeat themselves."""
    return _Searches(seed=6, scale=3.0)


@pytest.mark.commit
@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
@pytest.mark.parametrize("early", [True, False])
@pytest.mark.parametrize("beam", [1, 4, 21])
def test_fast_equals_slow(searches: _Searches, beam: int, early: bool, alpha: float) -> None:
    searches.assert_equal(SOURCES, beam, alpha, early)


def _has_repeats(output: tuple[int, ...], size: int) -> bool:
    ngrams = [output[at : at + size] for at in range(len(output) - size + 1)]
    return len(set(ngrams)) < len(ngrams)


@pytest.mark.commit("3-5-4")
@pytest.mark.parametrize("beam", [1, 4, 7])
@pytest.mark.parametrize("min_length", [0, 5, 20])
@pytest.mark.parametrize("size", [0, 1, 2, 3])
def test_fast_equals_slow_with_rules(looping: _Searches, size: int, min_length: int, beam: int) -> None:
    rules = Rules(size, min_length)
    found = looping.assert_equal(SOURCES, beam, 0.6, False, rules)
    assert min(len(output) - (output[-1] == EOS) for output in found) >= min_length
    assert any(_has_repeats(output, 3) for output in found) == (size == 0)
    assert size == 0 or not any(_has_repeats(output, size) for output in found)


@pytest.mark.commit("rules1-4")
@pytest.mark.parametrize("beam", [1, 4, 7])
@pytest.mark.parametrize("rules", [Rules(repetition_penalty=4.0), Rules(3, 8, 1.3)])
def test_fast_equals_slow_with_a_repetition_penalty(looping: _Searches, rules: Rules, beam: int) -> None:
    found = looping.assert_equal(SOURCES, beam, 0.6, False, rules)
    without = [row for ids in looping.fast(SOURCES, beam, 0.6, False)[0] for row in hypotheses(ids)]
    fewer, repeats = (sum(len(output) - len({*output}) for output in outputs) for outputs in (found, without))
    assert fewer < repeats
    assert rules.no_repeat_ngram_size == 0 or not any(_has_repeats(output, 3) for output in found)
    assert min(len(output) - (output[-1] == EOS) for output in found) >= rules.min_length


@pytest.mark.commit("rules0-4")
@pytest.mark.parametrize("beam", [1, 4, 7])
@pytest.mark.parametrize("rules", [Rules(), Rules(2, 9, 1.3)])
def test_fast_equals_slow_with_prefixes(looping: _Searches, rules: Rules, beam: int) -> None:
    prefixes = np.zeros((9, 5), np.int32)
    rng = np.random.default_rng(1)
    for row, length in zip(prefixes, (2, 0, 1, 5, 0, 4, 3, 1, 2), strict=True):
        row[:length] = rng.integers(2, V, length)
    prefixes[3] = [7, 8, 7, 8, 7]  # what a rule forbids later

    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int32)] * 2, autograph=False)
    def search(source: Any, prefix: Any) -> Any:
        settings: dict[str, Any] = {"alpha": 0.6, "extra_length": EXTRA, "early_stop": False, "rules": rules}
        return beam_search(looping.model, source, beam_size=beam, prefix=prefix, **settings)

    for source, prefix, got, scores in zip(SOURCES, prefixes, *search(SOURCES, prefixes), strict=True):
        forced = without_padding(prefix)
        wanted = looping.slow(without_padding(source), beam, 0.6, False, rules=rules, forced=forced)
        assert hypotheses(got.numpy()) == [hypothesis for hypothesis, _ in wanted]
        assert all(hypothesis[: len(forced)] == forced for hypothesis, _ in wanted)
        np.testing.assert_allclose(scores, [score for _, score in wanted], rtol=0, atol=1e-4)
    ids, scores = search(SOURCES, prefixes)
    for i in (0, 3):  # in a batch or alone
        alone, value = search(SOURCES[i : i + 1], prefixes[i : i + 1])
        assert hypotheses(alone[0].numpy()) == hypotheses(ids[i].numpy())
        np.testing.assert_allclose(value[0], scores[i], rtol=0, atol=1e-4)


RELATIVE: dict[str, Any] = {"max_relative_position": 3, "positions": "none", "attention_biases": True}
TENSOR2TENSOR: dict[str, Any] = {"norm": "pre", "positions": "tensor2tensor", "num_decoder_layers": 2}


@pytest.mark.nightly
@pytest.mark.parametrize(
    "changes",
    [RELATIVE, TENSOR2TENSOR, {"attention_score": "dot"}, {"attention_score": "additive"}, {"positions": "rotary"}],
    ids=["relative", "tensor2tensor", "dot", "additive", "rotary"],
)
def test_fast_equals_slow_with_what_the_paper_has_not(changes: dict[str, Any]) -> None:
    searches = _Searches(hparams=config.replace(TINY, source_vector=True, **changes))
    for beam in (1, 4):
        found = searches.assert_equal(SOURCES, beam, 0.6, False)
    assert len(set(found)) > 20


def _rnn(seed: int = 4, **changes: Any) -> Rnn:
    sizes: dict[str, Any] = {"num_layers": 2, "d_model": 16, "dropout": 0.0, **changes}
    model = Rnn.from_hparams(RnnHParams(**sizes), V, V, True)
    reference.randomise(model, seed, 2.0)
    return model


def _convs2s() -> ConvS2S:
    sizes: dict[str, Any] = {"encoder_layers": "2x16x3", "decoder_layers": "16x3+12x2+12x1", "d_model": 16}
    model = ConvS2S.from_hparams(ConvS2SHParams(**sizes, d_out=16, dropout=0.0), V, V, True)
    convs2s_reference.randomise(model, 4, 1.1)  # a larger scale would let its attention enlarge rounding
    return model


def _bytenet(**changes: Any) -> ByteNet:
    sizes: dict[str, Any] = {"num_layers": 3, "d_model": 8, "dilations": 2, "unfold_extra": 5, **changes}
    model = ByteNet.from_hparams(ByteNetHParams(**sizes), V, V, True)
    reference.randomise(model, 4, 2.0)
    return model


def _experts(model: Any, hparams: Any) -> Any:
    made = model.from_hparams(hparams, V, V, True)
    reference.randomise(made, 4, 2.0)
    return made


EXPERTS: dict[str, Any] = {"d_model": 16, "d_ff": 16, "num_experts": 4, "experts_per_token": 2, "dropout": 0.0}
_moe = functools.partial(_experts, Moe, MoeHParams(**EXPERTS, cells=12))
_transformer_moe = functools.partial(
    _experts, TransformerMoe, TransformerMoeHParams(**EXPERTS, num_layers=2, num_heads=2)
)


def _ensemble() -> Ensemble:
    """An ensemble with two kinds of state: one that is reordered, and one that fills up and is renewed."""
    return Ensemble([_Searches().model, _rnn(5)])


RNNS: dict[str, dict[str, Any]] = {
    "general": {},
    "additive": {"attention_score": "additive"},
    "gnmt": {"encoder": "gnmt", "wiring": "gnmt", "num_layers": 3},
    "vinyals": {"encoder": "reversed", "wiring": "vinyals", "share_embeddings": False},
    "interleaved_dot": {"encoder": "interleaved", "attention_score": "dot"},
}
OTHERS: dict[str, Callable[[], Any]] = {
    **{name: functools.partial(_rnn, **changes) for name, changes in RNNS.items()},
    "convs2s": _convs2s,
    "bytenet": _bytenet,
    "bytenet_tensor2tensor": functools.partial(_bytenet, num_layers=2, wiring="tensor2tensor"),
    "moe": _moe,
    "transformer_moe": _transformer_moe,
    "ensemble": _ensemble,
}


@pytest.fixture(scope="module")
def other_searches(request: pytest.FixtureRequest) -> Searches:
    return Searches(OTHERS[request.param]())


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("other_searches", "beam"),
    [
        *((name, beam) for name in ("general", "convs2s", "ensemble") for beam in (1, 21)),
        *((name, 4) for name in OTHERS),
    ],
    indirect=["other_searches"],
)
def test_fast_equals_slow_for_a_state_that_is_reordered(other_searches: Searches, beam: int) -> None:
    found = other_searches.assert_equal(SOURCES, beam, 0.6, True)
    assert len({len(hypothesis) for hypothesis in found}) > 3  # sentences leave the batch one after the other
    assert len(set(found)) > len(found) / 2


def test_the_searches_compared_end_in_every_way(searches: _Searches) -> None:
    # Otherwise the comparison above might cover only hypotheses that all stop at once, or never.
    ids, _ = searches.fast(SOURCES, 4, 0.6, True)
    found = [hypothesis for row in ids for hypothesis in hypotheses(row)]
    lengths = [len(hypothesis) for hypothesis in found if hypothesis[-1] == EOS]
    assert min(lengths) < 8
    assert max(lengths) > 16
    limits = [len(without_padding(source)) + EXTRA for source in SOURCES for _ in range(4)]
    assert any(h[-1] != EOS and len(h) == n > 32 for h, n in zip(found, limits, strict=True))


@pytest.fixture(scope="module")
def of_four() -> _Searches:
    """A vocabulary so small that all outputs can be listed."""
    return _Searches(vocab_size=4, seed=2, scale=1.0)


@pytest.mark.commit
@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
def test_a_beam_as_wide_as_the_tree_finds_the_best_of_all_outputs(of_four: _Searches, alpha: float) -> None:
    searches, source, extra = of_four, (2, 3, EOS), 1
    outputs: dict[tuple[int, ...], float] = {}
    for length in range(1, len(source) + extra + 1):
        for start in itertools.product((2, 3), repeat=length - 1):
            steps = [searches.logp(source, [start[:at]])[0, (*start, EOS)[at]] for at in range(length)]
            outputs[*start, EOS] = sum(steps) / penalty(length, alpha)
    ranked = sorted(outputs, key=lambda ids: -outputs[ids])
    assert len(ranked) == 1 + 2 + 4 + 8
    ids, scores = searches.fast(np.array([source], "int32"), 16, alpha, False, extra)
    assert hypotheses(ids[0])[:15] == ranked
    np.testing.assert_allclose(scores[0, :15], [outputs[ids] for ids in ranked], rtol=0, atol=1e-4)
    best, _ = searches.fast(np.array([source], "int32"), 16, alpha, True, extra)
    assert hypotheses(best[0])[0] == ranked[0]


@pytest.mark.parametrize("beam", [1, 4])
def test_stopping_early_never_changes_the_best(searches: _Searches, beam: int) -> None:
    early, early_scores = searches.fast(SOURCES, beam, 0.6, True)
    late, late_scores = searches.fast(SOURCES, beam, 0.6, False)
    np.testing.assert_array_equal(early[:, 0], late[:, 0])
    np.testing.assert_allclose(early_scores[:, 0], late_scores[:, 0], rtol=0, atol=1e-6)


@pytest.mark.parametrize("early", [True, False])
def test_a_sentence_alone_equals_the_sentence_in_a_batch(searches: _Searches, early: bool) -> None:
    padded = np.pad(SOURCES, ((0, 1), (0, 4)))  # wider than needed, and with an empty row
    ids, scores = searches.fast(padded, 4, 0.6, early)
    for i, source in enumerate(SOURCES):
        alone, alone_scores = searches.fast(np.array([without_padding(source)], "int32"), 4, 0.6, early)
        assert hypotheses(alone[0]) == hypotheses(ids[i])
        np.testing.assert_allclose(alone_scores[0], scores[i], rtol=0, atol=1e-4)
    assert np.isfinite(scores[-1]).all()


def test_beam_1_is_greedy(searches: _Searches) -> None:
    ids, scores = searches.fast(SOURCES, 1, 0.6, True)
    for source, got, score in zip(SOURCES, ids[:, 0], scores[:, 0], strict=True):
        hypothesis, total = (), 0.0
        while len(hypothesis) < len(without_padding(source)) + EXTRA and hypothesis[-1:] != (EOS,):
            logp = searches.logp(without_padding(source), [hypothesis])[0]
            symbol = 1 + int(logp[1:].argmax())
            hypothesis, total = (*hypothesis, symbol), total + logp[symbol]
        assert without_padding(got) == hypothesis
        np.testing.assert_allclose(score, total / penalty(len(hypothesis), 0.6), rtol=0, atol=1e-4)


def test_scores_are_log_probabilities_over_the_penalty_finished_or_not(searches: _Searches) -> None:
    ids, scores = searches.fast(SOURCES, 4, 0.6, False)
    ends = set()
    for source, of_sentence, its_scores in zip(SOURCES, ids, scores, strict=True):
        for hypothesis, score in zip(hypotheses(of_sentence), its_scores, strict=True):
            steps = [searches.logp(without_padding(source), [hypothesis[:at]])[0, s] for at, s in enumerate(hypothesis)]
            np.testing.assert_allclose(score, sum(steps) / penalty(len(hypothesis), 0.6), rtol=0, atol=1e-4)
            ends.add(hypothesis[-1] == EOS)
        finished = [hypothesis[-1] == EOS for hypothesis in hypotheses(of_sentence)]
        assert finished == sorted(finished, reverse=True)
    assert ends == {True, False}


class _Chain(keras.Model):
    """A model whose next symbol depends on the last one alone, by a table of logits [V, V]."""

    def __init__(self, logits: np.ndarray) -> None:
        super().__init__()
        self._logits = tf.constant(logits, tf.float32)

    def encode(self, batch: dict[str, Any]) -> tuple[Any, Any]:
        rows = batch["source"].shape[0]
        return tf.zeros([rows, 1]), tf.zeros([rows, 1, 1, 1])

    def start(self, *_: Any) -> tuple[Any, Any, Any]:
        return [], [], lambda ids, index, fixed, state: (tf.gather(self._logits, ids), state)

    def reorder(self, state: Any, parents: Any) -> Any:
        return state

    def is_full(self, state: Any) -> Any:
        return tf.constant(False)

    def renew(self, state: Any, steps: Any) -> Any:
        return state


def test_padding_is_no_output_and_takes_no_candidates_place() -> None:
    logits = np.zeros((12, 12))
    logits[:, PAD] = 9
    logits[0, 2:9] = 1.0  # seven symbols, then the end: the eighth of 2 * 4 candidates, and by far the best output
    logits[0, EOS] = 0.9
    ids, scores = beam_search(_Chain(logits), np.array([[2, EOS]]), beam_size=4, alpha=0.0, extra_length=3)
    assert hypotheses(ids.numpy()[0])[0] == (EOS,)
    np.testing.assert_allclose(scores[0, 0], reference.log_softmax(logits[0])[EOS], rtol=1e-5)


def test_a_greedy_search_does_not_end_with_the_second_best_symbol() -> None:
    logits = np.zeros((6, 6))
    logits[0, [2, EOS]] = 5.0, 4.9
    logits[2, 3] = 1.0  # an unlikely continuation: the second-best symbol, the end, would score better
    logits[3, EOS] = 1.0
    ids, _ = beam_search(_Chain(logits), np.array([[2, EOS]]), beam_size=1, alpha=0.6, extra_length=3)
    assert hypotheses(ids.numpy()[0]) == [(2, 3, EOS)]


@pytest.mark.parametrize("beam", [1, 4, 7])
def test_a_model_that_loops_ends_with_a_guard(beam: int) -> None:
    """Its outputs are "the the the ...": after any symbol the end is second best."""
    logits = np.zeros((12, 12))
    logits[:, 2], logits[:, EOS] = 8.0, 6.0
    for rules in (Rules(), Rules(2), Rules(repetition_penalty=4.0)):
        ids, _ = beam_search(
            _Chain(logits), np.array([[3, EOS]]), beam_size=beam, alpha=1.0, extra_length=20, rules=rules
        )
        best = hypotheses(ids.numpy()[0])[0]
        assert best.count(2) > 20 if rules == Rules() else best in {(2, EOS), (2, 2, EOS)}


@pytest.mark.parametrize("shape", [(0, 5), (0, 0)])
def test_an_empty_batch_has_no_outputs(searches: _Searches, shape: tuple[int, int]) -> None:
    ids, scores = searches.fast(np.zeros(shape, "int32"), 4, 0.6, True)
    assert ids.shape[:2] == scores.shape == (0, 4)


def test_length_penalty_golden_values() -> None:
    lengths = np.array([1, 7, 13, 55])
    np.testing.assert_allclose(length_penalty(lengths, 0.6), [1, 1.5157166, 1.9331820, 3.9810717], rtol=1e-5)
    np.testing.assert_allclose(length_penalty(lengths, 0.0), 1)
    np.testing.assert_allclose(length_penalty(lengths, 1.0), [1, 2, 3, 10], rtol=1e-6)


@pytest.mark.parametrize(("factor", "extra"), [(1.0, 3), (0.3, 0), (0.7, 2), (1.1, 0), (3.0, 1), (0.0, 4), (0.0, 0)])
def test_the_longest_output_is_a_multiple_of_the_source_and_extra_pieces(factor: float, extra: int) -> None:
    logits = np.zeros((9, 9))
    logits[:, EOS] = -9
    lengths = [1, 7, 10, 20]
    wanted = [longest_output(length, factor, extra) for length in lengths]
    by_hand = [max(math.ceil(fractions.Fraction(str(factor)) * length) + extra, 1) for length in lengths]
    assert wanted == by_hand  # also 0.3 * 10 and 0.7 * 10, in float32 as in Marian
    for length, longest in zip(lengths, wanted, strict=True):
        source = np.array([[2] * (length - 1) + [EOS]] * 2, np.int32)
        for beam in (1, 2):
            ids, _ = beam_search(
                _Chain(logits), source, beam_size=beam, alpha=1.0, extra_length=extra, length_factor=factor
            )
            assert np.count_nonzero(ids[1, 0]) == longest
    assert longest_outputs(np.array(lengths), factor, extra).numpy().tolist() == wanted
