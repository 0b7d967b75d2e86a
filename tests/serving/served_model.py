"""What TensorFlow Serving does with a model's folders: finds versions, loads them, runs signatures in a session.

Like the server, it runs the graph with a session and does not compare the inputs' shapes with the signature's.
"""

import collections
import contextlib
import logging
import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import config_pb2

_CODES = {code: name for name, code in vars(tf.errors).items() if isinstance(code, int) and name.isupper()}


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Silences TensorFlow's advice to load a SavedModel in another way than the server does."""
    logger = tf.get_logger()
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


class RefusalError(Exception):
    """A canonical code, such as NOT_FOUND, and the server's message."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message


class Fault(NamedTuple):
    """What the server does to one predict request instead of answering, or before it answers."""

    code: str = ""  # refuse with this code
    message: str = "made to fail"
    seconds: float = 0.0  # wait first
    drop: bool = False  # REST: close the connection without an answer
    status: int = 200  # REST: with this status ...
    body: bytes | None = None  # ... answer these bytes
    headers: tuple[tuple[str, str], ...] = ()


class Version:
    """A loaded SavedModel."""

    def __init__(self, folder: Path) -> None:
        graph = tf.Graph()
        self._session = tf.compat.v1.Session(graph=graph)
        with graph.as_default(), _quiet():
            self.meta = tf.compat.v1.saved_model.loader.load(self._session, ["serve"], str(folder))
        self._must_compile = any(f.attr["_XlaMustCompile"].b for f in self.meta.graph_def.library.function)
        self._callables: dict[tuple[str, int], Callable[..., list[np.ndarray]]] = {}
        self._lock = threading.Lock()

    def inputs(self, signature: str) -> dict[str, tf.DType]:
        """Returns the inputs' names and types, sorted."""
        named = self.meta.signature_def[signature].inputs
        return {name: tf.as_dtype(named[name].dtype) for name in sorted(named)}

    def run(self, signature: str, inputs: Mapping[str, np.ndarray], seconds: float) -> dict[str, np.ndarray]:
        """Returns the outputs by name."""
        if self._must_compile:
            raise RefusalError("INTERNAL", "XLA compilation disabled")
        definition = self.meta.signature_def[signature]
        if set(inputs) != set(definition.inputs):
            raise RefusalError(
                "INVALID_ARGUMENT",
                f"input size does not match signature: {len(inputs)}!={len(definition.inputs)} "
                f"len({{{','.join(sorted(inputs))}}}) != len({{{','.join(sorted(definition.inputs))}}}).",
            )
        try:
            values = self._callable(signature, math.ceil(seconds))(*(inputs[name] for name in sorted(inputs)))
        except tf.errors.OpError as error:
            raise RefusalError(_CODES[error.error_code], error.message) from error
        return dict(zip(sorted(definition.outputs), values, strict=True))

    def _callable(self, signature: str, seconds: int) -> Callable[..., list[np.ndarray]]:
        """Returns what runs a signature on arrays of any shape: Session.run would compare shapes first."""
        with self._lock:
            if (signature, seconds) not in self._callables:
                definition = self.meta.signature_def[signature]
                options = config_pb2.CallableOptions(
                    feed=[definition.inputs[name].name for name in sorted(definition.inputs)],
                    fetch=[definition.outputs[name].name for name in sorted(definition.outputs)],
                    run_options=config_pb2.RunOptions(timeout_in_ms=seconds * 1000),
                )
                self._callables[signature, seconds] = self._session._make_callable_from_options(options)
            return self._callables[signature, seconds]


