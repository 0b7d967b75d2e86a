"""A run folder that a stranger made: no command runs code that it names, unless a flag says so."""

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest

from t2t_lite.runs.run_dir import read_run, write_run

Run = Callable[..., tuple[int, str]]

COMMANDS = {
    "decoder": ["--input={lines}"],
    "synthesize": ["--input={lines}", "--corpus={lines}.pairs"],
    "eval": [],
    "eval of pairs": ["--score", "--sources={lines}", "--targets={lines}"],
    "exporter": [],
    "avg_checkpoints": [],
    "insights": ["--sentence=line 1 of 1", "--page={lines}.html"],
    "demo": ["--port=0"],
    "trainer": [],
    "trainer --describe": ["--describe"],
}
HOSTILE = "from pathlib import Path\n\nPath(__file__).with_suffix('.was_run').touch()\n"


@pytest.fixture
def code(copy: Path, tmp_path: Path) -> Path:
    """A folder of code that the run in `copy` names."""
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "code_of_a_stranger.py").write_text(HOSTILE)
    write_run(copy, dataclasses.replace(read_run(copy), usr_dir=str(folder)))
    return folder


@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_runs_the_code_that_a_run_names(
    run: Run, copy: Path, code: Path, tmp_path: Path, command: str
) -> None:
    lines = tmp_path / "lines"
    lines.write_text("line 1 of 1\n")
    flags = [flag.format(lines=lines) for flag in COMMANDS[command]]
    status, said = run(command.split()[0], f"--output_dir={copy}", *flags)
    assert not (code / "code_of_a_stranger.was_run").exists()
    assert status == 2
    assert said.startswith(f"error: {copy} was trained with code of its own, from {code}. Code can do whatever you can")
    assert said.count("\n") == 1


@pytest.mark.commit
def test_it_is_imported_where_it_is_given_or_trusted(run: Run, copy: Path, code: Path, tmp_path: Path) -> None:
    flags = [f"--output_dir={copy}", f"--input={tmp_path / 'lines'}", f"--output={tmp_path / 'out'}"]
    (tmp_path / "lines").write_text("line 1 of 1\n")
    assert run("decoder", *flags, "--trust_run")[0] == 0
    assert (code / "code_of_a_stranger.was_run").exists()
    assert run("decoder", *flags, f"--usr_dir={code}")[0] == 0
    status, said = run("decoder", *flags, f"--usr_dir={code}", "--trust_run")
    assert (status, said) == (
        2,
        "error: --trust_run goes with --output_dir=RUN, the run to trust, and without --usr_dir.\n",
    )


@pytest.mark.nightly
def test_a_run_that_names_no_code_can_be_trusted_too(run: Run, copy: Path, tmp_path: Path) -> None:
    (tmp_path / "lines").write_text("line 1 of 1\n")
    output = tmp_path / "out"
    assert run(
        "decoder", f"--output_dir={copy}", f"--input={tmp_path / 'lines'}", f"--output={output}", "--trust_run"
    ) == (
        0,
        "",
    )
