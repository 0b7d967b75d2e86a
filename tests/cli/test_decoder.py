"""Where t2t-lite-decoder writes its output; tests/system runs the whole command."""

import errno
import io
import os
import pty
import resource
import stat
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from t2t_lite.cli import decode, decoder
from t2t_lite.cli.decode import DecodeRequest
from t2t_lite.cli.flags import read_banned_words
from t2t_lite.cli.partial_output import PartialOutput
from t2t_lite.errors import DataError, UsageError
from t2t_lite.runs.open_request import OpenRequest
from tests.cli import untrained

RESULTS = [[SimpleNamespace(text="größer", score=-0.25)], [SimpleNamespace(text="", score=0.0)]]


RUN = "--output_dir=run"


def write(output: str | None, *results: list[SimpleNamespace], **form: Any) -> None:
    request, rows = DecodeRequest(output=output, **form), list(results) or RESULTS
    lines = ["bigger", ""][: len(rows)]
    with decode._open_output(request, {}) as out:
        out.write(lines, decode._rows(request, lines, rows))  # type: ignore[arg-type]
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
        ([RUN, "--seed=2"], "--seed goes with --sampler=NAME"),
        ([RUN, "--sampler_options=top_k=2"], "--sampler_options goes with --sampler=NAME"),
        ([RUN, "--sampler=random", "--nbest=1001"], "--nbest=1001: a sampler draws at most 1,000 outputs of each line"),
        ([RUN, "--sampler=random", "--beam_size=2"], "--beam_size is of beam search, and does not go with --sampler"),
        ([RUN, "--pretty", "--json"], "--json does not go with --pretty"),
        ([RUN, "--alignments=hard", "--split_sentences"], "--alignments does not go with --split_sentences"),
        ([RUN, "--prefix=x", "--split_sentences"], "--prefix does not go with --split_sentences"),
        ([RUN, "--mbr_samples=4"], "--mbr_samples goes with --decode=mbr"),
        ([RUN, "--decode=mbr", "--sampler=top_k"], "--sampler with --decode=mbr needs --mbr_samples=N"),
        ([RUN, "--decode=mbr", "--mbr_samples=4", "--beam_size=2"], "--beam_size is of beam search"),
        (
            [RUN, "--decode=mbr", "--mbr_samples=4", "--nbest=5"],
            "--mbr_samples=4: from 1, or --nbest, to 1,000 samples",
        ),
        (["--saved_model=x", "--decode=mbr"], "--decode goes with --output_dir: an exported model"),
        ([RUN, "--word_scores", "--nbest=2"], "--word_scores goes with --json"),
        ([RUN, "--quality"], "--quality goes with --json"),
        ([RUN, "--json", "--dropout_passes=4"], "--dropout_passes goes with --quality"),
        ([RUN, "--json", "--quality", "--dropout_passes=1"], "--dropout_passes=1 has no variance"),
        ([RUN, "--pretty", "--split_sentences"], "--split_sentences does not go with --pretty"),
        ([RUN, "--quality", "--json", "--split_sentences"], "--quality does not go with --split_sentences"),
        (["--saved_model=x", "--quality", "--json"], "--quality goes with --output_dir"),
        ([RUN, "--decode=mbr", "--coverage_penalty=0.2"], "--coverage_penalty does not go with --decode=mbr"),
        ([], "give --output_dir=RUN or --saved_model=DIR"),
        ([RUN, "--saved_model=x"], "give --output_dir=RUN or --saved_model=DIR"),
        (["--saved_model=x", "--beam_size=2"], "--beam_size goes with --output_dir"),
        (["--saved_model=x", "--split=dev"], "--split goes with --output_dir"),
        ([RUN, "--resume", "--input=x"], "--resume needs --output=FILE: standard output keeps nothing"),
        ([RUN, "--resume", "--output=y"], "--resume needs --input=FILE: what comes in a pipe cannot be read again"),
        ([RUN, "--shard=1/2"], "--shard needs --input=FILE"),
        ([RUN, "--beam_options=runner=FlinkRunner"], "--beam_options goes with --runner=beam"),
        ([RUN, "--runner=beam", "--input=x"], "--runner=beam needs --input=FILE or a pattern, and --output=FILE"),
        ([RUN, "--runner=beam", "--output=y"], "--runner=beam needs --input=FILE or a pattern, and --output=FILE"),
        ([RUN, "--runner=beam", "--input=x", "--output=y", "--resume"], "--resume does not go with --runner=beam"),
        ([RUN, "--runner=beam", "--input=x", "--output=y", "--shard=1/2"], "--shard does not go with --runner=beam"),
        ([RUN, "--runner=beam", "--input=x", "--output=y", "--prefix=z"], "--prefix does not go with --runner=beam"),
        ([RUN, "--shard=1/2", "--split=test"], "--shard goes with --input, not with --split"),
    ],
)
def test_flags_that_do_not_go_together(flags: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        decoder.main(flags)
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


def test_pretty_trees_and_a_model_that_writes_none(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    write(None, *([SimpleNamespace(text=text)] for text in ("(S (NN a) (NP (NN b)))", "")), pretty=True)
    assert capfdbinary.readouterr().out == b"(S (NN a)\n  (NP (NN b)))\n\n\n\n"
    with pytest.raises(UsageError, match="--pretty is for trees; this model writes text, such as 'größer'"):
        write(None, RESULTS[0], pretty=True)


def test_options_of_a_sampler_are_read_before_the_run_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "in").write_text("a\n")
    monkeypatch.setattr(OpenRequest, "check", lambda request: [])
    monkeypatch.setattr(decode, "_open", lambda *_: pytest.fail("the run is opened"))
    flags = ["--output_dir=run", f"--input={tmp_path / 'in'}", "--sampler=top_k"]
    for option, message in (("top_q=3", "has no option 'top_q'"), ("top_k=0", "top_k=0 must be a whole number")):
        assert decoder.main([*flags, f"--sampler_options={option}"]) == 2
        assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--input=in", "--output=in"], "--output=in would overwrite the input, in. Give another --output."),
        (["--input=link", "--output=in"], "--output=in would overwrite the input"),
        (["--input=in.partial", "--output=in"], "--output=in would overwrite the input, in.partial"),
        (["--input=in", "--output=out.gz"], "--output=out.gz: it is written uncompressed. Leave the ending .gz out, "),
    ],
)
def test_an_output_over_the_input_or_with_a_false_ending_is_refused_at_once(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    flags: list[str],
    message: str,
) -> None:
    (tmp_path / "in").write_text("a\n")
    (tmp_path / "link").symlink_to("in")
    (tmp_path / "in.partial").write_text("b\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(OpenRequest, "check", lambda request: [])
    monkeypatch.setattr(decode, "load_tensorflow", lambda: pytest.fail("it continues"))
    assert decoder.main(["--output_dir=run", *flags]) == 2
    assert message in capsys.readouterr().err
    assert {path.name for path in tmp_path.iterdir()} == {"in", "in.partial", "link"}


@pytest.fixture(scope="module")
def make_run(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Path]:
    return lambda beam_size: untrained.make_run(tmp_path_factory.mktemp("run"), beam_size)


@pytest.mark.commit
def test_an_output_goes_on_with_the_same_search_alone(make_run: Callable[[int], Path], tmp_path: Path) -> None:
    one, other, out = make_run(2), make_run(1), tmp_path / "out"

    def begin(folders: list[Path], *flags: str) -> PartialOutput:
        named = ",".join(map(str, folders))
        args = decoder.make_parser().parse([f"--output_dir={named}", f"--output={out}", *flags])
        request = decoder.decode_request(args)
        stream = decode._open_output(request, decode._open(request, None)[1])
        assert isinstance(stream, PartialOutput)
        return stream

    with begin([one]) as stream:
        stream.write(["a"], b"b\n")
    untrained.write_spec(one, beam_size=1)  # as the trainer does where a run resumes with another beam size
    with pytest.raises(UsageError, match=r"begun with other settings:\n  beam_size: 2 -> 1\nGive the same"):
        begin([one], "--resume")
    with begin([one], "--resume", "--beam_size=2", "--precision=float32") as stream:  # named or not, they are the same
        assert stream.done == 1
    untrained.write_spec(one, beam_size=2)
    with begin([one, other]) as stream:
        stream.write(["a"], b"b\n")
    with pytest.raises(UsageError, match=r"other settings:\n  beam_size: 2 -> 1\nGive"):
        begin([other, one], "--resume")
    with begin([other, one], "--resume", "--beam_size=2") as stream:
        assert stream.done == 1


@pytest.mark.commit
@pytest.mark.parametrize(("given", "advice"), [("a file", " with --resume"), ("a pipe", " again")])
def test_what_a_full_disk_leaves_and_how_to_go_on(
    given: str,
    advice: str,
    make_run: Callable[[int], Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines, out = "dog " * 1000 + "\n", tmp_path / "out"
    (tmp_path / "in").write_text(lines * 50)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(lines.encode() * 50)))
    flags = [f"--output_dir={make_run(1)}", f"--output={out}", "--json", "--max_source_length=4"]
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
    try:
        assert decoder.main([*flags, *([f"--input={tmp_path / 'in'}"] if given == "a file" else [])]) == 1
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    said = capsys.readouterr().err
    assert said.endswith(
        f"error: {out}.partial: {os.strerror(errno.EFBIG)}. Make room and run the same command{advice}.\n"
    )
    assert ("The same command with --resume continues." in said) == (given == "a file")
    assert f" lines are translated, in {out}.partial." in said


@pytest.mark.commit
def test_what_is_wrong_is_told_before_anything_is_loaded(
    make_run: Callable[[int], Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run, prefixes = make_run(2), tmp_path / "prefixes"
    (tmp_path / "in").write_text("a dog\n\na cat\n")
    prefixes.write_text("ein\n\n日本\n")
    monkeypatch.setattr(decode, "load_tensorflow", lambda: pytest.fail("TensorFlow is loaded"))
    flags = [f"--output_dir={run}", f"--input={tmp_path / 'in'}"]
    for wrong, message in (
        (
            [f"--prefix={prefixes}"],
            f"{prefixes}, line 3: The prefix 日本 has '日', '本', which the model cannot write.",
        ),
        (["--nbest=3"], "--nbest=3 must be at most the beam size, 2; it is --beam_size of this command."),
        (["--nbest=3", "--beam_size=2"], "--nbest=3 must be at most the beam size, 2"),
    ):
        assert decoder.main([*flags, *wrong]) == 2
        assert message in capsys.readouterr().err


def test_banned_words_are_the_lines_of_a_file_and_some_must_be_there(tmp_path: Path) -> None:
    path = tmp_path / "words.txt"
    path.write_text("Hund\n \nder Hund\n", encoding="utf-8")
    assert read_banned_words(str(path)) == ("Hund", "der Hund")
    assert read_banned_words(None) == ()
    path.write_text("\n \n", encoding="utf-8")
    with pytest.raises(DataError, match="words.txt has no words. Write one on each line, or leave out the flag"):
        read_banned_words(str(path))
