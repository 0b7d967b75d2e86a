"""Vocabularies: ids, training, and the same ids from TensorFlow Text."""

import hashlib
import io
import itertools
import logging
import random
from pathlib import Path

import pytest
import sentencepiece
from sentencepiece import sentencepiece_model_pb2

from t2t_lite.errors import DataError, UsageError
from t2t_lite.ids import EOS, PAD, UNK
from t2t_lite.text.vocabulary import Vocabulary
from t2t_lite.text.vocabulary_training import MAX_TRAINING_LINE, draw_lines, train_vocabulary, warn_of_few_pieces

_ODD_LINES = [
    "",
    " ",
    "  two  spaces  ",
    "tab\tand\rreturn",
    "next\u0085line, separators\u2028and\u2029more",
    "zero\u200bwidth, no\u00a0break, wide\u3000space",
    "fi and ﬁ, é and e\u0301, Å and Å",
    "世界 🌍 👩\u200d👩\u200d👧 \U0001f1e9\U0001f1ea",
    "▁ is SentencePiece's own",
    "<unk> <s> </s> <pad>",
    "nul\0inside",
    "x" * 5000,
]


def _made_up_lines(count: int, seed: int = 0) -> list[str]:
    generator = random.Random(seed)
    syllables = [a + b for a in "bdfghklmnprstw" for b in ("a", "ei", "o", "ü", "ß", "é")]
    words = ["".join(generator.choices(syllables, k=generator.randint(1, 4))) for _ in range(800)]
    return [
        " ".join(generator.choices(words, k=generator.randint(1, 20))) + generator.choice(".!?") for _ in range(count)
    ]


@pytest.fixture(scope="module")
def corpus() -> list[str]:
    return _made_up_lines(3000)


@pytest.fixture(scope="module", params=["bpe", "unigram"])
def trained(request: pytest.FixtureRequest, corpus: list[str]) -> Vocabulary:
    return train_vocabulary(corpus, size=500, kind=request.param)


def test_special_ids_and_size(trained: Vocabulary) -> None:
    assert (PAD, EOS, UNK) == (0, 1, 2)
    assert trained.size == 500
    assert trained.pieces([PAD, EOS, UNK]) == ["<pad>", "</s>", "<unk>"]
    assert trained.encode("") == []
    assert trained.encode("\u4e16")[-1] == UNK


def test_encode_and_decode_give_the_text_again(trained: Vocabulary, corpus: list[str]) -> None:
    ids = trained.encode_many(corpus)
    assert ids == [trained.encode(line) for line in corpus]
    assert [trained.decode(sequence) for sequence in ids] == corpus
    assert min(map(min, ids)) > UNK
    assert "".join(trained.pieces(ids[0])).replace("▁", " ").strip() == corpus[0]


def test_text_is_not_normalised() -> None:
    line = "ﬁ É e\u0301 Å Å a\u0085b c\u2028d"
    vocabulary = train_vocabulary([line] * 5, size=100)
    assert vocabulary.decode(vocabulary.encode(line)) == line


def test_decode_stops_at_eos_and_skips_pad(trained: Vocabulary, corpus: list[str]) -> None:
    ids = trained.encode(corpus[0])
    assert trained.decode([PAD, *ids, PAD, EOS, *ids]) == corpus[0]
    assert trained.decode([EOS]) == ""
    assert trained.decode([]) == ""
    assert "⁇" in trained.decode([UNK])


def test_save_and_load(trained: Vocabulary, corpus: list[str], tmp_path: Path) -> None:
    trained.save(tmp_path / "v.model")
    again = Vocabulary.load(tmp_path / "v.model")
    assert again.encode_many(corpus[:50]) == trained.encode_many(corpus[:50])
    assert again.checksum == trained.checksum == hashlib.sha256((tmp_path / "v.model").read_bytes()).hexdigest()
    assert [path.name for path in tmp_path.iterdir()] == ["v.model"]


def test_loading_what_is_no_vocabulary(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"none\.model: there is no such vocabulary file"):
        Vocabulary.load(tmp_path / "none.model")
    with pytest.raises(DataError, match=r"this vocabulary file cannot be read \(Is a directory\)"):
        Vocabulary.load(tmp_path)
    (tmp_path / "junk.model").write_bytes(b"junk")
    with pytest.raises(DataError, match=r"junk\.model: This is not a SentencePiece model"):
        Vocabulary.load(tmp_path / "junk.model")
    with pytest.raises(DataError, match="not a SentencePiece model"):
        Vocabulary(b"")


