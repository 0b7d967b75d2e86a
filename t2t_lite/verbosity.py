"""How much a command says besides its results; --quiet, --verbose and --json set it, and programs leave it as it is."""

import contextlib
import dataclasses
import logging
import sys
from collections.abc import Iterator

_log = logging.getLogger("t2t_lite")


@dataclasses.dataclass
class _Said:
    """What is said.

    quiet: neither progress nor remarks, only results, warnings and errors.
    verbose: also TensorFlow's own log, and a traceback with each error.
    reserved: standard output is for one document, so remarks go to standard error.
    """

    quiet: bool = False
    verbose: bool = False
    reserved: bool = False


said = _Said()


@contextlib.contextmanager
def saying(*, quiet: bool = False, verbose: bool = False, reserved: bool = False) -> Iterator[None]:
    """Context of a command."""
    before, level = dataclasses.replace(said), _log.level
    vars(said).update(quiet=quiet, verbose=verbose, reserved=reserved)
    _log.setLevel(logging.WARNING if quiet else logging.INFO)
    try:
        yield
    finally:
        vars(said).update(vars(before))
        _log.setLevel(level)


def say(text: str, *, error: bool = False) -> None:
    """Prints a remark, on standard output or (`error`) standard error; nothing with --quiet."""
    if not said.quiet:
        print(text, file=sys.stderr if error or said.reserved else sys.stdout, flush=True)
