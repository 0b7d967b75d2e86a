"""t2t-lite-decoder on Apache Beam: the output of one process, in the order of the files, also after a kill.

The steps of the pipeline run here without Beam, too.
"""

import dataclasses
import logging
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from t2t_lite.cli import decode_beam, decoder
from t2t_lite.cli.decode import DecodeRequest, decode
from t2t_lite.data.parts import Parts, pack
from t2t_lite.data.pipelines import Beam
from t2t_lite.errors import DataError, UsageError
from t2t_lite.runs.open_request import OpenRequest
from tests.cli import untrained

ROOT = Path(__file__).resolve().parents[2]


@dataclasses.dataclass(frozen=True)
class _ByHand(Beam):
    """Translates parts in an order of its own, without Beam: all, or those before a failure."""

    parts: int | None = None

    def run(self, steps: Any, tasks: Sequence[Any]) -> None:
        for name in random.Random(1).sample(tasks, len(tasks))[: self.parts]:
            steps.make(name)
        if self.parts is not None:
            raise DataError("failed")


def _write(folder: Path, *numbers: int) -> None:
    """Writes files of so many lines, some of them blank."""
    draw = random.Random(2)
    words = "a small dog sees the big cat ein kleiner Hund sieht die Katze".split()
    for i, number in enumerate(numbers):
        lines = [" ".join(draw.choices(words, k=draw.randint(0, 9))) for _ in range(number)]
        (folder / f"in-{i}.en").write_text("".join(f"{line}\n" for line in lines))
    whole = "".join((folder / f"in-{i}.en").read_text() for i in range(len(numbers)))
    (folder / "whole.en").write_text(whole)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return untrained.make_run(tmp_path_factory.mktemp("run"), 2)


@pytest.mark.commit
def test_parts_give_the_output_of_one_process_and_are_used_again(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decode_beam, "PART", 7)
    _write(tmp_path, 20, 1, 9)
    request = DecodeRequest(
        runs=OpenRequest(folders=(str(run),)), input=str(tmp_path / "whole.en"), output=str(tmp_path / "whole.de")
    )
    decode(request)
    pattern = dataclasses.replace(request, input=str(tmp_path / "in-*.en"), output=str(tmp_path / "parts.de"))
    with pytest.raises(DataError, match="failed"):
        decode_beam.decode_on(_ByHand(parts=2), pattern)
    left = {path: path.stat().st_mtime_ns for path in (tmp_path / ".parts.de.parts").glob("made-*")}
    assert len(left) == 2
    with pytest.raises(DataError, match="failed"):
        decode_beam.decode_on(_ByHand(parts=4), pattern)
    assert all(path.stat().st_mtime_ns == when for path, when in left.items())
    decode_beam.decode_on(_ByHand(), pattern)
    assert (tmp_path / "parts.de").read_bytes() == (tmp_path / "whole.de").read_bytes()
    assert (tmp_path / "parts.de").read_bytes().count(b"\n") == 30
    assert not (tmp_path / ".parts.de.parts").exists()
    with pytest.raises(UsageError, match="there is no such file, and none whose name has this pattern"):
        decode_beam.decode_on(_ByHand(), dataclasses.replace(pattern, input=str(tmp_path / "out-*.en")))
    with pytest.raises(UsageError, match="is a folder. Name its files by a pattern, such as "):
        decode_beam.decode_on(_ByHand(), dataclasses.replace(pattern, input=str(tmp_path)))


@pytest.mark.nightly
def test_each_file_gives_what_it_gives_alone(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decode_beam, "PART", 3)
    texts = [
        "a dog\r\nsees\r\n",
        "",
        "\n \n\n",
        "the cat\nthe cat\nthe cat\n" * 2,
        "\ufeffno line feed",
        "a\x85b\u2028c\n",
    ]
    alone = []
    for number, text in enumerate(texts):
        (tmp_path / f"{number}.en").write_text(text, encoding="utf-8", newline="")
        files = {"input": str(tmp_path / f"{number}.en"), "output": str(tmp_path / f"{number}.de")}
        decode(DecodeRequest(runs=OpenRequest(folders=(str(run),)), **files))
        alone.append((tmp_path / f"{number}.de").read_bytes())
    assert [lines.count(b"\n") for lines in alone] == [2, 0, 3, 6, 1, 1]
    request = DecodeRequest(
        runs=OpenRequest(folders=(str(run),)), input=str(tmp_path / "*.en"), output=str(tmp_path / "out")
    )
    decode_beam.decode_on(_ByHand(), request)
    assert (tmp_path / "out").read_bytes() == b"".join(alone)
    decode_beam.decode_on(_ByHand(), dataclasses.replace(request, input=str(tmp_path / "1.en")))  # an empty file
    assert (tmp_path / "out").read_bytes() == b""


