"""Exports to MarianMT: an import comes out as it went in, and a model that was trained here opens again."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from t2t_lite import config
from t2t_lite.cli import exporter, importer
from t2t_lite.decoding.rules import Rules
from t2t_lite.decoding.translate import Translator
from t2t_lite.errors import DamagedError, UsageError
from t2t_lite.export.expressible import check_recipe
from t2t_lite.export.huggingface_export import export_huggingface
from t2t_lite.export.origin import Origin
from t2t_lite.ids import PAD
from t2t_lite.importers import huggingface, huggingface_files, kept_files, run_folder, t2t_model
from t2t_lite.models.transformer import Transformer
from t2t_lite.models.transformer_hparams import TransformerHParams
from t2t_lite.text.vocabulary_training import train_vocabulary
from tests import reference
from tests.export.test_marian_export import TEXT

_GOLDEN = Path(__file__).resolve().parents[1] / "golden"
_NAMES = ("toy", "tied", "untied", "two_tables", "all_apart")
SMALL = TransformerHParams(num_layers=1, d_model=16, d_ff=32, num_heads=2, norm_epsilon=1e-5, beam_size=3)
VARIANTS: dict[str, dict[str, Any]] = {
    "plain": {"num_decoder_layers": 2},
    "biases, start": {"attention_biases": True, "output_bias": True, "activation": "gelu", "start_vector": True},
    "untied": {"share_embeddings": False, "activation": "swish", "d_k": 8, "d_v": 8, "start_vector": True},
    "two vocabularies": {
        "length_penalty_form": "power",
        "length_penalty": 0.7,
        "unknown_output": False,
        "no_repeat_ngram_size": 2,
        "min_length": 5,
        "repetition_penalty": 1.2,
    },
    "two, untied": {"share_embeddings": False},
}


def _folder(path: Path, name: str) -> Path:
    """Copies a golden model; only that of the toy corpus has SentencePiece models of its own."""
    shutil.copytree(_GOLDEN / "huggingface" / name, path, ignore=shutil.ignore_patterns("outputs.*"))
    for side in ("source", "target"):
        shutil.copy(_GOLDEN / "marian" / ("toy" if name == "toy" else "labels") / f"{side}.spm", path)
    return path


def _tensors(path: Path) -> dict[str, Any]:
    """The tensors of a file, read by the format's description."""
    data = path.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    assert start % 8 == 0
    header = json.loads(data[8:start])
    assert header.pop("__metadata__") == {"format": "pt"}
    assert {entry["dtype"] for entry in header.values()} == {"F32"}
    return {
        name: np.frombuffer(data[start:], np.uint8)[slice(*entry["data_offsets"])].view("<f4").reshape(entry["shape"])
        for name, entry in header.items()
    }


def _round_trip(tmp_path: Path, folder: Path) -> Path:
    run = tmp_path / "run"
    assert importer.main([f"--checkpoint={folder}", f"--output_dir={run}"]) == 0
    assert exporter.main([f"--output_dir={run}", "--format=huggingface"]) == 0
    return run / "export_huggingface" / "1"


def _json(path: Path) -> Any:
    return json.loads(path.read_text("utf-8"))


@pytest.mark.commit("all_apart")
@pytest.mark.parametrize("name", _NAMES)
def test_an_import_comes_out_as_it_went_in(tmp_path: Path, name: str) -> None:
    folder = _folder(tmp_path / "model", name)
    version = _round_trip(tmp_path, folder)
    before, after = _tensors(folder / "model.safetensors"), _tensors(version / "model.safetensors")
    if name == "untied":  # transformers 5 needs the copies
        for side in ("encoder", "decoder"):
            np.testing.assert_array_equal(after.pop(f"model.{side}.embed_tokens.weight"), before["model.shared.weight"])
    assert after.keys() == before.keys()
    for key, array in before.items():
        np.testing.assert_array_equal(after[key], array)
        assert after[key].shape == array.shape
    for file in ("config.json", "generation_config.json", "vocab.json"):
        assert _json(version / file) == _json(folder / file)
    for side in ("source", "target"):
        assert (version / f"{side}.spm").read_bytes() == (folder / f"{side}.spm").read_bytes()


@pytest.mark.nightly
def test_odd_folders_come_out_as_they_went_in(tmp_path: Path) -> None:
    """Other ids of special pieces, another start, a search that normalises again, an alias of the activation."""
    folder = _folder(tmp_path / "model", "tied")
    names = _json(folder / "vocab.json")
    names["</s>"], names["5"], names["<unk>"], names["7"] = names["5"], names["</s>"], names["7"], names["<unk>"]
    (folder / "vocab.json").write_text(json.dumps(names))
    settings = _json(folder / "config.json")
    settings |= {"eos_token_id": 5, "decoder_start_token_id": 9, "activation_function": "silu"}
    (folder / "config.json").write_text(json.dumps(settings))
    search = {"renormalize_logits": True, "bad_words_ids": [[39], [7]], "num_beams": 2, "length_penalty": 0.0}
    search |= {"max_length": 64}
    (folder / "generation_config.json").write_text(json.dumps(search))
    version = _round_trip(tmp_path, folder)
    before, after = _tensors(folder / "model.safetensors"), _tensors(version / "model.safetensors")
    for key, array in before.items():
        np.testing.assert_array_equal(after[key], array)
    for file in ("config.json", "generation_config.json", "vocab.json"):
        assert _json(version / file) == _json(folder / file)


