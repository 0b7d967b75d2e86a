"""Store of traced graphs in the user's cache folder: a command takes the graph that an earlier one has traced.

A file of the store is a checksum and a MetaGraphDef, whose library has the traced functions, and whose signature says
which inputs are variables, by their names. The file's name is the checksum of all that the graph depends on, so that a
graph of other code, another recipe or another machine is not found. A run's folder is no place for graphs: they can
write files, and runs may come from other people.

Beside the file is a folder of the same name, in which TensorFlow keeps the graph after its own optimization, if that
took more than 3 seconds (`TF_GRAPH_CACHING`). It finds a graph there by the function's name alone; so the folder is
named only while the kept function is called for the first time.

Gain (benchmarks/README.md): t2t-lite-decoder writes its first line after 0.8 of the time; `base`, resumed, makes its
first update after 0.65, and with the optimized graph after a third.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import json
import logging
import os
import platform
import shutil
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from tensorflow.core.framework.function_pb2 import FunctionDefLibrary
from tensorflow.core.protobuf.meta_graph_pb2 import MetaGraphDef
from tensorflow.python.eager import context

from t2t_lite import config
from t2t_lite.cpus import instruction_sets
from t2t_lite.distributed import tensorflow_loading
from t2t_lite.files import replace_file, users_folder
from t2t_lite.models.base import weights_by_path
from t2t_lite.ops import threads
from t2t_lite.ops.graph import graph

_SIGNATURE = "function"
_SWITCHES = ("TF_", "ONEDNN_", "DNNL_")  # environment variables that change what TensorFlow makes of a graph
_DIGEST = 32  # bytes at the beginning of a file: the checksum of the others
_OPTIMIZED = "TF_GRAPH_CACHING"  # environment variable: the folder of optimized graphs
_MOST = 32  # files, of about a megabyte each

_log = logging.getLogger("t2t_lite")


@dataclasses.dataclass(frozen=True)
class GraphStore:
    """Store of the graph of one function.

    Attributes:
        folder: of all graphs.
        what: JSON-ready: what the graph depends on besides the code, its libraries and the machine.
        variables: what it reads and writes, by name.
    """

    folder: Path
    what: Mapping[str, Any]
    variables: Mapping[str, tf.Variable]

    @functools.cached_property
    def file(self) -> Path:
        """The file of the graph."""
        key = json.dumps([dict(self.what), _environment()], sort_keys=True)
        return self.folder / f"{hashlib.sha256(key.encode()).hexdigest()}.pb"

    def keep(self, function: Any, signature: Sequence[Any]) -> Any:
        """Returns the function that the store has, which traces `function` now if the store has none.

        Args:
            signature: its input_signature.
        """
        stored = self._load()
        if stored is None:
            self._save(function.get_concrete_function())
            stored = self._load()
        if stored is None:  # it reads other variables, or the cache cannot be written
            return function
        return _Kept(graph(stored, input_signature=signature), self.file.with_suffix(""))

    def _load(self) -> Callable[..., Any] | None:
        """The function as it was traced; None if it is not there."""
        try:
            data = self.file.read_bytes()
        except OSError:
            return None
        if hashlib.sha256(data[_DIGEST:]).digest() != data[:_DIGEST]:
            _log.warning("warning: the graph %s is damaged. It is traced and written again.", self.file)
            return None
        content = MetaGraphDef.FromString(data[_DIGEST:])
        for each in content.graph_def.library.function:
            if not context.context().has_function(each.signature.name):
                context.context().add_function_def(each)
        signature = content.signature_def[_SIGNATURE]
        names = [signature.inputs[str(i)].name for i in range(len(signature.inputs))]
        dtypes = [signature.outputs[str(i)].dtype for i in range(len(signature.outputs))]

        def traced(*arguments: Any) -> Any:
            given = iter(tf.nest.flatten(arguments))
            inputs = [self.variables[name].handle if name else next(given) for name in names]
            found = tf.raw_ops.StatefulPartitionedCall(args=inputs, Tout=dtypes, f=signature.method_name)
            return found if len(found) > 1 else found[0]

        return traced

    def _save(self, function: Any) -> None:
        """Keeps a concrete function, unless it reads anything but its arguments and the variables."""
        names = {id(variable.handle): name for name, variable in self.variables.items()}
        captured = [names.get(id(value)) for value, _ in function.graph.captures]
        if None in captured:
            return
        content = MetaGraphDef()
        signature, library = content.signature_def[_SIGNATURE], content.graph_def.library
        for i, name in enumerate([*[""] * (len(function.inputs) - len(captured)), *captured]):
            signature.inputs[str(i)].name = name
        for i, tensor in enumerate(function.outputs):
            signature.outputs[str(i)].dtype = tensor.dtype.as_datatype_enum
        library.CopyFrom(function.graph.as_graph_def().library)
        library.function.add().CopyFrom(function.function_def)
        signature.method_name = _rename(library, self.file.stem[:16])
        with contextlib.suppress(OSError):  # the cache is full or read-only: the next command traces it again
            self.folder.mkdir(parents=True, exist_ok=True)
            data = content.SerializeToString()
            replace_file(self.file, hashlib.sha256(data).digest() + data)
            files = sorted(self.folder.glob("*.pb"), key=lambda path: path.stat().st_mtime)
            for old in files[:-_MOST]:
                shutil.rmtree(old.with_suffix(""), ignore_errors=True)
                old.unlink()


class _Kept:
    """A function from the store; TensorFlow takes its optimized graph from a folder, or writes it there."""

    def __init__(self, function: Any, folder: Path) -> None:
        self._function, self._folder, self._is_new, self._lock = function, folder, True, threading.Lock()
        self.experimental_get_tracing_count = function.experimental_get_tracing_count

    def __call__(self, *arguments: Any) -> Any:
        """Returns the function's results. TensorFlow optimizes a graph in its first call."""
        if not self._is_new:
            return self._function(*arguments)
        with self._lock:
            given = os.environ.get(_OPTIMIZED)
            os.environ[_OPTIMIZED] = str(self._folder)
            try:
                return self._function(*arguments)
            finally:
                self._is_new = False
                del os.environ[_OPTIMIZED]
                if given is not None:
                    os.environ[_OPTIMIZED] = given


