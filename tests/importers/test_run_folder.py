"""Recipes and vocabularies of an import; vocabularies that do not fit the model are refused."""

import dataclasses
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from t2t_lite import config
from t2t_lite.errors import DataError, UsageError
from t2t_lite.export import model_card
from t2t_lite.files import sha256_of
from t2t_lite.importers import (
    import_report,
    opennmt,
    run_folder,
    t2t_slots,
    tensor2tensor,
    toolkits,
    vocabulary_kinds,
)
from t2t_lite.importers.imported import Imported
from t2t_lite.importers.vocabularies import ByteVocabulary, ImportedVocabulary, SubwordVocabulary, TokenVocabulary
from t2t_lite.runs.open_run import open_run
from tests.importers import opennmt_golden
from tests.importers.made_up import HPARAMS, save, variables
from tests.subword_files import PIECES, file_of

RUNS = ("cubbitt", "vocab_divisor", "base_two_vocabularies")


@pytest.mark.nightly
def test_two_vocabularies_of_one_size_share_a_table(tmp_path: Path) -> None:
    """As in tensor2tensor, also when training continues."""
    arrays = variables(rows=len(PIECES))
    adam = {f"training/{name}/{end}": a for name, a in arrays.items() if a.ndim for end in ("Adam", "Adam_1")}
    imported = tensor2tensor.read([save(tmp_path / "model.ckpt-1", arrays | adam)], target_space_id=0)
    vocabularies = [SubwordVocabulary(file_of(pieces)) for pieces in (PIECES, [*PIECES[:2], *PIECES[:1:-1]])]
    outputs = []
    ids = np.random.default_rng(0).integers(2, len(PIECES), (2, 5)).astype(np.int32)
    found = {
        name: run_folder.Import(
            imported, run_folder.recipe(imported, {}, two_vocabularies=name == "two"), (source, target), (), {}, {}
        )
        for name, (source, target) in {"one": vocabularies[:1] * 2, "two": vocabularies}.items()
    }
    sizes = []
    for name, what in found.items():
        run_folder.write(tmp_path / name, what)
        model = open_run(tmp_path / name).model
        outputs.append(np.array(model({"source": ids, "target": ids})))
        sizes.append(model.count_params())
    np.testing.assert_array_equal(*outputs)
    assert sizes[0] == sizes[1] == sum(math.prod(array.shape) for array in imported.weights.values())
    names = sorted(path.name for path in (tmp_path / "two").glob("vocabulary.*"))
    assert names == ["vocabulary.source.subwords", "vocabulary.target.subwords"]
    said = {dict(import_report.lines(what, 1))["model"].partition("norm, ")[2] for what in found.values()}
    assert said == {"one table for source, target and softmax; 1 parameters"}
    run_folder.write(tmp_path / "more", dataclasses.replace(found["two"], slots=t2t_slots.read(imported)))
    assert (tmp_path / "more" / "checkpoints").exists()


@pytest.mark.nightly
def test_the_card_says_where_the_model_comes_from(tmp_path: Path) -> None:
    """It names no folder, and its note no command that refuses a run without data."""
    prefix = save(tmp_path / "there" / "model.ckpt-100", variables(rows=len(PIECES)))
    imported, text = tensor2tensor.read([prefix], target_space_id=0), SubwordVocabulary(file_of(PIECES))
    found = run_folder.Import(imported, run_folder.recipe(imported, {}), (text, text), (), {}, {})
    run_folder.write(tmp_path / "run", found)
    card = model_card.make_card(open_run(tmp_path / "run"))
    files = {f"model.ckpt-100.{end}" for end in ("index", "data-00000-of-00001")}
    sums = {name: sha256_of(tmp_path / "there" / name) for name in files}
    assert card["imported"] == {
        "toolkit": "tensor2tensor",
        "checkpoints": [{"name": "model.ckpt-100", "sha256": sums}],
    }
    assert str(tmp_path) not in json.dumps(card)
    assert "--hypotheses=FILE --references=FILE" in card["scores_note"]
    (tmp_path / "run" / "import.json").write_text("{")
    assert "imported" not in model_card.make_card(open_run(tmp_path / "run"))


@pytest.mark.parametrize("toolkit", ["tensor2tensor", "OpenNMT-tf"])
def test_a_vocabulary_given_for_each_side_is_one(tmp_path: Path, toolkit: str) -> None:
    if toolkit == "tensor2tensor":
        save(tmp_path / "model.ckpt-1", variables(rows=len(PIECES)))
        (tmp_path / "source.vocab").write_bytes(file_of(PIECES))
    else:
        opennmt_golden.save(tmp_path, opennmt_golden.golden("shared"))
    twice = [vocabulary_kinds.load(tmp_path / "source.vocab") for _ in range(2)]
    given = None if toolkit == "tensor2tensor" else opennmt_golden.SETTINGS["shared"]
    _, (source, target) = toolkits.read([str(tmp_path)], twice, [], hparams=given)
    assert source is target


def test_learned_positions_of_opennmt_are_no_limit(tmp_path: Path) -> None:
    """OpenNMT-tf's last position serves all later ones, as here."""
    opennmt_golden.save(tmp_path, opennmt_golden.golden("learned"))
    values = config.to_dict(run_folder.recipe(opennmt.read([tmp_path], hparams="num_heads=2"), {}))
    names = ("max_positions", "max_length", "max_source_length", "extra_length")
    assert [values[name] for name in names] == [9, 256, 512, 50]


