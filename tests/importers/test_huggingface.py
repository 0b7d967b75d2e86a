"""MarianMT models of Hugging Face as a `Transformer`; tests/golden/huggingface.py made the numbers."""

import dataclasses
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import t2t_lite
from t2t_lite.cli import exporter, importer
from t2t_lite.errors import DataError
from t2t_lite.importers import huggingface, huggingface_files, marian_folder, run_folder, t2t_model
from t2t_lite.importers.imported import Imported
from tests.importers.marian_golden import refused

_GOLDEN = Path(__file__).resolve().parents[1] / "golden"
_NAMES = ("tied", "untied", "two_tables", "all_apart")
_KEY = "transformer/encoder/layer_0/around_attention/self_attention/"
_TYPES = {"F32": np.float32, "F16": np.float16, "BF16": np.uint16}
_LAYER = "model.encoder.layers.0."


def _folder(path: Path, name: str = "tied") -> Path:
    """Copies a golden model; only that of the toy corpus has SentencePiece models of its own."""
    shutil.copytree(_GOLDEN / "huggingface" / name, path, ignore=shutil.ignore_patterns("outputs.*"))
    for side in ("source", "target"):
        shutil.copy(_GOLDEN / "marian" / ("toy" if name == "toy" else "labels") / f"{side}.spm", path)
    return path


def _read(folder: Path) -> Imported:
    return huggingface.read(huggingface_files.find(folder))[0]


def _error(imported: Imported, name: str = "tied") -> float:
    """The largest difference from transformers' logits, also those of <pad>, which is the last there and PAD here."""
    with np.load(_GOLDEN / "huggingface" / name / "outputs.npz") as file:
        source, target, wanted = file["source"], file["target"], file["logits"]
    last = wanted.shape[-1] - 1
    model = t2t_model.build(imported, run_folder.recipe(imported, {}))
    rows = [np.where(ids == last, 0, ids + 1).astype(np.int32) for ids in (source, target)]
    logits = np.array(model({"source": rows[0], "target": rows[1]}))
    return float(np.abs(logits - np.roll(wanted, 1, -1))[target != last].max())


def _tensors(folder: Path) -> dict[str, Any]:
    data = Path(folder, "model.safetensors").read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:start])
    header.pop("__metadata__", None)
    places = {
        name: (start + entry["data_offsets"][0], start + entry["data_offsets"][1]) for name, entry in header.items()
    }
    return {
        name: np.frombuffer(data[begin:end], np.float32).reshape(header[name]["shape"])
        for name, (begin, end) in places.items()
    }


