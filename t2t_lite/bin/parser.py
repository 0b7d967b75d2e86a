"""Parser of all commands: whole names only, each flag once, did-you-mean for unknown names."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from t2t_lite import other_names
from t2t_lite.errors import did_you_mean
from t2t_lite.version import local_version

# tensor2tensor's commands need these. Of ours, those that open a run have --trust_run, and that of a server --server.
_OF_A_RUN = ("--problem", "--model", "--hparams_set", "--hparams", "--data_dir")
_HOLDERS = {"--trust_run": "the run in --output_dir", "--server": "the model on the server"}
_PATHS = re.compile("DIR|FILE|RUN|PREFIX")  # in the metavar of each flag that takes a path


class Parser(argparse.ArgumentParser):
    """Parser that takes flags by their whole names only, with a did-you-mean for misspelt ones.

    A flag given twice is an error that names both values, except with `action="append"`: those flags accumulate.

    Args:
        version_flag: add --version. A command whose --version takes a value adds the flag itself, with `ShowVersion`.
    """

    def __init__(self, prog: str, description: str, epilog: str | None = None, *, version_flag: bool = True) -> None:
        super().__init__(prog=prog, description=description, epilog=epilog, allow_abbrev=False)
        self._typed: list[str] = []  # the words of one command line
        self._given: dict[str, list[str]] = {}  # of one command line: flag -> its values, as they were typed
        if version_flag:
            self.add_argument("--version", action=ShowVersion, nargs=0, help="print the version and stop")

    def parse(self, argv: Sequence[str] | None) -> argparse.Namespace:
        """Parses the command line (`argv`, or the process's own); ends the program with status 2 if it is wrong."""
        if "_ARGCOMPLETE" in os.environ:  # the shell asks for completions of the line
            from t2t_lite.bin import completion

            completion.answer(self)
        self._given.clear()
        self._typed = sys.argv[1:] if argv is None else list(argv)
        args, unknown = self.parse_known_args(self._typed)
        if unknown:
            name = unknown[0].partition("=")[0]
            if not name.startswith("-"):
                self.error(f"{name!r} is not a flag; values follow theirs, as in --problem=toy_ende.")
            self.check_flag(name)
        return args

    def check_flag(self, name: str) -> None:
        """Ends the program as `error` does if there is no flag of this name, such as "--problem"."""
        if name not in self._option_string_actions:
            known = other_names.answer("flag", name)
            holder = next((text for flag, text in _HOLDERS.items() if flag in self._option_string_actions), None)
            if name in _OF_A_RUN and holder:
                known = f" Leave it out: {holder} has it."
            self.error(f"there is no flag {name}.{known or did_you_mean(name, self._option_string_actions)}")

    def error(self, message: str) -> NoReturn:
        """Ends the program with status 2."""
        typed, self._typed = self._typed, []  # looked at once: `check_flag` ends here, too
        if message.startswith("the following arguments are required"):  # one of them may be misspelt
            for word in typed:
                if word.startswith("--"):
                    self.check_flag(word.partition("=")[0])
        super().error(message)

    def _get_values(self, action: argparse.Action, arg_strings: list[str]) -> Any:
        """Rejects a repeated flag: argparse calls this for each use, and a second one would replace the first."""
        if action.option_strings and not isinstance(action, argparse._AppendAction):
            flag = action.option_strings[-1]
            if flag in self._given:
                values = " and ".join(" ".join(given) for given in (self._given[flag], arg_strings) if given)
                self.error(f"{flag} is given twice{f': {values}' if values else ''}. Give it once.")
            self._given[flag] = arg_strings
        if isinstance(action.metavar, str) and _PATHS.search(action.metavar):
            arg_strings = [self._path(action, text) for text in arg_strings]
        return super()._get_values(action, arg_strings)

    def _path(self, action: argparse.Action, text: str) -> str:
        """Expands ~, as a shell does only at the start of a word, in each of several paths."""
        flag = action.option_strings[-1]
        if not text:
            self.error(f"{flag} is given without a value, as with a shell's variable that is not set. Give a path.")
        if "://" in text:
            self.error(f"{flag}={text}: only paths of this machine are taken. Mount what is elsewhere, or copy it.")
        return ",".join(map(os.path.expanduser, text.split(",")))


class ShowVersion(argparse.Action):
    """Prints the version and ends the program; if a value is allowed (`nargs="?"`) and given, stores it instead."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option_string: Any = None
    ) -> None:
        if values not in (None, []):
            setattr(namespace, self.dest, values)
            return
        print(version_line())
        parser.exit(0)


def version_line() -> str:
    """Returns the versions of this package, TensorFlow and Keras; imports none of them."""
    return f"t2t-lite {local_version()} (TensorFlow {_installed('tensorflow')}, Keras {_installed('keras')})"


def _installed(package: str) -> str:
    import importlib.metadata  # imports much that --help does not need

    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"
