"""Jobs of several processes whose run is in a store: they end as in a folder, also after kills; a second is refused."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from t2t_lite.distributed.meeting_place import KEY_FILE
from t2t_lite.remote.lease import LEASE
from tests.faults.kills import digest
from tests.faults.material import LARGE, SMALL, write_corpus
from tests.faults.workers import Job

FLAGS = (
    "--hparams_set=tiny",
    "--hparams=num_layers=1,d_model=16,d_ff=16,num_heads=2,dropout=0.1,batch_tokens=512,log_every=1,eval_every=4,"
    "eval_lines=10,save_every=2,keep_checkpoints=3,average_checkpoints=3,beam_size=1,extra_length=1",
    "--num_workers=1",
)


@pytest.fixture(scope="module")
def flags(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return [*write_corpus(tmp_path_factory.mktemp("corpus"), LARGE[:2000], SMALL[:10]), *FLAGS]


def _caches(folder: Path, *names: str) -> list[dict[str, str]]:
    """Variables of processes on machines of these names: each has a cache of its own."""
    return [{"XDG_CACHE_HOME": str(folder / f"cache-{name}")} for name in names]


def _names(run: Path) -> set[str]:
    """The files of a run, but for locks and TensorBoard's, whose names hold times."""
    names = {str(path.relative_to(run)) for path in run.rglob("*") if path.is_file()}
    return {name for name in names if "tfevents" not in name and not name.endswith(".lock")}


def _start(run: Path, *flags: str, machines: tuple[str, ...] = ("a", "b")) -> Job:
    return Job(run, len(machines), *flags, url=f"file://{run}", environments=_caches(run.parent, *machines))


def _wait(job: Job, condition: Callable[[], object]) -> None:
    end = time.monotonic() + 240
    while not condition():
        assert all(process.exitcode is None for process in job.processes), job.errors()
        assert time.monotonic() < end, job.errors()
        time.sleep(0.02)


@pytest.mark.commit
def test_two_workers_end_in_a_store_as_in_a_folder(flags: list[str], tmp_path: Path) -> None:
    """The two in the store are processes of one machine; the data are prepared in the run."""
    folder, store = tmp_path / "folder", tmp_path / "store"
    job = _start(store, *flags, "--train_steps=4", machines=("a", "a"))
    assert job.end() == [0, 0], job.errors()
    job = Job(folder, 2, *flags, "--train_steps=4")
    assert job.end() == [0, 0], job.errors()
    assert digest(store) == digest(folder)
    assert _names(store) == _names(folder)
    assert not (store / LEASE).exists()
    assert not (store / KEY_FILE).exists()
