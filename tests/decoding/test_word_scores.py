"""Log-probabilities of pieces and words: against the model step by step, and against words cut by hand."""

from typing import Any

import numpy as np
import pytest

from t2t_lite import config
from t2t_lite.decoding.beam_search import length_penalty
from t2t_lite.decoding.piece_scores import piece_entropies
from t2t_lite.decoding.score import score, score_outputs
from t2t_lite.decoding.sentence_translator import SentenceTranslator
from t2t_lite.decoding.translate import Translator
from t2t_lite.decoding.word_scores import word_scores
from t2t_lite.errors import UsageError
from t2t_lite.ids import EOS, PAD
from t2t_lite.importers.vocabularies import ByteVocabulary
from t2t_lite.models.transformer import Transformer
from t2t_lite.models.transformer_hparams import TransformerHParams
from t2t_lite.text.vocabulary_training import train_vocabulary
from tests import reference

TEXT = [
    "a small dog sees the big cat",
    "ein kleiner Hund sieht die große Katze",
    "die Katze schläft, der Hund auch",
] * 2
LINES = ["a small dog", "", "the cat sees a dog", " ", "ein Hund, ein Hund"]
SMALL = TransformerHParams(num_layers=1, d_model=16, d_ff=32, num_heads=2, beam_size=3, extra_length=6)


@pytest.fixture(scope="module")
def translator() -> Translator:
    vocabulary = train_vocabulary(TEXT, size=70)
    model = Transformer.from_hparams(SMALL, vocabulary.size, vocabulary.size, True)
    reference.randomise(model, 6)
    return Translator(model, vocabulary, vocabulary, SMALL)


def _step_by_step(translator: Translator, line: str, ids: list[int]) -> list[float]:
    """log P of each piece, from a row of its own in which the model can see only those before it."""
    return [row[symbol] for row, symbol in zip(_distributions(translator, line, ids), ids, strict=True)]


def _distributions(translator: Translator, line: str, ids: list[int]) -> list[np.ndarray]:
    """log P of all symbols at each piece."""
    source = np.array([[*translator.source_vocabulary.encode(line), EOS]] * len(ids))
    target = np.array([[*ids[:at], EOS, *[PAD] * (len(ids) - at)] for at in range(len(ids))])
    logits = np.array(translator.model({"source": source, "target": target}), np.float64)
    return [reference.log_softmax(logits[at, at]) for at in range(len(ids))]


def _by_marks(pieces: list[tuple[str, float]]) -> list[float]:
    """Sums from one mark of a space to the next; a mark that is a piece belongs to what follows."""
    sums: list[float] = []
    after_mark = False
    for piece, value in pieces:
        if not after_mark and (piece.startswith("\u2581") or piece == "</s>"):
            sums.append(0.0)
        sums[-1] += value
        after_mark = piece == "\u2581"
    return sums


@pytest.mark.commit
def test_they_are_the_models_and_add_up(translator: Translator) -> None:
    results = score_outputs(translator, LINES, translator.translate(LINES, nbest=3), words=True, quality=True)
    ended = set()
    for line, row in zip(LINES, results, strict=True):
        for one in row:
            assert one.words is not None
            values = [value for _, value in one.words.pieces]
            if not line.strip():
                assert (one.words.pieces, one.words.words, one.words.log_prob) == ([], [], 0.0)
                assert one.quality is None
                continue
            np.testing.assert_allclose(values, _step_by_step(translator, line, [*one.ids]), atol=1e-4)
            penalty = float(length_penalty(len(values), SMALL.length_penalty))
            assert sum(values) / penalty == pytest.approx(one.score, abs=1e-4)
            assert one.quality is not None
            entropies = [-np.sum(np.exp(row) * row) for row in _distributions(translator, line, [*one.ids])]
            assert one.quality.mean_entropy == pytest.approx(np.mean(entropies), abs=1e-4)
            assert one.quality.mean_log_prob == pytest.approx(np.mean(values), abs=1e-5)
            assert sum(value for _, value in one.words.words) == pytest.approx(one.words.log_prob, abs=1e-5)
            ended.add(one.ids[-1] == EOS)
            assert [word for word, _ in one.words.words] == [*one.text.split(), *[""] * (one.ids[-1] == EOS)]
    assert ended == {True, False}


@pytest.mark.commit
def test_words_are_sums_of_their_pieces(translator: Translator) -> None:
    [found, _] = score(translator, LINES[:2], ["die  große Katze schläft", "the cat"], words=True)
    assert found.words is not None
    assert [word for word, _ in found.words.words] == ["die", "große", "Katze", "schläft", ""]
    np.testing.assert_allclose([value for _, value in found.words.words], _by_marks(found.words.pieces), atol=1e-5)
    assert len(found.words.pieces) == found.tokens > 6
    assert found.words.log_prob == pytest.approx(found.log_prob, abs=1e-4)
    [plain, _] = score(translator, LINES[:2], ["die  große Katze schläft", "the cat"])
    assert (plain, plain.words) == (found, None)
    assert found.words.as_dict()["words"][0] == ["die", round(found.words.words[0][1], 6)]


def test_bytes_of_a_character_are_of_one_word() -> None:
    vocabulary = ByteVocabulary()
    ids = [*vocabulary.encode("ä öx"), EOS]  # two bytes, a space, two bytes and one
    assert word_scores(vocabulary, ids, [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0]).words == [
        ("ä", 3.0),
        ("öx", 60.0),
        ("", 64.0),
    ]


