"""Beam search with caches against a plain one in NumPy without, and against trying every output."""

import itertools
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from t2t_lite.decode.beam_search import beam_search, length_penalty
from t2t_lite.models.rnn import Rnn
from t2t_lite.models.rnn_hparams import RnnHParams
from t2t_lite.models.transformer import Transformer
from t2t_lite.models.transformer_hparams import TransformerHParams
from tests import reference

V = 30
EXTRA = 27  # outputs of up to 36 symbols: the past, with room for 16 steps at first, is renewed twice
TINY = TransformerHParams(num_layers=1, d_model=16, d_ff=32, num_heads=2)
PAD, EOS = 0, 1
Hypotheses = list[tuple[tuple[int, ...], float]]


class _Searches:
    """A model with random weights, and both ways to search with it.

    The decoder's output is of length sqrt(d_model) with any weights, so the table of the tied softmax decides how far
    apart probabilities are: entries of `scale` / sqrt(d_model) make logits of deviation `scale`.
    """

    def __init__(self, vocab_size: int = V, seed: int = 4, scale: float = 2.0) -> None:
        self.model = Transformer.from_hparams(TINY, vocab_size, vocab_size, True)
        reference.randomise(self.model, seed, 2.0)
        table = self.model.target_embedding.table
        table.assign(scale * TINY.d_model**-0.5 * np.random.default_rng(seed).standard_normal(tuple(table.shape)))
        self.plain = reference.Transformer(reference.weights_of(self.model), 1, 2, "post")
        self._traced: dict[tuple[int, int], Any] = {}
        self._memories: dict[tuple[int, ...], np.ndarray] = {}
        self._answers: dict[tuple[tuple[int, ...], ...], np.ndarray] = {}

    def fast(
        self, source: np.ndarray, beam: int, alpha: float, early: bool, extra: int = EXTRA
    ) -> tuple[np.ndarray, np.ndarray]:
        if (beam, extra) not in self._traced:
            specs = [tf.TensorSpec([None, None], tf.int32), tf.TensorSpec([]), tf.TensorSpec([], tf.bool)]

            def search(source: Any, alpha: Any, early: Any) -> Any:
                return beam_search(
                    self.model, source, beam_size=beam, alpha=alpha, extra_length=extra, early_stop=early
                )

            self._traced[beam, extra] = tf.function(search, input_signature=specs, autograph=False)
        ids, scores = self._traced[beam, extra](source, alpha, early)
        return ids.numpy(), scores.numpy()

    def logp(self, source: tuple[int, ...], prefixes: list[tuple[int, ...]]) -> np.ndarray:
        """log P of the next symbol [prefixes, V]: the whole prefix through the whole model, no step from another."""
        asked = (source, *prefixes)  # searches that differ in alpha alone ask for the same
        if asked not in self._answers:
            ids = np.array([source])
            if source not in self._memories:
                self._memories[source] = self.plain.encode(ids)
            inputs = np.array([(PAD, *prefix) for prefix in prefixes])
            self._answers[asked] = reference.log_softmax(self.plain.decode(inputs, self._memories[source], ids)[:, -1])
        return self._answers[asked]

    def slow(self, source: tuple[int, ...], beam: int, alpha: float, early: bool, extra: int = EXTRA) -> Hypotheses:
        """Best first; finished hypotheses, then unfinished ones."""
        longest = len(source) + extra
        alive: Hypotheses = [((), 0.0)]
        finished: Hypotheses = []
        for length in range(1, longest + 1):
            table = self.logp(source, [prefix for prefix, _ in alive]) + np.array([[total] for _, total in alive])
            table[:, PAD] = -np.inf
            best = np.argsort(-table, axis=None, kind="stable")[: 2 * beam if beam > 1 else 1]
            rows = [(int(at) // table.shape[1], int(at) % table.shape[1]) for at in best]
            candidates = [((*alive[row][0], symbol), float(table[row, symbol])) for row, symbol in rows if symbol]
            finished += [(ids, total / _penalty(length, alpha)) for ids, total in candidates if ids[-1] == EOS]
            finished = sorted(finished, key=lambda pair: -pair[1])[:beam]
            alive = [(ids, total) for ids, total in candidates if ids[-1] != EOS][:beam]
            bound = max((total for _, total in alive), default=-np.inf) / _penalty(longest, alpha)
            enough = len(finished) >= (1 if early else beam)
            if enough and finished[0 if early else -1][1] >= bound:
                break
        unfinished = [(ids, total / _penalty(length, alpha)) for ids, total in alive]
        return (finished + unfinished)[:beam]


class _RnnSearches(_Searches):
    """The same of an LSTM: a state that follows its hypothesis, and a softmax layer with a bias."""

    def __init__(self, seed: int = 4, **changes: Any) -> None:
        hparams = RnnHParams(num_layers=2, d_model=16, dropout=0.0, **changes)
        self.model = Rnn.from_hparams(hparams, V, V, True)
        reference.randomise(self.model, seed, 2.0)
        specs = [tf.TensorSpec([None, None], tf.int32)] * 2
        self._call = tf.function(
            lambda source, target: self.model({"source": source, "target": target}),
            input_signature=specs,
            autograph=False,
        )
        self._traced: dict[tuple[int, int], Any] = {}

    def logp(self, source: tuple[int, ...], prefixes: list[tuple[int, ...]]) -> np.ndarray:
        targets = np.array([(*prefix, EOS) for prefix in prefixes], "int32")  # the last one is not seen
        logits = self._call(np.array([source] * len(prefixes), "int32"), targets)
        return reference.log_softmax(np.asarray(logits, np.float64)[:, -1])


def _penalty(length: int, alpha: float) -> float:
    return ((5 + length) / 6) ** alpha  # Wu et al. (2016), equation 14


def _sources() -> np.ndarray:
    rng = np.random.default_rng(5)
    rows = np.zeros((9, 9), "int32")
    for row, length in zip(rows, (9, 5, 1, 7, 3, 8, 6, 4, 2), strict=True):
        row[: length - 1], row[length - 1] = rng.integers(2, V, length - 1), EOS
    return rows


def _row(source: np.ndarray) -> tuple[int, ...]:
    return tuple(int(i) for i in source if i)


SOURCES = _sources()


@pytest.fixture(scope="module")
def searches() -> _Searches:
    return _Searches()


@pytest.fixture(scope="module", params=["general", "additive"])
def rnn_searches(request: pytest.FixtureRequest) -> _RnnSearches:
    return _RnnSearches(attention_score=request.param)


def _hypotheses(ids: np.ndarray) -> list[tuple[int, ...]]:
    for row in ids:  # padding stands at the end only
        assert not row[len(_row(row)) :].any()
    return [_row(row) for row in ids]


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
@pytest.mark.parametrize("early", [True, False])
@pytest.mark.parametrize("beam", [1, 4, 21])
def test_fast_equals_slow(searches: _Searches, beam: int, early: bool, alpha: float) -> None:
    ids, scores = searches.fast(SOURCES, beam, alpha, early)
    for source, got, got_scores in zip(SOURCES, ids, scores, strict=True):
        wanted = searches.slow(_row(source), beam, alpha, early)
        assert _hypotheses(got) == [hypothesis for hypothesis, _ in wanted]
        np.testing.assert_allclose(got_scores, [score for _, score in wanted], rtol=0, atol=1e-4)


@pytest.mark.parametrize("beam", [1, 4, 21])
def test_fast_equals_slow_for_a_state_that_is_reordered(rnn_searches: _RnnSearches, beam: int) -> None:
    ids, scores = rnn_searches.fast(SOURCES, beam, 0.6, True)
    hypotheses = []
    for source, got, got_scores in zip(SOURCES, ids, scores, strict=True):
        wanted = rnn_searches.slow(_row(source), beam, 0.6, True)
        assert _hypotheses(got) == [hypothesis for hypothesis, _ in wanted]
        np.testing.assert_allclose(got_scores, [score for _, score in wanted], rtol=0, atol=1e-4)
        hypotheses += _hypotheses(got)
    assert len({len(hypothesis) for hypothesis in hypotheses}) > 3  # sentences leave the batch one after the other
    assert len(set(hypotheses)) > len(hypotheses) / 2


def test_the_searches_compared_end_in_every_way(searches: _Searches) -> None:
    # Without this the comparison above could be one of hypotheses that all stop at once, or never.
    ids, _ = searches.fast(SOURCES, 4, 0.6, True)
    hypotheses = [hypothesis for row in ids for hypothesis in _hypotheses(row)]
    lengths = [len(hypothesis) for hypothesis in hypotheses if hypothesis[-1] == EOS]
    assert min(lengths) < 8
    assert max(lengths) > 16
    limits = [len(_row(source)) + EXTRA for source in SOURCES for _ in range(4)]
    assert any(h[-1] != EOS and len(h) == n > 32 for h, n in zip(hypotheses, limits, strict=True))


@pytest.fixture(scope="module")
def of_four() -> _Searches:
    """A vocabulary so small that all outputs can be listed."""
    return _Searches(vocab_size=4, seed=2, scale=1.0)


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
def test_a_beam_as_wide_as_the_tree_finds_the_best_of_all_outputs(of_four: _Searches, alpha: float) -> None:
    searches, source, extra = of_four, (2, 3, EOS), 1
    outputs: dict[tuple[int, ...], float] = {}
    for length in range(1, len(source) + extra + 1):
        for start in itertools.product((2, 3), repeat=length - 1):
            steps = [searches.logp(source, [start[:at]])[0, (*start, EOS)[at]] for at in range(length)]
            outputs[*start, EOS] = sum(steps) / _penalty(length, alpha)
    ranked = sorted(outputs, key=lambda ids: -outputs[ids])
    assert len(ranked) == 1 + 2 + 4 + 8
    ids, scores = searches.fast(np.array([source], "int32"), 16, alpha, False, extra)
    assert _hypotheses(ids[0])[:15] == ranked
    np.testing.assert_allclose(scores[0, :15], [outputs[ids] for ids in ranked], rtol=0, atol=1e-4)
    best, _ = searches.fast(np.array([source], "int32"), 16, alpha, True, extra)
    assert _hypotheses(best[0])[0] == ranked[0]


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
        alone, alone_scores = searches.fast(np.array([_row(source)], "int32"), 4, 0.6, early)
        assert _hypotheses(alone[0]) == _hypotheses(ids[i])
        np.testing.assert_allclose(alone_scores[0], scores[i], rtol=0, atol=1e-4)
    assert np.isfinite(scores[-1]).all()


def test_beam_1_is_greedy(searches: _Searches) -> None:
    ids, scores = searches.fast(SOURCES, 1, 0.6, True)
    for source, got, score in zip(SOURCES, ids[:, 0], scores[:, 0], strict=True):
        hypothesis, total = (), 0.0
        while len(hypothesis) < len(_row(source)) + EXTRA and hypothesis[-1:] != (EOS,):
            logp = searches.logp(_row(source), [hypothesis])[0]
            symbol = 1 + int(logp[1:].argmax())
            hypothesis, total = (*hypothesis, symbol), total + logp[symbol]
        assert _row(got) == hypothesis
        np.testing.assert_allclose(score, total / _penalty(len(hypothesis), 0.6), rtol=0, atol=1e-4)


def test_scores_are_log_probabilities_over_the_penalty_finished_or_not(searches: _Searches) -> None:
    ids, scores = searches.fast(SOURCES, 4, 0.6, False)
    ends = set()
    for source, of_sentence, its_scores in zip(SOURCES, ids, scores, strict=True):
        for hypothesis, score in zip(_hypotheses(of_sentence), its_scores, strict=True):
            steps = [searches.logp(_row(source), [hypothesis[:at]])[0, s] for at, s in enumerate(hypothesis)]
            np.testing.assert_allclose(score, sum(steps) / _penalty(len(hypothesis), 0.6), rtol=0, atol=1e-4)
            ends.add(hypothesis[-1] == EOS)
        finished = [hypothesis[-1] == EOS for hypothesis in _hypotheses(of_sentence)]
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

    def renewed(self, state: Any, steps: Any) -> Any:
        return state


def test_padding_is_no_output_and_takes_no_candidates_place() -> None:
    logits = np.zeros((12, 12))
    logits[:, PAD] = 9
    logits[0, 2:9] = 1.0  # seven symbols, then the end: the eighth of 2 * 4 candidates, and by far the best output
    logits[0, EOS] = 0.9
    ids, scores = beam_search(_Chain(logits), np.array([[2, EOS]]), beam_size=4, alpha=0.0, extra_length=3)
    assert _hypotheses(ids.numpy()[0])[0] == (EOS,)
    np.testing.assert_allclose(scores[0, 0], reference.log_softmax(logits[0])[EOS], rtol=1e-5)


def test_a_greedy_search_does_not_end_with_the_second_best_symbol() -> None:
    logits = np.zeros((6, 6))
    logits[0, [2, EOS]] = 5.0, 4.9
    logits[2, 3] = 1.0  # an unlikely way on: the end in second place would score better
    logits[3, EOS] = 1.0
    ids, _ = beam_search(_Chain(logits), np.array([[2, EOS]]), beam_size=1, alpha=0.6, extra_length=3)
    assert _hypotheses(ids.numpy()[0]) == [(2, 3, EOS)]


@pytest.mark.parametrize("shape", [(0, 5), (0, 0)])
def test_an_empty_batch_has_no_outputs(searches: _Searches, shape: tuple[int, int]) -> None:
    ids, scores = searches.fast(np.zeros(shape, "int32"), 4, 0.6, True)
    assert ids.shape[:2] == scores.shape == (0, 4)


def test_length_penalty_golden_values() -> None:
    lengths = np.array([1, 7, 13, 55])
    np.testing.assert_allclose(length_penalty(lengths, 0.6), [1, 1.5157166, 1.9331820, 3.9810717], rtol=1e-5)
    np.testing.assert_allclose(length_penalty(lengths, 0.0), 1)
    np.testing.assert_allclose(length_penalty(lengths, 1.0), [1, 2, 3, 10], rtol=1e-6)
