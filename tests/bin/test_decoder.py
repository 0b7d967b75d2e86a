"""Where t2t-lite-decoder writes its output; tests/system runs the whole command."""

import argparse
import os
import pty
import stat
from pathlib import Path
from types import SimpleNamespace

import pytest

from t2t_lite.bin import cli, decoder
from t2t_lite.errors import UsageError

RESULTS = [[SimpleNamespace(text="größer", score=-0.25)], [SimpleNamespace(text="", score=0.0)]]


NAMES = ("checkpoint", "usr_dir", "split", "precision", "beam_size", "length_penalty", "extra_length")
ARGS = dict.fromkeys((*NAMES, "max_source_length", "nbest", "shard", "sampler", "sampler_options", "seed"))


def write(output: str | None, *results: list[SimpleNamespace], **flags: object) -> None:
    args = argparse.Namespace(**{**ARGS, "json": False, "output": output, "pretty": False, "resume": False, **flags})
    rows = list(results) or RESULTS
    lines = ["bigger", ""][: len(rows)]
    with decoder._output(args, "the model") as out:
        out.write(lines, decoder._rows(args, lines, rows))
        out.finish()


@pytest.mark.parametrize(("nbest", "before"), [(None, ""), (1, "-0.5000\t")])
def test_a_line_gives_one_line_whatever_the_model_writes(
    nbest: int | None, before: str, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    write(None, [SimpleNamespace(text="two\nlines", score=-0.5)], nbest=nbest)
    assert capfdbinary.readouterr().out == f"{before}two lines\n".encode()


def test_a_file_is_replaced_whole_also_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("old")
    (tmp_path / "link").symlink_to("out")
    write(str(tmp_path / "link"))
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "out").read_bytes() == "größer\n\n".encode()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "out"]


def test_a_device_is_written_to_and_stays() -> None:
    """A device is not replaced by a file: replacing /dev/null would harm the whole machine."""
    ours, theirs = pty.openpty()
    try:
        path = os.ttyname(theirs)
        write(path)
        assert stat.S_ISCHR(os.stat(path).st_mode)
        assert os.read(ours, 100).replace(b"\r\n", b"\n") == "größer\n\n".encode()
    finally:
        os.close(ours)
        os.close(theirs)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--seed=2"], "--seed goes with --sampler=NAME"),
        (["--sampler_options=top_k=2"], "--sampler_options goes with --sampler=NAME"),
        (["--sampler=random", "--beam_size=2"], "--beam_size is of beam search, and does not go with --sampler"),
    ],
)
def test_flags_of_a_search_and_of_sampling_are_not_mixed(
    flags: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        decoder.main(["--output_dir=run", *flags])
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


def test_standard_output_gets_bytes_of_utf_8(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    write(None)
    assert capfdbinary.readouterr().out == "größer\n\n".encode()


def test_pretty_trees_and_a_model_that_writes_none(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    write(None, *([SimpleNamespace(text=text)] for text in ("(S (NN a) (NP (NN b)))", "")), pretty=True)
    assert capfdbinary.readouterr().out == b"(S (NN a)\n  (NP (NN b)))\n\n\n\n"
    with pytest.raises(UsageError, match="--pretty is for trees; this model writes text, such as 'größer'"):
        write(None, RESULTS[0], pretty=True)


def test_options_of_a_sampler_are_read_before_the_run_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "in").write_text("a\n")
    monkeypatch.setattr(cli, "check_runs", lambda args: [args.output_dir])
    monkeypatch.setattr(cli, "Interrupts", lambda: None)  # it would change how the tests handle signals
    monkeypatch.setattr(decoder, "_open", lambda *_: pytest.fail("the run is opened"))
    flags = ["--output_dir=run", f"--input={tmp_path / 'in'}", "--sampler=top_k"]
    for option, message in (("top_q=3", "has no option 'top_q'"), ("top_k=0", "top_k=0 must be a whole number")):
        assert decoder.main([*flags, f"--sampler_options={option}"]) == 2
        assert message in capsys.readouterr().err
