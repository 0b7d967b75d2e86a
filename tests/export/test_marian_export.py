"""Exports to Marian: an import comes out as it went in, and a model that was trained here opens again."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from sentencepiece import SentencePieceProcessor

from t2t_lite import config
from t2t_lite.cli import exporter, importer
from t2t_lite.decoding.translate import Translator
from t2t_lite.errors import UsageError
from t2t_lite.export.expressible import check_recipe
from t2t_lite.export.huggingface_export import export_huggingface
from t2t_lite.export.marian_export import export_marian
from t2t_lite.export.marian_layout import KEY
from t2t_lite.export.origin import Origin
from t2t_lite.export.preprocessing import script_of
from t2t_lite.importers import marian, marian_cleaning, marian_folder, run_folder, t2t_model
from t2t_lite.importers.marian_vocabulary import MarianVocabulary
from t2t_lite.importers.vocabularies import ByteVocabulary
from t2t_lite.models.transformer import Transformer
from t2t_lite.models.transformer_hparams import TransformerHParams
from t2t_lite.text.vocabulary_training import train_vocabulary
from tests import reference
from tests.importers.marian_golden import GOLDEN, NAMES, changed, set_setting

SMALL = TransformerHParams(num_layers=1, d_model=16, d_ff=32, num_heads=2, positions="tensor2tensor", beam_size=3)
VARIANTS: dict[str, dict[str, Any]] = {
    "plain": {"num_decoder_layers": 2},
    "biases": {"attention_biases": True, "output_bias": True, "activation": "gelu"},
    "pre-norm, untied": {"norm": "pre", "share_embeddings": False, "activation": "swish", "d_k": 8, "d_v": 8},
    "two vocabularies": {"length_penalty_form": "power", "length_penalty": 0.7, "unknown_output": False},
}
TEXT = [
    ["The cat sees a dog.", "A dog sees the cats!", 'Where is "my" \\ dog\'s house: here?'],
    ["Die Katze sieht einen Hund.", "Ein Hund sieht die Katzen!", "Wo ist 'mein' Haus: hier?"],
]


def _arrays(folder: Path, name: str) -> dict[str, Any]:
    with np.load(folder / name, allow_pickle=False) as file:
        return {key: file[key] for key in file}


def _settings(arrays: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = yaml.load(arrays[KEY].tobytes().rstrip(b"\0"), yaml.BaseLoader)
    return found


def _round_trip(tmp_path: Path, folder: Path, *flags: str) -> Path:
    run = tmp_path / "run"
    assert importer.main([f"--checkpoint={folder}", f"--output_dir={run}", *flags]) == 0
    assert exporter.main([f"--output_dir={run}", "--format=marian"]) == 0
    return run / "export_marian" / "1"


@pytest.mark.commit("toy")
@pytest.mark.parametrize("name", NAMES)
def test_an_import_comes_out_as_it_went_in(tmp_path: Path, name: str) -> None:
    version = _round_trip(tmp_path, GOLDEN / name)
    before, after = _arrays(GOLDEN / name, "opus.npz"), _arrays(version, "model.npz")
    assert _settings(after) == _settings(before)
    assert after.keys() == before.keys()
    for key in before.keys() - {KEY}:
        assert after[key].dtype == np.float32
        np.testing.assert_array_equal(after[key], before[key])
        assert after[key].shape == before[key].shape
    for side in ("source", "target"):
        own = GOLDEN / name / ("vocab.spm" if name == "bytes" else f"{side}.spm")
        assert (version / f"{side}.spm").read_bytes() == own.read_bytes()
    vocabulary = yaml.load((version / "vocab.yml").read_bytes(), yaml.BaseLoader)
    if name == "bytes":  # Marian's vocabulary is the SentencePiece model itself
        pieces = SentencePieceProcessor(model_file=str(own))
        assert vocabulary == {pieces.id_to_piece(i): str(i) for i in range(len(pieces))}
    else:
        assert vocabulary == yaml.load((GOLDEN / name / "opus.spm.vocab.yml").read_bytes(), yaml.BaseLoader)
    searches = [yaml.safe_load(path.read_bytes()) for path in (version / "decoder.yml", GOLDEN / name / "decoder.yml")]
    for key in ("beam-size", "normalize", "word-penalty", "relative-paths"):
        assert searches[0][key] == searches[1][key]
    assert searches[0]["max-length-factor"] == 3  # Marian's own, where a folder says none


@pytest.mark.commit
def test_a_piece_of_marian_may_be_named_as_padding(tmp_path: Path) -> None:
    folder = shutil.copytree(GOLDEN / "labels", tmp_path / "model")
    vocabulary = folder / "opus.spm.vocab.yml"
    *rows, last = vocabulary.read_text("utf-8").split("\n")[:-1]
    vocabulary.write_text("".join(f"{row}\n" for row in [*rows, f'"<pad>": {last.rpartition(" ")[2]}']), "utf-8")
    version = _round_trip(tmp_path, folder)
    assert yaml.load((version / "vocab.yml").read_bytes(), yaml.BaseLoader)["<pad>"] == "74"


@pytest.mark.nightly
def test_settings_that_are_said_in_another_way_come_out_in_that_way(tmp_path: Path) -> None:
    folder = changed(tmp_path / "model", "labels", set_setting("tied-embeddings", "true"))
    (folder / "LICENSE").write_text("Creative Commons\n\nAttribution 4.0 International\n")
    version = _round_trip(tmp_path, folder)
    assert _settings(_arrays(version, "model.npz")) == _settings(_arrays(folder, "opus.npz"))
    versions = [version]
    for name, base in (("saved_model", "export"), ("ctranslate2", "export_ctranslate2")):
        assert exporter.main([f"--output_dir={tmp_path / 'run'}", f"--format={name}"]) == 0
        versions.append(tmp_path / "run" / base / "1")
    for version in versions:
        assert (version / "LICENSE").read_bytes() == (folder / "LICENSE").read_bytes()
        readme = (version / "README.md").read_text()
        assert "\nlicense: cc-by-4.0\n" in readme
        assert "The licence that it came with, cc-by-4.0, in the file LICENSE, is that of this model, too." in readme


def _translator(variant: str, **changes: Any) -> Translator:
    hparams = config.replace(SMALL, **VARIANTS[variant], **changes)
    source, target = (train_vocabulary(side * 5, size=48) for side in TEXT)
    target = target if variant == "two vocabularies" else source
    model = Transformer.from_hparams(hparams, source.size, target.size, source is target)
    reference.randomise(model, 5)
    return Translator(model, source, target, hparams)


def _logits(model: Any, source: list[int], target: list[int]) -> Any:
    return np.array(model({"source": np.array([source], np.int32), "target": np.array([target], np.int32)}))[0]


@pytest.mark.commit("pre-norm, untied", "two vocabularies")
@pytest.mark.parametrize("variant", VARIANTS)
def test_a_model_that_was_trained_here_opens_again(tmp_path: Path, variant: str) -> None:
    translator = _translator(variant)
    version = export_marian(translator, tmp_path, {}, Origin())
    imported, (source, target) = marian.read(marian_folder.find(version))
    again = t2t_model.build(imported, run_folder.recipe(imported, {}))
    for line in (*TEXT[0], "日本 </s> \u2028 <unk>"):
        ids = translator.source_vocabulary.encode(line)
        assert source.encode(line) == ids
    outputs = translator.target_vocabulary.encode(TEXT[1][0])[:20]
    assert target.text_of(outputs) == translator.target_vocabulary.text_of(outputs).replace(" \u2047 ", "<unk>")
    ours, theirs = (_logits(model, [*ids, 1], [*outputs, 1]) for model in (translator.model, again))
    np.testing.assert_allclose(theirs[:, 1:], ours[:, 1:], atol=1e-6)  # Marian has no padding
    assert theirs[:, 0].max() < -9e3
    decode = translator.decode
    assert imported.usual["beam_size"] == 3
    assert imported.usual["unknown_output"] == decode.unknown_output
    wanted = 0.7 if variant == "two vocabularies" else 0.48  # the exponent as steep as ((5 + n) / 6)^0.6 near n = 20
    assert imported.usual["length_penalty"] == wanted


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"positions": "sinusoidal"}, "positions=sinusoidal (only tensor2tensor)"),
        ({"positions": "rotary"}, "positions=rotary (only tensor2tensor)"),
        ({"norm": "deep"}, "norm=deep (only post or pre)"),
        ({"norm_epsilon": 1e-5}, "norm_epsilon=1e-05 (only 1e-06)"),
        ({"start_vector": True}, "start_vector=true"),
        ({"source_end": False}, "source_end=false (only true)"),
        ({"d_k": 4}, "heads of d_k=4 and d_v=8"),
        ({"ffn": "gated"}, "ffn=gated (only plain)"),
        ({"max_relative_position": 3}, "max_relative_position=3"),
        ({"attention_window": 4}, "attention_window=4"),
    ],
)
def test_what_marian_cannot_compute_is_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=r"^Marian cannot compute .*; export it with --format=saved_m") as caught:
        check_recipe("marian", "transformer", config.replace(SMALL, **changes))
    assert message in str(caught.value)


def test_rules_that_marian_has_not_are_refused(tmp_path: Path) -> None:
    translator = _translator("plain")
    translator.decode = config.replace(SMALL, no_repeat_ngram_size=3)
    with pytest.raises(UsageError, match="Marian's search has no no_repeat_ngram_size=3"):
        export_marian(translator, tmp_path / "none", {}, Origin())


def test_other_vocabularies_are_refused(tmp_path: Path) -> None:
    translator = _translator("plain")
    translator.source_vocabulary = ByteVocabulary()
    with pytest.raises(
        UsageError, match="has text cut by SentencePiece, and this model has a vocabulary of the kind byt"
    ):
        export_marian(translator, tmp_path / "none", {}, Origin())
    assert not (tmp_path / "none").exists()


class Other(Transformer):
    """A user's own model, which may compute anything."""