def test_a_model_with_other_special_ids_is_refused(corpus: list[str]) -> None:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(corpus), model_writer=model, vocab_size=300, minloglevel=2
    )
    with pytest.raises(DataError, match=r"has pad, eos, unk = \(-1, 2, 0\); t2t-lite needs \(0, 1, 2\)"):
        Vocabulary(model.getvalue())


@pytest.mark.commit
@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_training_twice_gives_the_same(corpus: list[str], kind: str) -> None:
    first, second = (train_vocabulary(corpus, size=300, kind=kind, max_lines=500) for _ in range(2))
    assert first.data == second.data
    assert train_vocabulary(corpus, size=300, kind=kind, max_lines=500, seed=2).data != first.data


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_a_size_too_large_gives_the_largest_there_is(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="t2t_lite"):
        vocabulary = train_vocabulary(["the cat sat on the mat", "a dog ran over"] * 20, size=8000, kind=kind)
    assert 10 < vocabulary.size < 200
    assert vocabulary.decode(vocabulary.encode("the dog sat")) == "the dog sat"
    warn_of_few_pieces(vocabulary, 8000, kind)
    assert f"vocabulary of 8000 pieces; the largest it gives has {vocabulary.size}" in caplog.text


def test_a_size_below_the_number_of_characters() -> None:
    message = (
        r"vocab_size=5 is too small: the text's characters alone need \d+ pieces\. .*a problem of your own may have"
    )
    with pytest.raises(UsageError, match=message):
        train_vocabulary(["abcdefgh"] * 10, size=5)


