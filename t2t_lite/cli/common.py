"""Shared parts of the commands: flags that name a run, error messages, exit statuses."""

from __future__ import annotations

import argparse
import io
import json
import logging
import math
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from t2t_lite import config, verbosity
from t2t_lite.cli.parser import InputUrl
from t2t_lite.cli.parser import Parser as Parser
from t2t_lite.distributed.tensorflow_loading import prepare_command
from t2t_lite.errors import T2TError, UsageError, did_you_mean
from t2t_lite.fields import Field
from t2t_lite.files import lacks_room
from t2t_lite.groups import DECODE
from t2t_lite.remote.mirror import fetch_url, name_urls, open_folder
from t2t_lite.signals import Terminated
from t2t_lite.table_formats import FORMATS

if TYPE_CHECKING:
    from t2t_lite.runs.open_request import OpenRequest

PRECISIONS = ("float32", "bfloat16", "float16", "int8")  # for running a model, not for training it
PRECISION_HELP = "of the weights and of what is computed with them; default: the run's"
RUNS_HELP = "what t2t-lite-trainer wrote, or its URL; A,B,C: an ensemble of these runs"
_WEIGHTS = ("best", "averaged", "ema", "newest")  # or a step


class Interrupts:
    """Context in which Ctrl-C and SIGTERM raise exceptions that cannot be lost.

    They are raised at once, and again by `check`, because Python drops exceptions raised in a garbage collector's
    callback. The end of the context raises them in place of any other error, because `keras.ops.shape` drops every
    exception, and the model that is being traced then fails for want of a shape.
    """

    def __init__(self) -> None:
        self._raised: KeyboardInterrupt | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> None:
        self._raised = None
        if threading.current_thread() is threading.main_thread():  # Python handles signals nowhere else
            for number in (signal.SIGINT, signal.SIGTERM):
                if signal.getsignal(number) != signal.SIG_IGN:  # SIG_IGN: for example in the background of a shell
                    self._before[number] = signal.signal(number, self._stop)

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        while self._before:
            signal.signal(*self._before.popitem())
        if error is not None and error is not self._raised:
            self.check()

    def check(self) -> None:
        """Raises KeyboardInterrupt or Terminated if one of the signals has come."""
        if self._raised is not None:
            raise self._raised

    def _stop(self, number: int, frame: object) -> None:
        self._raised = Terminated() if number == signal.SIGTERM else KeyboardInterrupt()
        raise self._raised


interrupts = Interrupts()


