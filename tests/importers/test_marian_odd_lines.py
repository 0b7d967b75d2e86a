"""Lines of odd characters in the vocabularies of Marian models: beside Marian, beside SentencePiece, in a graph.

By design, `</s>` and `<unk>` in a text are unknown text here; where SentencePiece leaves them whole, Marian ends the
line there.
"""

import random
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sentencepiece
import tensorflow as tf
import yaml

import t2t_lite
from t2t_lite.cli import exporter, importer
from t2t_lite.export.text_ops import GraphText
from t2t_lite.ids import EOS, UNK
from t2t_lite.importers.marian_vocabulary import MarianVocabulary
from tests.importers.marian_golden import GOLDEN, Output, lines, log_probs, outputs, read
from tests.importers.odd_lines import odd_lines

_SPECIAL = {"</s>", "<unk>"}
_SIDES = [("toy", 0), ("toy", 1), ("labels", 1), ("bpe", 0), ("bpe", 1), ("bytes", 0), ("made", 0)]


def _made(folder: Path) -> MarianVocabulary:
    """A vocabulary in the order of Marian of a BPE model that makes NFKC of text and writes unknown text in bytes."""
    texts = folder / "texts"
    texts.write_text("".join(f"{line}\n" for line in odd_lines(400, 3) if "\0" not in line), "utf-8")
    sentencepiece.SentencePieceTrainer.train(
        input=str(texts),
        model_prefix=str(folder / "made"),
        model_type="bpe",
        byte_fallback=True,
        vocab_size=700,
        normalization_rule_name="nmt_nfkc",
        user_defined_symbols=["@@", "&amp;"],
        minloglevel=2,
    )
    data = Path(folder, "made.model").read_bytes()
    model = sentencepiece.SentencePieceProcessor(model_proto=data)
    pieces = sorted({model.id_to_piece(i) for i in range(3, len(model))} - {"ü", "\u2581ü"})
    return MarianVocabulary.make([*sorted(_SPECIAL), *pieces], data)


def _vocabulary(name: str, side: int, folder: Path) -> tuple[MarianVocabulary, dict[str, int], Any]:
    """A vocabulary, and what another implementation needs: ids of pieces as they are here, and a model of text."""
    if name == "made":
        vocabulary = _made(folder)
        model = sentencepiece.SentencePieceProcessor(model_proto=vocabulary.model)
        return vocabulary, dict(zip(vocabulary.pieces(range(1, vocabulary.size)), range(1, 999), strict=False)), model
    if name == "bytes":
        model = sentencepiece.SentencePieceProcessor(model_file=str(GOLDEN / name / "vocab.spm"))
        table = {model.id_to_piece(i): i + 1 for i in range(len(model))}
    else:
        model = sentencepiece.SentencePieceProcessor(
            model_file=str(GOLDEN / name / f"{('source', 'target')[side]}.spm")
        )
        there = yaml.load(Path(GOLDEN, name, "opus.spm.vocab.yml").read_text("utf-8"), yaml.BaseLoader)
        table = {piece: int(i) + 1 for piece, i in there.items()}
    return read(GOLDEN / name)[1][side], table, model


def _graph_ids(vocabulary: MarianVocabulary, texts: list[str]) -> list[list[int]]:
    return [row[:-1] for row in GraphText(vocabulary).encode(tf.constant(texts), 1 << 20).to_list()]


def _check(name: str, side: int, folder: Path, number: int) -> None:
    vocabulary, table, model = _vocabulary(name, side, folder)
    texts = [line for line in odd_lines(number, 1, ("ro", "\\e:̈", "The brother")) if line.strip()]
    cut = model.encode(texts, out_type=str)
    wanted = [[table.get(piece, UNK) for piece in row] for row in cut]
    found = [vocabulary.encode(vocabulary.line(text)) for text in texts]
    by_design = [i for i, row in enumerate(cut) if _SPECIAL & set(row)]
    differ = [i for i, row in enumerate(found) if row != wanted[i]]
    assert set(differ) <= set(by_design)
    assert all(found[i] == [UNK if piece in _SPECIAL else table.get(piece, UNK) for piece in cut[i]] for i in by_design)
    assert len(by_design) < 0.03 * number
    assert _graph_ids(vocabulary, texts) == found
    assert name in ("bytes", "made") or sum(UNK in row for row in found) > number / 4
    _check_texts(vocabulary, model, found)