def test_a_vocabulary_of_characters_has_each_of_them_and_no_more(
    corpus: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    vocabulary = train_vocabulary(corpus, size=500, kind="char")
    characters = sorted({char for line in corpus for char in line if char != " "})
    assert sorted(vocabulary.pieces(range(3, vocabulary.size))) == sorted([*characters, "▁"])
    assert [vocabulary.decode(ids) for ids in vocabulary.encode_many(corpus[:99])] == corpus[:99]
    assert caplog.text == ""  # fewer than 500 pieces are no fault
    _assert_in_graph_is_the_same(vocabulary, [*_ODD_LINES, *corpus[:99]])
    with pytest.raises(UsageError, match=r"vocab_size=9 is too small: the text's characters alone need \d\d pieces"):
        train_vocabulary(corpus, size=9, kind="char")


def test_a_vocabulary_of_words_has_each_of_them_however_many() -> None:
    lines = [f"w{i} w{i // 2}" for i in range(40)]
    few, many = (train_vocabulary(lines, size=size, kind="word") for size in (8, 80))
    assert sorted(few.words()[3:]) == sorted(many.words()[3:]) == sorted({f"w{i}" for i in range(40)})
    assert [few.decode(ids) for ids in few.encode_many(lines)] == lines


def test_a_vocabulary_of_words_has_also_those_outside_of_its_sample() -> None:
    late = " ".join(f"LATE{i}" for i in range(3000))  # longer than a line that SentencePiece trains on
    lines = [" ".join(["(S"] * MAX_TRAINING_LINE) + f" {late}", *(f"w{i} (S" for i in range(40))]
    vocabulary = train_vocabulary(lines, size=100, kind="word", max_lines=5)
    assert sorted(vocabulary.words()[3:]) == sorted({word for line in lines for word in line.split(" ")})
    assert UNK not in itertools.chain.from_iterable(vocabulary.encode_many(lines))


def test_character_coverage_leaves_rare_characters_out() -> None:
    lines = [*["abc"] * 1000, "q"]
    assert UNK in train_vocabulary(lines, size=8, character_coverage=0.999).encode("q")
    assert UNK not in train_vocabulary(lines, size=8).encode("q")


def test_no_text_and_unknown_kind() -> None:
    with pytest.raises(DataError, match="no text to train a vocabulary on"):
        train_vocabulary(["", "  "], size=100)
    with pytest.raises(UsageError, match=r"vocab_type='byte' is not one of: bpe, unigram, char\."):
        train_vocabulary(["a"], size=100, kind="byte")


def test_long_lines_and_nul_are_part_of_the_training_text() -> None:
    vocabulary = train_vocabulary(["ab" * 100_000, "c\0d"], size=30)
    assert UNK not in vocabulary.encode("abcd")


@pytest.mark.parametrize("kind", ["bpe", "unigram", "char"])
def test_nul_and_the_unit_separator_are_unknown(kind: str) -> None:
    """As docs/data.md says; the tab and the other separators have pieces."""
    vocabulary = train_vocabulary(["a\0b a\x1fb", "a\tb a\x1cb a\x1db a\x1eb"] * 5, size=60, kind=kind)
    for line, unknown in (("a\0b", 1), ("a\x1fb", 1), ("a b", 0), ("\t\x1c\x1d\x1e", 0)):
        assert vocabulary.encode(line).count(UNK) == unknown


@pytest.mark.parametrize("kind", ["bpe", "unigram", "char"])
def test_what_sentencepiece_passes_over_in_silence_comes_back(kind: str) -> None:
    """SentencePiece skips two kinds of text without a message; both survive encoding and decoding.

    They are characters that occur only in names of special pieces, and lines with U+2585, its mark for unknown ones.
    """
    lines = ["ab ba", "a <unk> in </s> b", "<pad>", "\u2585 x\u2585y\u2585\u2585 zz"]
    vocabulary = train_vocabulary(lines * 5, size=100, kind=kind)
    assert vocabulary.encode("\u2585").count(3) == 1  # 3 is the first free id
    for line in (*lines, "k\u2585u", "<unk></s><pad>", "x y z"):
        assert UNK not in vocabulary.encode(line)
        assert vocabulary.decode(vocabulary.encode(line)) == line
    _assert_in_graph_is_the_same(vocabulary, [*lines, "k\u2585u<unk></s>", *_ODD_LINES])


def test_text_whose_characters_all_stand_elsewhere_is_trained_on_as_ever() -> None:
    """If SentencePiece skips none of the text, the vocabulary stays as it was, byte for byte."""
    lines = ["snapdunk <a></a>", "ab <unk> ba </s>"]
    spec = sentencepiece_model_pb2.ModelProto.FromString(train_vocabulary(lines, size=60).data).trainer_spec
    assert (spec.required_chars, list(spec.user_defined_symbols)) == ("", [])


def test_words_with_the_mark_of_unknown_characters_are_unknown() -> None:
    vocabulary = train_vocabulary(["NP VP", "S x\u2585y PP"], size=50, kind="word")
    assert sorted(vocabulary.words()[3:]) == ["NP", "PP", "S", "VP"]


def test_the_sample_is_bounded_in_characters_and_still_even() -> None:
    counts = [0] * 10
    for seed in range(100):
        lines = draw_lines((f"{i:04} {'x' * 95}" for i in range(1000)), max_lines=900, max_chars=20_000, seed=seed)
        assert 40 <= len(lines) <= 200
        assert sum(map(len, lines)) <= 20_000
        for line in lines:
            counts[int(line[:4]) // 100] += 1
    mean = sum(counts) / 10
    assert all(0.8 * mean < count < 1.2 * mean for count in counts)


def test_a_small_corpus_is_taken_whole_and_endless_text_streams() -> None:
    assert draw_lines(["b", "", "a"], max_lines=10, max_chars=100, seed=1) == ["b", "a"]
    lines = draw_lines(itertools.repeat("x" * 10_000, 20_000), max_lines=10**9, max_chars=10**6, seed=1)
    assert sum(map(len, lines)) <= 10**6
    assert max(map(len, lines)) == MAX_TRAINING_LINE


def _assert_in_graph_is_the_same(vocabulary: Vocabulary, lines: list[str]) -> None:
    import tensorflow as tf

    from t2t_lite.export.text_ops import sentencepiece_tokenizer

    tokenizer = sentencepiece_tokenizer(vocabulary)
    signature = [tf.TensorSpec([None], tf.string)]
    in_graph = tf.function(tokenizer.tokenize, input_signature=signature, autograph=False)
    ids = in_graph(tf.constant([line.encode() for line in lines]))
    assert ids.dtype == tf.int32
    assert ids.to_list() == vocabulary.encode_many(lines)


@pytest.mark.commit
def test_the_tokenizer_in_a_graph_equals_encode(trained: Vocabulary) -> None:
    _assert_in_graph_is_the_same(trained, [*_ODD_LINES, *_made_up_lines(3000, seed=7)])