def run(
    body: Callable[[], int],
    interrupted: str = "interrupted.",
    again: str = "run the same command again",
    *,
    args: argparse.Namespace | None = None,
) -> int:
    """Runs a command's body; returns its exit status.

    `interrupted` is printed after Ctrl-C or SIGTERM; `again` is what to do when there is room on the disk again. `args`
    say how much is printed: --quiet, --verbose, and --json or --format, for which standard output is one document.

    0: done; 1: the run failed; 2: wrong arguments; 130: interrupted; 143: ended by SIGTERM. Errors
    that the user can fix are printed as a sentence, without a traceback.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # closed by the parent process
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115 (it stays open)
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")  # as standard error: a sample it cannot hold ends no training
    logging.basicConfig(format="%(message)s", stream=sys.stderr, level=logging.WARNING)
    prepare_command()
    how = {name: getattr(args, name, False) for name in ("quiet", "verbose")}
    reserved = getattr(args, "json", False) or getattr(args, "table_format", "text") != "text"
    with verbosity.saying(**how, reserved=reserved):
        return _run(body, interrupted, again, args)


def _run(body: Callable[[], int], interrupted: str, again: str, args: argparse.Namespace | None) -> int:
    try:
        with interrupts:
            if args is not None:
                _fetch_inputs(args)
            return body()
    except T2TError as error:
        return _fail(str(error), error.exit_status)
    except KeyboardInterrupt as stopped:
        return _fail(interrupted, 143 if isinstance(stopped, Terminated) else 130)
    except BrokenPipeError:
        # The reader of the output is gone; Python's flush at exit would fail as well.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except MemoryError:
        return _fail("There is not enough memory. Give smaller files, or fewer lines at a time.", 1)
    except OSError as error:
        advice = f" Make room and {again}." if lacks_room(error) else ""
        return _fail(f"{error.filename or 'the system'}: {error.strerror or error}.{advice}", 1)


def _fetch_inputs(args: argparse.Namespace) -> None:
    """Downloads the input files that are URLs, and puts the paths of the copies in their places."""
    for name, value in vars(args).items():
        if isinstance(value, InputUrl):
            setattr(args, name, fetch_url(value))
        elif isinstance(value, list):
            setattr(args, name, [fetch_url(each) if isinstance(each, InputUrl) else each for each in value])


def _fail(message: str, status: int) -> int:
    if verbosity.said.verbose:
        traceback.print_exc()
    print(f"error: {name_urls(message)}", file=sys.stderr)
    return status


def open_request(args: argparse.Namespace) -> OpenRequest:
    """Returns which runs the flags open, and how."""
    from t2t_lite.runs.open_request import OpenRequest

    folders = [open_folder(folder) for folder in run_folders(args.output_dir)]
    given = {name: getattr(args, name, None) for name in DECODE}
    return OpenRequest(
        folders=tuple(folders),
        checkpoint=getattr(args, "checkpoint", None),
        usr_dir=code_folder(args, folders),
        precision=getattr(args, "precision", None),
        search={name: value for name, value in given.items() if value is not None},
    )


def run_folders(output_dir: str) -> list[str]:
    """Splits --output_dir=A,B,C at its commas, unless a folder has exactly this name, commas included."""
    if "," not in output_dir or os.path.isdir(output_dir):
        return [output_dir]
    folders = output_dir.split(",")
    if not all(folder.strip() for folder in folders):
        raise UsageError(
            f"--output_dir={output_dir} has an empty name; an ensemble's runs are given with one comma between two of "
            "them, as in --output_dir=A,B,C."
        )
    return folders


def code_folder(args: argparse.Namespace, folders: Sequence[str]) -> str | None:
    """Returns --usr_dir, or with --trust_run the folder of code that the runs name."""
    from t2t_lite.runs.run_dir import read_code_folder

    if not args.trust_run:
        return args.usr_dir
    if args.output_dir is None or args.usr_dir is not None:
        raise UsageError("--trust_run goes with --output_dir=RUN, the run to trust, and without --usr_dir.")
    named = {read_code_folder(open_folder(folder)) for folder in folders} - {None}
    if len(named) > 1:
        raise UsageError(
            f"--trust_run: these runs have their code in {' and '.join(sorted(filter(None, named)))}. Give one folder "
            "that has the code of all: --usr_dir=DIR."
        )
    return named.pop() if named else None


def add_json_flag(parser: argparse._ActionsContainer, what: str) -> None:
    """Adds --json; `what` is printed, as one document."""
    parser.add_argument("--json", action="store_true", help=f"print {what} as one JSON object, with numbers in full")


def add_table_flags(parser: argparse._ActionsContainer, what: str) -> None:
    """Adds --json and --format, of which one may be given; `what` is printed."""
    form = parser.add_mutually_exclusive_group()
    add_json_flag(form, what)
    form.add_argument(
        "--format",
        dest="table_format",
        choices=tuple(FORMATS),
        default="text",
        help="csv has all digits; latex needs the package booktabs; default: text",
    )


def print_json(values: Mapping[str, Any]) -> None:
    print(json.dumps(values, ensure_ascii=False, indent=2))


def add_language_flag(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--target_language",
        metavar="CODE",
        help="of a model with several: begin each line with its label, such as >>de<< for de",
    )


def add_trust_flag(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--trust_run",
        action="store_true",
        default=None,
        help="import the code in the folder that the run names; only for your own runs, or those of people you trust",
    )


def add_code_flags(parser: argparse._ActionsContainer) -> None:
    """Adds --usr_dir and --trust_run, the flags for a run's own code."""
    parser.add_argument("--usr_dir", metavar="DIR", help="folder of your own code, if the run was trained with it")
    add_trust_flag(parser)


def positive(text: str) -> int:
    """The `type` of a flag that counts something."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return int(text)


def above_zero(what: str, limit: float = math.inf) -> Callable[[str], float]:
    """Returns the `type` of a flag for a number above 0 and below `limit`; `what` names it in the message."""

    def read(text: str) -> float:
        try:
            number = float(text)
        except ValueError:
            number = 0
        if not 0 < number < limit:
            raise argparse.ArgumentTypeError(f"{text} is not {what}")
        return number

    return read


def checkpoint(text: str) -> str:
    """The `type` of a flag that names weights of a run."""
    if text not in _WEIGHTS and not text.isdecimal():
        what = f"{text!r} is neither {', '.join(_WEIGHTS)} nor a step such as 1000."
        raise argparse.ArgumentTypeError(f"{what}{did_you_mean(text, _WEIGHTS)}")
    return text


def add_search_flags(
    parser: argparse._ActionsContainer, names: Sequence[str], defaults: Mapping[str, str] | None = None
) -> None:
    """Adds flags for fields of the group "decode"; `defaults` are those that are not the recipe's (None: the run's)."""
    fields = config.fields(config.HParams)
    for name in names:
        default = "the run's" if defaults is None else defaults.get(name, fields[name].default)
        help = f"{fields[name].meta.meaning}; default: {default}"
        metavar = {"int": "N", "float": "ALPHA"}.get(fields[name].kind_text, fields[name].kind_text)
        parser.add_argument(f"--{name}", type=_read(fields[name]), metavar=metavar, help=help)


def _read(field: Field) -> Callable[[str], Any]:
    """The `type` of a flag for a field of a recipe."""

    def read(text: str) -> Any:
        try:
            value = field.parse(text)
            field.check(value)
        except UsageError as error:
            raise argparse.ArgumentTypeError(str(error).removeprefix("hparams: ")) from None
        return value

    return read


def add_run_flags(parser: argparse._ActionsContainer, *, required: bool = True, help: str = RUNS_HELP) -> None:
    """Adds the flags that name one or more trained runs and their weights; `help` is the help of --output_dir."""
    parser.add_argument("--output_dir", metavar="DIR", required=required, help=help)
    parser.add_argument(
        "--checkpoint",
        type=checkpoint,
        metavar="best|averaged|ema|newest|N",
        help="which weights; default: averaged, best or ema, whichever the trainer found best on dev, or a best found "
        "since; else the newest",
    )
    add_code_flags(parser)