def _imported(rows: tuple[int, int], hparams: dict[str, Any], tmp_path: Path) -> Imported:
    imported = tensor2tensor.read([save(tmp_path / "model.ckpt-1", variables(), HPARAMS | hparams)])
    sizes = {"source_vocab_size": rows[0], "target_vocab_size": rows[1]}
    return dataclasses.replace(imported, description=dataclasses.replace(imported.description, **sizes))


def test_vocabularies_that_fit(tmp_path: Path) -> None:
    subwords = SubwordVocabulary(file_of(PIECES))
    imported = _imported((subwords.size,) * 2, {}, tmp_path)
    assert toolkits.fit_t2t(imported, subwords, subwords) == (subwords, subwords)
    other = ByteVocabulary()
    imported = _imported((subwords.size, other.size), {}, tmp_path)
    assert toolkits.fit_t2t(imported, subwords, other) == (subwords, other)


@pytest.mark.parametrize(
    "vocabulary", [SubwordVocabulary(file_of(PIECES)), TokenVocabulary(b"<pad>\n<EOS>\na\nUNK\nb")]
)
def test_a_model_with_more_ids_than_pieces(vocabulary: ImportedVocabulary, tmp_path: Path) -> None:
    rows = -(-vocabulary.size // 64) * 64
    source, target = toolkits.fit_t2t(_imported((rows, rows), {"vocab_divisor": 64}, tmp_path), vocabulary, vocabulary)
    assert source is target
    assert source.size == rows
    assert source.pieces(range(vocabulary.size)) == vocabulary.pieces(range(vocabulary.size))
    more = [2, rows - 1, vocabulary.size, 3]
    assert source.text_of(more) == vocabulary.text_of(more)
    assert source.encode("a b") == vocabulary.encode("a b")


@pytest.mark.parametrize(
    ("rows", "hparams", "match"),
    [
        ((500, 500), {}, "source has .* pieces and the model's source embedding 500 rows: it is .* of another model"),
        ((258, 500), {}, "a vocabulary for each. Give --vocabulary=FILE and --target_vocabulary=FILE"),
        ((300, 300), {"vocab_divisor": 7}, "rounded up to a multiple of vocab_divisor=7, and the model's"),
    ],
)
def test_vocabularies_that_do_not_fit(
    rows: tuple[int, int], hparams: dict[str, Any], match: str, tmp_path: Path
) -> None:
    vocabulary = ByteVocabulary()
    with pytest.raises(UsageError, match=match):
        toolkits.fit_t2t(_imported(rows, hparams, tmp_path), vocabulary, vocabulary)


def test_the_kind_of_a_file_is_seen(tmp_path: Path) -> None:
    letters = [*map(chr, range(33, 127)), "a@@", "the", "UNK"]  # with these letters, each could be cut into subwords
    files = {
        "vocab.bpe.100": ("".join(f"{token}\n" for token in ["<pad>", "<EOS>", *letters]).encode(), TokenVocabulary),
        "vocab.encs.32768": (file_of(PIECES), SubwordVocabulary),
        "vocab.x.100.subwords": (file_of(PIECES), SubwordVocabulary),
        "vocab.bpe.32000": (b"<pad>\n<EOS>\nthe\nUNK\n", TokenVocabulary),
        "mine.tokens": (b"<pad>\n<EOS>\nthe\nUNK\n", TokenVocabulary),
    }
    for name, (data, kind) in files.items():
        (tmp_path / name).write_bytes(data)
        assert type(vocabulary_kinds.load(tmp_path / name)) is kind
    assert type(vocabulary_kinds.load("bytes")) is ByteVocabulary
    (tmp_path / "other").write_bytes(b"hello\nyou\n")
    with pytest.raises(DataError, match="other: The file begins with 'hello' and 'you'"):
        vocabulary_kinds.load(tmp_path / "other")


def _tokens(size: int) -> TokenVocabulary:
    return TokenVocabulary("\n".join(["<pad>", "<EOS>", "UNK", *(f"t{i}" for i in range(3, size))]).encode())


@pytest.mark.nightly
@pytest.mark.parametrize("name", RUNS)
def test_a_run_that_is_opened_gives_tensor2tensors_logits(
    shared_data: Callable[[str], Path], tmp_path: Path, name: str
) -> None:
    folder = shared_data("t2t_golden") / name
    made, golden = json.loads((folder / "made.json").read_text("utf-8")), np.load(folder / "golden.npz")
    imported = tensor2tensor.read([folder], target_space_id=made["target_space_id"])
    sizes = [made[f"{side}_vocab_size"] for side in ("source", "target")]
    source = _tokens(sizes[0])
    vocabularies = toolkits.fit_t2t(imported, source, source if sizes[0] == sizes[1] else _tokens(sizes[1]))
    run_folder.write(
        tmp_path / "run", run_folder.Import(imported, run_folder.recipe(imported, {}), vocabularies, (), {}, {})
    )
    run = open_run(tmp_path / "run")
    assert run.step == made["steps"]
    logits = np.array(run.model({"source": golden["inputs"], "target": golden["targets"]}))
    assert np.abs(logits - golden["logits"])[golden["targets"] != 0].max() <= 2e-5
