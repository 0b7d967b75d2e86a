"""tensor2tensor's vocabularies in a graph give the ids and texts that they give outside, whatever the text is."""

import json
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from t2t_lite.export.text_ops import GraphText
from t2t_lite.importers.vocabularies import (
    ByteVocabulary,
    ImportedVocabulary,
    OpenNmtVocabulary,
    SubwordVocabulary,
    TokenVocabulary,
)
from t2t_lite.importers.vocabulary_ops import GraphSubwords
from tests.subword_files import HARD, PIECES, differing, file_of, golden

_LETTERS = "abcäus  __\\\\;;,.'0123\n\t日½é\u0301\u2028\U0001f30d\0\ufffd\U0010ffff"
_VOCABULARIES = [
    SubwordVocabulary(file_of(PIECES)),
    SubwordVocabulary(file_of([*PIECES, "the_", "", "日", "\u2028a", "\u2028"])),
    TokenVocabulary("<pad>\n<EOS>\nthe\ncats,\nä\nUNK\nthe\n".encode()),
    ByteVocabulary(),
]


class Module(tf.Module):
    """What exports use of `GraphText`, and the two methods that it uses, as functions with fixed signatures."""

    def __init__(self, vocabulary: ImportedVocabulary) -> None:
        super().__init__()
        text = GraphText(vocabulary)
        self.text, in_graph = text, text._tokenizer  # tracked, with its table
        strings, rows = tf.TensorSpec([None], tf.string), tf.TensorSpec([None, None], tf.int32)
        ragged = tf.RaggedTensorSpec([None, None], tf.int32, row_splits_dtype=tf.int64)
        self.tokenize = tf.function(in_graph.tokenize, [strings], autograph=False)
        self.detokenize = tf.function(in_graph.detokenize, [ragged], autograph=False)
        self.pieces = tf.function(text.pieces, [rows], autograph=False)
        self.encode = tf.function(lambda x: text.encode(x, 2000), [strings], autograph=False)
        self.clean = tf.function(lambda x: text.clean(x, 20), [rows], autograph=False)
        self.decode = tf.function(text.decode, [rows], autograph=False)

    def ids(self, texts: list[str]) -> list[list[int]]:
        found = [self.tokenize([text.encode() for text in texts[i : i + 64]]) for i in range(0, len(texts), 64)]
        return [ids for part in found for ids in part.to_list()]

    def texts(self, ids: list[list[int]]) -> list[str]:
        ragged = tf.ragged.constant(ids, tf.int32, ragged_rank=1, row_splits_dtype=tf.int64)
        return [text.decode() for text in self.detokenize(ragged).numpy()]


def _name(vocabulary: ImportedVocabulary) -> str:
    return f"{type(vocabulary).__name__}{vocabulary.size}"


@pytest.fixture(scope="module", params=_VOCABULARIES, ids=_name)
def both(request: pytest.FixtureRequest) -> tuple[ImportedVocabulary, Module]:
    return request.param, Module(request.param)


@pytest.mark.commit
def test_ids_are_those_outside(both: tuple[ImportedVocabulary, Module]) -> None:
    vocabulary, module = both
    generator = random.Random(3)
    drawn = ["".join(generator.choices(_LETTERS, k=generator.randint(0, 12))) for _ in range(2000)]
    texts = [*HARD, *drawn, "the cats, the ä  the"]
    assert module.ids(texts) == vocabulary.encode_many(texts)
    assert [module.ids([text]) for text in HARD] == [[vocabulary.encode(text)] for text in HARD]  # one by one


@pytest.mark.commit
def test_texts_are_those_outside(both: tuple[ImportedVocabulary, Module]) -> None:
    vocabulary, module = both
    generator = random.Random(4)
    drawn = [generator.choices(range(-2, vocabulary.size + 2), k=generator.randint(0, 12)) for _ in range(3000)]
    ids = [*drawn, *vocabulary.encode_many(HARD), [], [0], [1]]
    assert module.texts(ids) == list(map(vocabulary.text_of, ids))


@pytest.mark.commit
def test_escapes_that_a_model_may_write() -> None:
    vocabulary = _VOCABULARIES[0]
    assert isinstance(vocabulary, SubwordVocabulary)
    module, generator = Module(vocabulary), random.Random(5)
    ends = [*"55295 55296 57343 57344 1114111 1114112 99999999 0 00097".split(), "0" * 300 + "98", "9" * 300]
    written = [f"\\{code};_" for code in ends]
    written += ["".join(generator.choices("\\\\\\u_;;019a'", k=generator.randint(1, 12))) for _ in range(3000)]
    ids = [[vocabulary.ids[char] for char in text] for text in written]
    assert module.texts(ids) == list(map(vocabulary.text_of, ids))


_OPENNMT = [
    OpenNmtVocabulary(tokens.replace(" ", "\n").encode())
    for tokens in ("<blank> <s> </s> a \u2581 \u2581b c", "<blank> <s> </s> a b@@ c")
]


@pytest.mark.parametrize("vocabulary", [*_VOCABULARIES, *_OPENNMT], ids=_name)
def test_pieces_are_those_outside(vocabulary: ImportedVocabulary) -> None:
    module = Module(vocabulary)
    generator = random.Random(7)
    ids = [list(range(1, vocabulary.size))]
    ids += [generator.choices(range(1, vocabulary.size), k=len(ids[0])) for _ in range(20)]
    found = module.pieces([[*row, 0] for row in ids]).numpy().tolist()
    assert [[piece.decode() for piece in row] for row in found] == [
        [*vocabulary.display_pieces(row), ""] for row in ids
    ]
    assert found[0][0] == b"</s>"


