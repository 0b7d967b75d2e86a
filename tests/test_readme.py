"""The commands of README.md and three more pages: their flags exist; those that take seconds run as written.

`make readme` runs every command in a fresh environment (tests/readme.py).
"""

import importlib
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from tests import commands, readme

pytestmark = pytest.mark.commit

TEXT = readme.read_pages()
COMMANDS = [changed for changed, _ in map(readme.apply_rules, readme.shell_commands(TEXT)) if changed]
OURS = re.compile(r"(?:^|\| )t2t-lite-([\w-]+)([^|]*)")


def _described(command: str) -> str | None:
    """Returns the command with --describe: it prepares data and says what training would do; None if this is slow."""
    if not re.match(r"t2t-lite-(trainer|datagen) ", command) or "=toy_" in command:
        return None
    if re.search(r"(?<!--output_dir=)runs/", command):  # it reads what another command wrote
        return None
    return command if " --describe" in command else f"{command} --describe"


@pytest.mark.parametrize("command", dict.fromkeys(filter(OURS.search, COMMANDS)))
def test_flags_exist(command: str) -> None:
    for name, flags in OURS.findall(command):
        module = importlib.import_module(f"t2t_lite.cli.{commands.module_of(name)}")
        module.make_parser().parse_args(shlex.split(flags))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files that the commands assume."""
    folder = tmp_path_factory.mktemp("readme")
    readme.make_inputs(folder, TEXT)
    return folder


@pytest.mark.nightly
@pytest.mark.parametrize("command", dict.fromkeys(filter(None, map(_described, COMMANDS))))
def test_what_takes_seconds_runs(folder: Path, command: str) -> None:
    ((name, flags),) = OURS.findall(command)
    done = commands.run(f"t2t_lite.cli.{name}", *shlex.split(flags), cwd=folder)
    text = subprocess.CompletedProcess(command, done.returncode, done.stdout.decode(), done.stderr.decode())
    assert readme.faults(command, text) == [], text.stderr
