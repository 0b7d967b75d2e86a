"""Disks that are full, read-only or gone: the command says so, and what was good before does not change.

tests/export/test_export.py tests the same while a model is exported.
"""

import contextlib
import errno
import os
import re
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from t2t_lite.cli import common, output
from t2t_lite.data.prepare import prepare
from t2t_lite.data.store import open_store
from t2t_lite.errors import UsageError
from t2t_lite.problems.text2text import Text2text
from t2t_lite.runs.run_dir import read_run
from tests import commands
from tests.faults.kills import FLAGS
from tests.faults.material import LARGE, SMALL, contents, write_corpus

Run = Callable[..., tuple[int, str]]


def mount(folder: Path, options: str) -> None:
    """Mounts a file system in memory, or changes its options; skips the test if that is not allowed."""
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
    if shutil.which("mount") is None or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("no file system can be mounted here; that needs to be root")


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Path]:
    """A disk of 4 MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount(folder, "size=4m")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


class Disk:
    """A folder that can be filled except for some bytes, or limited as if it were; `reason` is the system's message."""

    def __init__(self, folder: Path, real: bool) -> None:
        self.folder, self.real = folder, real
        self.reason = os.strerror(errno.ENOSPC if real else errno.EFBIG)

    @contextlib.contextmanager
    def full(self, left: int) -> Iterator[None]:
        """Leaves `left` bytes free, or lets no file become larger than that."""
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        filler = self.folder / "filler"
        if not self.real:
            resource.setrlimit(resource.RLIMIT_FSIZE, (left, limits[1]))
        else:
            with contextlib.suppress(OSError), open(filler, "wb", buffering=0) as file:
                while file.write(bytes(4096)):
                    pass
            os.truncate(filler, filler.stat().st_size - left)
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
            filler.unlink(missing_ok=True)


@pytest.fixture
def limited(tmp_path: Path) -> Disk:
    """A folder with a limit on file size, which needs no special rights."""
    return Disk(tmp_path, real=False)


@pytest.fixture
def small(mounted: Path) -> Disk:
    """A separate small disk, if one can be mounted."""
    return Disk(mounted, real=True)


@pytest.mark.commit
@pytest.mark.parametrize("kind", ["small", "limited"])
def test_a_full_disk_while_preparing(kind: str, request: pytest.FixtureRequest, run: Run, tmp_path: Path) -> None:
    disk: Disk = request.getfixturevalue(kind)
    data = disk.folder / "data"
    flags = [*write_corpus(tmp_path / "corpus", SMALL, SMALL), f"--data_dir={data}", "--num_workers=1"]
    assert run("datagen", *flags)[0] == 0
    before = contents(data)
    write_corpus(tmp_path / "corpus", LARGE, SMALL)
    with disk.full(left=50_000):
        status, said = run("datagen", *flags, "--force")
    assert status == 1
    assert said.startswith(f"error: {data}/.text2text.partial-")
    assert said.endswith(f": {disk.reason}. Make room and run the same command again.\n")
    assert contents(data) == before
    open_store(data / "text2text").verify()
    assert run("datagen", *flags, "--force", "--verify")[0] == 0
    assert len(open_store(data / "text2text").split("train")) == len(LARGE)


@pytest.mark.nightly
def test_a_full_disk_while_saving_a_checkpoint(run: Run, limited: Disk, trained: Path) -> None:
    folder = Path(shutil.copytree(trained, limited.folder / "run"))
    before = contents(folder)
    with limited.full(left=100_000):
        status, said = run("trainer", f"--output_dir={folder}", "--train_steps=3")
    assert status == 1
    warned, report, said = said.split("\n", 2)
    assert warned.startswith("warning: the learning rate still rises at the last update, step 3.")
    assert report.startswith("step 3 of 3: loss ")
    place = re.escape(str(folder)) + "/(checkpoints|best)"  # the best weights are saved first
    assert re.match(rf"error: The checkpoint of step 3 could not be written to {place}: ", said)
    assert limited.reason in said
    assert said.endswith("The ones before it are whole; make room and run the same command again.\n")
    after = contents(folder)
    assert {name for name in before if after.get(name) != before[name]} <= {"hparams.json", "metrics.jsonl", "run.json"}
    assert {name.partition("/")[0] for name in after.keys() - before.keys()} <= {"tensorboard"}


# command and flags: {disk} is read-only, {run} is a run that can be written to.
READ_ONLY: dict[str, tuple[str, ...]] = {
    "trainer": ("trainer", "--problem=toy_reverse", "--output_dir={disk}/new"),
    "trainer's own folder": ("trainer", "--output_dir={disk}/run"),
    "datagen": ("datagen", "--problem=toy_reverse", "--data_dir={disk}/data"),
    "exporter": ("exporter", "--output_dir={run}", "--export_dir={disk}/export"),
    "decoder": ("decoder", "--output_dir={run}", "--input={run}/dev.hyp.txt", "--output={disk}/out"),
    "avg_checkpoints": ("avg_checkpoints", "--output_dir={disk}/run"),
    "compare": ("compare", "--problem=toy_reverse", "--sets=tiny", "--output_dir={disk}/compared"),
    "insights": ("insights", "--output_dir={run}", "--sentence=a", "--page={disk}/a.html"),
}


