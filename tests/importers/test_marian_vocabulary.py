"""Vocabularies of Marian models: pieces, labels and changes of characters, in Python and in a graph."""

import io
import random
import shutil
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
import tensorflow as tf

from t2t_lite.errors import DataError
from t2t_lite.export.preprocessing import script_of
from t2t_lite.export.text_ops import GraphText
from t2t_lite.ids import EOS, UNK
from t2t_lite.importers import marian_cleaning, marian_folder
from t2t_lite.importers.marian_vocabulary import MarianVocabulary, read_pieces
from tests.importers.marian_golden import GOLDEN, lines, read

_ODD = [
    "Ünïcödé ½ ﬁne １２３",
    "a  b",
    "日本語 and English",
    "tab\there",
    "<unk> </s> <pad>",
    "\u2581x\u2581",
    "a</s>b",
]
_ODD += [
    "\u2047 \u2585 \u2581",
    "e\u0301 \u00a0 \u200b \ufeff \u2028",
    "Über die Straße",
    "🙂🙃 ok",
    "\x07a",
    ">>fra<< Hello",
]
_SCRIPT = r"""#!/bin/bash
# s/a comment/of the script/g
sed -e 's/，/,/g' \
    -e 's/。 */. /g' \
    -e 's/？/\?/g' \
    -e 's/１/"/g' \
    -e "s/’/\'/g" \
    -e 's/…/\.\.\./g' |
perl -C -pe  's/(?!\n)\p{C}/ /g;' |
perl -CIOE -pe 's/[\x{2060}\x{200B}\x{feff}]//g' |\
sed 's/  */ /g;s/^ *//g;s/ *$//g' |
${SPMENCODE} --model $2 |
sed "s/^/>>$2<< /"
"""


@pytest.fixture(scope="module")
def toy() -> tuple[Any, Any]:
    return read(GOLDEN / "toy")[1]


def _odd() -> list[str]:
    rng = random.Random(1)
    letters = "abcdefgh ßÄöü.,?!X1½é\u00a0\u200b"
    return _ODD + ["".join(rng.choice(letters) for _ in range(rng.randint(1, 40))) for _ in range(300)]


def _graph(vocabulary: MarianVocabulary, texts: list[str]) -> list[list[int]]:
    found: list[list[int]] = GraphText(vocabulary).encode(tf.constant(texts), 512).to_list()
    return [row[:-1] for row in found]


def test_lines_are_cut_as_for_marian(toy: tuple[Any, Any]) -> None:
    """Marian looks pieces up in vocab.yml. Here special names are unknown text; there "</s>" ends a sentence."""
    rows = Path(GOLDEN, "toy", "opus.spm.vocab.yml").read_text("utf-8").splitlines()
    table = {row.rpartition(": ")[0][1:-1].replace("\\", ""): int(row.rpartition(": ")[2]) + 1 for row in rows}
    table |= {"</s>": UNK, "<unk>": UNK}
    for vocabulary, side in zip(toy, ("source", "target"), strict=True):
        model = sentencepiece.SentencePieceProcessor(model_file=str(GOLDEN / "toy" / f"{side}.spm"))
        texts = [*_odd(), *lines("toy")]
        wanted = [[table.get(piece, UNK) for piece in model.encode(text, out_type=str)] for text in texts]
        assert any(UNK in row for row in wanted)
        assert [vocabulary.encode(vocabulary.line(text)) for text in texts] == wanted
        blank = [text for text in texts if text.strip()]
        assert _graph(vocabulary, blank) == [vocabulary.encode(vocabulary.line(text)) for text in blank]
    pieces = Path(GOLDEN, "toy", "test.pieces").read_text("utf-8").splitlines()
    assert [toy[0].pieces(toy[0].encode(text)) for text in lines("toy")] == [row.split() for row in pieces]


def test_a_piece_of_the_other_side_is_known(toy: tuple[Any, Any]) -> None:
    assert UNK not in toy[0].encode("ö")
    assert sentencepiece.SentencePieceProcessor(model_file=str(GOLDEN / "toy" / "source.spm")).piece_to_id("ö") == 0


