"""Shared parts of the commands: flags that name a run, error messages, exit statuses."""

from __future__ import annotations

import argparse
import contextlib
import gc
import io
import logging
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import IO, Any

from t2t_lite.bin.parser import Parser as Parser
from t2t_lite.distributed.xla import set_up_xla
from t2t_lite.errors import T2TError, UsageError, check_tensorflow_path, did_you_mean
from t2t_lite.files import lacks_room

PRECISIONS = ("float32", "bfloat16", "int8")  # for running a model, not for training it
PRECISION_HELP = "of the weights and of what is computed with them; default: the run's"
RUNS_HELP = "what t2t-lite-trainer wrote; A,B,C: an ensemble of these runs"
_WEIGHTS = ("best", "averaged", "newest")  # or a step
_QUIET = threading.RLock()  # standard error is the process's: threads that take it must give it back in turn
_log = logging.getLogger("t2t_lite")


_in_command = False  # whether this process is a command, and not a user's own program


class Terminated(KeyboardInterrupt):
    """SIGTERM, where a command treats it as Ctrl-C; see `Interrupts`."""


class Interrupts:
    """Ctrl-C and SIGTERM as exceptions that cannot be lost.

    They are raised at once, and again by `check`, because Python drops exceptions raised in a garbage collector's
    callback.
    """

    def __init__(self) -> None:
        self._raised: KeyboardInterrupt | None = None
        for number in (signal.SIGINT, signal.SIGTERM):
            if signal.getsignal(number) != signal.SIG_IGN:  # SIG_IGN: for example in the background of a shell
                signal.signal(number, self._stop)

    def check(self) -> None:
        """Raises KeyboardInterrupt or Terminated if one of the signals has come."""
        if self._raised is not None:
            raise self._raised

    def _stop(self, number: int, frame: object) -> None:
        self._raised = Terminated() if number == signal.SIGTERM else KeyboardInterrupt()
        raise self._raised


def run(body: Callable[[], int], interrupted: str = "interrupted.", again: str = "run the same command again") -> int:
    """Runs a command's body; returns its exit status.

    `interrupted` is printed after Ctrl-C or SIGTERM; `again` is what to do when there is room on the disk again.

    0: done; 1: the run failed; 2: wrong arguments; 130: interrupted; 143: ended by SIGTERM. Errors
    that the user can fix are printed as a sentence, without a traceback.
    """
    global _in_command
    _in_command = True
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # closed by the parent process
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115 (it stays open)
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")  # as standard error: a sample it cannot hold ends no training
    logging.basicConfig(format="%(message)s", stream=sys.stderr, level=logging.WARNING)
    logging.getLogger("t2t_lite").setLevel(logging.INFO)
    sys.meta_path.insert(0, _QuietTensorFlow())
    try:
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


def _fail(message: str, status: int) -> int:
    print(f"error: {message}", file=sys.stderr)
    return status


def load_tensorflow() -> None:
    """Imports TensorFlow, finds its devices and hides the notices that it prints; a command starts faster by it.

    Python's garbage collector looks through a million objects of TensorFlow's modules again and again, and frees none.
    Commands turn it off while they import, and then leave these objects alone. A user's own program is not touched.
    """
    _check_keras()
    if not _in_command or "tensorflow" in sys.modules:
        _import_tensorflow()
        return
    gc.disable()
    try:
        _import_tensorflow()
    finally:
        gc.freeze()
        gc.set_threshold(50_000, 10, 10)
        gc.enable()


def _check_keras() -> None:
    """Raises UsageError if a user's own program has imported Keras, and not to compute with TensorFlow."""
    keras = sys.modules.get("keras")
    if keras is not None and (backend := keras.backend.backend()) != "tensorflow":
        raise UsageError(
            f"This process has imported Keras with the backend {backend!r}, but t2t-lite computes with TensorFlow. In "
            "a new process, set KERAS_BACKEND=tensorflow before anything imports Keras."
        )


def _import_tensorflow() -> None:
    """Imports TensorFlow quietly.

    No setting silences all notices: some are written before its logging starts. They are shown if the import fails.
    """
    _set_environment()
    try:
        tempfile.gettempdir()
    except FileNotFoundError:  # no folder is writable; the modules that TensorFlow imports only ask for a name
        tempfile.tempdir = os.getcwd()
    with quiet():
        import tensorflow as tf

        tf.config.list_physical_devices()


def _set_environment() -> None:
    """Sets the variables that TensorFlow and Keras read when they are imported."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    # By default TensorFlow uses oneDNN's matrix products only on processors with AVX-512, but they are faster on older
    # processors, too.
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
    # By default TensorFlow takes all memory of all GPUs at once, also from a training that is under way there.
    os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")
    set_up_xla(os.environ)
    backend = os.environ.get("KERAS_BACKEND", "")
    if backend not in ("", "tensorflow"):
        _log.warning("KERAS_BACKEND=%s is ignored: t2t-lite computes with TensorFlow.", backend)
    os.environ["KERAS_BACKEND"] = "tensorflow"


class _QuietTensorFlow(MetaPathFinder):
    """Finder that lets the user's own code import TensorFlow as the commands do: with their settings, quietly."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in ("keras", "tensorflow"):
            return None
        _set_environment()
        spec = PathFinder.find_spec(fullname, path)
        if fullname == "tensorflow" and spec is not None and spec.loader is not None:
            spec.loader = _QuietLoader(spec.loader)
        return spec


