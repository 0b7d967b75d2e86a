"""Accumulation: how many parts of its share of a batch a device computes one after the other.

More parts need less memory and more time, and give the same update. So the number belongs to the machine, not to the
recipe; a run that resumes on as many devices keeps it, so that its weights stay the same to the last bit.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from typing import Any

from t2t_lite.data.buckets import rows_of
from t2t_lite.data.plan import BucketPlan, Plan
from t2t_lite.distributed.devices import on_gpus
from t2t_lite.groups import BatchGroup
from t2t_lite.models.base import Cost
from t2t_lite.training.estimates import memory_there
from t2t_lite.training.reproducibility import computed_until
from t2t_lite.training.split import Split

_SHARE = 0.8  # of a GPU's memory; the estimate is rough, and TensorFlow's allocator leaves gaps
_COPIES = 5  # of the weights: themselves, gradients, their sum, Adam's two moments
_ON_CPU = 5 * 2**30  # bytes, or half of what there is if that is less: `base` in 8 parts, as it was measured

Shape = tuple[int, int, int]  # rows of a batch, source length, target length


def batch_shapes(batch: BatchGroup, plan: Plan | None) -> list[Shape]:
    """The shapes of the batches of `plan`; without a plan, of the longest rows."""
    if isinstance(plan, BucketPlan):
        return [(b.rows, b.source_length, b.target_length) for b in plan.buckets]
    return [(rows_of(batch.max_length, batch.batch_tokens), batch.max_length, batch.max_length)]


def choose_accumulate(model: Any, shapes: Iterable[Shape], devices: int) -> int:
    """Returns the least number of parts whose activations fit the memory, by estimate.

    Args:
        model: a `models.base.Model`.
        shapes: of a run's batches.
        devices: of all workers together.
    """
    weights = sum(math.prod(weight.shape) for weight in model.weights) * 4
    there, _ = memory_there()
    room = _SHARE * there - _COPIES * weights if on_gpus() else min(_ON_CPU, there / 2 / devices)
    value_bytes = 2 if model.compute_dtype == "bfloat16" else 4
    return max(
        -(-_fewest_parts(rows, int(room // model.cost.activation_bytes(1, *lengths, value_bytes)), model) // devices)
        for rows, *lengths in shapes
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


def recorded_accumulate(output_dir: str | os.PathLike[str], devices: int) -> int | None:
    """Returns the number of parts that a run's newest checkpoint was computed with.

    None if run.json does not say it, or the run had another number of devices.
    """
    computed = computed_until(output_dir)
    number = computed.get("accumulate")
    return number if isinstance(number, int) and number > 0 and computed.get("devices") == devices else None
