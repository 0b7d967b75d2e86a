"""Working copies: what the store has and no more, uploaded so that what names data comes after the data."""

import functools
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from t2t_lite.errors import TrainingError, UsageError
from t2t_lite.remote import mirror
from t2t_lite.remote.lease import LEASE, Lease
from t2t_lite.remote.mirror import open_folder, push
from t2t_lite.remote.store import Entry, Store, StoreError

RUN = {
    "hparams.json": "{}",
    "metrics.jsonl": "1\n",
    "checkpoints/model-10.data-00000-of-00001": "weights of 10",
    "checkpoints/model-10.index": "index of 10",
    "best/model-10.data-00000-of-00001": "best weights",
    "best/model-10.index": "best index",
    "data/toy/manifest.json": "{}",
    "data/toy/train.ids": "ids",
    "export/1/saved_model.pb": "graph",
    "export/1/variables/variables.index": "index",
}
Machine = Callable[[str], None]


def _write(folder: str, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = Path(folder, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def _read(folder: str) -> dict[str, str]:
    return {str(p.relative_to(folder)): p.read_text() for p in sorted(Path(folder).rglob("*")) if p.is_file()}


@pytest.fixture
def order(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is done to the store, in order."""
    done: list[str] = []
    upload, remove = Store.upload, Store.remove

    def log_upload(self: Store, path: Path, name: str) -> None:
        upload(self, path, name)
        done.append(name)

    def log_remove(self: Store, name: str) -> None:
        remove(self, name)
        done.append(f"-{name}")

    monkeypatch.setattr(Store, "upload", log_upload)
    monkeypatch.setattr(Store, "remove", log_remove)
    return done


def test_another_machine_has_what_was_pushed_and_only_what_it_wants(url: str, machine: Machine) -> None:
    here = open_folder(url)
    _write(here, {**RUN, ".trainer.lock": "process 1"})
    push(here)
    assert {name: Store(url).read(name).decode() for name in Store(url).list()} == RUN
    machine("second")
    there = open_folder(f"{url}/")
    assert there != here
    wanted = {name: text for name, text in RUN.items() if "/" not in name or name.endswith("model-10.index")}
    assert _read(there) == wanted
    assert mirror.has(Path(there, "export/1/saved_model.pb"))
    assert not mirror.has(Path(there, "export/2/saved_model.pb"))
    mirror.fetch(f"{there}/best/model-10")
    mirror.fetch(f"{there}/data/toy")
    assert _read(there).keys() - wanted.keys() == {
        "best/model-10.data-00000-of-00001",
        "data/toy/manifest.json",
        "data/toy/train.ids",
    }
    push(there)  # what was not downloaded is not taken for removed
    assert len(Store(url).list()) == len(RUN)


def test_what_names_data_is_uploaded_after_them_and_removed_before_them(
    url: str, machine: Machine, order: list[str]
) -> None:
    here = open_folder(url)
    _write(here, RUN)
    push(here)
    place = {name: order.index(name) for name in order}
    assert len(order) == len(RUN)
    for data, name in [
        ("checkpoints/model-10.data-00000-of-00001", "checkpoints/model-10.index"),
        ("best/model-10.data-00000-of-00001", "best/model-10.index"),
        ("best/model-10.index", "metrics.jsonl"),  # a score without its weights would never be computed again
        ("metrics.jsonl", "checkpoints/model-10.index"),  # lines of updates that are not made again
        ("data/toy/train.ids", "data/toy/manifest.json"),
        ("export/1/variables/variables.index", "export/1/saved_model.pb"),
        ("checkpoints/model-10.index", "hparams.json"),
    ]:
        assert place[data] < place[name]
    del order[:]
    push(here)
    assert order == []
    for name in ("index", "data-00000-of-00001"):
        Path(here, f"checkpoints/model-10.{name}").unlink()
    _write(here, {"checkpoints/model-20.index": "i", "checkpoints/model-20.data-00000-of-00001": "d"})
    push(here)
    assert order == [
        "checkpoints/model-20.data-00000-of-00001",
        "checkpoints/model-20.index",
        "-checkpoints/model-10.index",
        "-checkpoints/model-10.data-00000-of-00001",
    ]


def test_a_removed_index_takes_the_data_with_it_that_were_never_downloaded(url: str, machine: Machine) -> None:
    _write(open_folder(url), RUN)
    push(open_folder(url))
    machine("second")
    there = open_folder(url)
    Path(there, "best/model-10.index").unlink()
    push(there)
    assert sorted(name for name in Store(url).list() if name.startswith("best/")) == []
    assert "checkpoints/model-10.data-00000-of-00001" in Store(url).list()


def test_a_push_that_ends_in_the_middle_leaves_no_index_without_data_and_is_made_up_for(
    url: str, machine: Machine, order: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    here = open_folder(url)
    _write(here, RUN)
    whole = Store.upload
    for ends in range(len(RUN)):

        def fail(self: Store, path: Path, name: str, ends: int = ends) -> None:
            if len(order) == ends:
                raise StoreError("out of reach")
            whole(self, path, name)

        del order[:]
        monkeypatch.setattr(Store, "upload", fail)
        with pytest.raises(StoreError, match="out of reach"):
            push(here)
        there = Store(url).list()
        for name in there:
            if name.endswith("model-10.index"):
                assert name.replace("index", "data-00000-of-00001") in there
        assert ("hparams.json" in there) <= (len(there) == len(RUN))
    push(here, at_the_end=False)  # a warning; the next save tries again
    monkeypatch.setattr(Store, "upload", whole)
    push(here)
    assert Store(url).list().keys() == RUN.keys()


LEFT = {
    "metrics.jsonl": "1\n2\n",
    "checkpoints/model-20.data-00000-of-00001": "weights of 20",
    "checkpoints/model-20.index": "index of 20",
}


def _leave(url: str, machine: Machine, uploaded: int) -> tuple[str, dict[str, str]]:
    """A process that is killed when it has uploaded a number of LEFT, and has removed checkpoint 10 here."""
    here = open_folder(url, keep=True)
    _write(here, RUN)
    push(here)
    _write(here, {**LEFT, ".best.partial-7/model-5.index": "half"})
    for name in ("index", "data-00000-of-00001"):
        Path(here, f"checkpoints/model-10.{name}").unlink()
    for name in ("checkpoints/model-20.data-00000-of-00001", "metrics.jsonl", "checkpoints/model-20.index")[:uploaded]:
        Store(url).upload(Path(here, name), name)
    kept = {name: text for name, text in {**RUN, **LEFT}.items() if "model-10" not in name or name.startswith("best")}
    machine("first")
    return here, kept


@pytest.mark.parametrize("uploaded", range(4))
def test_what_a_killed_trainer_has_not_uploaded_is_kept_for_the_next(url: str, machine: Machine, uploaded: int) -> None:
    here, kept = _leave(url, machine, uploaded)
    other = open_folder(url)  # no trainer: it takes the store as it is, and leaves the copy alone
    assert other != here
    assert not Path(other, "checkpoints/model-20.index").exists() or uploaded == 3
    machine("first")
    assert open_folder(url, keep=True) == here
    push(here)
    assert {name: Store(url).read(name).decode() for name in Store(url).list()} == kept
    machine("second")
    mirror.fetch(open_folder(url))
    assert _read(open_folder(url)) == kept


@pytest.mark.parametrize("uploaded", [0, 1])
def test_the_store_is_right_where_others_have_written_since(
    url: str, machine: Machine, uploaded: int, caplog: pytest.LogCaptureFixture
) -> None:
    here, _ = _leave(url, machine, uploaded)
    machine("second")
    there = open_folder(url)
    _write(there, {"metrics.jsonl": "1\n3\n"})
    push(there)
    machine("first")
    assert open_folder(url, keep=True) == here
    assert "has not uploaded 3 files" in caplog.text
    assert "others have written to it since, so they are left out" in caplog.text
    mirror.fetch(here)
    machine("second")
    mirror.fetch(there := open_folder(url))
    assert _read(here) == _read(there)
    assert Path(here, "metrics.jsonl").read_text() == "1\n3\n"


def test_an_object_that_vanishes_while_it_is_compared_was_removed_by_others(
    url: str, machine: Machine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    here, _ = _leave(url, machine, 1)
    download = Store.download

    def vanish(self: Store, name: str, path: Path) -> None:
        if path.name == "compared":
            self.remove(name)
        download(self, name, path)

    monkeypatch.setattr(Store, "download", vanish)
    assert open_folder(url, keep=True) == here
    assert "others have written to it since, so they are left out" in caplog.text
    assert not Path(here, "checkpoints/model-20.data-00000-of-00001").exists()


def test_a_run_that_was_removed_from_the_store_does_not_come_back(url: str, machine: Machine) -> None:
    here, _ = _leave(url, machine, 0)
    for name in Store(url).list():
        Store(url).remove(name)
    assert open_folder(url, keep=True) == here
    assert _read(here) == {}


def test_notes_of_a_machine_are_uploaded_with_other_files_only(url: str, machine: Machine, order: list[str]) -> None:
    here, notes = open_folder(url), "data/toy/origin.json"
    _write(here, {**RUN, notes: "of the first"})
    push(here)
    del order[:]
    _write(here, {notes: "of another machine"})  # the store may be one that this machine cannot write to
    push(here)
    assert order == []
    machine("first")
    assert open_folder(url) == here
    _write(here, {notes: "of other data", "data/toy/manifest.json": "[]"})
    push(here)
    assert order == [notes, "data/toy/manifest.json"]


def test_equal_files_are_not_downloaded_again(url: str, machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    _write(open_folder(url), RUN)
    push(open_folder(url))
    machine("second")
    mirror.fetch(open_folder(url))
    machine("second")
    read: list[str] = []
    monkeypatch.setattr(Store, "download", lambda self, name, path: read.append(name))
    mirror.fetch(open_folder(url))
    assert read == []


def test_a_download_that_is_killed_is_taken_up_again(
    url: str, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    _write(open_folder(url), RUN)
    push(open_folder(url))
    machine("second")
    there = open_folder(url)
    read: list[str] = []
    whole = Store.download

    def stop(self: Store, name: str, path: Path) -> None:
        if len(read) == 3:
            raise KeyboardInterrupt
        read.append(name)
        whole(self, name, path)

    monkeypatch.setattr(Store, "download", stop)
    with pytest.raises(KeyboardInterrupt):
        mirror.fetch(there)
    monkeypatch.setattr(Store, "download", whole)
    machine("second")
    assert open_folder(url) == there  # it is not taken for one with files that were not uploaded
    mirror.fetch(there)
    assert _read(there) == RUN


def test_each_process_has_a_copy_of_its_own(url: str, machine: Machine) -> None:
    first, second = mirror.Mirror(url), mirror.Mirror(url)
    assert second.folder != first.folder
    first.close()
    third = mirror.Mirror(url)
    assert third.folder == first.folder
    second.close()
    third.close()


def test_a_checkpoint_that_a_trainer_removes_meanwhile_is_gone(
    url: str, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    _write(open_folder(url), RUN)
    push(open_folder(url))
    gone = {name: entry for name, entry in Store(url).list().items() if name.startswith("best")}
    machine("second")
    there = open_folder(url)
    Store(url).remove("best/model-10.data-00000-of-00001")
    mirror.fetch(f"{there}/best/model-10")
    assert not Path(there, "best/model-10.index").exists()
    machine("third")
    monkeypatch.setattr(Store, "list", lambda self, whole=Store.list: {**whole(self), **gone})
    mirror.fetch(there := open_folder(url))
    assert not Path(there, "best/model-10.index").exists()


def test_a_training_holds_the_lease_and_uploads_at_the_end(
    url: str, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mirror, "Lease", functools.partial(Lease, pause=0))
    here = open_folder(url)
    with (
        Lease(Store(url), pause=0),
        pytest.raises(TrainingError, match="Another trainer writes to"),
        mirror.training(here),
    ):
        pass
    with mirror.training(here):
        assert LEASE in Store(url).list()
        _write(here, {"a": "1"})

    def diverge() -> None:
        with mirror.training(here):
            _write(here, {"b": "2"})
            raise TrainingError("diverged")

    with pytest.raises(TrainingError, match="diverged"):
        diverge()
    assert Store(url).list().keys() == {"a", "b"}


def test_what_an_earlier_trainer_has_not_uploaded_is_there_before_the_training(
    url: str, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mirror, "Lease", functools.partial(Lease, pause=0))
    _write(open_folder(url), {"a": "1"})
    machine("first")
    with mirror.training(open_folder(url, keep=True)):
        assert Store(url).read("a") == b"1"


def test_a_workers_copy_has_what_the_store_has_and_uploads_nothing(
    url: str, machine: Machine, order: list[str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    open_folder(url)  # as for --trust_run
    worker = open_folder(url, follows=True)
    assert open_folder(url, keep=True) == worker
    _write(worker, {"hparams.json": "mine", "checkpoints/model-5.index": "mine"})
    store = Store(url)
    for name, text in {**RUN, "hparams.json": "{1}"}.items():
        store.write(name, text.encode())
    with mirror.training(worker):
        assert LEASE not in store.list()
        mirror.follow(worker)
        assert Path(worker, "hparams.json").read_text() == "{1}"
        assert _read(worker).keys() == {name for name in RUN if "/" not in name or name.endswith("model-10.index")}
        _write(worker, {"metrics.jsonl": "mine"})
        push(worker)
        store.write("metrics.jsonl", b"the chief's")
    assert Path(worker, "metrics.jsonl").read_text() == "the chief's"
    assert order == []

    def fail(self: Store) -> dict[str, Entry]:
        raise StoreError("out of reach.")

    with mirror.training(worker):
        monkeypatch.setattr(Store, "list", fail)
    assert "out of reach. The working copy lacks the end of the training." in caplog.text


def test_a_trainer_leaves_a_workers_copy_alone(url: str, machine: Machine, caplog: pytest.LogCaptureFixture) -> None:
    worker = open_folder(url, follows=True)
    _write(worker, {"a": "mine"})
    machine("first")
    assert open_folder(url, keep=True) != worker
    assert "not uploaded" not in caplog.text
    machine("first")
    assert open_folder(url, follows=True) == worker
    assert _read(worker) == {}


def test_a_trainer_that_has_lost_its_lease_uploads_nothing(
    url: str, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mirror, "Lease", functools.partial(Lease, pause=0))
    here = open_folder(url)

    def lose() -> None:
        with mirror.training(here):
            _write(here, {"a": "1"})
            Store(url).write(LEASE, b'{"owner": "another", "process": 7, "host": "other"}')
            push(here, at_the_end=False)

    with pytest.raises(TrainingError, match="process 7 on other has taken it"):
        lose()
    assert Store(url).list().keys() == {LEASE}  # the other's


def test_the_working_copy_itself_is_refused(url: str, machine: Machine) -> None:
    here = open_folder(url)
    assert open_folder(here) == here
    machine("first")
    with pytest.raises(UsageError, match="working copy of a folder in a store"):
        open_folder(here)


def test_urls_stand_for_paths_in_what_is_said(url: str, machine: Machine) -> None:
    here = open_folder(url)
    assert mirror.name_urls(f"{here}/best: {os.sep}") == f"{url}/best: {os.sep}"
