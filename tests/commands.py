"""Commands for tests: each runs in its own process, with its own streams, but without the time of an import.

Importing TensorFlow takes five seconds. So processes are forked from a server that has imported TensorFlow, but none of
our modules. The server runs no threads, has looked for no devices and has read no flags. In a command that should load
nothing heavy, such an import fails. Tests of the start itself use new interpreters, for example to check that
TensorFlow's notices do not show.
"""

import multiprocessing
import os
import re
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

_PROGRESS = re.compile(r"^(?:.*: )?[\d,]+ of [\d,]+ \w+ (?:\(\d+%\)(?:, about |$)|in \d).*\n", re.MULTILINE)
HEAVY = ("tensorflow", "keras", "tensorflow_text", "jax")
_server = multiprocessing.get_context("forkserver")
_server.set_forkserver_preload([*HEAVY, "sacrebleu", "sentencepiece"])


def module_of(command: str) -> str:
    """Returns the name of the module in t2t_lite.cli for t2t-lite-COMMAND."""
    return {"import": "importer"}.get(command, command.replace("-", "_"))


def call(command: str, *flags: object) -> subprocess.CompletedProcess[str]:
    """Runs a command of t2t_lite.cli to its end; it must load nothing heavy, and its output is text."""
    done = run(f"t2t_lite.cli.{command}", *flags, light=True)
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


def without_progress(said: str) -> str:
    """Removes the lines about work that takes over ten seconds; on a busy machine any work may."""
    return _PROGRESS.sub("", said)


def with_defaults(flags: Sequence[str], *defaults: str) -> list[str]:
    """Returns the defaults whose names are not in `flags`, then `flags`: no flag may be given twice."""
    names = {flag.partition("=")[0] for flag in flags}
    return [*(flag for flag in defaults if flag.partition("=")[0] not in names), *flags]


def start(
    module: str,
    *arguments: object,
    out: Path,
    err: Path,
    input: Path = Path(os.devnull),
    env: Mapping[str, str] = os.environ,
    cwd: Path | None = None,
    processors: Sequence[int] = (),
    light: bool = False,
) -> BaseProcess:
    """Starts `python -m MODULE ARGUMENTS`, which reads the file `input` and writes the files `out` and `err`.

    If `processors` are given, it uses only these, as after `taskset -c`. If `light`, every import of HEAVY fails.
    """
    streams, folder = (input, out, err), cwd or Path.cwd()
    options = ({**env}, folder, processors, light)
    process = _server.Process(target=_run, args=(module, [*map(str, arguments)], streams, *options))
    process.start()
    return process


def run(module: str, *arguments: object, input: bytes = b"", **options: Any) -> subprocess.CompletedProcess[bytes]:
    """Runs `python -m MODULE ARGUMENTS` to its end and returns its output; options are those of `start`."""
    with tempfile.TemporaryDirectory() as folder:
        given, out, err = (Path(folder, name) for name in ("in", "out", "err"))
        given.write_bytes(input)
        process = start(module, *arguments, input=given, out=out, err=err, **options)
        process.join(300)
        if process.exitcode is None:
            process.kill()
            process.join()
        return subprocess.CompletedProcess([module, *arguments], process.exitcode, out.read_bytes(), err.read_bytes())


def _run(
    module: str,
    arguments: list[str],
    streams: tuple[Path, ...],
    environment: dict[str, str],
    folder: Path,
    processors: Sequence[int],
    light: bool,
) -> None:
    if light:
        sys.modules.update(dict.fromkeys(HEAVY))
    if processors:
        os.sched_setaffinity(0, processors)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    for number, (path, mode) in enumerate(zip(streams, ("rb", "wb", "wb"), strict=True)):
        with open(path, mode) as file:
            os.dup2(file.fileno(), number)
    sys.stdin, sys.stdout = open(0), open(1, "w")  # noqa: SIM115 (they stay open)
    sys.stderr = open(2, "w", buffering=1, errors="backslashreplace")  # noqa: SIM115
    sys.argv = [module, *arguments]
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except KeyboardInterrupt:  # while it imports; multiprocessing would give it the status of an error
        sys.exit(130)
