"""Search with phrases that must occur: against a plain NumPy one from the paper, in any batch, and by XLA."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from t2t_lite.decoding.banned_words import BannedWords
from t2t_lite.decoding.beam_search import beam_search
from t2t_lite.decoding.given import lacking, pad_phrases, phrase_pieces
from t2t_lite.decoding.phrases import PhraseConstraint, PhraseSearch, allocate
from t2t_lite.decoding.rules import NO_RULES, Rules
from t2t_lite.decoding.sized_graph import SizedGraph
from t2t_lite.text.vocabulary_training import train_vocabulary
from tests.decoding.test_beam_search import SOURCES, V, _Searches
from tests.searches import EOS, EXTRA, PAD, Hypotheses, _forbidden, hypotheses, penalty, without_padding

Phrases = list[tuple[int, ...]]
# Single pieces and longer phrases, among them ones that begin alike, overlap, repeat a piece or are equal.
PHRASES: list[Phrases] = [
    [(5, 6, 7), (6, 9)],
    [],
    [(11,)],
    [(4, 4, 8), (4,)],
    [(12, 13), (13, 14)],
    [(20,), (21,), (22,)],
    [(7, 8, 7, 9)],
    [(15, 16), (15, 17)],
    [(25, 5), (25, 5)],
]


def _graph(searches: _Searches, beam: int, rules: Rules = NO_RULES) -> Any:
    def search(source: Any, phrases: Any, jit: bool = False) -> Any:
        constraints = [PhraseConstraint(phrases, V)]
        how: dict[str, Any] = {"alpha": 0.6, "extra_length": EXTRA, "early_stop": False, "rules": rules, "jit": jit}
        return beam_search(searches.model, source, beam_size=beam, kind=PhraseSearch, constraints=constraints, **how)

    return search


_SIGNATURE = [tf.TensorSpec([None] * 2, tf.int32), tf.TensorSpec([None] * 3, tf.int32)]


def _has(output: tuple[int, ...], phrase: tuple[int, ...]) -> bool:
    return any(output[at : at + len(phrase)] == phrase for at in range(len(output) - len(phrase) + 1))


def _begun(output: tuple[int, ...], phrase: tuple[int, ...]) -> int:
    return max(n for n in range(len(phrase)) if output[len(output) - n :] == phrase[:n])


def _bank(output: tuple[int, ...], phrases: Phrases) -> int:
    """How many pieces of phrases an output has: of those that are there, and of one that is under way."""
    met = sum(len(phrase) for phrase in phrases if _has(output, phrase))
    return met + max((_begun(output, phrase) for phrase in phrases if not _has(output, phrase)), default=0)


def _bank_sizes(pieces: int, beam: int, counts: list[int]) -> list[int]:
    """Sockeye's get_bank_sizes, by the authors of the paper."""
    banks = pieces + 1
    sizes = [beam // banks] * banks
    sizes[-1] += beam - beam // banks * banks
    for i in reversed(range(banks)):
        overfill = sizes[i] - counts[i]
        if overfill > 0:
            sizes[i] -= overfill
            sizes[(i - 1) % banks] += overfill
    return sizes


def _slow(searches: _Searches, source: tuple[int, ...], phrases: Phrases, beam: int, rules: Rules) -> Hypotheses:
    longest, pieces = len(source) + EXTRA, sum(map(len, phrases))
    alive: Hypotheses = [((), 0.0)]
    finished: Hypotheses = []
    for length in range(1, longest + 1):
        table = searches.logp(source, [ids for ids, _ in alive]) + np.array([[total] for _, total in alive])
        table[:, PAD] = -np.inf
        for row, (ids, _) in zip(table, alive, strict=True):
            row[_forbidden(ids, rules)] = -np.inf
            if not all(_has(ids, phrase) for phrase in phrases):
                row[EOS] = -np.inf
        best = np.argsort(-table, axis=None, kind="stable")[: 2 * beam if beam > 1 else 1]
        places = {(int(at) // V, int(at) % V) for at in best}
        for k, (ids, _) in enumerate(alive) if phrases else ():
            places |= {(k, int(table[k].argmax()))} | ({(k, EOS)} if beam > 1 else set())
            places |= {(k, phrase[_begun(ids, phrase)]) for phrase in phrases if not _has(ids, phrase)}
        ranked = sorted((place for place in places if table[place] > -np.inf), key=lambda place: -table[place])
        candidates = [((*alive[k][0], symbol), float(table[k, symbol])) for k, symbol in ranked]
        finished += [(ids, total / penalty(length, 0.6)) for ids, total in candidates if ids[-1] == EOS]
        finished = sorted(finished, key=lambda pair: -pair[1])[:beam]
        going_on = [(ids, total) for ids, total in candidates if ids[-1] != EOS]
        of_each = [_bank(ids, phrases) for ids, _ in going_on]
        sizes = _bank_sizes(pieces, beam, [of_each.count(bank) for bank in range(pieces + 1)])
        alive = []
        for bank, candidate in zip(of_each, going_on, strict=True):
            if sizes[bank]:
                sizes[bank] -= 1
                alive.append(candidate)
        bound = max((total for _, total in alive), default=-np.inf) / penalty(longest, 0.6)
        if not alive or (len(finished) >= beam and finished[-1][1] >= bound):
            break
    alive.sort(key=lambda pair: (-_bank(pair[0], phrases), -pair[1]))
    return (finished + [(ids, total / penalty(length, 0.6)) for ids, total in alive])[:beam]


@pytest.fixture(scope="module")
def searches() -> _Searches:
    return _Searches()


@pytest.mark.commit("rules0-4")
@pytest.mark.parametrize("beam", [1, 4, 7])
@pytest.mark.parametrize("rules", [NO_RULES, Rules(3, 8)])
def test_fast_equals_slow(searches: _Searches, rules: Rules, beam: int) -> None:
    search = tf.function(_graph(searches, beam, rules), input_signature=_SIGNATURE, autograph=False)
    ids, scores = search(SOURCES, pad_phrases(PHRASES))
    for source, phrases, got, values in zip(SOURCES, PHRASES, ids, scores, strict=True):
        wanted = _slow(searches, without_padding(source), phrases, beam, rules)
        assert hypotheses(got.numpy()) == [output for output, _ in wanted]
        np.testing.assert_allclose(values[: len(wanted)], [score for _, score in wanted], rtol=0, atol=1e-4)
        ended = [output for output, _ in wanted if output[-1] == EOS]
        assert ended or beam == 1
        assert all(_has(output, phrase) for output in ended for phrase in phrases)
        assert all(_has(wanted[0][0], phrase) for phrase in phrases)  # also a greedy output that is cut
    assert _slow(searches, without_padding(SOURCES[1]), [], beam, rules) == searches.slow(
        without_padding(SOURCES[1]), beam, 0.6, False, rules=rules
    )
    for i in (0, 5):  # in a batch or alone
        alone, value = search(SOURCES[i : i + 1], pad_phrases(PHRASES[i : i + 1]))
        assert hypotheses(alone[0].numpy()) == hypotheses(ids[i].numpy())
        np.testing.assert_allclose(value[0], scores[i], rtol=0, atol=1e-4)


@pytest.mark.nightly
def test_xla_finds_the_same(searches: _Searches) -> None:
    graphs = [SizedGraph(_graph(searches, 4), _SIGNATURE, jit=jit, what="it") for jit in (True, False)]
    (ids, scores), (wanted, wanted_scores) = (g(SOURCES, pad_phrases(PHRASES), tokens=4096) for g in graphs)
    assert graphs[0].jit
    for one, other in zip(ids, wanted, strict=True):
        assert hypotheses(one) == hypotheses(other)
    np.testing.assert_allclose(scores, wanted_scores, rtol=0, atol=1e-4)


def test_banks_are_sockeyes() -> None:
    rng = np.random.default_rng(3)
    pieces = np.array([1, 3, 5, 8, 0, 2])
    for beam in (1, 2, 4, 7, 10):
        logp = np.where(rng.random((6, 25)) < 0.3, -np.inf, rng.permutation(150).reshape(6, 25) * -0.1)
        bank = np.minimum(rng.integers(0, 9, (6, 25)) // rng.integers(1, 4, (6, 1)), pieces[:, None])
        got = allocate(*(tf.constant(v) for v in (logp.astype("f"), bank.astype("i"), pieces.astype("i"))), 9, beam)
        for row, banks, number, places in zip(logp, bank, pieces, got.numpy(), strict=True):
            order = [int(at) for at in np.argsort(-row) if row[at] > -np.inf]
            sizes = _bank_sizes(int(number), beam, [[banks[at] for at in order].count(b) for b in range(number + 1)])
            wanted = set()
            for at in order:
                if sizes[banks[at]]:
                    sizes[banks[at]] -= 1
                    wanted.add(at)
            assert set(np.flatnonzero(places).tolist()) == wanted


def test_phrases_that_no_output_can_have_are_none_and_lacking() -> None:
    vocabulary = train_vocabulary(["ein Hund sieht die Katze", "die Katze schläft"] * 3, size=40)
    banned = BannedWords(["Katze"], vocabulary)
    phrases = ["ein Hund", "日本", "die Katze", "sieht", "Hund " * 20]
    pieces = phrase_pieces(phrases, vocabulary, 20, banned)
    assert [bool(ids) for ids in pieces] == [True, False, False, True, False]
    output = [*vocabulary.encode("ein Hund schläft"), EOS]
    assert lacking(phrases, pieces, output) == ("日本", "die Katze", "sieht", "Hund " * 20)
    together = sum(len(vocabulary.encode(phrase)) for phrase in ("ein Hund", "sieht"))
    for room in (0, 1):  # for the end symbol
        found = phrase_pieces(["ein Hund", "sieht"], vocabulary, together + room, None)
        assert [bool(ids) for ids in found] == [True, bool(room)]
