"""Line breaks and texts that are kept whole: the graph of an export reads and writes them as the vocabulary does."""

import pytest
import tensorflow as tf

from t2t_lite.export.text_ops import GraphText
from t2t_lite.ids import EOS
from t2t_lite.text.vocabulary import Vocabulary
from t2t_lite.text.vocabulary_training import train_vocabulary

LINES = ["copy %s files to <b>%s</b>", "Find &amp; Replace all files (%s)", "Hello\nworld _S"]
TEXTS = [
    "copy\n%s\n",
    "\nHello",
    "Find&amp;Replace",
    "(%s)<b>%s</b>_S%s",
    "a\r\nb",
    "Hello\n\n\nall",
    "Hello \n all",
    "\n",
]


def _graph_and_python(vocabulary: Vocabulary, text: str) -> tuple[str, str]:
    graph = GraphText(vocabulary)
    ids = tf.function(lambda texts: graph.encode(texts, 99), [tf.TensorSpec([None], tf.string)], autograph=False)
    encoded = ids([text]).to_tensor()
    python = [*vocabulary.encode(vocabulary.line(text)), EOS] if text.strip() else []
    assert encoded.numpy()[0].tolist() == python
    return graph.decode(encoded).numpy()[0].decode(), vocabulary.decode(python)


@pytest.mark.commit
@pytest.mark.parametrize("kind", ["bpe", "unigram", "char"])
def test_they_come_back_exactly(kind: str) -> None:
    whole = ["\n", "%s", "<b>", "</b>", "&amp;", "_S"]
    vocabulary = train_vocabulary(LINES * 9, size=60, kind=kind, whole=whole)
    assert vocabulary.keeps_line_breaks
    for text in TEXTS:
        found = _graph_and_python(vocabulary, text)
        assert found[0] == found[1]
        if not set(text) - set("".join(LINES)) and text.strip():
            assert found[0] == text
        for piece in ("%s", "<b>", "</b>", "&amp;", "_S", "\n") if text.strip() else ():
            assert found[0].count(piece) == text.count(piece)


def test_without_a_piece_line_breaks_are_spaces() -> None:
    vocabulary = train_vocabulary([line.replace("\n", " ") for line in LINES] * 9, size=60)
    assert not vocabulary.keeps_line_breaks
    assert _graph_and_python(vocabulary, "Hello\r\n\nall files\n") == ("Hello all files",) * 2


def test_bytes_write_no_line_break() -> None:
    """A model may write the bytes of any character, and each line has one line as its output."""
    vocabulary = train_vocabulary([line.replace("\n", " ") for line in LINES] * 9, size=320, byte_fallback=True)
    assert not vocabulary.keeps_line_breaks
    names = vocabulary.pieces(range(vocabulary.size))
    breaks = [names.index(name) for name in ("<0x0D>", "<0x0A>", "<0x0A>")]
    ids = [*vocabulary.encode("all"), *breaks, *vocabulary.encode("copy")]
    assert vocabulary.decode(ids) == GraphText(vocabulary).decode([ids]).numpy()[0].decode() == "all  copy"
    assert _graph_and_python(vocabulary, "Hello\r\n\nall files\n") == ("Hello all files",) * 2
    with_symbol = train_vocabulary(LINES * 9, size=320, byte_fallback=True, whole=["\n"])
    assert with_symbol.keeps_line_breaks
    assert _graph_and_python(with_symbol, "Hello\n\nall") == ("Hello\n\nall",) * 2