def test_a_model_of_ones_own_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    translator = _translator("plain")
    monkeypatch.setattr(translator.model, "__class__", Other)
    for export in (export_marian, export_huggingface):
        with pytest.raises(
            UsageError, match="runs the model 'transformer', not 'Other'; export it with --format=saved"
        ):
            export(translator, tmp_path / "none", {}, Origin())
    assert not (tmp_path / "none").exists()


def test_a_script_makes_the_same_replacements(tmp_path: Path) -> None:
    script = tmp_path / "preprocess.sh"
    rules = (
        "s/,/,/g; s/。 */. /g; s/’/'/g; s/(?!\\n)\\p{C}/ /g; s/[\\x{2060}\\x{200B}]//g; s/  */ /g; s/^ *//g; s/ *$//g"
    )
    script.write_text(f"perl -pe '{rules}'\n")
    found = marian_cleaning.read(script)
    assert len(found) == 8
    script.write_text(script_of(found))
    assert marian_cleaning.read(script) == found
    program = re.sub(r"\| spm_encode .*", "", script.read_text())
    texts = ["  a，b。  c’s\u200b \u2060 d\t\u200de  ", "x / $y @z \\ '"]
    done = subprocess.run(["bash", "-c", program], input="\n".join(texts).encode(), capture_output=True, check=True)
    model = (GOLDEN / "labels" / "source.spm").read_bytes()
    vocabulary = MarianVocabulary.make(["</s>", "<unk>", "a"], model, found)
    assert done.stdout.decode().split("\n") == [vocabulary.line(text) for text in texts]


def test_an_import_that_cannot_be_expressed_is_refused_before_anything_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    assert importer.main([f"--checkpoint={GOLDEN / 'labels'}", f"--output_dir={run}"]) == 0
    before = sorted(run.rglob("*"))
    assert exporter.main([f"--output_dir={run}", "--format=huggingface"]) == 2
    message = capsys.readouterr().err
    assert (
        "MarianMT of Hugging Face cannot compute norm_epsilon=1e-06 (only 1e-05), positions=tensor2tensor (only "
        in message
    )
    assert exporter.main([f"--output_dir={run}", "--format=marian", "--precision=int8"]) == 2
    assert "--format=marian has --precision=float32, not int8." in capsys.readouterr().err
    assert sorted(run.rglob("*")) == before
