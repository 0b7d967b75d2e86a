"""Graphs whose traces TensorFlow counts one by one."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import tensorflow as tf


def graph(function: Callable[..., Any], **options: Any) -> Any:
    """Returns a `tf.function` without autograph.

    The partial is another function for each call. TensorFlow counts the traces of all functions with the same code
    together: a process that opens a fifth run would be warned of retracing.
    """
    other = functools.partial(function)
    other.__name__ = function.__name__  # type: ignore[attr-defined]  # by which XLA calls its program
    return tf.function(other, autograph=False, **options)