def _translator(variant: str) -> Translator:
    hparams = config.replace(SMALL, **VARIANTS[variant])
    source, target = train_vocabulary(TEXT[0] * 5, size=46), train_vocabulary(TEXT[1] * 5, size=48)
    target = target if variant.startswith("two") else source
    model = Transformer.from_hparams(hparams, source.size, target.size, source is target)
    reference.randomise(model, 5)
    return Translator(model, source, target, hparams)


def _logits(model: Any, source: list[int], target: list[int]) -> Any:
    return np.array(model({"source": np.array([source], np.int32), "target": np.array([target], np.int32)}))[0]


@pytest.mark.commit("biases, start", "two vocabularies")
@pytest.mark.parametrize("variant", VARIANTS)
def test_a_model_that_was_trained_here_opens_again(
    tmp_path: Path, variant: str, caplog: pytest.LogCaptureFixture
) -> None:
    translator = _translator(variant)
    version = export_huggingface(translator, tmp_path, {}, Origin())
    assert ("from its release 5 on" in caplog.text) == variant.startswith("two")
    imported, (source, target) = huggingface.read(huggingface_files.find(version))
    assert not imported.ignored
    again = t2t_model.build(imported, run_folder.recipe(imported, {}))
    for line in (*TEXT[0], "日本 </s> \u2028 <unk>"):
        ids = translator.source_vocabulary.encode(line)
        assert source.encode(line) == ids
    outputs = translator.target_vocabulary.encode(TEXT[1][0])[:20]
    assert target.pieces(outputs) == translator.target_vocabulary.pieces(outputs)
    ours, theirs = (_logits(model, [*ids, 1], [*outputs, 1]) for model in (translator.model, again))
    np.testing.assert_allclose(theirs[:, PAD + 1 :], ours[:, PAD + 1 :], atol=1e-5)
    if "untied" in variant:  # the softmax has a row of its own
        np.testing.assert_allclose(theirs[:, PAD], ours[:, PAD], atol=1e-5)
    else:
        assert theirs[:, PAD].max() < -9e3
    decode = translator.decode
    assert imported.usual["beam_size"] == 3
    assert imported.usual.get("unknown_output", True) == decode.unknown_output
    assert Rules.of(again.hparams) == Rules.of(decode)
    wanted = 0.7 if decode.length_penalty_form == "power" else 0.48
    assert imported.usual["length_penalty"] == wanted
    ids = [_json(version / f"{name}.json") for name in ("vocab", "target_vocab") if (version / f"{name}.json").exists()]
    assert len(ids) == 1 + variant.startswith("two")
    assert len({side["<pad>"] for side in ids}) == 1  # transformers has one id of <pad> for both sides
    assert _json(version / "tokenizer_config.json")["separate_vocabs"] == variant.startswith("two")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"positions": "tensor2tensor"}, "positions=tensor2tensor (only sinusoidal)"),
        ({"norm_epsilon": 1e-6}, "norm_epsilon=1e-06 (only 1e-05)"),
        ({"norm": "pre"}, "norm=pre (only post)"),
        ({"source_vector": True}, "source_vector=true (only false)"),
        ({"d_v": 4}, "heads of d_k=8 and d_v=4"),
    ],
)
def test_what_marianmt_cannot_compute_is_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match="^MarianMT of Hugging Face cannot compute") as caught:
        check_recipe("huggingface", "transformer", config.replace(SMALL, **changes))
    assert message in str(caught.value)


def test_other_models_are_refused() -> None:
    with pytest.raises(UsageError, match="runs the model 'transformer', not 'rnn'; export it with"):
        check_recipe("huggingface", "rnn", SMALL)


def _origin(**biases: Any) -> Origin:
    return Origin("MarianMT", {}, kept_files.biases_file(biases))


def test_biases_are_restored_only_where_they_add_up_to_those_of_the_run(caplog: pytest.LogCaptureFixture) -> None:
    rng = np.random.default_rng(1)
    key, value, output, product = (rng.normal(size=shape).astype(np.float32) for shape in (4, 4, 4, (4, 4)))
    origin = _origin(**{"a/key_bias": key, "a/value_bias": value, "a/output_bias": output})
    weights = {"a/output": product, "a/output_bias": output + value @ product}
    restored = dict(weights)
    origin.restore_biases(restored)
    for name, bias in (("key", key), ("value", value), ("output", output)):
        np.testing.assert_array_equal(restored[f"a/{name}_bias"], bias)
    changed = {**weights, "a/output_bias": weights["a/output_bias"] + 1e-3}
    restored = dict(changed)
    origin.restore_biases(restored)
    assert restored.keys() == changed.keys()
    assert "The biases of a/* have changed since the import" in caplog.text


def test_a_damaged_origin_is_named() -> None:
    with pytest.raises(DamagedError, match=r"imported/config.json of the imported run is damaged. Import the model ag"):
        Origin("MarianMT", {}, {"config.json": b"["}).json_object("config.json")
    with pytest.raises(DamagedError, match=r"imported/biases.npz of the imported run is damaged"):
        Origin("MarianMT", {}, {"biases.npz": b"PK\3\4"}).restore_biases({})
