"""Jobs of several processes whose run is in a store: they end as in a folder, also after kills; a second is refused."""

from __future__ import annotations

import json
import re
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from t2t_lite.distributed.meeting_place import KEY_FILE
from t2t_lite.remote.lease import LEASE
from tests.faults.kills import digest
from tests.faults.material import LARGE, SMALL, write_corpus
from tests.faults.workers import Job, free_addresses
from tests.remote import s3

FLAGS = (
    "--hparams_set=tiny",
    "--hparams=num_layers=1,d_model=16,d_ff=16,num_heads=2,dropout=0.1,batch_tokens=512,log_every=1,eval_every=4,"
    "eval_lines=10,save_every=2,keep_checkpoints=3,average_checkpoints=3,beam_size=1,extra_length=1",
    "--num_workers=1",
)
STEPS = "--train_steps=10"


class Place:
    """A folder in a store, which is the disk (file://) or, with a bucket, an S3 server; all files beside it."""

    def __init__(self, folder: Path, bucket: s3.Bucket | None = None) -> None:
        self.folder, self._bucket = folder, bucket
        self.url = "s3://bucket/run" if bucket else f"file://{folder}/run"

    def start(self, *flags: str, machines: str = "ab", **options: Any) -> Job:
        """Starts a job of processes on machines of these names, each of which has a cache of its own."""
        env = self._bucket.env if self._bucket else {}
        environments = [{**env, "XDG_CACHE_HOME": str(self.folder / f"cache-{name}")} for name in machines]
        return Job(self.folder / "run", len(machines), *flags, url=self.url, environments=environments, **options)

    def has(self, name: str) -> bool:
        """Whether an object has been written."""
        if self._bucket:
            return f"run/{name}" in self._bucket.written()
        return (self.folder / "run" / name).exists()

    def put(self, name: str, text: str) -> None:
        """Writes an object."""
        if self._bucket:
            self._bucket.put(f"run/{name}", text)
        else:
            (self.folder / "run" / name).write_text(text)

    def run(self) -> Path:
        """What the store has now, in a folder."""
        if not self._bucket:
            return self.folder / "run"
        shutil.rmtree(self.folder / "there", ignore_errors=True)
        return self._bucket.download("run", self.folder / "there")


