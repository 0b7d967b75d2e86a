"""t2t-lite-decoder answers while lines arrive, resumes after a kill, and splits a file among machines."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from t2t_lite.cli.line_source import BLOCK
from tests import commands

pytestmark = pytest.mark.nightly

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def lines(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of three blocks and 7 more lines, some of them blank."""
    text = (corpus / "train.en").read_text(encoding="utf-8").split("\n")[:-1]
    rows = [line if i % 50 else "" for i, line in enumerate(text * 4)][: 3 * BLOCK + 7]
    path = tmp_path_factory.mktemp("stream") / "in.en"
    path.write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
    return path


def _flags(trained: tuple[Path, str]) -> list[str]:
    return [f"--output_dir={trained[0]}", "--beam_size=4"]


def _stopped(by: signal.Signals, done: int, out: Path, *flags: object) -> tuple[int, str]:
    """Starts the decoder and stops it when `done` lines are written; returns its exit status and messages."""
    state, err = Path(f"{out}.partial.json"), out.parent / "err"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    start: Any = commands.start(
        "t2t_lite.cli.decoder", *flags, f"--output={out}", out=Path(os.devnull), err=err, env=environment
    )
    deadline = time.monotonic() + 200
    while start.is_alive() and time.monotonic() < deadline:
        try:
            if json.loads(state.read_text())["lines"] >= done:
                break
        except FileNotFoundError:
            pass
        time.sleep(0.005)
    os.kill(start.pid, by)
    start.join(60)
    return start.exitcode, err.read_text()


def test_stopped_twice_and_resumed_it_is_as_undisturbed(
    run: Run, trained: tuple[Path, str], lines: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    flags = [*_flags(trained), f"--input={lines}"]
    undisturbed = run("decoder", *_flags(trained), input=lines.read_bytes()).stdout  # from a pipe: the same lines
    assert undisturbed.count("\n") == 3 * BLOCK + 7
    assert len(set(undisturbed.split("\n"))) > 100

    status, said = _stopped(signal.SIGTERM, BLOCK, out, *flags)
    assert status == 143, said
    assert f"{BLOCK:,} of {3 * BLOCK + 7:,} lines are translated, in {out}.partial. The same command with" in said
    assert said.endswith("error: interrupted.\n")
    assert not out.exists()
    assert undisturbed.startswith(Path(f"{out}.partial").read_text())

    status, said = _stopped(signal.SIGKILL, 2 * BLOCK, out, *flags, "--resume")
    assert (status, said.split("\n")[0]) == (-signal.SIGKILL, f"Resuming after {BLOCK:,} lines.")  # progress follows
    done = run("decoder", *flags, f"--output={out}", "--resume", "--nbest=1", status=2)
    assert "was begun with other settings:\n  nbest: None -> 1\n" in done.stderr
    done = run("decoder", *flags, f"--output={out}", "--resume")
    assert f"Resuming after {2 * BLOCK:,} lines.\n" in done.stderr
    assert out.read_text() == undisturbed
    assert sorted(path.name for path in tmp_path.iterdir()) == ["err", "out"]


@pytest.mark.parametrize(("stop", "status"), [(None, 0), (signal.SIGINT, 130)])
def test_a_line_is_answered_before_the_next_comes(
    trained: tuple[Path, str], stop: signal.Signals | None, status: int
) -> None:
    command = [sys.executable, "-m", "t2t_lite.cli.decoder", *_flags(trained)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as process:
        for line in (b"the dog sees a cat .\n", b"\n", b"a cat sees the dog .\n"):
            process.stdin.write(line)
            process.stdin.flush()
            answer = process.stdout.readline()
            assert answer.endswith(b"\n")
            assert bool(answer.strip()) == bool(line.strip())
        if stop is None:
            process.stdin.close()
        else:  # standard input stays open
            process.send_signal(stop)
        assert process.stdout.read() == b""
        assert process.wait(60) == status


def test_shards_one_after_the_other_are_the_whole(
    run: Run, trained: tuple[Path, str], corpus: Path, tmp_path: Path
) -> None:
    flags = [*_flags(trained), f"--input={corpus / 'test.en'}"]
    first = run("decoder", *flags, "--shard=1/2").stdout
    done = run("decoder", *flags, "--shard=2/2", f"--output={tmp_path}/out", "--resume")
    assert f"There is no {tmp_path}/out.partial: translating from the first line.\n" in done.stderr
    assert first + (tmp_path / "out").read_text() == (trained[0] / "test.hyp.txt").read_text()
    assert first.count("\n") == 8
