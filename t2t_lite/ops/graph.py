"""Graphs: what stands for the paper's form of a function in them, and traces that TensorFlow counts one by one."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from t2t_lite.layers.functions import use
from t2t_lite.layers.mixture_of_experts import expert_outputs
from t2t_lite.ops.experts import experts_one_by_one

PLAIN = ((expert_outputs, experts_one_by_one),)  # in graphs that XLA does not compile
_JIT = ((expert_outputs, expert_outputs),)


def graph(function: Callable[..., Any], *, jit_compile: bool = False, **options: Any) -> Any:
    """Returns a `tf.function` without autograph, in which layers compute in the way that is fastest there.

    The partial is another function for each call. TensorFlow counts the traces of all functions with the same code
    together: a process that opens a fifth run would be warned of retracing.
    """

    @functools.wraps(function)
    def in_graph(*args: Any, **kwargs: Any) -> Any:
        with use(_JIT if jit_compile else PLAIN):
            return function(*args, **kwargs)

    other = functools.partial(in_graph)
    other.__name__ = function.__name__  # type: ignore[attr-defined]  # by which XLA calls its program
    return tf.function(other, autograph=False, jit_compile=jit_compile or None, **options)
