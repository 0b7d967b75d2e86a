"""Labels of target languages, symbols and bytes: an export's graph gives the ids that Python gives, on any line."""

import random
from typing import Any

import pytest
import sentencepiece
import tensorflow as tf

from t2t_lite.errors import DataError
from t2t_lite.export.text_ops import GraphText
from t2t_lite.ids import EOS, UNK
from t2t_lite.text.vocabulary import Vocabulary
from t2t_lite.text.vocabulary_training import train_vocabulary

LINES = ["the dog sees >>de<< the cat", "der Hund sieht <b>%s</b>", "le chien voit 🙂"]
LABELS = (">>de<<", ">>fr<<", ">>pt-BR<<")
ODD = [
    ">>de<< the dog",
    ">>fr<<the dog",
    ">>pt-BR<<  the   dog ",
    ">>de<< the >>fr<< dog >>de<<",
    ">>de<< >>de<< dog",
    ">>de<<>>fr<< dog",
    ">>de<<",
    ">>de<< ",
    ">>de<<\u3000",
    ">>de<<\n\nthe dog\n",
    ">>de<<\r\nthe dog",
    ">>de<<\tthe\tdog",
    ">>de<< >>xx<< <<>> >>a b<< >>",
    ">>fr<< (%s)<b>a</b> 🙃 世é\u00a0½ <unk> </s> <pad>",
    "",
    " \t\u3000",
]
WITHOUT = [
    "the dog",
    "the >>de<< dog",
    " >>de<< the dog",
    ">>xx<< the dog",
    ">>d e<< dog",
    ">>DE<< dog",
    ">>de< dog",
    "<<",
]


@pytest.fixture(scope="module", params=["bpe", "unigram", "char"])
def vocabulary(request: pytest.FixtureRequest) -> Vocabulary:
    found: Vocabulary = train_vocabulary(LINES * 20, size=340, kind=request.param, **_options())
    return found


def _options() -> dict[str, Any]:
    return {"labels": LABELS, "whole": ("<b>", "%s"), "byte_fallback": True, "character_coverage": 0.98}


def _graph(vocabulary: Vocabulary, texts: list[str]) -> list[list[int]]:
    graph = GraphText(vocabulary)
    ids = tf.function(lambda texts: graph.encode_source(texts, 99), [tf.TensorSpec([None], tf.string)], autograph=False)
    found: list[list[int]] = ids(tf.constant(texts)).to_list()
    return found


def _python(vocabulary: Vocabulary, text: str) -> list[int]:
    [ids] = vocabulary.encode_source([vocabulary.source_line(text)])
    return [*ids, EOS] if text.strip() else []


@pytest.mark.commit("bpe")
def test_ids_of_the_graph_are_those_of_python(vocabulary: Vocabulary) -> None:
    """SentencePiece itself is the reference: it knows no labels in text, and is given the rest of a line."""
    draw = random.Random(1)
    parts = [*LABELS, ">>xx<<", "the", "dog", " ", "  ", ">>", "<<", "%s", "<b>", "🙂", "世", "\n"]
    made_up = [draw.choice(LABELS) + "".join(draw.choices(parts, k=draw.randint(0, 8))) for _ in range(500)]
    texts = [*ODD, *made_up]
    assert _graph(vocabulary, texts) == [_python(vocabulary, text) for text in texts]
    plain = sentencepiece.SentencePieceProcessor(model_proto=vocabulary.data)
    for label in LABELS:
        for rest in ("the dog", "the >>fr<< dog", ">>de<<", "(%s)🙃", ""):
            wanted = [plain.piece_to_id(label), *plain.encode(rest), EOS]
            assert _python(vocabulary, f"{label} {rest}") == wanted
    assert set(vocabulary.encode("".join(LABELS))).isdisjoint(vocabulary.label_ids.values())


@pytest.mark.commit("bpe")
def test_a_line_without_a_known_label_is_refused(vocabulary: Vocabulary) -> None:
    for text in WITHOUT:
        with pytest.raises(DataError, match=r"Write one of these .*: >>de<<, >>fr<<, >>pt-BR<<\."):
            vocabulary.source_line(text)
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"Write one of these .*: >>de<<, >>fr<<, >>pt-BR<<\."):
            _graph(vocabulary, [ODD[0], text, ""])
    with pytest.raises(DataError, match=r"Did you mean '>>pt-BR<<'"):
        vocabulary.source_line(">>pt-br<< the dog")


@pytest.mark.commit("bpe")
def test_labels_are_of_sources_alone(vocabulary: Vocabulary) -> None:
    """A shared vocabulary reads targets, too: there a label is text, and comes back."""
    graph = GraphText(vocabulary)
    for text in (">>de<< the dog", "the dog"):
        ids = [*vocabulary.encode(vocabulary.line(text)), EOS]
        assert graph.encode(tf.constant([text]), 99).to_list() == [ids]
        assert vocabulary.decode(ids) == graph.decode(tf.constant([ids])).numpy()[0].decode() == text


@pytest.mark.commit("bpe")
def test_symbols_are_one_id_and_no_character_is_unknown(vocabulary: Vocabulary) -> None:
    graph = GraphText(vocabulary)
    for text in ("a<b>%s</b>b", "🙂🙃", "é世界 \U0001f1e9"):
        ids = vocabulary.encode(text)
        assert UNK not in ids
        assert vocabulary.decode(ids) == graph.decode(tf.constant([ids])).numpy()[0].decode() == text
        for symbol in ("<b>", "%s"):
            assert vocabulary.pieces(ids).count(symbol) == text.count(symbol)
    without = train_vocabulary(LINES * 20, size=90)
    assert UNK in without.encode("世")
    assert not without.labels
    assert without.source_line(">>de<< dog") == ">>de<< dog"