def _check_texts(vocabulary: MarianVocabulary, model: Any, rows: list[list[int]]) -> None:
    """Text of what was cut and of pieces by chance, which may end in the middle of a character."""
    rng = random.Random(1)
    rows = rows + [[rng.randrange(vocabulary.size) for _ in range(rng.randint(1, 9))] for _ in range(len(rows) // 4)]
    rows = [[i for i in row if i > UNK] for row in rows]
    found = [vocabulary.text_of(row) for row in rows]
    known = {piece for piece in vocabulary.ids if model.piece_to_id(piece) != model.unk_id()}
    has_bytes = "<0x00>" in known
    for row, text in zip(rows, found, strict=True):
        pieces = vocabulary.pieces(row)
        joined = "".join(pieces).replace("\u2581", " ").lstrip(" ")  # Marian's postprocess.sh
        if has_bytes and any(piece.startswith("<0x") for piece in pieces):
            assert known.issuperset(pieces)
            joined = model.decode_pieces(pieces).lstrip(" ")
        assert re.sub("\ufffd+", "\ufffd", text) == re.sub("\ufffd+", "\ufffd", joined)
    ids = tf.ragged.constant([[*row, EOS] for row in rows], tf.int32).to_tensor()
    assert [row.decode() for row in GraphText(vocabulary).decode(ids).numpy()] == found


@pytest.mark.parametrize(("name", "side"), [("bpe", 0), ("bytes", 0)])
def test_odd_lines_have_the_same_ids(tmp_path: Path, name: str, side: int) -> None:
    _check(name, side, tmp_path, 600)


@pytest.mark.nightly
@pytest.mark.parametrize(("name", "side"), _SIDES)
def test_ten_thousand_odd_lines_have_the_same_ids(tmp_path: Path, name: str, side: int) -> None:
    _check(name, side, tmp_path, 10_000)


@pytest.mark.parametrize(
    ("name", "by_design"),
    [
        pytest.param("toy", 0, marks=pytest.mark.nightly),
        pytest.param("bpe", 2, marks=pytest.mark.nightly),
        ("bytes", 0),
    ],
)
def test_marian_computes_the_same_of_odd_lines(name: str, by_design: int) -> None:
    """Log-probabilities depend on each id of the source, so they show that Marian has the same ids."""
    imported, vocabularies = read(GOLDEN / name)
    found = [output for output in outputs(name, "odd.nbest") if output.pieces]  # blank lines have blank outputs
    texts = [lines(name, "odd.txt")[output.line] for output in found]
    differ = _differ(log_probs(imported, vocabularies, texts, [output.pieces for output in found]), found)
    assert len(found) >= 149
    assert sum(len(output.log_probs) for output in found) > 1500
    assert all("</s>" in texts[i] for i in differ)
    assert len(differ) == by_design
    texts = [text[1:] if len(text) > 3 else text for text in texts]  # other ids
    assert len(_differ(log_probs(imported, vocabularies, texts, [output.pieces for output in found]), found)) > 90


def _differ(ours: list[np.ndarray], found: list[Output]) -> list[int]:
    """Which lines have other log-probabilities than those of Marian, which an output that does not end has fewer of."""
    rows = [(row[: len(output.log_probs)], output.log_probs) for row, output in zip(ours, found, strict=True)]
    return [i for i, (row, wanted) in enumerate(rows) if np.abs(row - wanted).max() > 2e-5]


def test_bytes_become_characters_as_in_marian() -> None:
    """Marian joins pieces by SentencePiece, which has U+FFFD for each byte of no character."""
    target = read(GOLDEN / "bytes")[1][1]
    found = [target.text_of(target.ids[piece] for piece in output.pieces) for output in outputs("bytes", "odd.nbest")]
    wanted = lines("bytes", "odd.out")
    assert [re.sub("\ufffd+", "\ufffd", text) for text in wanted] == [
        re.sub("\ufffd+", "\ufffd", text) for text in found
    ]
    assert any(ord(character) > 0xFFFF for text in found for character in text)


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["bpe", "bytes", "toy"])
def test_an_export_translates_odd_lines_as_its_run(tmp_path: Path, name: str) -> None:
    run = tmp_path / "run"
    assert importer.main([f"--checkpoint={GOLDEN / name}", f"--output_dir={run}"]) == 0
    assert exporter.main([f"--output_dir={run}", "--signatures=nbest"]) == 0
    texts = [line for line in odd_lines(400, 4, tuple(lines(name)[0].split())) if len(line) <= 200]
    ours, served = (t2t_lite.load(folder).nbest(texts, 2) for folder in (run, run / "export"))
    same = [a[0].text == b[0].text for a, b in zip(ours, served, strict=True)]
    assert sum(same) >= len(texts) - 2  # ties
    close = [abs(a[0].score - b[0].score) <= 1e-5 for a, b in zip(ours, served, strict=True)]
    assert sum(close) >= len(texts) - 2