class _QuietLoader(Loader):
    """Loader that hides what another one writes to standard error."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        with quiet():
            self._loader.exec_module(module)

    def __getattr__(self, name: str) -> Any:  # such as get_data, for resources of the package
        return getattr(self._loader, name)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Hides what libraries write to standard error; shows it after any error that is not a T2TError.

    TensorFlow Text's SentencePiece also prints a notice for each vocabulary that it loads; no setting silences it.
    """
    sys.stderr.flush()
    with _QUIET, _notices() as notices:
        stderr = os.dup(2)
        os.dup2(notices.fileno(), 2)
        try:
            yield
        except T2TError:
            raise
        except BaseException:
            notices.seek(0)
            os.write(stderr, notices.read())
            raise
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)


def _notices() -> IO[bytes]:
    """Opens an unnamed file, in memory if the system can, because there may be no folder for temporary files."""
    if hasattr(os, "memfd_create"):
        return open(os.memfd_create("t2t-lite-notices"), "w+b")
    return tempfile.TemporaryFile()


def check_run(args: argparse.Namespace) -> None:
    """Raises DataError or UsageError if --output_dir holds no run that can be read; loads no TensorFlow."""
    from t2t_lite.runs.run_dir import read_run

    _check_name(args.output_dir)
    trust_run(args)
    read_run(args.output_dir, args.usr_dir)


def check_no_weights(output_dir: str) -> None:
    """Raises UsageError if --output_dir names weights of a run instead of the run."""
    from t2t_lite.runs.named_weights import named_weights

    named = named_weights(output_dir)
    if named is not None and named.which is not None:
        raise UsageError(
            f"{output_dir} holds weights of a run, and is no run. Give --output_dir={named.run}; commands that take "
            f"one of its checkpoints have --checkpoint={named.which}."
        )


def _check_name(output_dir: str) -> None:
    check_tensorflow_path(f"--output_dir={output_dir}", output_dir)
    check_no_weights(output_dir)


def check_runs(args: argparse.Namespace) -> list[str]:
    """Returns the folders that --output_dir names: one run or an ensemble's runs; does not load TensorFlow.

    Raises:
        DataError, UsageError: a run cannot be read, or the runs cannot form an ensemble.
    """
    from t2t_lite.runs.ensemble_check import check_members
    from t2t_lite.runs.run_dir import read_run

    folders = run_folders(args.output_dir)
    for folder in folders:
        _check_name(folder)
    trust_run(args, folders)
    specs = [read_run(folder, args.usr_dir) for folder in folders]
    if len(folders) > 1:
        check_members(folders, specs)
    return folders


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


def trust_run(args: argparse.Namespace, folders: Sequence[str] | None = None) -> None:
    """With --trust_run, sets --usr_dir to the code that the run in --output_dir names.

    Args:
        folders: the runs' folders; None: --output_dir is the only one.
    """
    from t2t_lite.runs.run_dir import recorded_code

    if not args.trust_run:
        return
    if args.output_dir is None or args.usr_dir is not None:
        raise UsageError("--trust_run goes with --output_dir=RUN, the run to trust, and without --usr_dir.")
    named = {recorded_code(folder) for folder in folders or [args.output_dir]} - {None}
    if len(named) > 1:
        raise UsageError(
            f"--trust_run: these runs have their code in {' and '.join(sorted(filter(None, named)))}. Give one folder "
            "that has the code of all: --usr_dir=DIR."
        )
    args.usr_dir = named.pop() if named else None


def add_trust_flag(parser: argparse._ActionsContainer) -> None:
    """Adds --trust_run."""
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


def checkpoint(text: str) -> str:
    """The `type` of a flag that names weights of a run."""
    if text not in _WEIGHTS and not text.isdecimal():
        advice = did_you_mean(text, _WEIGHTS)
        raise argparse.ArgumentTypeError(f"{text!r} is neither best, averaged, newest nor a step such as 1000.{advice}")
    return text


def add_run_flags(parser: argparse.ArgumentParser, *, required: bool = True, help: str = RUNS_HELP) -> None:
    """Adds the flags that name one or more trained runs and their weights; `help` is the help of --output_dir."""
    parser.add_argument("--output_dir", metavar="DIR", required=required, help=help)
    parser.add_argument(
        "--checkpoint",
        type=checkpoint,
        metavar="best|averaged|newest|N",
        help="which weights; default: averaged or best, whichever the trainer found better on dev, or a best found "
        "since; else the newest",
    )
    add_code_flags(parser)
