"""t2t-lite-demo: the whole command over a real socket, and its error messages."""

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from t2t_lite.cli import common, demo
from t2t_lite.demo.backends import open_run
from t2t_lite.demo.server import listen
from t2t_lite.models.transformer import Transformer
from t2t_lite.models.transformer_hparams import TransformerHParams
from t2t_lite.runs.checkpoint import Checkpoints
from t2t_lite.runs.record import make_record
from t2t_lite.runs.run_dir import RunSpec, write_run
from t2t_lite.text.vocabulary_training import train_vocabulary
from tests import commands
from tests.serving import toy_model
from tests.serving.server import Server, serve

HPARAMS = TransformerHParams(num_layers=1, d_model=16, d_ff=16, num_heads=2, beam_size=2, extra_length=3)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    base = tmp_path_factory.mktemp("toy")
    toy_model.save(base, 1, "!", signatures=("serving_default", "nbest"))
    with serve(base, "toy") as server:
        yield server


def _ask(url: str, data: object) -> tuple[int, dict]:
    request = urllib.request.Request(url, json.dumps(data).encode(), {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


@pytest.mark.commit
def test_a_page_over_a_server(served: Server) -> None:
    command = [sys.executable, "-m", "t2t_lite.cli.demo", f"--server={served.rest}", "--model=toy", "--port=0"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=environment) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        url = process.stdout.readline().strip()
        assert url.startswith("http://127.0.0.1:")
        with urllib.request.urlopen(url, timeout=60) as page:
            assert "<textarea" in page.read().decode()
            assert page.headers["Content-Security-Policy"].startswith("default-src 'none'")
        status, answer = _ask(f"{url}translate", {"text": "a b\n\nnot a number"})
        assert (status, [[o["text"] for o in outputs] for outputs in answer["outputs"]]) == (
            200,
            [["b a! 1", "b a! 2", "b a! 3"], ["", "", ""], ["number a not! 1", "number a not! 2", "number a not! 3"]],
        )
        assert [[o["score"] for o in outputs] for outputs in answer["outputs"]][::2] == [
            [-0.25, -1.25, -2.25],
            [None, None, None],
        ]
        status, answer = _ask(f"{url}attention", {"text": "a b"})
        assert status == 400
        assert "Export the model with t2t-lite-exporter --signatures=nbest,score,attention." in answer["error"]
        process.send_signal(signal.SIGINT)
        try:
            assert process.wait(60) == 130
        finally:
            process.kill()  # otherwise the end of the block would wait for it
        assert process.stderr.read() == "error: interrupted; the page is no longer served.\n"
        assert process.stdout.read() == "\nNext: open this address in a browser. Ctrl-C ends the page.\n"


@pytest.mark.commit
def test_a_run(tmp_path: Path) -> None:
    vocabulary = train_vocabulary(["a small dog sees the big cat", "ein kleiner Hund sieht die Katze"] * 2, size=60)
    spec = RunSpec("toy_ende", {}, "data", None, "base", "transformer", HPARAMS)
    write_run(tmp_path, spec)
    vocabulary.save(tmp_path / "vocabulary.model")
    model = Transformer.from_hparams(HPARAMS, vocabulary.size, vocabulary.size, True)
    Checkpoints(tmp_path, model, record=make_record(spec)).save(7)
    args = demo.make_parser().parse(
        [f"--output_dir={tmp_path}", "--checkpoint=newest", "--beam_size=3", "--max_length_factor=0.5"]
    )
    backend = open_run(common.open_request(args))
    assert (backend.card["checkpoint"], backend.card["step"]) == ("checkpoints/model-7", 7)
    assert backend.card["problem"]["name"] == "toy_ende"
    assert (backend._lines.decode.beam_size, backend._lines.decode.max_length_factor) == (3, 0.5)


@pytest.mark.parametrize(
    ("flags", "status", "message"),
    [
        (["--output_dir={tmp}"], 1, "holds no run"),
        (["--saved_model={tmp}"], 1, "holds no exported model"),
        (["--server=127.0.0.1:1", "--model=toy"], 1, "cannot be reached"),
        (
            ["--output_dir={tmp}", "--port={taken}"],
            2,
            "Address already in use). Give an address of this machine and a free",
        ),
        (["--output_dir={tmp}", "--host=192.0.2.1"], 2, "--host=192.0.2.1 --port=0 (Cannot assign requested address)"),
    ],
)
def test_mistakes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: list[str], status: int, message: str
) -> None:
    with listen("127.0.0.1", 0) as taken:
        places = {"tmp": tmp_path, "taken": taken.getsockname()[1]}
        assert demo.main(commands.with_defaults([flag.format(**places) for flag in flags], "--port=0")) == status
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.err.startswith("error: ")
    assert captured.out == ""


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ([], "give --output_dir=RUN, --saved_model=DIR, or --server=HOST:PORT with --model=NAME"),
        (["--output_dir=a", "--saved_model=b"], "give --output_dir=RUN, --saved_model=DIR, or"),
        (["--server=a:1"], "--server and --model go together"),
        (["--server=a:1", "--model=b", "--split_sentences"], "--split_sentences goes with --output_dir or --saved"),
        (["--saved_model=a", "--checkpoint=best"], "--checkpoint goes with --output_dir"),
        (["--saved_model=a", "--beam_size=2"], "--beam_size goes with --output_dir"),
        (["--saved_model=a", "--max_length_factor=2"], "--max_length_factor goes with --output_dir"),
        (["--output_dir=a", "--port=65536"], "'65536' is not a port: a whole number from 0 to 65535"),
    ],
)
def test_wrong_flags(capsys: pytest.CaptureFixture[str], flags: list[str], message: str) -> None:
    with pytest.raises(SystemExit, match="2"):
        demo.main(flags)
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("host", "name", "warned"),
    [("127.0.0.1", "127.0.0.1", False), ("localhost", "localhost", False), ("0.0.0.0", socket.gethostname(), True)],
)
def test_who_may_connect_is_reported(capsys: pytest.CaptureFixture[str], host: str, name: str, warned: bool) -> None:
    with listen(host, 0) as listener:
        demo._announce(host, listener)
        port = listener.getsockname()[1]
    captured = capsys.readouterr()
    assert captured.out.startswith(f"http://{name}:{port}/\n")
    assert ("warning: --host=0.0.0.0 lets everybody who reaches this machine use the page" in captured.err) == warned