def _write(folder: Path, tensors: dict[str, Any], change: Callable[[dict[str, Any]], Any] = len) -> None:
    """Writes tensors; `change` alters the header."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    place = 0
    for name, array in tensors.items():
        dtype = next(dtype for dtype, kind in _TYPES.items() if array.dtype == kind)
        header[name] = {"dtype": dtype, "shape": array.shape, "data_offsets": [place, place := place + array.nbytes]}
    change(header)
    text = json.dumps(header).encode()
    data = b"".join(np.ascontiguousarray(array).tobytes() for array in tensors.values())
    Path(folder, "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + data)


@pytest.mark.parametrize("name", _NAMES)
def test_logits_are_those_of_transformers(tmp_path: Path, name: str) -> None:
    folder = _folder(tmp_path / "model", name)
    imported = _read(folder)
    assert imported.description.start_vector == (name != "tied")
    assert _error(imported, name) <= 2e-5


@pytest.mark.parametrize(
    "change",
    [{"positions": "tensor2tensor"}, {"norm_epsilon": 1e-6}, {"activation": "relu"}, {"num_heads": 4}],
    ids=str,
)
def test_each_setting_counts(tmp_path: Path, change: dict[str, Any]) -> None:
    folder = _folder(tmp_path / "model")
    imported = _read(folder)
    if "num_heads" in change:
        change = {**change, "d_k": 4, "d_v": 4}
    changed = dataclasses.replace(imported, description=dataclasses.replace(imported.description, **change))
    assert _error(changed) > 2e-5


@pytest.mark.nightly
def test_each_tensor_counts(tmp_path: Path) -> None:
    folder = _folder(tmp_path / "model", "all_apart")
    names = {name.rpartition("layers.")[2].partition(".")[2]: name for name in _tensors(folder)}.values()
    for name in (name for name in names if not name.endswith("k_proj.bias")):  # adds the same to all scores
        tensors = _tensors(folder)
        tensors[name] = np.roll(tensors[name].ravel(), 1).reshape(tensors[name].shape)
        _write(folder, tensors)
        assert _error(_read(folder), "all_apart") > 2e-5, name


@pytest.mark.parametrize("dtype", ["F16", "BF16"])
def test_halved_weights_are_read(tmp_path: Path, dtype: str) -> None:
    folder = _folder(tmp_path / "model")
    tensors = _tensors(folder)
    if dtype == "F16":
        halved = {name: array.astype(np.float16) for name, array in tensors.items()}
        whole = {name: array.astype(np.float32) for name, array in halved.items()}
    else:
        halved = {name: (array.view(np.uint32) >> 16).astype(np.uint16) for name, array in tensors.items()}
        whole = {name: (array.view(np.uint32) >> 16 << 16).view(np.float32) for name, array in tensors.items()}
    _write(folder, halved)
    found = _read(folder).weights
    _write(folder, whole)
    wanted = _read(folder).weights
    assert found.keys() == wanted.keys()
    assert all(np.array_equal(found[path], wanted[path]) for path in wanted)


def _positions(rates: Any) -> Any:
    angles = np.arange(50)[:, None] * rates
    return np.concatenate([np.sin(angles), np.cos(angles)], -1).astype(np.float32)


def test_files_may_hold_copies_and_positions_and_may_lack_the_bias(tmp_path: Path) -> None:
    folder = _folder(tmp_path / "model")
    tensors = _tensors(folder)
    tensors["lm_head.weight"] = tensors["model.decoder.embed_tokens.weight"] = tensors["model.shared.weight"]
    tensors["model.encoder.embed_positions.weight"] = _positions(10000.0 ** (-np.arange(8) / 8))
    bias = tensors.pop("final_logits_bias")
    _write(folder, tensors)
    weights = _read(folder).weights
    assert not weights["transformer/output_bias"].any()
    tensors["final_logits_bias"] = bias
    _write(folder, tensors)
    assert _error(_read(folder)) <= 2e-5


def test_pieces_may_have_any_order(tmp_path: Path) -> None:
    """Newer conversions do not begin with </s> and <unk>."""
    folder = _folder(tmp_path / "model")
    wanted, (before, _) = huggingface.read(huggingface_files.find(folder))
    tensors, names = _tensors(folder), json.loads((folder / "vocab.json").read_text())
    order = np.roll(np.arange(40), 7)  # new id -> old id
    new = {int(old): i for i, old in enumerate(order)}
    tensors["model.shared.weight"] = tensors["model.shared.weight"][order]
    tensors["final_logits_bias"] = tensors["final_logits_bias"][:, order]
    _write(folder, tensors)
    (folder / "vocab.json").write_text(json.dumps({piece: new[i] for piece, i in names.items()}))
    _set(folder, "config.json", pad_token_id=new[39], decoder_start_token_id=new[39], eos_token_id=new[0])
    found, (after, _) = huggingface.read(huggingface_files.find(folder))
    there = [before.pieces([i])[0] for i in range(40)]
    rows = [there.index(after.pieces([i])[0]) for i in range(40)]
    for path in ("transformer/target_embedding/table", "transformer/output_bias"):
        np.testing.assert_array_equal(found.weights[path], wanted.weights[path][rows])
    assert rows[:3] == [0, 1, 2]


@pytest.mark.nightly
def test_best_outputs_are_those_of_transformers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its search ends in another way: a line may have an output with a better score here, or, by a tie, another one."""
    folder, run = _folder(tmp_path / "model", "toy"), tmp_path / "run"
    assert importer.main([f"--checkpoint={folder}", f"--output_dir={run}"]) == 0
    report = capsys.readouterr().out
    assert "beam_size=4, length_penalty=1 (power)" in report
    assert "at transformers' rates" in report
    assert "variables:     86, each used once" in report
    assert exporter.main([f"--output_dir={run}", "--signatures=nbest"]) == 0
    lines = Path(_GOLDEN, "marian", "toy", "test.txt").read_text("utf-8").splitlines()
    wanted = json.loads(Path(_GOLDEN, "huggingface", "toy", "outputs.json").read_text("utf-8"))
    for loaded in (run, run / "export"):
        best = [row[0] for row in t2t_lite.load(loaded).nbest(lines, 4)]
        same = [
            pieces.replace(" ", "").replace("\u2581", " ").removeprefix(" ") == output.text
            for output, (pieces, _) in zip(best, wanted, strict=True)
        ]
        assert sum(same) >= 39
        gains = [output.score - score for output, (_, score) in zip(best, wanted, strict=True)]
        assert all(abs(gain) <= 2e-6 for gain, is_same in zip(gains, same, strict=True) if is_same)


