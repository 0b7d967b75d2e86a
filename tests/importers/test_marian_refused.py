"""Marian models that cannot be imported, and damaged and hostile files: a sentence each, and nothing is written."""

import copy
import io
import json
import shutil
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from t2t_lite.cli import importer
from t2t_lite.export.marian_layout import KEY
from tests.importers.marian_golden import GOLDEN, changed, refused, set_setting

_BOMB = "a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("type", "s2s"),
        ("type", "multi-transformer"),
        ("transformer-decoder-autoreg", "rnn"),
        ("transformer-decoder-autoreg", "average-attention"),
        ("transformer-ffn-activation", "tanh"),
        ("transformer-ffn-depth", "3"),
        ("transformer-decoder-dim-ffn", "32"),
        ("transformer-postprocess-emb", "nd"),
        ("transformer-postprocess", "dar"),
        ("transformer-preprocess", "n"),
        ("transformer-postprocess-top", "n"),
        ("transformer-tied-layers", "[1, 1]"),
        ("transformer-train-position-embeddings", "true"),
        ("transformer-no-projection", "true"),
        ("right-left", "true"),
        ("lemma-dim-emb", "8"),
        ("input-types", "[sequence, class]"),
        ("a-new-setting", "1"),
        ("enc-depth", "1000"),
        ("dim-emb", "sixteen"),
        ("dim-vocabs", "[75]"),
        ("transformer-heads", "3"),
    ],
)
def test_what_cannot_be_expressed_is_named(
    tmp_path: Path, name: str, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    message = refused(changed(tmp_path / "model", "labels", set_setting(name, value)), capsys)
    assert {"transformer-heads": "heads"}.get(name, name.removeprefix("transformer")) in message


def test_pre_norm_models_of_old_releases(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = changed(tmp_path / "model", "prenorm", set_setting("version", "v1.10.24 4dd30b5"))
    assert "before 1.11" in refused(folder, capsys)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda arrays: arrays.pop("encoder_l1_self_bq"), "needs? encoder_l1_self_bq"),
        (lambda arrays: arrays.update(Wpos=np.zeros((9, 16), np.float32)), "holds Wpos"),
        (lambda arrays: arrays.update(Wemb=arrays["Wemb"][1:]), "Wemb has"),
        (lambda arrays: arrays.update(Wemb=arrays["Wemb"].astype(np.float16)), "float16"),
        (lambda arrays: arrays.update(Wemb=arrays["Wemb"] * np.inf), "not finite"),
        (lambda arrays: arrays.update(Wemb=np.array([{}])), "type object"),
        (lambda arrays: arrays.pop("special:model.yml"), "Give --hparams"),
        (lambda arrays: arrays.update({"special:model.yml": np.frombuffer(_BOMB.encode(), np.int8)}), "aliases"),
        (lambda arrays: arrays.update({"special:model.yml": np.frombuffer(b"[" * 9999, np.int8)}), "YAML"),
        (lambda arrays: arrays.update({"special:model.yml": np.frombuffer(b"{a: [" * 13000, np.int8)}), "brackets"),
        (lambda arrays: arrays.update({"../../../Wemb": np.zeros(1, np.float32)}), "../../../Wemb"),
        (lambda arrays: arrays.update({"/etc/Wemb": np.zeros(1, np.float32)}), "/etc/Wemb"),
        (lambda arrays: arrays.update({"special:model.yml": np.frombuffer(b"a: " + b"x" * 99999, np.int8)}), "longer"),
        (lambda arrays: arrays.update({"special:model.yml": np.frombuffer(b"x", np.int8)}), "no settings"),
    ],
)
@pytest.mark.filterwarnings("ignore:invalid value")
def test_arrays_that_do_not_fit(
    tmp_path: Path, change: Callable[[dict[str, Any]], Any], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = refused(changed(tmp_path / "model", "labels", change), capsys)
    assert message.split()[-1] in found


def _npy(header: str, data: bytes = b"") -> bytes:
    text = header.encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + data


@pytest.mark.parametrize(
    "data",
    [
        _npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-1, 16)}", bytes(64)),
        _npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000, 16)}", bytes(64)),
        _npy("{'descr': '<f4', 'fortran_order': False, 'shape': (0, 16)}"),
        _npy("{'descr': '|O', 'fortran_order': False, 'shape': (1,)}", b"cos\nsystem\n(S'false'\ntR."),
        _npy("{'descr': '<f4'"),
        _npy("(" * 5000),
        b"\x93NUMPY\x09\x00",
        b"",
    ],
)
def test_damaged_arrays(tmp_path: Path, data: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(GOLDEN / "labels", tmp_path / "model")
    with (
        zipfile.ZipFile(GOLDEN / "labels" / "opus.npz") as old,
        zipfile.ZipFile(tmp_path / "model" / "opus.npz", "w") as new,
    ):
        for member in old.namelist():
            new.writestr(member, data if member == "Wemb.npy" else old.read(member))
    assert "Wemb" in refused(tmp_path / "model", capsys)


def test_files_that_are_no_weights(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(GOLDEN / "labels", tmp_path / "model")
    model = tmp_path / "model" / "opus.npz"
    whole = model.read_bytes()
    model.write_bytes(whole[: len(whole) // 2])
    assert "damaged" in refused(model.parent, capsys)
    bomb = io.BytesIO()
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("Wemb.npy", bytes(1 << 24))
    model.write_bytes(bomb.getvalue())
    assert "unpack to" in refused(model.parent, capsys)
    model.rename(model.with_suffix(".bin"))
    (model.parent / "decoder.yml").unlink()
    assert "Bergamot" in refused(model.parent, capsys)
    (model.parent / "config.json").write_text("{}")
    assert "no model.safetensors" in refused(model.parent, capsys)


def _with_bomb(model: Path, unpacked: int, says_less: bool = False, copies: int = 1) -> None:
    """Packs zeros as the array Wemb; the list of the file may say that they are few, or have many names for them."""
    shape = (75, 16) if says_less else (unpacked // 4, 1)
    header = _npy(f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}}}")
    with zipfile.ZipFile(model, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file:
        file.writestr("Wemb.npy", header + bytes(unpacked))
        member = file.filelist[0]
        if says_less:
            member.file_size = len(header) + 4 * 75 * 16
        for i in range(1, copies):
            file.filelist.append(copy.copy(member))
            file.filelist[-1].filename = f"copy{i}.npy"


@pytest.mark.parametrize(
    ("bomb", "message"),
    [
        ({"unpacked": 1 << 27}, "unpack to 134,"),
        ({"unpacked": 1 << 27, "says_less": True}, "Wemb cannot be read"),
        ({"unpacked": 1 << 20, "copies": 1000}, "unpack to 1,04"),
    ],
    ids=["packed", "a lie", "one for many"],
)
def test_bombs_take_little_memory(
    tmp_path: Path, bomb: dict[str, int], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = shutil.copytree(GOLDEN / "labels", tmp_path / "model")
    _with_bomb(folder / "opus.npz", **bomb)
    if "says_less" in bomb:
        with zipfile.ZipFile(GOLDEN / "labels" / "opus.npz") as old, zipfile.ZipFile(folder / "opus.npz", "a") as new:
            for member in set(old.namelist()) - {"Wemb.npy"}:
                new.writestr(member, old.read(member))
    before = sorted(tmp_path.rglob("*"))
    tracemalloc.start()
    try:
        assert message in refused(folder, capsys)
        assert tracemalloc.get_traced_memory()[1] < 1 << 25
    finally:
        tracemalloc.stop()
    assert sorted(tmp_path.rglob("*")) == before


def _write(name: str, text: str | bytes | None) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        path = folder / name
        if text is None:
            path.unlink()
        else:
            path.write_bytes(text if isinstance(text, bytes) else text.encode())

    return change


def _vocabulary(piece: str) -> Callable[[Path], None]:
    """A change of the last piece."""

    def change(folder: Path) -> None:
        path = folder / "opus.spm.vocab.yml"
        *rows, last = path.read_text("utf-8").split("\n")[:-1]
        rows.append(f'"{piece}": {last.rpartition(" ")[2]}')
        path.write_text("".join(f"{row}\n" for row in rows), "utf-8")

    return change


@pytest.mark.parametrize(
    ("change", "flags", "message"),
    [
        (_write("decoder.yml", "models: [../../../etc/passwd]"), [], "no 'passwd'"),
        (_write("decoder.yml", "models: [opus.npz]\nvocabs: [/etc/hostname]"), [], "no 'hostname'"),
        (_write("decoder.yml", "models: [opus.npz, opus.npz]"), [], "has 2 models"),
        (_write("decoder.yml", _BOMB), [], "aliases"),
        (_write("decoder.yml", "!!python/object/apply:os.system [false]"), [], "no settings"),
        (_write("decoder.yml", "normalize: x"), [], "normalize: x"),
        (_write("decoder.yml", "beam-size: 1000000"), [], "beam_size"),
        (_write("decoder.yml", "word-penalty: 0.5"), [], "word-penalty"),
        (_write("decoder.yml", "word-penalty: [0]"), [], "word-penalty"),
        (_write("opus.fsv", "x"), ["--vocabulary=opus.fsv"], "factored"),
        (_write("source.spm", None), [], "has no source.spm"),
        (_write("source.bpe", b""), [], "source.spm"),
        (_write("source.spm", b"x"), [], "SentencePiece"),
        (_write("opus.spm.vocab.yml", "a: 0"), [], "75"),
        (_write("opus.spm.vocab.yml", b"\xff"), [], "UTF-8"),
        (_vocabulary("\\ud800"), [], "no text"),
        (_vocabulary("\\U00110000"), [], "no text"),
        (_write("x.optimizer.npz", b""), ["--with_optimizer"], "--with_optimizer"),
        (_write("x.optimizer.npz", b""), ["--target_space_id=1"], "--target_space_id"),
        (_write("x.optimizer.npz", b""), ["--vocabulary=nowhere.yml"], "nowhere.yml"),
    ],
)
def test_folders_with_wrong_files(
    tmp_path: Path, change: Callable[[Path], None], flags: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(GOLDEN / "labels", tmp_path / "model")
    change(tmp_path / "model")
    if message == "source.spm":
        (tmp_path / "model" / "source.spm").unlink()
    found = refused(tmp_path / "model", capsys, *flags)
    assert message in found
    assert message != "source.spm" or "subword-nmt" in found


def test_settings_beside_an_old_file_and_those_given(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept: dict[str, bytes] = {}

    def old(arrays: dict[str, Any]) -> None:
        kept["yml"] = arrays.pop("special:model.yml").tobytes().rstrip(b"\0")

    folder = changed(tmp_path / "model", "labels", old)
    (folder / "decoder.yml").rename(folder / "opus.npz.decoder.yml")
    (folder / "opus.npz.yml").write_bytes(kept["yml"] + b"\nmini-batch: 32\noptimizer: adam\n")
    assert importer.main([f"--checkpoint={folder}", f"--output_dir={tmp_path / 'one'}"]) == 0
    flags = ["--hparams=transformer-ffn-activation=relu,transformer-heads=4"]
    assert importer.main([f"--checkpoint={folder}/opus.npz", f"--output_dir={tmp_path / 'two'}", *flags]) == 0
    assert "4 heads of 4" in (report := capsys.readouterr().out)
    assert report.count("length_penalty=1 (power)") == 2


def test_a_file_without_settings_takes_those_given(tmp_path: Path) -> None:
    def old(arrays: dict[str, Any]) -> None:
        arrays.pop(KEY)

    folder = changed(tmp_path / "model", "labels", old)
    sizes = "dim-vocabs=[75, 75],dim-emb=16,enc-depth=1,dec-depth=1,transformer-heads=2,transformer-dim-ffn=24"
    flags = f"--hparams=tied-embeddings-all=true,{sizes},transformer-ffn-activation=swish"
    assert importer.main([f"--checkpoint={folder}", f"--output_dir={tmp_path / 'run'}", flags]) == 0


def test_settings_of_a_search_that_are_not_followed_are_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = shutil.copytree(GOLDEN / "labels", tmp_path / "model")
    text = "allow-unk: Yes\nword-penalty: 0.00\nshortlist: [lex.gz, 50]\noutput-sampling: []\nn-best: true\n"
    (folder / "decoder.yml").write_text(f"models: [opus.npz]\n{text}", "utf-8")
    assert importer.main([f"--checkpoint={folder}", f"--output_dir={tmp_path / 'run'}"]) == 0
    report = capsys.readouterr().out
    assert "shortlist=['lex.gz', '50'] of decoder.yml (not followed here)" in report
    assert "n-best" not in report
    assert "output-sampling" not in report
    assert json.loads((tmp_path / "run" / "hparams.json").read_text("utf-8")).get("unknown_output") is not False


def test_another_checkpoint_needs_a_vocabulary(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "--vocabulary=FILE is missing" in refused(tmp_path, capsys)
