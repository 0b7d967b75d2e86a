"""Parser of all commands: whole names only, each flag once, did-you-mean for unknown names."""

import argparse
import os
import re
import sys
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

from t2t_lite import other_names
from t2t_lite.errors import did_you_mean
from t2t_lite.remote.store import is_url
from t2t_lite.version import local_version

# tensor2tensor's commands need these. Of ours, those that open a run have --trust_run, and that of a server --server.
_OF_A_RUN = ("--problem", "--model", "--hparams_set", "--hparams", "--data_dir")
_HOLDERS = {"--trust_run": "the run in --output_dir", "--server": "the model on the server"}
_PATHS = re.compile("DIR|FILE|RUN|PREFIX")  # in the metavar of each flag that takes a path
# What a command writes besides runs, data and exports, and code: never in a store.
_LOCAL = ("--usr_dir", "--output", "--corpus", "--page", "--picture", "--tree", "--heads", "--keep_whole")
# Folders and lists, whose URLs the commands themselves open; the file of any other flag is downloaded first.
_FOLDERS = re.compile("DIR|RUN|,")


class Parser(argparse.ArgumentParser):
    """Parser that takes flags by their whole names only, with a did-you-mean for misspelt ones.

    A flag given twice is an error that names both values, except with `action="append"`: those flags accumulate.

    Args:
        version_flag: add --version. A command whose --version takes a value adds the flag itself, with `ShowVersion`.
    """

    def __init__(self, prog: str, description: str, epilog: str | None = None, *, version_flag: bool = True) -> None:
        super().__init__(prog=prog, description=description, epilog=epilog, allow_abbrev=False)
        self._typed: list[str] = []  # the words of one command line
        self.given: dict[str, Any] = {}  # of one command line: flags and values; the last one of several
        self.elsewhere: dict[str, str] = {}  # flags of other commands, and what is said of them
        for name, action in ACTIONS.items():
            self.register("action", name, action)
        if version_flag:
            self.add_argument("--version", action=ShowVersion, nargs=0, help="print the version and stop")
        said = self.add_mutually_exclusive_group()
        said.add_argument(
            "-q",
            "--quiet",
            action="store_true",
            help="print only results, warnings and errors",
        )
        said.add_argument(
            "--verbose", action="store_true", help="also print TensorFlow's own log, and a traceback with each error"
        )

    def parse(self, argv: Sequence[str] | None) -> argparse.Namespace:
        """Parses the command line (`argv`, or the process's own); ends the program with status 2 if it is wrong."""
        if "_ARGCOMPLETE" in os.environ:  # the shell asks for completions of the line
            from t2t_lite.cli import completion

            completion.answer(self, ACTIONS.values())
        self.given.clear()
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
        flags = self.known_flags()
        if name not in flags:
            known = f" {self.elsewhere[name]}" if name in self.elsewhere else other_names.answer("flag", name)
            holder = next((text for flag, text in _HOLDERS.items() if flag in flags), None)
            if name in _OF_A_RUN and holder:
                known = f" Leave it out: {holder} has it."
            self.error(f"there is no flag {name}.{known or did_you_mean(name, flags)}")

    def error(self, message: str) -> NoReturn:
        """Ends the program with status 2."""
        typed, self._typed = self._typed, []  # looked at once: `check_flag` ends here, too
        if message.startswith("the following arguments are required"):  # one of them may be misspelt
            for word in typed:
                if word.startswith("--"):
                    self.check_flag(word.partition("=")[0])
        super().error(message)

    def refuse(self, names: Iterable[str], why: str) -> None:
        """Ends the program with status 2 if one of the flags is given, such as "beam_size"; `why` follows its name."""
        for name in names:
            if f"--{name}" in self.given:
                self.error(f"--{name} {why}")

    def known_flags(self) -> list[str]:
        """Returns the flags of the command, such as "--problem", with their other names."""
        shown = [action for action in self._actions if action.help != argparse.SUPPRESS]
        return [name for action in shown for name in action.option_strings if name.startswith("--")]


class _Once(argparse.Action):
    """Stores the value of a flag that may be given once, with ~ expanded in paths."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: Any = None) -> None:
        flag, value = self.option_strings[-1], self.const if self.nargs == 0 else values
        if flag in parser.given:
            both = "" if self.nargs == 0 else f": {parser.given[flag]} and {value}"
            parser.error(f"{flag} is given twice{both}. Give it once.")
        parser.given[flag] = value
        setattr(namespace, self.dest, _expand(parser, self, value))


class _Switch(_Once):
    """Sets a flag that takes no value."""

    const_value = True

    def __init__(self, option_strings: Sequence[str], dest: str, **options: Any) -> None:
        options.setdefault("default", not self.const_value)
        super().__init__(option_strings, dest, nargs=0, const=self.const_value, **options)


class _SwitchOff(_Switch):
    """Unsets a flag that takes no value."""

    const_value = False


class _Each(argparse.Action):
    """Collects the values of a flag that may be given several times, with ~ expanded in paths."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: Any = None) -> None:
        parser.given[self.option_strings[-1]] = values
        setattr(namespace, self.dest, [*(getattr(namespace, self.dest) or []), _expand(parser, self, values)])


ACTIONS = {None: _Once, "store": _Once, "store_true": _Switch, "store_false": _SwitchOff, "append": _Each}


def _expand(parser: argparse.ArgumentParser, action: argparse.Action, value: Any) -> Any:
    """Expands ~, as a shell does only at the start of a word, in each of several paths; returns what is no path."""
    if not isinstance(value, str) or not isinstance(action.metavar, str) or not _PATHS.search(action.metavar):
        return value
    flag = action.option_strings[-1]
    if not value:
        parser.error(f"{flag} is given without a value, as with a shell's variable that is not set. Give a path.")
    if "://" in value and (flag in _LOCAL or not any(map(is_url, value.split(",")))):
        parser.error(f"{flag}={value}: only paths of this machine are taken. Mount what is elsewhere, or copy it.")
    if is_url(value) and not _FOLDERS.search(action.metavar):
        return InputUrl(value)
    return ",".join(map(os.path.expanduser, value.split(",")))


class InputUrl(str):
    """The URL of an input: `common.run` puts the path of the downloaded file in its place."""


class ShowVersion(_Once):
    """Prints the version and ends the program; if a value is allowed (`nargs="?"`) and given, stores it instead."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: Any = None) -> None:
        if values not in (None, []):
            super().__call__(parser, namespace, values, option_string)
            return
        print(version_line())
        parser.exit(0)


def version_line() -> str:
    """Returns the versions of this package, TensorFlow and Keras; imports none of them."""
    engines = f"TensorFlow {_installed_version('tensorflow')}, Keras {_installed_version('keras')}"
    return f"t2t-lite {local_version()} ({engines})"


def _installed_version(package: str) -> str:
    import importlib.metadata  # imports much that --help does not need

    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"
