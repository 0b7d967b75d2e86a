"""Split of a global batch's rows into parts, over devices and accumulation steps.

Part p has the rows from p * n on, of n = `part_rows`, and belongs to device p mod R of R devices. What is drawn for a
row depends on its number in the global batch alone (layers/dropout.py), and losses are divided by the global number of
tokens, so any split gives the same update, up to the order of sums. Rows are added at the end where they do not come
out even; without labels, they count nothing.

More accumulation steps need less memory and more time. So their number belongs to the machine, not to the recipe; a run
that resumes on as many devices keeps it, so that its weights stay the same to the last bit.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from t2t_lite.config import HParams
from t2t_lite.data.buckets import rows_of
from t2t_lite.data.plan import BucketPlan, Plan
from t2t_lite.distributed.devices import on_gpus
from t2t_lite.groups import BatchGroup
from t2t_lite.models.base import Cost
from t2t_lite.training.build import training_cost
from t2t_lite.training.estimates import memory_there
from t2t_lite.training.reproducibility import read_computation

Batch = Mapping[str, np.ndarray]


class Split(NamedTuple):
    """How rows are split.

    devices: of all workers together.
    accumulate: parts of a device's share, which it computes one after the other.
    balance_groups: as in `models.base.Model`; a part has whole groups.
    """

    devices: int
    accumulate: int
    balance_groups: int = 0

    @property
    def parts(self) -> int:
        """The number of parts."""
        return self.devices * self.accumulate

    @property
    def part_groups(self) -> int:
        """The number of groups in a part; 0 without groups."""
        return -(-self.balance_groups // self.parts)

    def part_rows(self, rows: int) -> int:
        """Returns the number of rows of a part, where a batch has `rows`."""
        if self.balance_groups:
            return -(-rows // self.balance_groups) * self.part_groups
        return -(-rows // self.parts)

    def in_words(self) -> str:
        """How a batch is split, for the log."""
        shares = f"{self.devices} shares of " if self.devices > 1 else ""
        parts = f"{self.accumulate} parts" if self.accumulate > 1 else "one part"
        return f"a batch is {shares}{parts} (--accumulate={self.accumulate})"

    def warning(self) -> str | None:
        """Returns a warning if some devices have no groups of rows and so no work, else None."""
        groups = self.balance_groups
        busy = -(-groups // self.part_groups) if groups else self.devices
        if busy >= self.devices:
            return None
        return (
            f"warning: {busy} of {self.devices} devices have work. Each takes whole groups of rows, of which the "
            f"recipe has balance_groups={groups}."
        )

    def is_finest(self, rows: int) -> bool:
        """Whether more parts would not be smaller."""
        return self.part_groups == 1 or self.part_rows(rows) == 1

    def cut(self, batch: Batch) -> dict[str, np.ndarray]:
        """Returns arrays [devices, accumulate, n, length] of a batch's arrays [rows, length], padded with 0."""
        cut = {}
        for name, array in batch.items():
            rows, length = array.shape
            n = self.part_rows(rows)
            more = self.parts * n - rows
            whole = np.pad(array, ((0, more), (0, 0))) if more else array
            cut[name] = whole.reshape(self.accumulate, self.devices, n, length).swapaxes(0, 1)
        return cut


_SHARE = 0.8  # of a GPU's memory; the estimate is rough, and TensorFlow's allocator leaves gaps
_COPIES = 5  # of the weights: themselves, gradients, their sum, Adam's two moments
_ON_CPU = 5 * 2**30  # bytes, or half of what there is if that is less: `base` in 8 parts, as it was measured

Shape = tuple[int, int, int]  # rows of a batch, source length, target length


def batch_shapes(batch: BatchGroup, plan: Plan | None) -> list[Shape]:
    """The shapes of the batches of `plan`; without a plan, of the longest rows."""
    if isinstance(plan, BucketPlan):
        return [(b.rows, b.source_length, b.target_length) for b in plan.buckets]
    return [(rows_of(batch.max_length, batch.batch_tokens), batch.max_length, batch.max_length)]


def choose_accumulate(model: Any, hparams: HParams, shapes: Iterable[Shape], devices: int) -> int:
    """Returns the least number of parts whose activations fit the memory, by estimate.

    Args:
        model: a `models.base.Model`.
        hparams: the recipe.
        shapes: of a run's batches.
        devices: of all workers together.
    """
    weights = sum(math.prod(weight.shape) for weight in model.weights) * 4
    copies, cost = _COPIES + (hparams.ema > 0), training_cost(model, hparams)
    there, _ = memory_there()
    room = _SHARE * there - copies * weights if on_gpus() else min(_ON_CPU, there / 2 / devices)
    value_bytes = 4 if model.compute_dtype == "float32" else 2
    return max(
        -(-_fewest_parts(rows, int(room // cost.activation_bytes(1, source, target, value_bytes)), model) // devices)
        for rows, source, target in shapes
    )


def _fewest_parts(rows: int, rows_that_fit: int, model: Any) -> int:
    """The number of parts of a batch whose parts have at most `rows_that_fit`, but at least one row or group."""
    if not model.balance_groups:
        return -(-rows // max(rows_that_fit, 1))
    groups_that_fit = rows_that_fit // -(-rows // model.balance_groups)
    return -(-model.balance_groups // max(groups_that_fit, 1))


def largest_part(cost: Cost, shapes: Iterable[Shape], split: Split, value_bytes: int) -> int:
    """Returns the bytes of activations of the largest part of batches of these shapes."""
    return max(
        cost.activation_bytes(split.part_rows(rows), source, target, value_bytes) for rows, source, target in shapes
    )


def read_accumulate(output_dir: str | os.PathLike[str], devices: int) -> int | None:
    """Returns the number of parts that a run's newest checkpoint was computed with.

    None if run.json does not say it, or the run had another number of devices.
    """
    computed = read_computation(output_dir)
    number = computed.get("accumulate")
    return number if isinstance(number, int) and number > 0 and computed.get("devices") == devices else None
