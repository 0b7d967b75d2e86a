"""Files of checkpoints after a kill at any point of a save: listed ones are whole, and the next save works."""

import contextlib
import errno
import itertools
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from t2t_lite.files import asides
from t2t_lite.runs import checkpoint_files

KILLED = 9


def _writer(text: str) -> Callable[[str], None]:
    def write(path: str) -> None:
        for ending in ("data-00000-of-00001", "index"):
            with open(f"{path}.{ending}", "w", encoding="utf-8") as file:
                file.write(text)

    return write


CALLS = ("open", "mkdir", "rename", "replace", "unlink", "remove", "fsync", "rmdir", "scandir", "listdir")


def _found(folder: Path) -> dict[str, tuple[str, str]]:
    """The contents of index and data of each listed checkpoint, by name."""
    paths = checkpoint_files.list_whole(folder)
    return {
        Path(path).name: (Path(f"{path}.index").read_text(), Path(f"{path}.data-00000-of-00001").read_text())
        for path in paths
    }


def _put_and_die(folder: Path, calls: int) -> bool:
    """Saves step 3 in a process that ends abruptly at system call number `calls`; returns whether it did."""
    child = os.fork()
    if child == 0:
        left = calls
        for name in ("open", "mkdir", "replace", "unlink", "fsync", "rmdir"):
            before = getattr(os, name)

            def call(*args: object, before: Callable[..., object] = before, **kwargs: object) -> object:
                nonlocal left
                left -= 1
                if left < 0:
                    os._exit(KILLED)
                return before(*args, **kwargs)

            setattr(os, name, call)
        checkpoint_files.put(folder, 3, _writer("three"), keep=2)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == KILLED


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")  # the child runs no TensorFlow
def test_a_kill_at_any_moment_leaves_whole_checkpoints(tmp_path: Path) -> None:
    one, two, three, four = ((text, text) for text in ("one", "two", "three", "four"))
    seen = set()
    for calls in range(100):
        folder = tmp_path / str(calls) / "checkpoints"
        checkpoint_files.put(folder, 1, _writer("one"), keep=2)
        checkpoint_files.put(folder, 2, _writer("two"), keep=2)
        killed = _put_and_die(folder, calls)
        checkpoint_files.finish_moves(folder)
        found = _found(folder)
        seen.add(tuple(found))
        assert found["model-2"] == two
        assert found.get("model-1", one) == one
        assert found.get("model-3", three) == three
        newest = checkpoint_files.list_traces(folder)[-1]
        assert checkpoint_files.missing_file(newest) is None  # never half of one

        checkpoint_files.put(folder, 4, _writer("four"), keep=2)
        assert list(_found(folder).values())[-1] == four
        assert asides(folder) == []
        if not killed:
            assert _found(folder) == {"model-3": three, "model-4": four}
            break
    assert seen == {("model-1", "model-2"), ("model-1", "model-2", "model-3"), ("model-2", "model-3")}
    assert 10 < calls < 99


@pytest.mark.commit("steps1-5")
@pytest.mark.parametrize("number", [errno.EDQUOT, errno.EIO])
@pytest.mark.parametrize("steps", [[], [1, 2], [1, 3]])  # 3: the mean is made again, of the same step
def test_a_call_that_fails_at_any_moment_leaves_checkpoints_that_the_next_start_finds_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: list[int], number: int
) -> None:
    for calls in itertools.count():
        folder = tmp_path / f"{calls}" / "checkpoints"
        folder.parent.mkdir()
        for step in steps:
            checkpoint_files.put(folder, step, _writer("before"), keep=2)
        with monkeypatch.context() as patch:
            failed = _fail_once(patch, calls, number)
            with contextlib.suppress(OSError):
                checkpoint_files.put(folder, 3, _writer("three"), keep=2)
        checkpoint_files.finish_moves(folder)  # as the next start does
        found = _found(folder)
        assert found.keys() - {"model-3"} <= {"model-1", "model-2"}
        assert not steps or found
        for path in checkpoint_files.list_traces(folder)[-1:]:
            assert checkpoint_files.missing_file(path) is None, (calls, path)
        assert {pair for name, pair in found.items() if name != "model-3"} <= {("before", "before")}
        assert found.get("model-3", ("three", "three")) in {("three", "three"), ("before", "before")}
        checkpoint_files.put(folder, 3, _writer("again"), keep=2)
        assert _found(folder)["model-3"] == ("again", "again")
        assert asides(folder) == []
        if not failed:
            break
    assert calls > 10


