"""BPE-dropout against Algorithm 1 of its paper, unigram sampling against the probability of each segmentation."""

import io
import itertools
import math
import random

import numpy as np
import pytest
import sentencepiece

from t2t_lite.errors import UsageError
from t2t_lite.ids import EOS, UNK
from t2t_lite.text import sentencepiece_model
from t2t_lite.text.subword_sampling import SubwordSampler, check_kind, hash_numbers, make_sampler, uniform
from t2t_lite.text.vocabulary import Vocabulary
from t2t_lite.text.vocabulary_training import train_vocabulary

Array = np.ndarray


def _lines(count: int) -> list[str]:
    generator = random.Random(1)
    words = [
        "".join(generator.choices(["ba", "bab", "ei", "no", "ß", "a"], k=generator.randint(1, 6))) for _ in "x" * 99
    ]
    return [" ".join(generator.choices(words, k=generator.randint(1, 12))) for _ in range(count)]


LINES = [*_lines(60), "", "a", "  ba ei ", "a 世界 %s ba%sei 🌍 ▁", "x" * 30 + "babababa" * 9, "no 世"]


@pytest.fixture(scope="module", params=["bpe", "unigram"])
def vocabulary(request: pytest.FixtureRequest) -> Vocabulary:
    return train_vocabulary(_lines(400), size=120, kind=request.param, whole=["%s"])


@pytest.fixture(scope="module")
def bpe() -> Vocabulary:
    return train_vocabulary(_lines(400), size=120, kind="bpe", whole=["%s"])


def _flat(rows: list[list[int]]) -> tuple[Array, Array, Array]:
    """Ids, lengths and a seed of each row."""
    lengths = np.array([len(row) for row in rows])
    return np.array([i for row in rows for i in row], np.uint16), lengths, hash_numbers(np.arange(len(rows)), 7)


def _draw(sampler: SubwordSampler, rows: list[list[int]]) -> list[list[int]]:
    ids, lengths = sampler.draw(*_flat(rows))
    return [part.tolist() for part in np.split(ids, np.cumsum(lengths)[:-1])]


def _rows(vocabulary: Vocabulary) -> list[list[int]]:
    return [[*ids, EOS] for ids in vocabulary.encode_many(LINES)]


def test_without_dropout_it_is_what_sentencepiece_does(vocabulary: Vocabulary) -> None:
    rows = _rows(vocabulary)
    unsampled = make_sampler(vocabulary, "source", 0.0 if sentencepiece_model.kind(vocabulary) == "bpe" else 1e5)
    assert _draw(unsampled, rows) == rows


def test_the_text_stays_and_the_other_rows_of_a_batch_do_not_matter(vocabulary: Vocabulary) -> None:
    rows, sampler = _rows(vocabulary), make_sampler(vocabulary, "source", 0.3)
    drawn = _draw(sampler, rows)
    assert [vocabulary.text_of(row) for row in drawn] == [vocabulary.text_of(row) for row in rows]
    assert sum(map(len, drawn)) > sum(map(len, rows))
    ids, lengths, seeds = _flat(rows)
    ends = np.cumsum(lengths)
    for i in reversed(range(len(rows))):
        alone = sampler.draw(ids[ends[i] - lengths[i] : ends[i]], lengths[i : i + 1], seeds[i : i + 1])[0]
        assert alone.tolist() == drawn[i]


def _algorithm_1(word: list[str], scores: dict[str, float], p: float, seed: Array) -> list[str]:
    """Provilkov et al. (2020): the pieces of a word of characters; draws numbered as the sampler's are."""
    for step in itertools.count():
        merges = [
            (-scores[a + b], i)
            for i, (a, b) in enumerate(itertools.pairwise(word))
            if a + b in scores and uniform(np.array([(step << 32) + i]), seed)[0] >= p
        ]
        if not merges:
            return word
        _, best = min(merges)
        word = [*word[:best], word[best] + word[best + 1], *word[best + 2 :]]
    raise AssertionError


@pytest.mark.parametrize("p", [0.1, 0.7])
def test_bpe_dropout_is_algorithm_1(bpe: Vocabulary, p: float) -> None:
    pieces = sentencepiece_model.ordinary_pieces(bpe)
    scores, ids = dict(pieces.values()), {piece: i for i, (piece, _) in pieces.items()}
    rows = _rows(bpe)
    expected = []
    for row, seed in zip(rows, _flat(rows)[2], strict=True):
        words: list[list[str] | int] = []  # the characters of each, or an id that stays
        for i in row:
            if i not in pieces:
                words.append(i)
                continue
            for char in pieces[i][0]:
                if char == "▁" or not words or isinstance(words[-1], int):
                    words.append([])
                words[-1].append(char)  # type: ignore[union-attr]
        cut: list[int] = []
        for number, word in enumerate(words):
            of_word = hash_numbers(np.array([number]), seed)
            cut += [word] if isinstance(word, int) else [ids[p] for p in _algorithm_1(word, scores, p, of_word)]
        expected.append(cut)
    assert {UNK, bpe.encode("%s")[-1]} <= {i for row in expected for i in row}
    assert _draw(make_sampler(bpe, "source", p), rows) == expected