def test_pad_takes_no_share_where_the_search_normalises_again(tmp_path: Path) -> None:
    folder = _folder(tmp_path / "model")
    assert _read(folder).weights["transformer/output_bias"][0] > -10
    _set(folder, "generation_config.json", renormalize_logits=True, bad_words_ids=[[39]], length_penalty=0.5)
    imported = _read(folder)
    assert imported.weights["transformer/output_bias"][0] == -1e4
    assert imported.usual == {
        "beam_size": 4,
        "length_penalty": 0.5,
        "length_penalty_form": "power",
        "repetition_penalty": 1.0,
    }
    (folder / "generation_config.json").unlink()  # older folders have the search in config.json
    assert _read(folder).usual["beam_size"] == 1
    _set(folder, "config.json", num_beams=6)
    assert _read(folder).usual["beam_size"] == 6


def test_the_longest_length_is_that_of_transformers(tmp_path: Path) -> None:
    """`max_length` counts the start, and `max_new_tokens` overrides it."""
    folder = _folder(tmp_path / "model")
    _set(folder, "generation_config.json", max_length=512)
    found = _read(folder).usual
    assert (found["max_length_factor"], found["extra_length"]) == (0.0, 511)
    _set(folder, "generation_config.json", max_new_tokens=7)
    assert _read(folder).usual["extra_length"] == 7
    _set(folder, "generation_config.json", max_new_tokens="many")
    with pytest.raises(DataError, match="max_new_tokens='many', which is no such number"):
        _read(folder)


def test_the_rules_of_a_search_come_along(tmp_path: Path) -> None:
    """`min_length` counts the start, `min_new_tokens` does not; the larger one counts."""
    folder = _folder(tmp_path / "model")
    assert not {"no_repeat_ngram_size", "min_length"} & set(_read(folder).usual)
    _set(folder, "generation_config.json", no_repeat_ngram_size=3, min_length=6, repetition_penalty=1.2)
    found = _read(folder).usual
    assert (found["no_repeat_ngram_size"], found["min_length"], found["repetition_penalty"]) == (3, 5, 1.2)
    _set(folder, "generation_config.json", min_new_tokens=8)
    assert _read(folder).usual["min_length"] == 8
    _set(folder, "generation_config.json", renormalize_logits=True)
    with pytest.raises(DataError, match="is not shared out again. Take one of them out"):
        _read(folder)


def _set(folder: Path, file: str, **values: Any) -> None:
    path = folder / file
    path.write_text(json.dumps({**json.loads(path.read_text("utf-8")), **values}), "utf-8")