def _rename(library: FunctionDefLibrary, suffix: str) -> str:
    """Gives functions names that no other graph of a process has; returns that of the last one."""
    names = {each.signature.name: f"{each.signature.name}_{suffix}" for each in library.function}
    for each in library.function:
        each.signature.name = names[each.signature.name]
        for node in each.node_def:
            node.op = names.get(node.op, node.op)
            for value in node.attr.values():
                for called in [value.func] if value.HasField("func") else value.list.func:
                    called.name = names.get(called.name, called.name)
    return library.function[-1].signature.name


def _environment() -> list[Any]:
    """What any graph depends on: this package's files, libraries, instructions and threads."""
    files = sorted(Path(__file__).parents[1].rglob("*.py"))
    code = [(str(path), stat.st_size, stat.st_mtime_ns) for path in files for stat in [path.stat()]]
    versions = [platform.python_version(), tf.version.GIT_VERSION, tf.version.VERSION, keras.__version__]
    devices = [device.name for device in tf.config.list_physical_devices()]
    machine = [devices, instruction_sets(), threads.num_parallel(), threads.per_operation()]
    switches = [item for item in os.environ.items() if item[0].startswith(_SWITCHES) and item[0] != _OPTIMIZED]
    return [sorted(switches), code, versions, np.__version__, machine, keras.config.epsilon(), keras.config.floatx()]


def open_store(what: Mapping[str, Any], variables: Mapping[str, tf.Variable], *classes: type) -> GraphStore | None:
    """Returns the store of a graph; None in a user's own program, and if a class is not this package's.

    Args:
        what, variables: see `GraphStore`.
        classes: what traces it.
    """
    if not tensorflow_loading.in_command() or not all(each.__module__.startswith("t2t_lite.") for each in classes):
        return None
    with contextlib.suppress(RuntimeError):  # the user has no home
        names = [f"{each.__module__}.{each.__qualname__}" for each in classes]
        return GraphStore(users_folder(os.environ) / "graphs", {**what, "classes": names}, variables)
    return None


def model_facts(model: Any) -> dict[str, Any]:
    """What the graphs of a `models.base.Model` that is no ensemble depend on."""
    sizes = [model.source_vocab_size, model.target_vocab_size, model.shared]
    return {"hparams": config.to_dict(model.hparams), "vocabularies": sizes, "dtype": model.compute_dtype}


def keep_search(translator: Any) -> None:
    """Takes the graph of a `Translator`'s search from the store, or keeps it there, before the first translation.

    Left out are programs of XLA, which has a cache of its own, samples, searches for trees or with banned words, and
    ensembles.
    """
    model, unknown = translator.model, translator.target_vocabulary.unknown
    special = translator.sampling is not None or translator.banned is not None or not translator.is_text
    if translator.search_graph.jit or special or not model.hparams:
        return
    search = [sorted(translator.settings.items()), translator.prepack, unknown, dataclasses.asdict(translator.decode)]
    weights = {path: weight.value for path, weight in weights_by_path(model).items()}
    if store := open_store(model_facts(model) | {"search": search}, weights, type(model)):
        translator.search_graph.keep(store)
