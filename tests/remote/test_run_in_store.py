"""A run in a store, in this process: opened, trained on, evaluated and exported as the same run on disk."""

import importlib
import json
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

import t2t_lite
from t2t_lite.remote import mirror
from t2t_lite.remote.lease import LEASE
from t2t_lite.remote.store import Store
from t2t_lite.runs.checkpoint import find
from t2t_lite.runs.checkpoint_reader import open_checkpoint
from t2t_lite.runs.record import read_record
from tests.importers.made_up import save, variables
from tests.subword_files import PIECES, file_of

GOLDEN = Path(__file__).resolve().parent.parent / "golden" / "run_0.1.0" / "runs.tar.xz"
Machine = Callable[[str], None]


@pytest.fixture(scope="module")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("golden")
    with tarfile.open(GOLDEN) as archive:
        archive.extractall(folder, filter="data")
    return folder


def _put(folder: Path, url: str) -> None:
    store = Store(url)
    for path in folder.rglob("*"):
        if path.is_file():
            store.upload(path, path.relative_to(folder).as_posix())


def _run(name: str, *flags: str) -> None:
    assert importlib.import_module(f"t2t_lite.cli.{name}").main([*flags]) == 0


@pytest.mark.commit("memory")
def test_the_weights_of_a_run_are_read_and_no_others(url: str, machine: Machine, golden: Path) -> None:
    _put(golden / "run", url)
    copy = mirror.open_folder(url)
    path = find(copy)
    found, expected = open_checkpoint(path), open_checkpoint(find(golden / "run"))
    assert found.get_variable_to_shape_map() == expected.get_variable_to_shape_map()
    assert read_record(path)["problem"] == "text2text"
    assert len(list(Path(copy).rglob("*.data-*"))) == 1


@pytest.mark.nightly
def test_a_model_is_imported_from_one_store_into_another(
    url: str, machine: Machine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    there = tmp_path / "there"
    there.mkdir()
    for step in (90, 100):
        save(there / f"model.ckpt-{step}", variables(rows=len(PIECES)))
    (there / "vocab.subwords").write_bytes(file_of(PIECES))
    _put(there, f"{url}/there")
    _run(
        "importer", f"--checkpoint={there}", f"--vocabulary={there}/vocab.subwords", f"--output_dir={tmp_path / 'run'}"
    )
    expected = t2t_lite.load(tmp_path / "run").translate(["the cats", "in it's"])
    for number, named in enumerate([f"{url}/there", f"{url}/there/model.ckpt-100"]):
        machine(f"importing{number}")
        run = f"{url}/runs/{number}"
        _run("importer", f"--checkpoint={named}", f"--vocabulary={url}/there/vocab.subwords", f"--output_dir={run}")
        assert run in capsys.readouterr().out
        record = json.loads(Store(run).read("import.json"))
        assert record["checkpoints"][0]["path"] == f"{url}/there/model.ckpt-100"
        assert record["vocabularies"][0]["path"] == f"{url}/there/vocab.subwords"
        machine(f"translating{number}")
        assert t2t_lite.load(run).translate(["the cats", "in it's"]) == expected
        flags = [f"--checkpoint={named}", f"--vocabulary={url}/there/vocab.subwords", f"--output_dir={run}"]
        assert importlib.import_module("t2t_lite.cli.importer").main(flags) == 2
        assert f"--output_dir={run} is there already" in capsys.readouterr().err


@pytest.mark.nightly
def test_python_opens_a_run_and_an_export_by_their_urls(url: str, machine: Machine, golden: Path) -> None:
    lines = (golden / "corpus/test.en").read_text().splitlines()[:2]
    for name in ("run", "export"):
        _put(golden / name, f"{url}/{name}")
    expected = t2t_lite.load(golden / "run").translate(lines)
    assert t2t_lite.load(f"{url}/run").translate(lines) == expected
    assert t2t_lite.load(f"{url}/run/checkpoints/model-200").translate(lines) == expected
    assert t2t_lite.load(f"{url}/export").translate(lines) == expected
    copy = mirror.open_folder(f"{url}/run")
    assert len(list(Path(copy).rglob("*.data-*"))) == 2


@pytest.mark.nightly
def test_a_run_continues_in_the_store_as_on_disk(
    url: str, machine: Machine, golden: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from tests.faults.kills import digest

    here = shutil.copytree(golden / "run", tmp_path / "here")
    _put(golden / "run", url)
    flags = ["--train_steps=203", "--hparams=save_every=1,keep_checkpoints=2,log_every=1"]
    _run("trainer", f"--output_dir={here}", *flags)
    capsys.readouterr()
    _run("trainer", f"--output_dir={url}", *flags)
    said = capsys.readouterr().out
    assert f"Next: t2t-lite-decoder --output_dir={url} " in said
    assert mirror.open_folder(url) not in said
    assert LEASE not in Store(url).list()
    machine("second")
    mirror.fetch(there := Path(mirror.open_folder(url)))
    assert digest(there) == digest(here)
    assert json.loads((there / "run.json").read_text())["starts"][-1]["request"]["output_dir"] == url
    machine("third")
    _run("eval", f"--output_dir={url}", "--split=dev", "--json")
    _run("exporter", f"--output_dir={url}")
    said = capsys.readouterr().out
    assert f"\n{url}/export/1: " in said
    assert f"Next: t2t-lite-decoder --saved_model={url}/export " in said
    assert {"dev.scores.json", "export/1/saved_model.pb"} <= Store(url).list().keys()


@pytest.mark.nightly
def test_training_continues_while_the_store_is_out_of_reach_and_makes_up_for_it(
    url: str, machine: Machine, golden: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from t2t_lite.remote.store import StoreError

    _put(golden / "run", url)
    upload, tried = Store.upload, 0

    def fail(self: Store, path: Path, name: str) -> None:
        nonlocal tried
        tried += 1
        if tried < 4:
            raise StoreError("out of reach.")
        upload(self, path, name)

    monkeypatch.setattr(Store, "upload", fail)
    _run("trainer", f"--output_dir={url}", "--train_steps=203", "--hparams=save_every=1,keep_checkpoints=2")
    assert caplog.text.count("out of reach. The training continues, and the next save tries again") == 3
    assert "checkpoints/model-203.index" in Store(url).list()
