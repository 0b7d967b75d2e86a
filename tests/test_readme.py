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


def test_enough_is_run() -> None:
    assert len(COMMANDS) >= 20
    assert sum(_described(command) is not None for command in COMMANDS) >= 5
    assert readme.blocks(TEXT)[0].section == readme.INSTALL


PAGE = """
# Title

    t2t-lite-eval --a \\
        --b    # why

## Install

text
    no code

    my/file  my/other

    git clone ... && cd x

```python
# a/b.py
code()
```
```sh
# all of it
make demo
```
"""


def test_how_a_page_is_read() -> None:
    assert list(readme.shell_commands(PAGE)) == ["git clone ... && cd x", "make demo", "t2t-lite-eval --a --b"]
    with pytest.raises(ValueError, match=r"Install: 'sudo rm' is no command that WORDS names"):
        list(readme.shell_commands("## Install\n\n    sudo rm\n"))
    with pytest.raises(ValueError, match="No section 'Install'"):
        readme.blocks("## Try it\n\n    make demo\n")


@pytest.mark.parametrize(
    ("command", "status", "stdout", "stderr", "expected"),
    [
        ("t2t-lite-eval --a", 0, "BLEU|nrefs:1 = 3.1", "", []),
        ("git x", 0, "", "warning: x", []),
        ("pip install .", 0, "", "", ["nothing matches 'Successfully installed|already satisfied'"]),
        ("echo x | t2t-lite-x", 0, "", "lib.py:3: UserWarning: old", ["stderr has 'Warning:'"]),
        ("t2t-lite-x", 3, "", "note\nerror: no", ["status 3", "stderr has 'error: '"]),
        ("t2t-lite-x", 0, "", "I0000 00:00:1 1 port.cc:1] Warning: as TensorFlow loads\n", []),
    ],
)
def test_what_is_a_fault(command: str, status: int, stdout: str, stderr: str, expected: list[str]) -> None:
    assert readme.faults(command, subprocess.CompletedProcess(command, status, stdout, stderr)) == expected


def test_variables_and_folders_last(tmp_path: Path) -> None:
    assert readme.run("mkdir a && cd a && export LEFT='b c'", tmp_path).returncode == 0
    assert readme.run('pwd; echo "$LEFT"', tmp_path).stdout == f"{tmp_path / 'a'}\nb c\n"
    assert readme.run("false", tmp_path).returncode == 1