def test_text_of_ids(toy: tuple[Any, Any]) -> None:
    text = "Die Türen sind neu."
    ids = toy[1].encode(text)
    assert toy[1].text_of(ids) == text
    assert toy[1].decode([*ids, EOS, 9]) == text
    decoded = GraphText(toy[1]).decode(tf.constant([[*ids, EOS, 9], [*ids[1:], EOS, 9, 9]]))
    assert [row.decode() for row in decoded.numpy()] == [text, toy[1].text_of(ids[1:])]


def test_a_label_is_one_id() -> None:
    source, target = read(GOLDEN / "labels")[1]
    plain = source.encode("ro ri.")
    assert source.labels == (">>aaa<<", ">>bbb<<")
    assert source.encode(source.line(">>bbb<< ro ri.")) == [source.ids[">>bbb<<"], *plain]
    texts = [">>aaa<< ro ri.", ">>bbb<<ro ri.", ">>aaa<<  ro >>bbb<< ri.", ">>aaa<<"]
    assert _graph(source, texts) == [source.encode(source.line(text)) for text in texts]
    assert target.line("mu lomu") == "mu lomu"


def test_a_label_that_sentencepiece_knows_is_cut_by_it(tmp_path: Path) -> None:
    folder = shutil.copytree(GOLDEN / "labels", tmp_path / "model")
    written = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines("labels")),
        model_writer=written,
        vocab_size=30,
        hard_vocab_limit=False,
        user_defined_symbols=[">>aaa<<", ">>bbb<<"],
        minloglevel=2,
    )
    (folder / "source.spm").write_bytes(written.getvalue())
    source = marian_folder.load_vocabularies(marian_folder.find(folder), (75, 75))[0]
    text = ">>aaa<< ro ri."
    pieces = sentencepiece.SentencePieceProcessor(model_proto=written.getvalue()).encode(text, out_type=str)
    assert pieces[:2] == ["\u2581", ">>aaa<<"]
    assert source.encode(source.line(text)) == [source.ids.get(piece, UNK) for piece in pieces]
    assert _graph(source, [text]) == [source.encode(text)]
    assert source.labels == ()


def test_labels_on_odd_lines_are_read_alike() -> None:
    source = read(GOLDEN / "labels")[1][0]
    rests = [*_odd(), "", " ", "\n\nro ri.", "\r\nro", "\tro", ">>bbb<< ro", ">>bbb<<", "ro >>aaa<<", "<<>>"]
    texts = [f"{label}{space}{rest}" for rest in rests for label in source.labels for space in ("", " ", "  ")]
    assert _graph(source, texts) == [source.encode(source.line(text)) for text in texts]


@pytest.mark.parametrize("text", ["ro ri.", ">>ccc<< ro ri.", "ro >>aaa<< ri."])
def test_a_line_without_a_known_label_is_refused(text: str) -> None:
    source = read(GOLDEN / "labels")[1][0]
    assert source.line(" ") == " "
    with pytest.raises(DataError, match=r"one of these .* >>aaa<<, >>bbb<<\."):
        source.line(text)
    assert _graph(source, [">>aaa<< ro", ""])[0]
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"one of these .* >>aaa<<, >>bbb<<\."):
        _graph(source, [">>aaa<< ro", "", text])


def test_preprocess_sh_is_followed(tmp_path: Path, toy: tuple[Any, Any]) -> None:
    (tmp_path / "preprocess.sh").write_text(_SCRIPT, "utf-8")
    rules = marian_cleaning.read(tmp_path / "preprocess.sh")
    pieces = toy[0].pieces(range(1, toy[0].size))
    vocabulary = MarianVocabulary.make(pieces, toy[0].model, rules)
    text = " \u200bHello，  you。   He’s １？\tx\u00ad…\ufeff "
    assert vocabulary.line(text) == "Hello, you. He's \"? x ..."
    texts = [text, *_odd()]
    assert _graph(vocabulary, texts) == [vocabulary.encode(vocabulary.line(row)) for row in texts]
    assert MarianVocabulary(vocabulary.data).line(text) == vocabulary.line(text)