@pytest.mark.parametrize("texts", [[], ["\u2581"], ["d"]])
def test_an_output_that_was_cut(translator: Translator, texts: list[str]) -> None:
    """It has no end symbol; one of a space alone has an empty word."""
    vocabulary: Any = translator.target_vocabulary
    ids = [vocabulary.pieces(range(vocabulary.size)).index(piece) for piece in texts]
    found = word_scores(vocabulary, ids, [-1.0] * len(ids))
    assert found.words == [(piece.replace("\u2581", ""), -1.0) for piece in texts]


@pytest.mark.commit
def test_quality_alone_is_that_beside_scores_of_words(translator: Translator) -> None:
    found = translator.translate(LINES)
    both, words, quality = (
        [best for best, *_ in score_outputs(translator, LINES, found, words=a, quality=b)]
        for a, b in ((True, True), (True, False), (False, True))
    )
    assert [one.quality for one in quality] == [one.quality for one in both]
    assert {one.words for one in quality} == {one.quality for one in words} == {None}
    for one, other in zip(both, words, strict=True):
        assert one.words is not None
        assert other.words is not None
        np.testing.assert_allclose([v for _, v in one.words.pieces], [v for _, v in other.words.pieces], atol=1e-5)


def test_symbols_that_are_impossible_add_no_entropy() -> None:
    logits = np.array([[[1.0, 1.0, -np.inf], [1.0, -np.inf, -np.inf]]], np.float32)
    values, entropies = piece_entropies(lambda batch: logits, None, np.array([[1, 0]]))
    np.testing.assert_allclose(values, [[np.log(0.5), 0]], rtol=1e-6)
    np.testing.assert_allclose(entropies, [[np.log(2), 0]], rtol=1e-6)


def test_outputs_without_them(translator: Translator) -> None:
    with pytest.raises(UsageError, match="Scores of words are of whole lines: no split_sentences"):
        score_outputs(SentenceTranslator(translator), [], [], words=True, quality=False)
    with pytest.raises(UsageError, match="need a run, which translates whole lines: no export, no split_sentences"):
        score_outputs(SentenceTranslator(translator), [], [], words=False, quality=True)


@pytest.mark.nightly
def test_with_a_repetition_penalty_they_are_the_models_own(translator: Translator) -> None:
    hparams = config.replace(SMALL, repetition_penalty=2.0)
    other = Translator(translator.model, translator.source_vocabulary, translator.target_vocabulary, hparams)
    [[best]] = score_outputs(other, LINES[:1], other.translate(LINES[:1]), words=True, quality=False)
    assert best.words is not None
    values = [value for _, value in best.words.pieces]
    np.testing.assert_allclose(values, _step_by_step(translator, LINES[0], [*best.ids]), atol=1e-4)


@pytest.mark.commit
def test_dropout_passes_are_those_of_the_model_in_training(translator: Translator) -> None:
    lines = [line for line in LINES if line.strip()]
    found = translator.translate(lines)
    results = score_outputs(translator, lines, found, words=False, quality=True, dropout_passes=4)
    encoded, _, _ = translator.encode(lines)
    for source, [one] in zip(encoded, results, strict=True):
        assert one.quality
        means = []
        for number in range(4):
            rows = {"source": np.array([source]), "target": np.array([one.ids])}
            logits = translator.model(rows, seed=np.array([1, 0, number], np.int32)).numpy()[0].astype(np.float64)
            logits -= logits.max(-1, keepdims=True)
            logp = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
            means.append(np.mean([row[i] for row, i in zip(logp, one.ids, strict=True)]))
        assert len({round(mean, 4) for mean in means}) == 4
        assert one.quality.dropout_mean == pytest.approx(np.mean(means), abs=1e-5)
        assert one.quality.dropout_variance == pytest.approx(np.var(means), rel=1e-3, abs=1e-8)
    [[alone]] = score_outputs(translator, lines[1:2], found[1:2], words=False, quality=True, dropout_passes=4)
    assert alone.quality
    assert results[1][0].quality
    assert alone.quality.dropout_variance == pytest.approx(results[1][0].quality.dropout_variance, rel=1e-4)
    assert "dropout_mean" in alone.quality.as_dict()


def test_dropout_passes_in_several_batches_are_those_of_one(
    translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = translator.translate(LINES[:1])
    [[whole]] = score_outputs(translator, LINES[:1], found, words=False, quality=True, dropout_passes=7)
    monkeypatch.setattr("t2t_lite.decoding.score._BATCH_TOKENS", 3 * len(found[0][0].ids))
    [[parts]] = score_outputs(translator, LINES[:1], found, words=False, quality=True, dropout_passes=7)
    assert whole.quality
    assert parts.quality
    assert parts.quality.dropout_mean == pytest.approx(whole.quality.dropout_mean, abs=1e-5)
    assert parts.quality.dropout_variance == pytest.approx(whole.quality.dropout_variance, rel=1e-3)


def test_dropout_passes_need_dropout(translator: Translator) -> None:
    vocabulary, hparams = translator.source_vocabulary, config.replace(SMALL, dropout=0.0)
    model = Transformer.from_hparams(hparams, vocabulary.size, vocabulary.size, True)
    other = Translator(model, vocabulary, vocabulary, hparams)
    with pytest.raises(UsageError, match="dropout_passes needs a model with dropout"):
        score_outputs(other, LINES[:1], other.translate(LINES[:1]), words=False, quality=True, dropout_passes=2)
