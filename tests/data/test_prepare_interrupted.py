"""prepare when killed, interrupted or out of disk space: no half store, no process left, and the next call works."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from t2t_lite.data.store import open_store

pytestmark = pytest.mark.commit

ROOT = Path(__file__).resolve().parents[2]

# Arguments: data_dir, and "slow" to hang during encoding, when the vocabulary is already made.
_SCRIPT = """
import multiprocessing, sys, time
from t2t_lite.data.prepare import prepare
from t2t_lite.problem import Problem

class Made(Problem):
    name = "made"
    vocab_size = 300
    read = []

    def samples(self, split):
        self.read.append(split)
        for i in range(20_000 if split == "train" else 20):
            yield f"eins zwei {i}", f"one two {i}"
        if sys.argv[2] == "slow" and self.read.count("train") == 2:
            print("processes:", len(multiprocessing.active_children()), flush=True)
            time.sleep(600)

if __name__ == "__main__":
    prepare(Made(), sys.argv[1], num_workers=2)
"""


# The same for files of lines, which the processes read: it hangs when the first range has been encoded.
_FILES = """
import multiprocessing, pathlib, sys, time
from t2t_lite import registry
from t2t_lite.data import line_ranges
from t2t_lite.data.prepare import prepare

def progress(done, label):
    if sys.argv[2] == "slow" and label == "train":
        print("processes:", len(multiprocessing.active_children()), flush=True)
        time.sleep(600)

if __name__ == "__main__":
    line_ranges.RANGE_BYTES = line_ranges._BLOCK = 1000
    folder = pathlib.Path(sys.argv[1]).parent / "text"
    folder.mkdir(exist_ok=True)
    for name, lines in (("train", 20_000), ("dev", 20)):
        for code in ("en", "de"):
            (folder / f"{name}.{code}").write_text("".join(f"one two {code} {i}\\n" for i in range(lines)))
    problem = registry.problem("text2text", source_dir=str(folder), languages="en-de", vocab_size=60)
    problem.name = "made"
    prepare(problem, sys.argv[1], num_workers=2, progress=progress, again=True)
"""


def _leftovers(data_dir: Path) -> list[str]:
    return sorted(path.name for path in data_dir.iterdir() if "partial" in path.name)


def _python(tmp_path: Path, script: str, *arguments: str) -> subprocess.Popen[str]:
    """Starts a script on tmp_path/data in its own session, and so in its own process group."""
    (tmp_path / "made.py").write_text(script, encoding="utf-8")
    return subprocess.Popen(
        [sys.executable, str(tmp_path / "made.py"), str(tmp_path / "data"), *arguments],
        env={"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


@pytest.fixture(params=[_SCRIPT, _FILES], ids=["samples", "files"])
def script(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def slow(tmp_path: Path, script: str) -> Iterator[subprocess.Popen[str]]:
    """A process that is preparing tmp_path/data, with two child processes that encode."""
    process = _python(tmp_path, script, "slow")
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "processes: 2\n"
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.nightly
def test_kill_leaves_no_half_store_and_the_next_call_succeeds(
    tmp_path: Path, script: str, slow: subprocess.Popen[str]
) -> None:
    data = tmp_path / "data"
    assert len(_leftovers(data)) == 1
    slow.send_signal(signal.SIGKILL)
    # The pipe closes when the last process that holds it has ended, so the workers have ended too.
    slow.communicate(timeout=20)
    assert not (data / "made").exists()
    again = _python(tmp_path, script, "quick")
    assert (again.communicate(timeout=60), again.returncode) == (("", ""), 0)
    assert sorted(path.name for path in data.iterdir()) == [".made.lock", "made"]
    store = open_store(data / "made")
    store.verify()
    assert len(store.split("train")) == 20_000


@pytest.mark.nightly
def test_ctrl_c_cleans_up(tmp_path: Path, slow: subprocess.Popen[str]) -> None:
    # As a terminal does, this sends the signal to the whole group. The fixture made the group for this process alone.
    assert os.getpgid(slow.pid) == slow.pid
    os.killpg(slow.pid, signal.SIGINT)
    _, stderr = slow.communicate(timeout=20)
    assert slow.returncode == -signal.SIGINT
    assert "KeyboardInterrupt" in stderr
    assert not (tmp_path / "data" / "made").exists()
    assert _leftovers(tmp_path / "data") == []
