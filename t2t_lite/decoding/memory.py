"""How much is computed at once: as much as the settings say, and less where the device has too little memory."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import tensorflow as tf

from t2t_lite.errors import T2TError

TIMES_ON_GPUS = 8  # a step takes as long for hundreds of sentences as for one: starting its kernels is most of it

_log = logging.getLogger("t2t_lite")
_Result = TypeVar("_Result")


class TokenBudget:
    """How many padded tokens are computed at once.

    Args:
        given: as the settings say, for CPUs; on GPUs it is 8 times that.

    Attributes:
        given: as the argument.
        tokens: now.
    """

    def __init__(self, given: int) -> None:
        self.given = given
        self.tokens = given * (TIMES_ON_GPUS if tf.config.list_physical_devices("GPU") else 1)

    def spend(
        self,
        compute: Callable[[Sequence[int]], list[_Result]],
        rows: Sequence[int],
        *,
        size: Callable[[int], int],
        what: Callable[[int], str],
        advice: str,
    ) -> list[_Result]:
        """Returns compute(rows), a result for each row. Where memory runs out, it computes half of the rows at a time.

        The budget is then half of what these rows took, so that later batches are smaller from the start.

        Args:
            size: the padded tokens of a number of rows.
            what: a number of rows in words.
            advice: a sentence, for where memory runs out with a single row.

        Raises:
            T2TError: it does.
        """
        if len(rows) == 1:
            with explain_memory(what(1), advice):
                return compute(rows)
        with contextlib.suppress(tf.errors.ResourceExhaustedError):
            return compute(rows)
        self.tokens = min(self.tokens, size(len(rows)) // 2)
        _log.warning("The device ran out of memory with %s; computing half as many at once.", what(len(rows)))
        half = -(-len(rows) // 2)
        parts = rows[:half], rows[half:]
        return [found for part in parts for found in self.spend(compute, part, size=size, what=what, advice=advice)]


@contextlib.contextmanager
def explain_memory(what: str, advice: str) -> Iterator[None]:
    """Turns TensorFlow's error that memory has run out into a T2TError: it ran out with `what`, and `advice`."""
    try:
        yield
    except tf.errors.ResourceExhaustedError as error:
        raise T2TError(f"The device ran out of memory with {what}. {advice}") from error
