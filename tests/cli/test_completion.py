"""Shell completion: what bash suggests for a line, with the code that the trainer prints."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from t2t_lite import registry
from t2t_lite.cli import completion
from tests.commands import call, module_of

ROOT = Path(__file__).resolve().parents[2]

# Asks for completions as bash does when somebody has typed LINE and presses the tab key.
ASK = """
source "$CODE"
COMP_LINE="$LINE"; COMP_POINT=${#LINE}; COMP_TYPE=9
read -ra COMP_WORDS <<< "$LINE"
COMP_CWORD=$(( ${#COMP_WORDS[@]} - 1 ))
_python_argcomplete "${COMP_WORDS[0]}" 2> /dev/null
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture(scope="module")
def bash(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment variables of a shell that finds the commands and the code of --print_completion=bash."""
    folder = tmp_path_factory.mktemp("bin")
    for name in completion.COMMANDS:
        module = module_of(name.removeprefix("t2t-lite-"))
        (folder / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" -m t2t_lite.cli.{module} "$@"\n')
        (folder / name).chmod(0o755)
    done = call("trainer", "--print_completion=bash")
    assert done.returncode == 0, done.stderr
    (folder / "code").write_text(done.stdout)
    path = os.pathsep.join([str(folder), os.environ["PATH"]])
    return {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), "CODE": str(folder / "code")}


def complete(bash: dict[str, str], line: str) -> list[str]:
    done = subprocess.run(
        ["bash", "-c", ASK], env={**bash, "LINE": line}, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return [word.strip() for word in done.stdout.split("\n") if word.strip()]


@pytest.mark.commit
def test_flags_and_names_are_completed(bash: dict[str, str]) -> None:
    assert complete(bash, "t2t-lite-trainer --warm") == ["--warm_start_from"]
    problems = registry.PROBLEMS.names()
    assert complete(bash, "t2t-lite-trainer --problem=toy_") == [n for n in problems if n.startswith("toy_")]
    assert complete(bash, "t2t-lite-datagen --problem=wmt") == [n for n in problems if n.startswith("wmt")]
    assert complete(bash, "t2t-lite-trainer --problem=x --hparams_set=base_dk") == ["base_dk16", "base_dk32"]
    [last] = complete(bash, "t2t-lite-trainer --hparams=dropout=0.2,label_smoothing_")
    assert last.endswith("label_smoothing_over=")
    assert complete(bash, "t2t-lite-eval --metric=bleu_p") == ["bleu_paper"]
    assert complete(bash, "t2t-lite-import --hparams_set=tin") == []  # it takes tensor2tensor's names
    assert complete(bash, "t2t-lite-import --hparams=d_mo") == []
    assert "--nbest" in complete(bash, "t2t-lite-query --server=a:1 --n")


def test_names_of_usr_dir_are_completed(bash: dict[str, str], tmp_path: Path) -> None:
    code = (
        "from t2t_lite import problem, registry\n@registry.register_problem\nclass RhymesOfMine(problem.Problem): ...\n"
    )
    (tmp_path / "rhymes_of_mine_code.py").write_text(code)
    assert complete(bash, f"t2t-lite-trainer --usr_dir={tmp_path} --problem=rhy") == ["rhymes_of_mine"]


@pytest.mark.parametrize("shell", completion.SHELLS)
def test_there_is_code_for_each_shell_and_each_command(shell: str) -> None:
    done = call("trainer", f"--print_completion={shell}")
    assert done.returncode == 0, done.stderr
    assert set(re.findall(r"\bt2t-lite-[a-z-]+\b(?<!-complete)", done.stdout)) >= set(completion.COMMANDS)


def test_every_installed_command_is_completed() -> None:
    listed = re.search(r"^COMMANDS = \((.*?)\)$", (ROOT / "setup.py").read_text("utf-8"), re.MULTILINE | re.DOTALL)
    assert listed is not None
    assert tuple(f"t2t-lite-{name}" for name in re.findall(r'"([\w-]+)"', listed[1])) == completion.COMMANDS


def test_without_argcomplete_a_sentence_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "argcomplete.py").write_text("raise ImportError('not here')\n")
    command = [sys.executable, "-m", "t2t_lite.cli.trainer", "--print_completion=bash"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 2
    assert done.stderr == "error: Completion needs argcomplete: pip install 't2t-lite[completion]'.\n"