@pytest.mark.parametrize(
    "step",
    [
        "s/[ab]/c/g",
        "s/a/\\&b/g",
        r"sed 's/a/\n/g'",
        r"sed 's/[\x{d800}]//g'",
        r"sed 's/[\x{005e}]//g'",
        "${TOKENIZER}/replace-unicode-punctuation.perl |",
        "./replace-unicode-punctuation.perl",
        "tr A-Z a-z |",
        "cat |\n  uconv -x lower",
        "sed 's/a/b/'",
        "sed s/a/b/",
        "sed -e 's|a|b|g'",
        "perl -C -pe 's/a/b/g; y/a/b/;'",
        "perl -CSD -pe '$_ = lc'",
    ],
)
def test_a_script_with_other_steps_is_not_followed(tmp_path: Path, step: str, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "preprocess.sh").write_text(f"{_SCRIPT}\n{step}\n", "utf-8")
    assert marian_cleaning.read(tmp_path / "preprocess.sh") == []
    assert "is not known here" in caplog.text


def test_a_script_that_is_too_long_is_not_followed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "preprocess.sh").write_text(f"{_SCRIPT}\n{'x' * 70_000}", "utf-8")
    assert marian_cleaning.read(tmp_path / "preprocess.sh") == []
    assert "after 65,536 bytes" in caplog.text


def test_a_multilingual_script_has_two_branches(tmp_path: Path) -> None:
    script = "if [ `hostname -d` == x ]; then\n  A=b\nelse\n  SPMENCODE=`which spm_encode || echo b`\nfi\n"
    script += f"if x; then\n{_SCRIPT}else\n{_SCRIPT}fi\n"
    (tmp_path / "preprocess.sh").write_text(script, "utf-8")
    (tmp_path / "plain.sh").write_text(_SCRIPT, "utf-8")
    rules = marian_cleaning.read(tmp_path / "plain.sh")
    assert rules
    assert marian_cleaning.read(tmp_path / "preprocess.sh") == rules
    (tmp_path / "preprocess.sh").write_text(script_of(rules), "utf-8")
    assert marian_cleaning.read(tmp_path / "preprocess.sh") == rules


def test_pieces_are_no_numbers_and_no_dates() -> None:
    pieces = ["</s>", "<unk>", "1", "1_000", "no", "~", "2020-01-01", ": ", 'a"b\\', "it's", "\u2028x", "#", "- a"]
    rows = ["</s>: 0", "<unk>: 1", "1: 2", "1_000: 3", "no: 4", "~: 5", "2020-01-01: 6", "': ': 7", '"a\\"b\\\\": 8']
    rows += ["'it''s':  9", '"\\Lx": 10', '"#": 11', '"- a": 12']
    data = "".join(f"{row}\n" for row in [*rows[6:], *rows[:6]]).encode()
    assert read_pieces(data, "vocab.yml", len(pieces)) == pieces


@pytest.mark.parametrize(
    ("row", "message"),
    [("a", "line 3"), ("a: x", "line 3"), ("a: 1", "line 3"), ("a: 3", "the model 3"), ("<unk>: 2", "twice")],
)
def test_a_damaged_list_of_pieces(row: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_pieces(f"</s>: 0\n<unk>: 1\n{row}\n".encode(), "vocab.yml", 3)
    with pytest.raises(DataError, match="begins with"):
        read_pieces(b"a: 0\n</s>: 1\n<unk>: 2\n", "vocab.yml", 3)


def test_a_list_of_many_pieces_takes_little_memory() -> None:
    data = "".join(f'"{i}": {i}\n' for i in range(100_000)).encode()
    tracemalloc.start()
    try:
        with pytest.raises(DataError, match="has 100,000 pieces, and the model 75"):
            read_pieces(data, "vocab.yml", 75)
        assert tracemalloc.get_traced_memory()[1] < 10 * len(data)
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("data", [b"{}", b"[]", b"x", b'{"format": 2}'])
def test_a_damaged_file_of_a_run(data: bytes) -> None:
    with pytest.raises(DataError, match="is damaged"):
        MarianVocabulary(data)