@pytest.mark.commit
def test_warnings_of_workers_are_shown_with_their_lines(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(decode_beam, "PART", 2)
    lines = ["a 日", "a dog", "a dog", "a dog sees the cat " * 200, "the 日", "the 日"]
    (tmp_path / "in.en").write_text("\n".join(lines), encoding="utf-8")
    request = DecodeRequest(
        runs=OpenRequest(folders=(str(run),)), input=str(tmp_path / "in.en"), output=str(tmp_path / "out")
    )
    with pytest.raises(DataError, match="failed"):
        decode_beam.decode_on(_ByHand(parts=3), dataclasses.replace(request))
    assert not caplog.messages
    decode_beam.decode_on(_ByHand(), request)  # by the parts alone
    said = [text for text in caplog.messages if "in.en" in text]
    assert said[1] == (
        f"{tmp_path / 'in.en'}, lines 3 to 4: 1 of 2 inputs are longer than max_source_length=512 pieces; only their "
        "beginning is translated."
    )
    assert [text.partition(" of ")[0].rpartition("in.en, ")[2] for text in said[::2]] == [
        "lines 1 to 2: 1",
        "lines 5 to 6: 2",
    ]


@pytest.mark.commit
def test_warnings_are_kept_where_a_worker_logs_none() -> None:
    log, root = logging.getLogger("t2t_lite"), logging.getLogger()
    level = root.level
    root.setLevel(logging.CRITICAL)  # as Beam's worker processes do
    try:
        with decode_beam._kept_warnings() as warnings:
            log.warning("%d lines", 3)
            print("printed", file=sys.stderr)
    finally:
        root.setLevel(level)
    assert warnings == ["3 lines", "printed"]
    assert log.propagate


@pytest.mark.commit
def test_a_model_that_has_changed_translates_nothing(run: Path, tmp_path: Path) -> None:
    work = Parts(tmp_path / "parts")
    work.make("chunk", lambda: {"rows": pack(["a dog"])})
    request = DecodeRequest(runs=OpenRequest(folders=(str(run),)), input="x", output="y")
    steps = decode_beam._DecodeSteps(work, "key", request, ["checksum of another model"])
    for _ in range(2):  # also where the process has opened it already
        with pytest.raises(DataError, match="The model has changed since the command began"):
            steps.make("chunk")
    assert [path.name for path in work.folder.iterdir() if path.suffix == ".npz"] == ["chunk.npz"]


def _decoder(run: Path, tmp_path: Path, output: str, *more: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", decoder.__name__, f"--output_dir={run}", f"--output={tmp_path / output}", *more]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def _end(process: subprocess.Popen[str]) -> str:
    _, err = process.communicate(timeout=500)
    assert process.returncode == 0, err
    return err


@pytest.mark.nightly
def test_beam_writes_the_output_of_one_process_also_after_a_kill(run: Path, tmp_path: Path) -> None:
    pytest.importorskip("apache_beam", reason="apache-beam is not installed (extra beam)")
    _write(tmp_path, 4500, 1, 4200)  # in 2 + 1 + 2 parts
    _end(_decoder(run, tmp_path, "whole.de", f"--input={tmp_path / 'whole.en'}"))
    whole = (tmp_path / "whole.de").read_bytes()
    given = [f"--input={tmp_path / 'in-*.en'}", "--runner=beam"]
    two = "--beam_options=direct_num_workers=2,direct_running_mode=multi_processing"
    _end(_decoder(run, tmp_path, "one.de", *given))
    assert (tmp_path / "one.de").read_bytes() == whole
    process = _decoder(run, tmp_path, "two.de", *given, two)
    end = time.monotonic() + 300
    while not any(tmp_path.glob(".two.de.parts/made-*")):
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < end
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=120)  # its workers end, too, and close the pipe
    assert not (tmp_path / "two.de").exists()
    left = len([*tmp_path.glob(".two.de.parts/made-*")])
    assert 0 < left < 5
    assert f"{left} of 5 parts are there already" in _end(_decoder(run, tmp_path, "two.de", *given, two))
    assert (tmp_path / "two.de").read_bytes() == whole
    assert not any(name.endswith((".parts", ".partial")) for name in os.listdir(tmp_path))