class ServedModel:
    """The versions of one model under BASE/<integer>/ and their labels."""

    def __init__(self, base: Path, name: str, labels: Mapping[str, int], keep: str) -> None:
        self.name, self.labels = name, dict(labels)
        self.states: dict[int, tuple[str, str]] = {}  # version -> (state, error message)
        self._resets, self._begun = 0, threading.local()  # _begun.resets: the number of resets when a request came
        self.reset()
        self._base, self._keep = base, keep
        self._loaded: dict[int, Version] = {}
        self._lock = threading.Lock()

    def reset(self) -> None:
        """Forgets faults, delays and counts; a request that is still under way no longer counts."""
        self._resets += 1
        self.faults: collections.deque[Fault] = collections.deque()
        self.delay: Callable[[], float] = lambda: 0.0  # seconds, before each answer
        self.max_batch_size: int | None = None  # as with --enable_batching
        self.requests: list[int | None] = []  # rows of each predict request; None: it met a fault
        self.in_flight = self.most_in_flight = 0

    def refresh(self) -> None:
        """Loads what is new and unloads what has gone, as the server does each second."""
        found = {int(path.name): path for path in self._base.iterdir() if path.name.isdecimal() and path.is_dir()}
        wanted = sorted(found) if self._keep == "all" else sorted(found)[-1:]
        for number in wanted:
            if number not in self.states:
                try:
                    self._loaded[number] = Version(found[number])
                    self.states[number] = ("AVAILABLE", "")
                except (OSError, ValueError, tf.errors.OpError, RuntimeError) as error:
                    self.states[number] = ("END", str(error))
        for number in set(self._loaded) - set(wanted):
            del self._loaded[number]
            self.states[number] = ("END", "")

    def choose(self, name: str, version: int | None, label: str | None) -> Version:
        """Returns the version that a request names."""
        if label is not None and name == self.name:
            if label not in self.labels:
                raise RefusalError("INVALID_ARGUMENT", f"Unrecognized servable version label: {label}")
            version = self.labels[label]
        if name == self.name and self._loaded and version is None:
            version = max(self._loaded)
        if name != self.name or version not in self._loaded:
            which = f"Latest({name})" if version is None else f"Specific({name}, {version})"
            raise RefusalError("NOT_FOUND", f"Servable not found for request: {which}")
        return self._loaded[version]

    def status(self, name: str, version: int | None) -> list[tuple[int, str, str]]:
        """Returns (version, state, error message); a label makes no difference."""
        known = self.states if name == self.name else {}
        if version is not None and version not in known:
            raise RefusalError("NOT_FOUND", f"Could not find version {version} of model {name}")
        if not known:
            raise RefusalError("NOT_FOUND", f"Could not find any versions of model {name}")
        return [(n, *state) for n, state in sorted(self.states.items()) if version in (None, n)]

    def predict(
        self, version: Version, signature: str, inputs: Mapping[str, np.ndarray], seconds: float
    ) -> dict[str, np.ndarray]:
        """Runs a signature; counts and delays as the test asked for."""
        rows = [len(value) if value.ndim else None for value in inputs.values()]
        begun = self._begun.resets
        with self._lock:
            if begun == self._resets:
                self.requests.append(rows[0] if rows else None)
                self.in_flight += 1
                self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            time.sleep(self.delay())
            if self.max_batch_size and rows[0] and rows[0] > self.max_batch_size:
                raise RefusalError(
                    "INVALID_ARGUMENT",
                    f"Task size {rows[0]} is larger than maximum input batch size {self.max_batch_size}",
                )
            return version.run(signature, inputs, seconds)
        finally:
            with self._lock:
                self.in_flight -= begun == self._resets

    def next_fault(self) -> Fault:
        """Returns the fault for this request, called before `predict`; waits first if the fault says so."""
        self._begun.resets = self._resets
        try:
            fault = self.faults.popleft()
        except IndexError:
            return Fault()
        self.requests.append(None)
        time.sleep(fault.seconds)
        if fault.code:
            raise RefusalError(fault.code, fault.message)
        return fault


def metadata(version: Version) -> Any:
    """Returns the signatures as the message SignatureDefMap."""
    from tensorflow_serving.apis.get_model_metadata_pb2 import SignatureDefMap

    return SignatureDefMap(signature_def=version.meta.signature_def)
