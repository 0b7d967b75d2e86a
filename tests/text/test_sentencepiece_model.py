"""SentencePiece models with other special ids: the same pieces, in the order that we need."""

import io
import logging
from pathlib import Path

import pytest
import sentencepiece

from t2t_lite.errors import DataError
from t2t_lite.text import sentencepiece_model
from t2t_lite.text.vocabulary_training import train_vocabulary

_LINES = [f"the {i} small houses of {i * 7 % 13} and Ünder {i * 5 % 11}" for i in range(200)]
_TEXT = "the 7 small zebra houses of Ünder 日"


def _own(path: Path, **options: object) -> sentencepiece.SentencePieceProcessor:
    model = io.BytesIO()
    given = {"vocab_size": 60, "hard_vocab_limit": False, "minloglevel": 2, **options}
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(_LINES), model_writer=model, **given)
    path.write_bytes(model.getvalue())
    return sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())


@pytest.mark.parametrize(
    ("options", "added"),
    [
        ({}, 1),  # SentencePiece's defaults: unk 0, bos 1, eos 2, no pad
        ({"model_type": "bpe", "pad_id": 3}, 0),
        ({"model_type": "bpe", "byte_fallback": True, "vocab_size": 320}, 1),
        ({"model_type": "char", "user_defined_symbols": ["<pad>"]}, 0),
        ({"model_type": "word", "eos_id": -1, "bos_id": -1}, 2),
    ],
)
def test_text_is_cut_as_before(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, options: dict[str, object], added: int
) -> None:
    own = _own(tmp_path / "own.model", **options)
    caplog.set_level(logging.INFO, "t2t_lite")
    vocabulary = sentencepiece_model.load(tmp_path / "own.model")
    assert vocabulary.size == own.get_piece_size() + added
    assert vocabulary.pieces(range(3)) == ["<pad>", "</s>", "<unk>"]
    assert vocabulary.pieces(vocabulary.encode(_TEXT)) == [own.id_to_piece(i) for i in own.encode(_TEXT)]
    assert vocabulary.decode(vocabulary.encode(_TEXT)) == own.decode(own.encode(_TEXT))
    assert sentencepiece_model.kind(vocabulary) == options.get("model_type", "unigram")
    ids = (own.pad_id(), own.eos_id(), own.unk_id())
    assert f"own.model has pad, eos, unk = {ids}; its pieces get other ids" in caplog.text
    assert sentencepiece_model.load(tmp_path / "own.model").checksum == vocabulary.checksum


def test_one_of_ours_stays_as_it_is(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "t2t_lite")
    trained = train_vocabulary(_LINES, size=60)
    trained.save(tmp_path / "own.model")
    assert sentencepiece_model.load(tmp_path / "own.model").data == trained.data
    assert caplog.messages == []


def test_the_tokenizer_in_the_graph_agrees(tmp_path: Path) -> None:
    from t2t_lite.export.text_ops import sentencepiece_tokenizer

    _own(tmp_path / "own.model", model_type="bpe")
    vocabulary = sentencepiece_model.load(tmp_path / "own.model")
    assert sentencepiece_tokenizer(vocabulary).tokenize(_TEXT).numpy().tolist() == vocabulary.encode(_TEXT)


def test_a_file_that_is_no_model(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"no model")
    with pytest.raises(DataError, match="x: This is not a SentencePiece model, or it is damaged"):
        sentencepiece_model.load(tmp_path / "x")
