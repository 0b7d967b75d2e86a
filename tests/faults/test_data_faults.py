"""Data that is damaged, changed or odd: the command says what is wrong, and what was good before does not change.

Faults of corpora are also tested in tests/problems and tests/system/test_errors.py, and faults of checkpoints in
tests/runs/test_damaged_checkpoint.py.
"""

import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from t2t_lite.data.store import open_store
from t2t_lite.text.vocabulary_training import train_vocabulary
from tests.faults.material import LARGE, SMALL, contents, write_corpus

Run = Callable[..., tuple[int, str]]


def edit(**changes: object) -> Callable[[Path], None]:
    """Damage: other values in the manifest; two underscores separate nested names."""

    def damage(folder: Path) -> None:
        manifest = json.loads((folder / "manifest.json").read_text())
        for names, value in changes.items():
            *outer, last = names.split("__")
            holder = manifest
            for name in outer:
                holder = holder[name]
            holder[last] = value
        (folder / "manifest.json").write_text(json.dumps(manifest))

    return damage


def flip(name: str) -> Callable[[Path], None]:
    """Damage: one bit of a file."""

    def damage(folder: Path) -> None:
        data = bytearray((folder / name).read_bytes())
        data[len(data) // 2] ^= 1
        (folder / name).write_bytes(data)

    return damage


def remove(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).unlink()


def outside(folder: Path) -> None:
    """Damage: the manifest names a file that is not the store's."""
    facts = {"bytes": (folder.parent / "precious").stat().st_size, "sha256": ""}
    manifest = json.loads((folder / "manifest.json").read_text())
    edit(files={**manifest["files"], "../precious": facts})(folder)


FORM = "manifest.json is damaged ("
DAMAGES: dict[str, tuple[Callable[[Path], None], str, str]] = {
    "a bit of the ids": (flip("train.source.ids"), "--verify", "train.source.ids is damaged: its checksum is "),
    "a bit of the vocabulary": (
        flip("vocabulary.model"),
        "--num_workers=1",
        "vocabulary.model is damaged: its checksum",
    ),
    "offsets": (flip("train.source.offsets"), "--describe", "the offsets of train.source do not fit its ids. Delete"),
    "no file": (remove("dev.target.txt"), "--num_workers=1", "dev.target.txt is missing. Delete"),
    "no manifest": (remove("manifest.json"), "--num_workers=1", "holds no prepared data (no manifest.json), so it is"),
    "a bit of the manifest": (flip("manifest.json"), "--verify", "prepare the data again."),
    "number of pairs": (edit(splits__dev__pairs=19), "--num_workers=1", FORM),
    "type of the ids": (edit(splits__dev__source={"dtype": "O", "ids": 3}), "--num_workers=1", FORM),
    "vocabularies": (edit(vocabularies__source="/dev/zero"), "--num_workers=1", FORM),
    "file outside": (outside, "--verify", FORM),
    "format": (
        edit(format=2),
        "--num_workers=1",
        "the format number 2; this version of t2t-lite reads format 1. Delete",
    ),
}


@pytest.mark.commit
@pytest.mark.parametrize("name", DAMAGES)
def test_a_store_that_is_damaged(name: str, run: Run, tmp_path: Path) -> None:
    flags = [*write_corpus(tmp_path / "corpus", SMALL, SMALL[:20]), f"--data_dir={tmp_path / 'data'}"]
    assert run("datagen", *flags, "--num_workers=1")[0] == 0
    (tmp_path / "data" / "precious").write_text("not the store's")
    damage, flag, message = DAMAGES[name]
    damage(tmp_path / "data" / "text2text")
    before = contents(tmp_path / "data")
    for force in ([], ["--force"]) if flag == "--num_workers=1" and "bit" not in name else ([],):
        status, said = run("datagen", *flags, flag, *force)
        assert (status, said.count("\n")) == (1, 1), said
        assert said.startswith(f"error: {tmp_path / 'data' / 'text2text'}")
        assert message in said
    assert contents(tmp_path / "data") == before


@pytest.mark.commit("train")
@pytest.mark.parametrize("split", ["train", "dev"])
def test_an_id_of_no_piece_is_named_where_it_is_read(run: Run, copy: Path, split: str) -> None:
    """Only --verify compares the file's checksum; a GPU would use zeros for such a piece."""
    path = copy / "data" / "text2text" / f"{split}.target.ids"
    content = bytearray(path.read_bytes())
    content[1::2] = b"\xff" * (len(content) // 2)
    path.write_bytes(content)
    saved = sorted(path.name for path in (copy / "checkpoints").iterdir())
    status, said = run("trainer", f"--output_dir={copy}", "--train_steps=4", "--hparams=eval_every=4,save_every=4")
    assert status == 1
    (message,) = [line for line in said.split("\n") if line.startswith("error: ")]
    assert re.match(
        rf"error: {path} is damaged: it holds the id 65,\d\d\d, and the vocabulary has \d+ pieces\. Delete", message
    )
    assert sorted(path.name for path in (copy / "checkpoints").iterdir()) == saved


def test_a_store_that_is_damaged_under_a_run(run: Run, copy: Path) -> None:
    flip("vocabulary.model")(copy / "data" / "text2text")
    before = contents(copy)
    status, said = run("trainer", f"--output_dir={copy}", "--train_steps=3")
    assert (status, said.count("\n")) == (1, 1), said
    assert said.startswith(f"error: {copy}/data/text2text/vocabulary.model is damaged: its checksum is ")
    assert contents(copy) == before


def test_a_vocabulary_that_changed_under_a_run(run: Run, copy: Path) -> None:
    vocabulary = copy / "vocabulary.model"
    good = vocabulary.read_bytes()
    trains = ("trainer", f"--output_dir={copy}", "--train_steps=3")
    decodes = ("decoder", f"--output_dir={copy}", f"--input={copy}/dev.hyp.txt", f"--output={copy}/out")
    other = train_vocabulary(SMALL, size=80).data
    for proto, command, message in (
        (other, trains, f"{vocabulary} is damaged. Put it back from a copy"),
        (other, decodes, f"{vocabulary} is damaged. Put it back from a copy"),
        (good[:400], trains, f"{vocabulary} is damaged. Put it back from a copy"),
        (good[:400], decodes, f"{vocabulary} is damaged. Put it back from a copy"),
        (None, decodes, f"{vocabulary} is missing. Put it back from a copy"),
    ):
        vocabulary.unlink(missing_ok=True)
        if proto is not None:
            vocabulary.write_bytes(proto)
        before = contents(copy)
        status, said = run(*command)
        assert (status, said.count("\n")) == (1, 1), said
        assert message in said
        assert contents(copy) == before


ODD = {
    "NUL": "a\0b c",
    "BOM": "\ufeffa b\ufeff c",
    "carriage returns": "a\rb c",
    "next line": "a\u0085b c",
    "line separators": "a\u2028b\u2029 c",
    "bidirectional controls": "\u202eabc\u202c \u2066\u05d0\u2069 c",
    "other spaces": "a\x0bb\x0cc\x1cd\u00a0e\u3000f",
    "half a megabyte": "ab cd " * 87_381,
    "a word of a megabyte": "ab" * (1 << 19),
}


@pytest.mark.commit
def test_a_corpus_with_all_that_text_can_hold(run: Run, tmp_path: Path) -> None:
    """Lines are not split, stay beside their translations, and come back from the store as they are."""
    lines = ["first", *ODD.values(), *SMALL]
    sources = [f"{i} {line}".strip() for i, line in enumerate(lines)]
    corpus = tmp_path / "corpus"
    flags = write_corpus(corpus, [], [])
    for split, line_end in (("train", "\n"), ("dev", "\r\n")):
        (corpus / f"{split}.en").write_bytes(b"\xef\xbb\xbf" + "".join(line + line_end for line in sources).encode())
        (corpus / f"{split}.de").write_bytes(
            "".join(f"Das ist Zeile {i}{line_end}" for i in range(len(lines))).encode()
        )
    assert run("datagen", *flags, f"--data_dir={tmp_path / 'data'}", "--num_workers=1", "--verify") == (0, "")
    store = open_store(tmp_path / "data" / "text2text")
    assert store.text("dev") == (sources, [f"Das ist Zeile {i}" for i in range(len(lines))])
    for split in map(store.split, ("train", "dev")):
        assert len(split) == len(lines)
        for i, line in enumerate(sources):
            # NUL is the one character that no vocabulary holds.
            same = store.source_vocabulary.decode(split.source[i]) == line.replace("\0", " ⁇ ")
            assert same, f"line {i}: {line[:40]!r}"  # not the whole line, which may have a megabyte
            assert store.source_vocabulary.decode(split.target[i]) == f"Das ist Zeile {i}"


def test_a_store_that_was_to_be_replaced_survives_a_kill(run: Run, tmp_path: Path) -> None:
    flags = [*write_corpus(tmp_path / "corpus", SMALL, SMALL[:20]), f"--data_dir={tmp_path / 'data'}"]
    assert run("datagen", *flags, "--num_workers=1")[0] == 0
    before = contents(tmp_path / "data" / "text2text")
    shutil.rmtree(tmp_path / "corpus")
    write_corpus(tmp_path / "corpus", LARGE[:100], SMALL)
    rename = os.rename

    def kill_after(source: Path, target: Path) -> None:
        rename(source, target)
        os._exit(9)

    child = os.fork()
    if child == 0:
        os.rename = kill_after
        run("datagen", *flags, "--num_workers=1", "--force")
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    assert not (tmp_path / "data" / "text2text").exists()
    for path in (tmp_path / "corpus").iterdir():
        path.unlink()  # only the store is left
    assert run("datagen", *flags, "--verify") == (0, "")
    assert contents(tmp_path / "data" / "text2text") == before