@pytest.fixture(scope="module")
def flags(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return [*write_corpus(tmp_path_factory.mktemp("corpus"), LARGE[:2000], SMALL[:10]), *FLAGS]


@pytest.fixture
def disk(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.fixture(params=["disk", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    if request.param == "disk":
        yield Place(tmp_path)
        return
    if s3.MISSING:
        pytest.skip(f"not installed: {', '.join(s3.MISSING)} (moto[server], s3fs)")
    with s3.serve(tmp_path) as bucket:
        yield Place(tmp_path, bucket)


@pytest.fixture(scope="module")
def in_a_folder(flags: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run of the same two workers in a folder."""
    run = tmp_path_factory.mktemp("folder") / "run"
    job = Job(run, 2, *flags, STEPS)
    assert job.end() == [0, 0], job.errors()
    return run


def _names(run: Path) -> set[str]:
    """The files of a run, but for locks, what a kill has damaged, and TensorBoard's, whose names hold times."""
    names = {str(path.relative_to(run)) for path in run.rglob("*") if path.is_file()}
    return {name for name in names if "tfevents" not in name and not name.endswith((".lock", ".damaged"))}


def _wait(job: Job, condition: Callable[[], object]) -> None:
    end = time.monotonic() + 240
    while not condition():
        assert all(process.exitcode is None for process in job.processes), job.errors()
        assert time.monotonic() < end, job.errors()
        time.sleep(0.001)


@pytest.mark.nightly
def test_two_workers_of_one_machine_train_in_a_store(flags: list[str], disk: Place) -> None:
    """Each has a copy of its own of the run, in which the chief has prepared the data."""
    job = disk.start(*flags, "--train_steps=2", machines="aa")
    assert job.end() == [0, 0], job.errors()
    names = _names(disk.run())
    assert {"checkpoints/model-2.index", "data/text2text/manifest.json", "dev.scores.json", "hparams.json"} <= names
    assert not names & {LEASE, KEY_FILE}
    copies = sorted(path.parent.name for path in disk.folder.glob("cache-a/t2t-lite/remote/*/*/run"))
    assert copies == ["0", "worker0"]


@pytest.mark.nightly
def test_a_job_that_is_killed_while_it_saves_ends_as_one_in_a_folder(
    flags: list[str], place: Place, in_a_folder: Path
) -> None:
    job = place.start(*flags, STEPS)
    _wait(job, lambda: place.has("checkpoints/model-6.data-00000-of-00001"))
    job.signal(0, signal.SIGKILL)
    assert job.end() == [-signal.SIGKILL, 1], job.errors()
    assert "\nerror: Another worker has ended or cannot be reached, so this one ends, too. " in job.errors()[1]
    place.put(KEY_FILE, "left by a chief that was killed while it met the others")
    job = place.start(*flags, STEPS, machines="bc")  # the chief is where a worker was; the worker has nothing
    assert job.end() == [0, 0], job.errors()
    run = place.run()
    assert digest(run) == digest(in_a_folder)
    assert _names(run) == {name for name in _names(in_a_folder) if not name.startswith(".")}
    starts = json.loads((run / "run.json").read_text())["starts"]
    assert starts[-1]["first_step"] in (5, 7)


@pytest.mark.nightly
def test_what_a_killed_chief_has_not_uploaded_is_made_up_for_before_the_others_read(
    flags: list[str], disk: Place, in_a_folder: Path
) -> None:
    job = disk.start(*flags, STEPS)
    _wait(job, lambda: disk.has("checkpoints/model-6.index"))
    job.signal(1, signal.SIGKILL)
    assert job.end() == [1, -signal.SIGKILL], job.errors()
    newest = max(int(name[1]) for each in _names(disk.run()) if (name := re.search(r"ts/model-(\d+)\.index", each)))
    (disk.folder / f"run/checkpoints/model-{newest}.index").unlink()
    [copy] = disk.folder.glob("cache-a/t2t-lite/remote/*/0/mirror.json")
    noted = json.loads(copy.read_text())
    for each in ("index", "data-00000-of-00001"):  # as if it had been killed before it has uploaded these
        noted["files"].pop(f"checkpoints/model-{newest}.{each}")
    (disk.folder / f"run/checkpoints/model-{newest}.data-00000-of-00001").unlink()
    copy.write_text(json.dumps(noted))
    job = disk.start(*flags, STEPS)
    assert job.end() == [0, 0], job.errors()
    assert "an earlier process has not uploaded " in job.errors()[0]
    assert digest(disk.run()) == digest(in_a_folder)
    starts = json.loads((disk.run() / "run.json").read_text())["starts"]
    assert starts[-1]["first_step"] == newest + 1


@pytest.mark.nightly
def test_a_second_job_is_refused_and_the_first_can_be_stopped_and_resumed_by_others(
    flags: list[str], disk: Place
) -> None:
    job = disk.start(*flags, "--train_steps=4000")
    _wait(job, lambda: disk.has("checkpoints/model-2.index"))
    second = disk.start(*flags, machines="cd")
    assert second.end(120) == [1, 1], second.errors()
    for errors in second.errors():
        assert f"error: Another trainer writes to {disk.url}: process {job.processes[0].pid} on " in errors
    job.signal(1, signal.SIGTERM)
    assert job.end() == [143, 143], job.errors()
    for errors in job.errors():
        assert " of 4,000 is done and saved. Resume with the same command on every worker\n" in errors
    newest = max(int(path.stem.split("-")[1]) for path in (disk.run() / "checkpoints").glob("*.index"))
    job = disk.start(f"--train_steps={newest + 2}", machines="bac")
    assert job.end() == [0, 0, 0], job.errors()
    job = disk.start(f"--train_steps={newest + 4}", machines="c")
    assert job.end() == [0], job.errors()
    assert disk.has(f"checkpoints/model-{newest + 4}.index")


@pytest.mark.nightly
def test_workers_end_when_their_chief_has_failed(flags: list[str], disk: Place) -> None:
    faulty = disk.folder / "faulty"
    write_corpus(faulty, LARGE[:2000], SMALL[:10])
    (faulty / "dev.de").write_text("one line\n")
    others = [flag for flag in flags if not flag.startswith("--source_dir=")]
    sources = [f"--source_dir={faulty}", *(flag for flag in flags if flag.startswith("--source_dir="))]
    job = disk.start(*others, STEPS, own=sources)
    assert job.end(120) == [1, 1], job.errors()
    assert f"error: The chief, which wrote to {disk.url}, has ended before the workers met, so " in job.errors()[1]


@pytest.mark.nightly
def test_a_worker_heeds_signals_and_its_time_limit_while_it_waits_for_the_chief(flags: list[str], disk: Place) -> None:
    addresses = free_addresses(3)
    job = disk.start(*flags, STEPS, "--join_timeout=15", addresses=addresses)
    job.signal(0, signal.SIGKILL)
    _said(job, 1, f"Waiting for worker 0 at {addresses[0]} (Connection refused), which may still be preparing")
    assert job.end(120) == [-signal.SIGKILL, 1], job.errors()
    assert f"error: Worker 0 at {addresses[0]} (Connection refused) did not come within 15 seconds." in job.errors()[1]
    job = disk.start(*flags, STEPS, addresses=addresses)
    job.signal(0, signal.SIGKILL)
    _said(job, 1, "Waiting for worker 0 at ")
    job.signal(1, signal.SIGTERM)
    assert job.end(60) == [-signal.SIGKILL, 143], job.errors()
    assert job.errors()[1].endswith(
        "SIGTERM: interrupted; what was saved before is there. Resume with the same command on every worker\n"
    )


def _said(job: Job, index: int, text: str) -> None:
    end = time.monotonic() + 120
    while text not in job.errors()[index]:
        assert time.monotonic() < end, job.errors()
        time.sleep(0.05)