@pytest.mark.parametrize(
    ("file", "name", "value"),
    [
        *(("config.json", name, value) for name, value in {
            "model_type": "bart",
            "activation_function": "tanh",
            "scale_embedding": False,
            "static_position_embeddings": False,
            "normalize_embedding": True,
            "normalize_before": True,
            "add_final_layer_norm": True,
            "decoder_attention_heads": 4,
            "decoder_ffn_dim": 32,
            "encoder_layers": 10**6,
            "d_model": True,
            "vocab_size": [40],
            "encoder_attention_heads": 3,
            "pad_token_id": 1,
            "eos_token_id": 3,
            "decoder_start_token_id": {},
            "tie_word_embeddings": "x" * 2000,
        }.items()),
        *(("generation_config.json", name, value) for name, value in {
            "do_sample": True,
            "no_repeat_ngram_size": -3,
            "min_length": "four",
            "repetition_penalty": 0.9,
            "bad_words_ids": [[1]],
            "num_beams": 10**9,
            "length_penalty": float("nan"),
        }.items()),
        ("generation_config.json", "num_beams", "four"),
    ],
)  # fmt: skip
def test_what_cannot_be_expressed_is_named(
    tmp_path: Path, file: str, name: str, value: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = _folder(tmp_path / "model")
    _set(folder, file, **{name: value})
    message = refused(folder, capsys)
    assert {"encoder_attention_heads": "heads"}.get(name, name) in message or (
        name == "num_beams" and "beam_size" in message
    )


def _entry(**values: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda header: header["final_logits_bias"].update(values)


@pytest.mark.parametrize(
    "change",
    [
        _entry(shape=[1, 41]),
        _entry(shape=[-1, -40]),
        _entry(shape=[1.0, 40]),
        _entry(shape="ab"),
        _entry(shape=[10**30, 40]),
        _entry(shape=[1, 40, *[1] * 7]),
        _entry(data_offsets=[0, 10**18]),
        _entry(data_offsets=[-160, 0]),
        _entry(data_offsets=[1]),
        _entry(data_offsets=[160, 320]),
        _entry(data_offsets=[80, 240]),
        _entry(data_offsets=[0, 0], shape=[0, 40]),
        _entry(data_offsets=[10**400, 10**400 + 160]),
        _entry(dtype=[]),
        lambda header: header.update(x={"dtype": "F32", "shape": [1, 40], "data_offsets": [0, 160]}),
        lambda header: header.update(x=7),
        lambda header: header.pop("final_logits_bias"),
    ],
)
def test_damaged_headers(
    tmp_path: Path, change: Callable[[dict[str, Any]], Any], capsys: pytest.CaptureFixture[str]
) -> None:
    folder = _folder(tmp_path / "model")
    _write(folder, _tensors(folder), change)
    assert "is no safetensors file, or it is damaged" in refused(folder, capsys)


@pytest.mark.parametrize(
    "data",
    [b"", b"\x05", bytes(8), b"\xff" * 8, (1 << 40).to_bytes(8, "little") + b"{}", b"\x02" + bytes(7) + b"[]",
     b"\x02" + bytes(7) + b"{}x", (60000).to_bytes(8, "little") + b"[" * 60000],
)  # fmt: skip
def test_files_that_are_no_safetensors(tmp_path: Path, data: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    folder = _folder(tmp_path / "model")
    (folder / "model.safetensors").write_bytes(data)
    assert "is no safetensors file, or it is damaged" in refused(folder, capsys)


def _add(name: str, array: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda tensors: tensors.update({name: array})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda tensors: tensors.pop(f"{_LAYER}fc1.bias"), "fc1.bias"),
        (lambda tensors: tensors.pop("model.shared.weight"), "model.shared.weight"),
        (_add(f"{_LAYER}fc1.bias", np.zeros(25, np.float32)), "fc1.bias has"),
        (_add(f"{_LAYER}fc3.bias", np.zeros(24, np.float32)), "fc3.bias"),
        (_add("model.encoder.layers.1.fc1.bias", np.zeros(24, np.float32)), "layers.1.fc1"),
        (_add(f"{_LAYER}fc1.bias", np.full(24, np.inf, np.float32)), "not finite"),
        (_add("lm_head.weight", np.zeros((40, 16), np.float32)), "differs"),
        (_add("model.decoder.embed_positions.weight", _positions(10000.0 ** (-np.arange(8) / 7))), "positions"),
        (_add("model.decoder.embed_positions.weight", np.zeros(16, np.float32)), "positions"),
    ],
)
def test_tensors_that_do_not_fit(
    tmp_path: Path, change: Callable[[dict[str, Any]], Any], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = _folder(tmp_path / "model")
    tensors = _tensors(folder)
    change(tensors)
    _write(folder, tensors)
    assert message in refused(folder, capsys)


def test_other_types_of_numbers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = _folder(tmp_path / "model")
    _write(folder, _tensors(folder), _entry(dtype="I32"))
    assert "final_logits_bias is of type I32" in refused(folder, capsys)


@pytest.mark.parametrize(
    ("file", "data", "message"),
    [
        ("model.safetensors", None, "has no model.safetensors"),
        ("config.json", None, "has no config.json"),
        ("vocab.json", None, "has no vocab.json"),
        ("target.spm", None, "has no target.spm"),
        ("source.spm", b"x", "SentencePiece"),
        ("config.json", b"[" * 99999, "JSON"),
        ("config.json", b"\xff", "JSON"),
        ("config.json", b"[]", "JSON object"),
        pytest.param("config.json", b'{"a": [' + b"[]," * (6 << 20), "longer than 16,777,216 bytes", id="a long one"),
        ("generation_config.json", b"x", "JSON"),
        ("vocab.json", b'{"a": 0}', "40"),
        ("vocab.json", b'{"a": "0"}', "40"),
        ("vocab.json", json.dumps({str(i): i for i in range(40)}).encode(), "lacks the piece <pad>"),
        ("target_vocab.json", json.dumps({f"{i}": i for i in range(40)}).encode(), "target_vocab.json lacks"),
    ],
)
def test_folders_with_wrong_files(
    tmp_path: Path, file: str, data: bytes | None, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = _folder(tmp_path / "model")
    if data is None:
        (folder / file).unlink()
    else:
        (folder / file).write_bytes(data)
    assert message in refused(folder, capsys)


def test_pieces_that_are_no_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = _folder(tmp_path / "model")
    text = (folder / "vocab.json").read_text("utf-8")
    (folder / "vocab.json").write_text(text.replace('"7"', '"\\ud800"'), "utf-8")
    assert "no text" in refused(folder, capsys)


def test_pickles_are_not_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = _folder(tmp_path / "model")
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    assert "MarianMTModel.from_pretrained('.').save_pretrained('.')" in refused(folder, capsys)


@pytest.mark.parametrize("flag", ["vocabulary=x", "sentencepiece=x", "hparams=x=1", "average=2", "with_optimizer"])
def test_flags_of_other_toolkits(tmp_path: Path, flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    message = refused(_folder(tmp_path / "model"), capsys, f"--{flag}")
    assert f"--{flag.partition('=')[0]} is not for a model of Hugging Face" in message


def test_settings_that_are_not_followed_are_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = _folder(tmp_path / "model")
    assert _read(folder).ignored == ()
    _set(folder, "config.json", layer_norm_eps=0.1, dropout=0.3, my_own={"a": 1}, early_stopping=True, unset=None)
    _set(folder, "generation_config.json", early_stopping=True, num_return_sequences=3, temperature=0.7)
    _set(folder, "generation_config.json", eos_token_id=[0, 7], decoder_start_token_id=[39])
    said = (
        "layer_norm_eps=0.1 of config.json",
        "my_own={'a': 1} of config.json",
        "eos_token_id=[0, 7] of generation_config.json",
        "early_stopping=True of generation_config.json",
        "num_return_sequences=3 of generation_config.json",
    )
    assert _read(folder).ignored == said
    run = tmp_path / "run"
    assert importer.main([f"--checkpoint={folder}", f"--output_dir={run}"]) == 0
    assert f"ignored:       {', '.join(said)} (not followed here)\n" in capsys.readouterr().out
    assert json.loads((run / "import.json").read_text())["ignored"] == list(said)


@pytest.mark.parametrize(
    ("file", "name", "value"),
    [
        ("config.json", "architectures", ["MarianForCausalLM"]),
        ("config.json", "quantization_config", {"bits": 8}),
        ("config.json", "auto_map", {"AutoModel": "code.Model"}),
        ("config.json", "pruned_heads", {"0": [1]}),
        ("config.json", "is_encoder_decoder", False),
        ("generation_config.json", "forced_decoder_ids", [[1, 7]]),
        ("generation_config.json", "stop_strings", ["x"]),
    ],
)
def test_settings_that_change_results_are_refused(
    tmp_path: Path, file: str, name: str, value: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = _folder(tmp_path / "model")
    _set(folder, file, **{name: value})
    assert f"cannot be expressed here: {name}=" in refused(folder, capsys)


def test_the_unknown_piece_may_be_forbidden(tmp_path: Path) -> None:
    folder = _folder(tmp_path / "model")
    _set(folder, "generation_config.json", bad_words_ids=[[39], [1]])
    assert _read(folder).usual["unknown_output"] is False


def test_a_folder_may_hold_arrays_of_something_else(tmp_path: Path) -> None:
    folder = _folder(tmp_path / "model")
    np.savez(folder / "outputs.npz", logits=np.zeros(3))
    (folder / "broken.npz").write_bytes(b"PK")
    assert huggingface_files.is_huggingface(folder)
    note = huggingface_files.note_choice(folder)
    assert note == "model.safetensors is imported; broken.npz is no model of Marian"
    shutil.copy(_GOLDEN / "marian" / "labels" / "opus.npz", folder)
    assert not huggingface_files.is_huggingface(folder)
    assert marian_folder.is_marian(folder)
    note = huggingface_files.note_choice(folder)
    assert note.startswith("opus.npz of Marian is imported, which computes what was trained; for what transformers")
    assert note.endswith(f"give --checkpoint={folder}/model.safetensors")
    assert huggingface_files.is_huggingface(folder / "model.safetensors")
    assert huggingface_files.note_choice(folder / "model.safetensors") == ""


def test_the_choice_between_two_models_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = _folder(tmp_path / "model")
    np.savez(folder / "outputs.npz", logits=np.zeros(3))
    assert importer.main([f"--checkpoint={folder}", f"--output_dir={tmp_path / 'run'}"]) == 0
    assert "taken:         model.safetensors is imported; outputs.npz is no" in capsys.readouterr().out