def _ways(word: str, scores: dict[str, float]) -> list[tuple[str, ...]]:
    """All ways to cut a word into pieces."""
    firsts = [word[:end] for end in range(1, len(word) + 1) if word[:end] in scores]
    return [
        (first, *rest) for first in firsts for rest in (_ways(word[len(first) :], scores) if first != word else [()])
    ]


@pytest.fixture(scope="module")
def unigram() -> Vocabulary:
    """One that can cut "abcabdcab" in many ways."""
    generator = random.Random(1)
    words = ["".join(generator.choices("abcd", k=generator.randint(1, 9))) for _ in range(2000)]
    return train_vocabulary([" ".join(words)] * 2, size=150, kind="unigram")


@pytest.mark.parametrize("alpha", [0.1, 0.5])
def test_a_unigram_segmentation_is_drawn_with_its_probability(unigram: Vocabulary, alpha: float) -> None:
    pieces = sentencepiece_model.ordinary_pieces(unigram)
    scores, number = dict(pieces.values()), 20_000
    weights = {way: math.exp(alpha * sum(scores[p] for p in way)) for way in _ways("▁abcabdcab", scores)}
    assert len(weights) > 10
    row = unigram.encode("abcabdcab")
    sampler = make_sampler(unigram, "source", alpha)
    ids, lengths = sampler.draw(np.tile(row, number), np.full(number, len(row)), hash_numbers(np.arange(number)))
    drawn = [tuple(unigram.pieces(part)) for part in np.split(ids, np.cumsum(lengths)[:-1])]
    total, square = sum(weights.values()), 0.0
    assert set(drawn) <= set(weights)
    for way, weight in weights.items():
        expected = number * weight / total
        square += (drawn.count(way) - expected) ** 2 / expected
    assert square < len(weights) + 4 * math.sqrt(2 * len(weights))  # chi-squared; four deviations


@pytest.mark.nightly
def test_sentencepiece_draws_unigram_segmentations_as_often(unigram: Vocabulary) -> None:
    number = 20_000
    row, sampler = unigram.encode("abcabdcab"), make_sampler(unigram, "source", 0.3)
    ids, lengths = sampler.draw(np.tile(row, number), np.full(number, len(row)), hash_numbers(np.arange(number)))
    own = [tuple(part.tolist()) for part in np.split(ids, np.cumsum(lengths)[:-1])]
    theirs = [tuple(unigram._processor.sample_encode_as_ids("abcabdcab", -1, 0.3)) for _ in range(number)]
    for way in set(own) | set(theirs):
        assert abs(own.count(way) - theirs.count(way)) < 5 * math.sqrt(2 * theirs.count(way) + 9)


def test_a_vocabulary_that_cuts_lines_and_not_words() -> None:
    lines = [line.replace("ei", "ei ba") for line in _lines(300)]
    model = train_vocabulary(lines, size=150, kind="bpe")
    file = io.BytesIO()
    how = {"pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1, "split_by_whitespace": False, "minloglevel": 2}
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=file, vocab_size=150, model_type="bpe", **how
    )
    across = Vocabulary(file.getvalue())
    assert any("▁" in piece[1:] for piece in across.pieces(range(across.size)))
    for each in (model, across):
        rows = [[*ids, EOS] for ids in each.encode_many(lines[:40])]
        assert _draw(make_sampler(each, "source", 0.0), rows) == rows
        assert sum(map(len, _draw(make_sampler(each, "source", 0.2), rows))) > sum(map(len, rows))


def test_other_kinds_are_refused() -> None:
    message = (
        r"bpe_dropout=0\.1 draws how text is cut into pieces, and the vocabulary of the target is of the kind 'char'"
    )
    with pytest.raises(UsageError, match=message):
        make_sampler(train_vocabulary(["ab ba"], size=9, kind="char"), "target", 0.1)
    with pytest.raises(
        UsageError, match="of the source is of the kind 'word'. It needs SentencePiece's bpe or unigram"
    ):
        check_kind("word", "source", 0.1)