def _fail_once(patch: pytest.MonkeyPatch, calls: int, number: int) -> list[str]:
    """Makes system call number `calls` from now on fail; the list that is returned then holds its name."""
    left, failed = calls, []
    for name in CALLS:
        real = getattr(os, name)

        def call(*args: object, name: str = name, real: Callable[..., object] = real, **kw: object) -> object:
            nonlocal left
            left -= 1
            if left == -1:
                failed.append(name)
                raise OSError(number, os.strerror(number), str(args[0]))
            return real(*args, **kw)

        patch.setattr(os, name, call)
    return failed


def test_the_newest_written_stays_whatever_its_number(tmp_path: Path) -> None:
    """best/ may hold a checkpoint of a later step, written before a kill."""
    checkpoint_files.put(tmp_path / "best", 60, _writer("old"), keep=1)
    checkpoint_files.put(tmp_path / "best", 20, _writer("new"), keep=1)
    assert _found(tmp_path / "best") == {"model-20": ("new", "new")}


def test_what_is_set_aside_is_kept_but_not_listed(tmp_path: Path) -> None:
    for step in (1, 12):
        checkpoint_files.put(tmp_path / "c", step, _writer("x"), keep=5)
    checkpoint_files.quarantine(str(tmp_path / "c" / "model-1"))
    assert list(_found(tmp_path / "c")) == ["model-12"]
    assert checkpoint_files.list_traces(tmp_path / "c") == [str(tmp_path / "c" / "model-12")]
    assert (tmp_path / "c" / "model-1.index.damaged").read_text() == "x"


def test_what_a_signal_has_saved_is_kept_besides_until_the_next_save(tmp_path: Path) -> None:
    kept = []
    for step in (10, 20, 23, 30, 34, 38):
        checkpoint_files.put(tmp_path, step, _writer("one"), keep=2, every=10)
        kept.append([checkpoint_files.step_of(path) for path in checkpoint_files.list_whole(tmp_path)])
    assert kept == [[10], [10, 20], [10, 20, 23], [20, 30], [20, 30, 34], [20, 30, 38]]


def test_checkpoints_of_another_interval_stay(tmp_path: Path) -> None:
    kept = []
    for step, every in ((10, 10), (20, 10), (30, 10), (35, 35), (70, 35), (105, 35)):
        checkpoint_files.put(tmp_path, step, _writer("one"), keep=4, every=every)
        kept.append([checkpoint_files.step_of(path) for path in checkpoint_files.list_whole(tmp_path)])
    assert kept[2:] == [[10, 20, 30], [10, 20, 35], [10, 20, 35, 70], [20, 35, 70, 105]]


def test_a_folder_that_is_a_link_is_staged_beside_what_it_leads_to(tmp_path: Path) -> None:
    real, link = tmp_path / "disk" / "of_the_run", tmp_path / "run" / "checkpoints"
    link.parent.mkdir()
    link.symlink_to(real)
    staged = []

    def write(path: str) -> None:
        staged.append(Path(path).parent)
        _writer("one")(path)

    assert checkpoint_files.put(link, 1, write, keep=2) == f"{link}/model-1"
    assert [aside.parent for aside in staged] == [real.parent]  # a rename to it crosses no file system
    assert _found(real) == {"model-1": ("one", "one")}

    staged[0].mkdir()  # what a kill between the two renames leaves
    (real / "model-1.index").rename(staged[0] / "model-1.index")
    checkpoint_files.finish_moves(link)
    assert _found(link) == {"model-1": ("one", "one")}