@pytest.mark.commit
def test_no_texts_at_all(both: tuple[ImportedVocabulary, Module]) -> None:
    _, module = both
    assert module.tokenize(tf.zeros([0], tf.string)).shape[0] == 0
    assert module.ids(["", ""]) == [[], []]
    assert module.texts([[], []]) == ["", ""]
    assert module.encode(tf.zeros([0], tf.string)).shape[0] == 0


def test_bytes_that_are_no_utf_8(both: tuple[ImportedVocabulary, Module]) -> None:
    vocabulary, module = both
    generator = random.Random(6)
    texts = [b"a\xff\xfeb", b"\xe6\x97", b"\xed\xa0\x80", b"\xf8\x88\x80\x80\x80", b"\xc0\xaf"]
    texts += [bytes(generator.choices(b"a _\xc3\xa9\xff\xe6\x97\xa5\xf0\x9f", k=6)) for _ in range(200)]
    valid = tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8", errors="replace").numpy()
    wanted = [vocabulary.encode(text.decode().strip()) for text in valid]
    assert module.encode(texts).to_list() == [[*ids, 1] if ids else [] for ids in wanted]
    assert [module.encode([text]).to_list()[0] for text in texts[:5]] == module.encode(texts[:5]).to_list()


def test_lines_are_stripped_as_by_t2t_decoder(both: tuple[ImportedVocabulary, Module]) -> None:
    vocabulary, module = both
    blanks = "".join(char for char in map(chr, range(0x3001)) if char.isspace())
    assert module.encode([f"{blanks}the cat {blanks}", blanks, " "]).to_list() == [
        [*vocabulary.encode("the cat"), 1],
        [],
        [],
    ]


def test_ids_that_do_not_exist_are_left_out_or_unknown(both: tuple[ImportedVocabulary, Module]) -> None:
    vocabulary, module = both
    unknown = [] if vocabulary.unknown is None else [vocabulary.unknown]
    assert module.clean([[3, -1, 4, vocabulary.size, 1, 0]]).to_list() == [[3, *unknown, 4, *unknown, 1]]
    assert module.decode([[0, 3, 1, 4]]).numpy() == [vocabulary.text_of([3]).encode()]


def test_long_words_are_encoded_whole() -> None:
    vocabulary = _VOCABULARIES[0]
    text = "x" * 40_000
    assert Module(vocabulary).ids([text, f"{text} the"]) == vocabulary.encode_many([text, f"{text} the"])


_LOAD = """
import sys, tensorflow as tf, tensorflow_text
for path in sys.argv[1:]:
    print(tf.saved_model.load(path).tokenize(["the cat_"]).to_list()[0])
"""


@pytest.mark.nightly
def test_two_saved_models_in_a_process_without_this_code(tmp_path: Path) -> None:
    """Each finds its own vocabulary, and needs only operations of TensorFlow and TensorFlow Text, no Python."""
    wanted = []
    for name, vocabulary in (("first", _VOCABULARIES[0]), ("second", SubwordVocabulary(file_of([*PIECES, "the_"])))):
        module = tf.Module()
        module.subwords = subwords = GraphSubwords(vocabulary)
        module.tokenize = tf.function(subwords.tokenize, [tf.TensorSpec([None], tf.string)], autograph=False)
        tf.saved_model.save(module, tmp_path / name)
        wanted.append(vocabulary.encode("the cat_"))
        nodes = _nodes(tmp_path / name)
        assert "PyFunc" not in "".join(node.op for node in nodes)
        tables = {node.attr["shared_name"].s.decode() for node in nodes if node.op == "HashTableV2"}
        assert tables == {f"subwords_{vocabulary.checksum[:32]}"}
    done = subprocess.run(
        [sys.executable, "-c", _LOAD, str(tmp_path / "first"), str(tmp_path / "second")],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
        env={"PATH": "", "TF_CPP_MIN_LOG_LEVEL": "3"},
    )
    assert done.stdout.strip().split("\n") == list(map(str, wanted))


def _nodes(folder: Path) -> list[Any]:
    model = saved_model_pb2.SavedModel.FromString((folder / "saved_model.pb").read_bytes())
    graph = model.meta_graphs[0].graph_def
    return [*graph.node, *(node for function in graph.library.function for node in function.node_def)]


@pytest.mark.nightly
def test_equal_to_tensor2tensor(shared_data: Callable[[str], Path]) -> None:
    folder = shared_data("t2t_golden") / "subwords"
    texts = json.loads((folder / "texts.json").read_text("utf-8"))
    for path, wanted in golden(folder).items():
        vocabulary = SubwordVocabulary.load(path)
        module = Module(vocabulary)
        ids = module.ids(texts)
        assert ids == vocabulary.encode_many(texts)
        assert differing(ids, wanted["ids"], texts) == []
        assert differing(module.texts(wanted["ids"]), wanted["decoded"], texts) == []
        assert module.texts(wanted["random_ids"]) == wanted["random_decoded"]
        assert isinstance(module.text._tokenizer, GraphSubwords)
