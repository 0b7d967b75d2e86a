"""Two searches with one model, for comparison: step-by-step beam search, and a plain NumPy one with whole calls."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from t2t_lite.decoding.beam_search import beam_search
from t2t_lite.decoding.rules import NO_RULES, Rules
from tests.reference import log_softmax

EXTRA = 27  # outputs of up to 36 symbols: a KV cache, with room for 16 steps at first, is renewed twice
PAD, EOS = 0, 1
Hypotheses = list[tuple[tuple[int, ...], float]]


class Searches:
    """A model, and both ways to search with it; `fast` traces each beam size once."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self._traced: dict[tuple[int, int, Rules], Any] = {}
        specs = [tf.TensorSpec([None, None], tf.int32)] * 2
        self._call = tf.function(
            lambda source, target: model({"source": source, "target": target}), input_signature=specs, autograph=False
        )

    def fast(
        self, source: np.ndarray, beam: int, alpha: float, early: bool, extra: int = EXTRA, rules: Rules = NO_RULES
    ) -> tuple[np.ndarray, np.ndarray]:
        """Runs `beam_search`."""
        if (beam, extra, rules) not in self._traced:
            specs = [tf.TensorSpec([None, None], tf.int32), tf.TensorSpec([]), tf.TensorSpec([], tf.bool)]

            def search(source: Any, alpha: Any, early: Any) -> Any:
                how = {"beam_size": beam, "alpha": alpha, "extra_length": extra, "early_stop": early, "rules": rules}
                return beam_search(self.model, source, **how)

            self._traced[beam, extra, rules] = tf.function(search, input_signature=specs, autograph=False)
        ids, scores = self._traced[beam, extra, rules](source, alpha, early)
        return ids.numpy(), scores.numpy()

    def logits(self, source: tuple[int, ...], prefixes: list[tuple[int, ...]]) -> np.ndarray:
        """Returns those of the next symbol [prefixes, V]: whole prefixes go through the model, no step is reused."""
        targets = np.array([(*prefix, EOS) for prefix in prefixes], "int32")  # the model does not see the last symbol
        logits = self._call(np.array([source] * len(prefixes), "int32"), targets)
        return np.asarray(logits, np.float64)[:, -1]

    def logp(self, source: tuple[int, ...], prefixes: list[tuple[int, ...]]) -> np.ndarray:
        """Returns log P of the next symbol [prefixes, V]."""
        return log_softmax(self.logits(source, prefixes))

    def slow(
        self,
        source: tuple[int, ...],
        beam: int,
        alpha: float,
        early: bool,
        extra: int = EXTRA,
        rules: Rules = NO_RULES,
        forced: tuple[int, ...] = (),
    ) -> Hypotheses:
        """Runs the plain search; returns finished hypotheses, best first, then unfinished ones, best first."""
        longest = len(source) + extra
        starts = [forced[:at] for at in range(len(forced))]
        theta = rules.repetition_penalty
        steps = [self._penalised(source, [start], beam, theta)[0, forced[len(start)]] for start in starts]
        alive: Hypotheses = [(forced, sum(steps))]
        finished: Hypotheses = []
        for length in range(len(forced) + 1, longest + 1):
            table = self._penalised(source, [prefix for prefix, _ in alive], beam, theta)
            table += np.array([[total] for _, total in alive])
            table[:, PAD] = -np.inf
            for row, (prefix, _) in zip(table, alive, strict=True):
                row[_forbidden(prefix, rules)] = -np.inf
            best = np.argsort(-table, axis=None, kind="stable")[: 2 * beam if beam > 1 else 1]
            rows = [(int(at) // table.shape[1], int(at) % table.shape[1]) for at in best]
            rows = [place for place in rows if table[place] > -np.inf]
            candidates = [((*alive[row][0], symbol), float(table[row, symbol])) for row, symbol in rows]
            finished += [(ids, total / penalty(length, alpha)) for ids, total in candidates if ids[-1] == EOS]
            finished = sorted(finished, key=lambda pair: -pair[1])[:beam]
            alive = [(ids, total) for ids, total in candidates if ids[-1] != EOS][:beam]
            bound = max((total for _, total in alive), default=-np.inf) / penalty(longest, alpha)
            enough = len(finished) >= (1 if early else beam)
            if enough and finished[0 if early else -1][1] >= bound:
                break
        unfinished = [(ids, total / penalty(length, alpha)) for ids, total in alive]
        return (finished + unfinished)[:beam]

    def _penalised(
        self, source: tuple[int, ...], prefixes: list[tuple[int, ...]], beam: int, theta: float
    ) -> np.ndarray:
        """log P [prefixes, V] after the repetition penalty of transformers: of logits if greedy, else of log P."""
        if theta == 1:
            return self.logp(source, prefixes).copy()
        table = np.array((self.logits if beam == 1 else self.logp)(source, prefixes))
        for row, prefix in zip(table, prefixes, strict=True):
            for symbol in {*prefix}:
                row[symbol] *= theta if row[symbol] < 0 else 1 / theta
        return log_softmax(table) if beam == 1 else table

    def assert_equal(
        self, sources: np.ndarray, beam: int, alpha: float, early: bool, rules: Rules = NO_RULES
    ) -> list[tuple[int, ...]]:
        """Asserts that both find the same hypotheses of each source with the same scores; returns all of them."""
        found = []
        for source, got, scores in zip(sources, *self.fast(sources, beam, alpha, early, rules=rules), strict=True):
            wanted = self.slow(without_padding(source), beam, alpha, early, rules=rules)
            assert hypotheses(got) == [hypothesis for hypothesis, _ in wanted]
            np.testing.assert_allclose(scores, [score for _, score in wanted], rtol=0, atol=1e-4)
            found += hypotheses(got)
        return found


def _forbidden(prefix: tuple[int, ...], rules: Rules) -> list[int]:
    """The symbols that may not follow a prefix."""
    size = rules.no_repeat_ngram_size
    seen = {prefix[at : at + size] for at in range(len(prefix) - size + 1)} if size else set()
    repeats = [ngram[-1] for ngram in seen if ngram[:-1] == prefix[len(prefix) - size + 1 :]]
    return [EOS, *repeats] if len(prefix) < rules.min_length else repeats


def search_graph(model: Any, beam: int, alpha: float = 0.6, extra: int = EXTRA, **options: Any) -> Any:
    """Returns `beam_search` as a graph for sources int32 [B, S] of any size."""

    def search(source: Any) -> Any:
        return beam_search(model, source, beam_size=beam, alpha=alpha, extra_length=extra, **options)

    return tf.function(search, input_signature=[tf.TensorSpec([None, None], tf.int32)], autograph=False)


def penalty(length: Any, alpha: float) -> Any:
    """Wu et al. (2016), equation 14."""
    return ((5 + length) / 6) ** alpha


def random_sources(vocab_size: int) -> np.ndarray:
    """Nine sources of 1 to 9 symbols, [9, 9]."""
    rng = np.random.default_rng(5)
    rows = np.zeros((9, 9), "int32")
    for row, length in zip(rows, (9, 5, 1, 7, 3, 8, 6, 4, 2), strict=True):
        row[: length - 1], row[length - 1] = rng.integers(2, vocab_size, length - 1), EOS
    return rows


def without_padding(row: np.ndarray) -> tuple[int, ...]:
    """The symbols of a row."""
    return tuple(int(i) for i in row if i)


def hypotheses(ids: np.ndarray) -> list[tuple[int, ...]]:
    """Returns the rows of [K, T] without padding; asserts that padding is only at their ends."""
    for row in ids:
        assert not row[len(without_padding(row)) :].any()
    return [without_padding(row) for row in ids]
