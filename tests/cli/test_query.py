"""t2t-lite-query against real endpoints; tests/client has the client's own tests."""

import gzip
import io
import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from t2t_lite.cli import query
from tests import commands
from tests.serving import toy_model
from tests.serving.served_model import Fault
from tests.serving.server import Server, serve

Query = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def _served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    base = tmp_path_factory.mktemp("toy")
    toy_model.save(base, 1, "!", signatures=("serving_default", "nbest"))
    with serve(base, "toy") as server:
        yield server


@pytest.fixture
def server(_served: Server) -> Server:
    _served.model.reset()
    return _served


@pytest.fixture
def ask(server: Server, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Query:
    """Runs `ask("--flag", ..., text=...)` in this process; returns exit status, output and messages."""

    def run(*flags: object, text: str | bytes = "", protocol: str = "rest") -> tuple[int, str, str]:
        data = text.encode() if isinstance(text, str) else text
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
        standard = (f"--server={server.address(protocol)}", "--model=toy", f"--protocol={protocol}")
        try:
            status = query.main(commands.with_defaults([*map(str, flags)], *standard))
        except SystemExit as stop:
            status = int(stop.code or 0)
        out, err = capfdbinary.readouterr()
        return status, out.decode(), err.decode()

    return run


@pytest.mark.commit
@pytest.mark.parametrize("protocol", ["rest", "grpc"])
@pytest.mark.parametrize(
    ("flags", "text", "expected"),
    [
        ((), "a b\n\nc d\n \nlast", "b a!\n\nd c!\n\nlast!\n"),
        ((), "", ""),
        ((), "\ufeffa b\r\nü\u2028 c\n", "b a!\nc ü\u2028!\n"),
        (("--nbest=2",), "a b\n\n", "-0.2500\tb a! 1\n-1.2500\tb a! 2\n0.0000\t\n0.0000\t\n"),
        (("--nbest=1",), "not a number\n", "nan\tnumber a not!\n"),
        (("--wait=30", "--version=1", "--batch_size=1", "--concurrency=1", "--timeout=30"), "a\nb\n", "a!\nb!\n"),
    ],
)
def test_lines_in_lines_out(ask: Query, protocol: str, flags: tuple[str, ...], text: str, expected: str) -> None:
    assert ask(*flags, text=text, protocol=protocol) == (0, expected, "")


def test_json_has_the_form_of_the_decoder(ask: Query) -> None:
    status, out, _ = ask("--json", "--nbest=2", text="ü b\n\nnot a number\n")
    assert status == 0
    assert [json.loads(line) for line in out.split("\n")[:-1]] == [
        {"input": "ü b", "outputs": [{"text": "b ü! 1", "score": -0.25}, {"text": "b ü! 2", "score": -1.25}]},
        {"input": "", "outputs": [{"text": "", "score": 0.0}] * 2},
        {"input": "not a number", "outputs": [{"text": f"number a not! {i}", "score": None} for i in (1, 2)]},
    ]
    assert "ü" in out


def test_files(ask: Query, tmp_path: Path) -> None:
    plain, zipped, out = tmp_path / "in", tmp_path / "in.gz", tmp_path / "out"
    plain.write_text("a b\nc\n")
    zipped.write_bytes(gzip.compress(b"a b\nc\n"))
    for path in (plain, zipped):
        assert ask(f"--input={path}", f"--output={out}") == (0, "", "")
        assert out.read_text() == "b a!\nc!\n"
    plain.write_text("")
    assert ask(f"--input={plain}", f"--output={out}") == (0, "", "")
    assert out.read_text() == ""
    assert ask(f"--output={tmp_path}/new/folder/out", text="a b\n") == (0, "", "")
    assert (tmp_path / "new" / "folder" / "out").read_text() == "b a!\n"


def test_standard_input_is_not_overwritten_while_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "corpus"
    path.write_text("a b\n")
    command = [sys.executable, "-m", "t2t_lite.cli.query", "--server=127.0.0.1:1", "--model=toy", f"--output={path}"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with open(path, "rb") as file:
        done = subprocess.run(command, stdin=file, capture_output=True, check=False, timeout=60, env=environment)
    assert done.returncode == 2
    assert f"--output={path} would overwrite the input, {path}. Give another --output." in done.stderr.decode()
    assert path.read_text() == "a b\n"


def test_a_failure_on_the_way_keeps_what_is_written_and_says_where(ask: Query, server: Server, tmp_path: Path) -> None:
    server.model.faults.extend([Fault(), Fault(), Fault(code="INTERNAL", message="gone")])
    out = tmp_path / "out"
    flags = ("--batch_size=2", "--concurrency=1", f"--output={out}")
    status, _, err = ask(*flags, text="".join(f"{i}\n" for i in range(9)))
    assert status == 1
    assert err.endswith(
        "500: gone. See the server's log. Stopped at line 5; the translations of the lines before it are written.\n"
    )
    assert out.read_text() == "0!\n1!\n2!\n3!\n"
    # A command that fails at once leaves an older output unchanged.
    server.model.faults.append(Fault(code="INTERNAL", message="gone"))
    status, _, err = ask(*flags, text="a\n")
    assert status == 1
    assert "Stopped" not in err
    assert out.read_text() == "0!\n1!\n2!\n3!\n"


def test_bytes_that_are_not_utf_8(ask: Query) -> None:
    status, out, err = ask("--batch_size=1", "--concurrency=1", text=b"a\nb\nc\xff\nd\n")
    assert (status, out) == (1, "a!\nb!\n")
    assert "standard input, line 3: byte 0xff at column 2 is not UTF-8" in err
    assert "Stopped at line 3" in err


@pytest.mark.parametrize(
    ("flags", "status", "message"),
    [
        (("--input={tmp}/none",), 1, "none: there is no such file"),
        (("--output={tmp}",), 2, "is a folder, not a file"),
        (("--input={tmp}/in", "--output={tmp}/in"), 2, "would overwrite the input"),
        (("--output={tmp}/out.gz",), 2, "out.gz: it is written uncompressed. Leave the ending .gz out"),
        (("--server=localhost",), 2, "names no port"),
        (("--model=none",), 2, "404: Servable not found"),
        (("--version=7",), 2, "Specific\\(toy, 7\\)"),
        (("--label=new",), 2, "Unrecognized servable version label"),
        (("--label=new", "--version=1"), 2, "not allowed with"),
        (("--nbest=4",), 2, "gives 3 outputs a line, its beam size; 4 are asked for"),
        (("--wait=soon",), 2, "not a number of seconds above 0"),
        (("--server=127.0.0.1:1",), 1, "127.0.0.1:1 cannot be reached .*refused.* Is the server running there"),
    ],
)
def test_mistakes(ask: Query, tmp_path: Path, flags: tuple[str, ...], status: int, message: str) -> None:
    (tmp_path / "in").write_text("a\n")
    got, out, err = ask(*(flag.format(tmp=tmp_path) for flag in flags), text="a\n")
    assert (got, out) == (status, "")
    assert len(err.split("\n")) == 2 or err.startswith("usage:")
    assert re.search(message, err), err


def start(server: Server, *python: str, stdin: int = subprocess.PIPE) -> subprocess.Popen[bytes]:
    """Starts the command over REST, with one line at a time; returns the process."""
    query = ("-m", "t2t_lite.cli.query", f"--server={server.rest}", "--model=toy", "--batch_size=1", "--concurrency=1")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    pipe = subprocess.PIPE
    return subprocess.Popen([sys.executable, *python, *query], stdin=stdin, stdout=pipe, stderr=pipe, env=environment)


def test_ctrl_c_ends_it_at_once(server: Server) -> None:
    delays = iter([0.0, 20.0])
    server.model.delay = lambda: next(delays)
    with start(server) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write(b"a\nb\nc\n")
        process.stdin.flush()
        assert process.stdout.readline() == b"a!\n"
        while not server.model.in_flight:
            time.sleep(0.01)
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 130
        assert time.monotonic() - began < 15
        assert process.stderr.read() == b"error: interrupted.\n"


def test_a_terminal_is_answered_line_by_line(server: Server) -> None:
    """The command as a process, over REST, answers each line on a terminal and loads nothing heavy."""
    ours, theirs = pty.openpty()
    with start(server, "-X", "importtime", stdin=theirs) as process:
        os.close(theirs)
        assert process.stdout is not None
        assert process.stderr is not None
        for line in (b"a b", b"", b"c"):
            os.write(ours, line + b"\n")
            assert process.stdout.readline() == (b" ".join(reversed(line.split())) + b"!\n" if line else b"\n")
        os.write(ours, b"\x04")
        imported = process.stderr.read().decode()
        assert process.wait(60) == 0
        os.close(ours)
    assert "Type lines to translate; end with Ctrl-D." in imported
    packages = {line.rpartition("|")[2].strip().partition(".")[0] for line in imported.split("\n")}
    assert "argparse" in packages
    assert not packages & {"tensorflow", "keras", "numpy", "grpc", "tensorflow_serving"}
    assert server.model.requests == [1, 1]
