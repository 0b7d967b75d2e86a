"""Graphs of batches of any size: a plain one, or programs of XLA.

XLA compiles a program for each size, so batches are padded to a few sizes. On a GPU that costs little: starting a
program's kernels takes as long for one sentence as for hundreds.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from t2t_lite.decoding.graph_store import GraphStore
from t2t_lite.ops.graph import graph

_ROWS = (1, 8, 64, 512)  # with more at once, a sentence takes hardly less time
_SHORTEST = 16  # columns; the others are powers of two

_log = logging.getLogger("t2t_lite")


class SizedGraph:
    """A function of batches as a graph.

    With XLA, programs are compiled when a batch first needs them. If XLA cannot compile one, it warns and falls
    back to the plain graph. Threads may share it.

    Args:
        function: takes tensors and makes tensors with their rows; with jit=True as a graph for XLA, which knows the
            sizes of its arguments.
        signature: the `tf.TensorSpec` of each argument, for any size.
        jit: XLA compiles it.
        what: what it computes, for messages: "the search of a Transformer".

    Attributes:
        jit: whether XLA compiles it, as far as is known.
    """

    def __init__(self, function: Callable[..., Any], signature: Sequence[Any], *, jit: bool, what: str) -> None:
        self._function, self._signature, self._what, self.jit = function, signature, what, jit
        self._plain = graph(function, input_signature=signature)
        self._programs: dict[tuple[tuple[int, ...], ...], Any] = {}
        self._compiling = threading.Lock()

    @property
    def traces(self) -> int:
        """How many graphs have been traced, each of which takes seconds."""
        return self._plain.experimental_get_tracing_count() + len(self._programs)

    def keep(self, store: GraphStore) -> None:
        """Takes the plain graph from a store, or traces it now and keeps it there; before the first call."""
        self._plain = store.keep(self._plain, self._signature)

    def most_rows(self, tokens: int, length: int) -> int:
        """Returns how many rows of `length` are at most `tokens` tokens, with padding; it may be 0."""
        return min(tokens // _columns(length), _ROWS[-1]) if self.jit else tokens // length

    def count_padded_tokens(self, rows: int, length: int, tokens: int) -> int:
        """Returns how many tokens a batch is with its padding; `tokens` as for a call."""
        return self._count_padded_rows(rows, length, tokens) * _columns(length) if self.jit else rows * length

    def _count_padded_rows(self, rows: int, length: int, tokens: int) -> int:
        size = next((size for size in _ROWS if size >= rows), rows)
        return min(size, max(self.most_rows(tokens, length), rows))

    def __call__(self, *arguments: Any, tokens: int) -> list[np.ndarray]:
        """Returns the function's results, without rows of padding.

        Args:
            arguments: int32 [rows, length], the first of them, padded with 0; int32 [rows], or [rows, ...] of
                more axes, which XLA gets as wide as they are; or scalars.
            tokens: rows are not padded to more than this number of tokens.
        """
        found = self._by_xla(arguments, tokens) if self.jit else None
        if found is None:
            found = self._plain(*map(tf.constant, arguments))
        return [result.numpy()[: len(arguments[0])] for result in found]

    def _by_xla(self, arguments: Sequence[Any], tokens: int) -> Any:
        """The results with padding, or None if XLA cannot compile the function."""
        tensors = [tf.constant(argument) for argument in self._pad(arguments, tokens)]
        sizes = tuple(tuple(tensor.shape) for tensor in tensors)
        if sizes not in self._programs:
            with self._compiling:
                if sizes not in self._programs and self.jit:  # another thread may have compiled it
                    return self._compile(sizes, tensors)
        return self._programs[sizes](*tensors) if self.jit else None

    def _compile(self, sizes: tuple[tuple[int, ...], ...], tensors: Sequence[Any]) -> Any:
        program, start = graph(_with_jit(self._function), jit_compile=True), time.monotonic()
        try:
            found = program(*tensors)
        except tf.errors.ResourceExhaustedError:
            raise
        except (tf.errors.OpError, NotImplementedError, TypeError, ValueError) as error:
            self.jit = False
            reason = str(error).strip().partition("\n")[0]
            _log.warning("warning: XLA cannot compile %s, which takes longer without: %s", self._what, reason)
            return None
        self._programs[sizes] = program
        rows, length = sizes[0]
        seconds = time.monotonic() - start
        _log.info("xla: compiled %s, for batches of %d x %d pieces, in %.1f s", self._what, rows, length, seconds)
        return found

    def _pad(self, arguments: Sequence[Any], tokens: int) -> list[Any]:
        """The arguments as they are given to a program."""
        longest = max(argument.shape[1] for argument in arguments if np.ndim(argument) == 2)
        rows, columns = len(arguments[0]), _columns(longest)
        more = self._count_padded_rows(rows, longest, tokens) - rows

        def pad(argument: Any) -> Any:
            axes = [(0, more), *[(0, 0)] * (np.ndim(argument) - 1)]
            if np.ndim(argument) == 2:
                axes[1] = (0, columns - argument.shape[1])
            return np.pad(argument, axes) if np.ndim(argument) else argument

        return [pad(argument) for argument in arguments]


def _columns(length: int) -> int:
    return max(1 << (length - 1).bit_length(), _SHORTEST)


def _with_jit(function: Callable[..., Any]) -> Callable[..., Any]:
    def with_jit(*arguments: Any) -> Any:
        return function(*arguments, jit=True)

    with_jit.__name__ = function.__name__
    return with_jit
