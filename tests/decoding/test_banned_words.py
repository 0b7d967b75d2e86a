"""Banned words: no output spells one, however it is cut; against a plain search that looks at texts."""

import itertools
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from t2t_lite.decoding.banned_words import BannedWords
from t2t_lite.decoding.beam_search import beam_search
from t2t_lite.decoding.sampling import Sampling, sample
from t2t_lite.importers.vocabularies import ByteVocabulary
from t2t_lite.samplers.base import make_sampler
from t2t_lite.text.vocabulary import Vocabulary
from t2t_lite.text.vocabulary_training import train_vocabulary
from tests.decoding.test_beam_search import SOURCES, _Searches
from tests.searches import EOS, EXTRA, PAD, Hypotheses, hypotheses, penalty, without_padding

TEXT = ["ab abab ba a b", "abb bab aab", "ba ab ab b"] * 3
WORDS = ["ab", "ba b", "aab", "b"]


@pytest.fixture(scope="module")
def vocabulary() -> Vocabulary:
    return train_vocabulary(TEXT, size=14)


@pytest.fixture(scope="module")
def searches(vocabulary: Vocabulary) -> _Searches:
    return _Searches(vocab_size=vocabulary.size, seed=6, scale=2.0)


def _spells(vocabulary: Vocabulary, ids: tuple[int, ...], words: list[str]) -> bool:
    """Whether pieces at the end of an output spell a word, with the mark of a space or without."""
    marked = ["\u2581" + word.replace(" ", "\u2581") for word in words]
    texts = {*marked, *(text[1:] for text in marked)}
    pieces = vocabulary.pieces(ids)
    return any("".join(pieces[at:]) in texts for at in range(len(pieces)))


def _slow(
    searches: _Searches, vocabulary: Vocabulary, source: tuple[int, ...], beam: int, words: list[str]
) -> Hypotheses:
    """A plain search that asks of each candidate's text whether a banned word is complete."""
    longest = len(source) + EXTRA
    alive: Hypotheses = [((), 0.0)]
    finished: Hypotheses = []
    for length in range(1, longest + 1):
        table = searches.logp(source, [ids for ids, _ in alive]) + np.array([[total] for _, total in alive])
        table[:, PAD] = -np.inf
        for row, (ids, _) in zip(table, alive, strict=True):
            row[[s for s in range(2, len(row)) if _spells(vocabulary, (*ids, s), words)]] = -np.inf
        best = np.argsort(-table, axis=None, kind="stable")[: 2 * beam if beam > 1 else 1]
        rows = [(int(at) // table.shape[1], int(at) % table.shape[1]) for at in best]
        found = [((*alive[r][0], s), float(table[r, s])) for r, s in rows if table[r, s] > -np.inf]
        finished += [(ids, total / penalty(length, 0.6)) for ids, total in found if ids[-1] == EOS]
        finished = sorted(finished, key=lambda pair: -pair[1])[:beam]
        alive = [(ids, total) for ids, total in found if ids[-1] != EOS][:beam]
        bound = max((total for _, total in alive), default=-np.inf) / penalty(longest, 0.6)
        if not alive or (len(finished) >= beam and finished[-1][1] >= bound):
            break
    return (finished + [(ids, total / penalty(length, 0.6)) for ids, total in alive])[:beam]


@pytest.mark.nightly
@pytest.mark.parametrize("beam", [1, 4, 7])
def test_fast_equals_slow(searches: _Searches, vocabulary: Vocabulary, beam: int) -> None:
    sources = np.where(vocabulary.size <= SOURCES, SOURCES % (vocabulary.size - 2) + 2, SOURCES)
    how: dict[str, Any] = {"beam_size": beam, "alpha": 0.6, "extra_length": EXTRA, "early_stop": False}
    banned = BannedWords(WORDS, vocabulary)
    search = tf.function(
        lambda source: beam_search(searches.model, source, constraints=[banned], **how),
        input_signature=[tf.TensorSpec([None, None], tf.int32)],
        autograph=False,
    )
    ids, scores = search(sources)
    for source, got, values in zip(sources, ids, scores, strict=True):
        wanted = _slow(searches, vocabulary, without_padding(source), beam, WORDS)
        assert hypotheses(got.numpy())[: len(wanted)] == [output for output, _ in wanted]
        np.testing.assert_allclose(values[: len(wanted)], [score for _, score in wanted], rtol=0, atol=1e-4)
        for output, _ in wanted:
            assert not any(_spells(vocabulary, output[:end], WORDS) for end in range(len(output)))
            assert not banned.within(output)
    alone, _ = search(sources[2:3])
    assert hypotheses(alone[0].numpy()) == hypotheses(ids[2].numpy())
    free = beam_search(searches.model, sources, **how)[0].numpy()
    assert any(banned.within(output) for rows in free for output in hypotheses(rows))


@pytest.mark.nightly
def test_samples_have_none(searches: _Searches, vocabulary: Vocabulary) -> None:
    banned, sampling = BannedWords(WORDS, vocabulary), Sampling(make_sampler("random", {}), 3)
    sources = np.where(vocabulary.size <= SOURCES, 3, SOURCES)
    how: dict[str, Any] = {"num_samples": 20, "extra_length": EXTRA}
    for constraints in ((), (banned,)):
        ids, _ = sample(searches.model, sources, sampling, constraints=constraints, **how)
        found = any(banned.within(output) for rows in ids.numpy() for output in hypotheses(rows))
        assert found == (not constraints)


def test_all_sequences_that_spell_a_word_and_no_others(vocabulary: Vocabulary) -> None:
    banned = BannedWords(WORDS, vocabulary)
    number = complete = 0
    for ids in itertools.chain.from_iterable(itertools.product(range(3, vocabulary.size), repeat=n) for n in (1, 2, 3)):
        ends = [end for end in range(1, len(ids) + 1) if _spells(vocabulary, ids[:end], WORDS)]
        assert banned.within(ids) == bool(ends)
        number, complete = number + 1, complete + bool(ends)
    assert 0 < complete < number


def test_bytes_spell_words_and_unknown_symbols_need_no_ban(caplog: pytest.LogCaptureFixture) -> None:
    vocabulary = train_vocabulary(TEXT, size=270, byte_fallback=True)
    banned = BannedWords(["aé"], vocabulary)
    assert banned.within(vocabulary.encode("b aé"))
    by_bytes = [vocabulary.pieces(range(vocabulary.size)).index(f"<0x{byte:02X}>") for byte in "aé".encode()]
    assert banned.within(by_bytes)
    assert not banned.within(by_bytes[:-1])
    assert caplog.messages == []
    vocabulary = train_vocabulary(TEXT, size=14)
    assert not BannedWords(["日本", "ab"], vocabulary).within(vocabulary.encode("ba b"))
    [message] = caplog.messages
    assert message == "The model cannot write 1 of 2 banned words anyway, such as '日本'."


def test_another_kind_of_vocabulary() -> None:
    vocabulary = ByteVocabulary()
    assert BannedWords(["ab"], vocabulary).within(vocabulary.encode("xxabx"))
    assert not BannedWords(["ab"], vocabulary).within(vocabulary.encode("xxaxb"))