@pytest.fixture
def read_only(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[Path], Path]:
    """Returns a function read_only(folder), which makes a copy that nobody can write to."""

    def make(folder: Path) -> Path:
        if os.geteuid():
            copy = Path(shutil.copytree(folder, tmp_path / "read-only"))
            for path in (copy, *copy.rglob("*")):
                path.chmod(path.stat().st_mode & ~0o222)
            return copy
        disk: Path = request.getfixturevalue("mounted")  # root may write to any folder, but not to a read-only disk
        shutil.copytree(folder, disk, dirs_exist_ok=True)
        mount(disk, "remount,ro")
        return disk

    return make


def test_read_only_folders_are_reported_before_any_work(
    run: Run, read_only: Callable[[Path], Path], trained: Path, tmp_path: Path
) -> None:
    (tmp_path / "good").mkdir()
    shutil.copytree(trained, tmp_path / "good" / "run")
    disk = read_only(tmp_path / "good")
    before = contents(disk), contents(trained)
    for command, *flags in READ_ONLY.values():
        status, said = run(command, *(flag.format(disk=disk, run=trained) for flag in flags))
        assert (status, said.count("\n")) == (2, 1), said
        assert said.startswith("error: --")
        assert " cannot be written to." in said
    assert (contents(disk), contents(trained)) == before
    assert len(prepare(read_run(trained).make_problem(), disk / "run" / "data").split("dev")) == 20  # reading works


def test_a_device_is_written_to_also_in_a_folder_that_is_not(request: pytest.FixtureRequest) -> None:
    path = Path(os.devnull)
    if not os.geteuid():  # as for the commands above; a named pipe may be written to on a read-only disk, too
        path = request.getfixturevalue("mounted") / "pipe"
        os.mkfifo(path)
        mount(path.parent, "remount,ro")
    output.check_output("output", str(path))
    with pytest.raises(UsageError, match="cannot be written to"):
        output.check_output("output", str(path.parent / "file"))


def test_a_file_that_could_not_be_written_leaves_the_one_before(tmp_path: Path) -> None:
    out = tmp_path / "out"
    output.write_file(str(out), b"good")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        with pytest.raises(OSError, match=f"{os.strerror(errno.EFBIG)}: '{out}'"):
            output.write_file(str(out), bytes(2000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert out.read_bytes() == b"good"


VANISHING = {
    "the corpus": ("corpus", "{corpus}/train.en cannot be read: No such file or directory."),
    "the data's folder": ("data", "{data}/.text2text.partial-"),
}


@pytest.mark.parametrize("name", VANISHING)
def test_folders_that_vanish_while_preparing(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    corpus, data = tmp_path / "corpus", tmp_path / "data"
    write_corpus(corpus, SMALL, SMALL)
    problem = Text2text(source_dir=str(corpus), languages="en-de", vocab_size=300)
    folder, message = VANISHING[name]

    def vanish(done: int, label: str) -> None:
        if label == "vocabulary":  # the text was opened, and is read again
            shutil.rmtree(tmp_path / folder)

    status = common.run(lambda: len(prepare(problem, data, num_workers=1, progress=vanish).splits()))
    said = capsys.readouterr().err
    assert (status, said.count("\n")) == (1, 1)
    assert said.startswith("error: " + message.format(corpus=corpus, data=data))
    assert not list(data.glob("*text2text")) + list(data.glob(".*.partial*"))
    write_corpus(corpus, SMALL, SMALL)
    assert len(prepare(problem, data, num_workers=1).split("train")) == 50


@pytest.mark.commit("16", "24")
@pytest.mark.parametrize("inodes", [16, 24, 29])
def test_a_disk_without_inodes_is_named_wherever_they_end(tmp_path: Path, inodes: int) -> None:
    """The inodes end while preparing, in the curves, or in a checkpoint."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount(folder, f"size=64m,nr_inodes={inodes}")
    try:
        corpus = write_corpus(tmp_path / "corpus", LARGE[:500], SMALL[:10])
        done = commands.run("t2t_lite.cli.trainer", f"--output_dir={folder / 'run'}", *corpus, *FLAGS)
        said = done.stderr.decode()
        assert done.returncode == 1, said
        assert "Traceback" not in said
        assert re.search(
            r"^error: .*No space left on device.* [Mm]ake room and run the same command again\.$", said, re.M
        )
    finally:
        subprocess.run(["umount", str(folder)], check=True)


NO_TEMPORARY_FOLDER = """
for folder in /tmp /var/tmp /dev/shm; do mount -t tmpfs -o ro tmpfs $folder || exit 77; done
cd /proc/sys/kernel
exec "$@"
"""


@pytest.mark.nightly
def test_no_folder_for_temporary_files_is_needed(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The decoder works without one, as in a container whose root is read-only."""
    if shutil.which("unshare") is None or trained.is_relative_to("/dev/shm"):
        pytest.skip("no unshare")
    home = Path.home() / f".t2t-lite-test-{os.getpid()}"  # not below /tmp, which vanishes
    shutil.copytree(trained, home / "run")
    (home / "lines").write_text("line 1 of 1\n")
    try:
        flags = [f"--output_dir={home / 'run'}", f"--input={home / 'lines'}", f"--output={home / 'out'}"]
        python = [sys.executable, "-m", "t2t_lite.cli.decoder", *flags]
        command = ["unshare", "--mount", "sh", "-c", NO_TEMPORARY_FOLDER, "sh", *python]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=300)
        if done.returncode == 77 or "unshare failed" in done.stderr:
            pytest.skip("no file system can be mounted here; that needs to be root")
        assert done.returncode == 0, done.stderr
        assert (home / "out").read_text().count("\n") == 1
    finally:
        shutil.rmtree(home)
