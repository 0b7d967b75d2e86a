"""TensorFlow imported with the settings of t2t-lite, quietly, and faster in commands."""

import contextlib
import gc
import logging
import os
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import IO, Any

from t2t_lite.distributed.xla import set_up_xla
from t2t_lite.errors import T2TError, UsageError
from t2t_lite.verbosity import said

_QUIET = threading.RLock()  # standard error is the process's: threads that take it must give it back in turn
_in_command = False
_HIDDEN = ("jax", "matplotlib")
_LAZY = ("tensorflow._api.v2.compat.v1", "tensorflow._api.v2.compat.v2")
_EXECUTING = threading.RLock()
_log = logging.getLogger("t2t_lite")


def prepare_command() -> None:
    """Makes this process a command: it loads TensorFlow faster, and a user's own code loads it quietly, too."""
    global _in_command
    _in_command = True
    sys.meta_path.insert(0, _QuietTensorFlow())


def in_command() -> bool:
    """Whether this process is a command, and not a user's own program."""
    return _in_command


def load_tensorflow() -> None:
    """Imports TensorFlow, finds its devices and hides the notices that it prints; a command starts faster by it.

    Python's garbage collector looks through a million objects of TensorFlow's modules again and again, and frees none.
    Commands turn it off while they import, and then leave these objects alone. They also import less with TensorFlow;
    see `_less`. A user's own program is not touched.
    """
    _check_keras()
    if not _in_command or "tensorflow" in sys.modules:
        _import_tensorflow()
        return
    gc.disable()
    try:
        with _less():
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

        gpus = [device for device in tf.config.list_physical_devices() if device.device_type == "GPU"]
    if _in_command and not gpus:
        # It lays images out for GPUs. Without it, the graph of an update of `base` is optimized in 0.93 of the time.
        tf.config.optimizer.set_experimental_options({"layout_optimizer": False})


@contextlib.contextmanager
def _less() -> Iterator[None]:
    """Leaves out what TensorFlow and Keras import and no command uses.

    Keras imports JAX and Matplotlib, if they are installed, for checkpoints of Orbax and for pictures. In here it finds
    neither; later imports do. TensorFlow's interfaces of old versions are executed at their first use.

    Gain (benchmarks/README.md): TensorFlow is imported in 0.74 of the time, 0.93 where neither is installed.
    """
    hidden = [name for name in _HIDDEN if name not in sys.modules]
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type]  # None: there is no such module
    sys.meta_path.insert(0, lazy := _LazyModules())
    try:
        yield
    finally:
        sys.meta_path.remove(lazy)
        for name in hidden:
            del sys.modules[name]


class _LazyModules(MetaPathFinder):
    """Finder of modules whose code is executed at their first use."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in _LAZY:
            return None
        spec = PathFinder.find_spec(fullname, path)
        if spec is not None and spec.loader is not None:
            spec.loader = _LazyLoader(spec.loader)
        return spec


class _LazyLoader(Loader):
    """As importlib's, for modules that put another object into sys.modules, as TensorFlow's do."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _LazyModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        module.__dict__["_executes"] = self._loader


class _LazyModule(ModuleType):
    """Module whose code is executed when a name is read that it does not have yet."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # what is asked of any module, as by inspect
            raise AttributeError(name)
        with _EXECUTING:
            if (loader := self.__dict__.pop("_executes", None)) is not None:
                loader.exec_module(self)
        try:
            return self.__dict__[name]
        except KeyError:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}") from None


def _set_environment() -> None:
    """Sets the variables that TensorFlow and Keras read when they are imported."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "0" if said.verbose else "3")
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
    """Hides what libraries write to standard error; shows it with --verbose, and after any error that is no T2TError.

    TensorFlow Text's SentencePiece also prints a notice for each vocabulary that it loads; no setting silences it.
    """
    if said.verbose:
        yield
        return
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
