"""Optimizer state in a tensor2tensor checkpoint, converted to our slots, so that training can continue.

tensor2tensor's `adam` is LazyAdam, which updates only the rows that a sparse gradient names. But tensor2tensor first
makes the gradients of embeddings dense; only those of relative positions are sparse. So LazyAdam equals Adam, except
for distances that do not occur between any two symbols of a batch.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from t2t_lite.errors import DataError, UsageError
from t2t_lite.importers import t2t_training
from t2t_lite.importers.imported import Imported
from t2t_lite.importers.t2t_variables import Place, append_zeros, find_tables, join_names, place
from t2t_lite.importers.tf1_checkpoint import Tf1Checkpoints
from t2t_lite.runs.checkpoint_files import LAST_STEP

# Our optimizer -> our slots with the ends of tensor2tensor's names: of a matrix, and of a vector.
_ENDS = {
    "adam": ({"m": "Adam", "v": "Adam_1"}, {"m": "Adam", "v": "Adam_1"}),
    "adafactor": ({"rows": "Adafactor", "columns": "Adafactor_1"}, {"v": "Adafactor"}),
}
# Ends of slot names -> why their training cannot continue here.
_NOT_TAKEN = {
    "/Adam_2": "multistep_adam cannot be taken over: its steps are batches, and they hold parts of sums of gradients",
    "/Adafactor_2": "Adafactor with momentum (optimizer_adafactor_beta1) cannot be taken over: ours has none",
}
_ALONE = "The weights alone can be imported; leave --with_optimizer out."


@dataclasses.dataclass(frozen=True)
class Slots:
    """The slots of an optimizer.

    optimizer: "adam" or "adafactor".
    step: updates that were made.
    arrays: path of a weight here -> name of a slot -> float32 array.
    """

    optimizer: str
    step: int
    arrays: Mapping[str, Mapping[str, Any]]


def read(imported: Imported) -> Slots:
    """Reads the slots of an imported checkpoint, with which training continues.

    Adafactor keeps rows and columns of each shard of an embedding. Those of the whole table follow exactly: rows are
    concatenated, and columns averaged.

    Raises:
        UsageError: there are no slots, they are of several checkpoints, or nothing says how their training made its
            updates.
        DataError: the slots are of another optimizer, incomplete, or our optimizer would make other updates from them.
    """
    t2t_training.check_resumable(imported.hparams)
    if len(imported.checkpoints) > 1:
        raise UsageError(
            "--with_optimizer: training continues from one checkpoint, and the weights are the mean of several. Name "
            "one, or leave the flag out."
        )
    if not imported.variables.slots:
        raise UsageError("--with_optimizer: the checkpoint has no slots of an optimizer. Leave the flag out.")
    if imported.description.attention_biases:
        raise DataError(
            "The slots of a checkpoint of tensor2tensor 1.2.9 or before cannot be taken over, as its attention has "
            f"more biases than ours. {_ALONE}"
        )
    checkpoints = Tf1Checkpoints(imported.checkpoints)
    optimizer = _optimizer(imported.variables.slots)
    variables = imported.variables.weights
    there = {name.removeprefix("training/"): name for name in imported.variables.slots}

    def slot(name: str, end: str) -> Any:
        full = f"{variables[name]}/{end}"
        if full not in there:
            raise DataError(f"The checkpoint has slots of {optimizer}, but not {full}.")
        return checkpoints.mean(there[full])

    shapes = {name: checkpoints.shapes[full] for name, full in variables.items()}
    tables = find_tables(shapes).tables
    if len({table.shards for table in tables.values()}) < len(tables):  # shared_embedding
        raise DataError(
            "tensor2tensor's slots of a model whose source and target share a table, but not with the softmax, cannot "
            f"be taken over, as each has its own here. {_ALONE}"
        )
    found: dict[str, dict[str, Any]] = {}
    for path, table in tables.items():
        shards = [{ours: slot(name, end) for ours, end in _ENDS[optimizer][0].items()} for name in table.shards]
        found[path] = _whole(shards, [shapes[name][0] for name in table.shards])
    for name in shapes:
        if where := place(name):
            ends = _ENDS[optimizer][len(shapes[name]) < 2]
            found[where.path] = _change({ours: slot(name, end) for ours, end in ends.items()}, where, imported)
    step = [name for name in imported.variables.counters if name.endswith("global_step")]
    if not step:
        raise DataError(
            "The checkpoint of tensor2tensor has slots, but no global_step: how many updates they are of is not known."
        )
    number = checkpoints.mean(step[0])
    if number.size != 1 or not 0 <= number.item() <= LAST_STEP:
        raise DataError(f"The checkpoint's {step[0]} is no number of updates.")
    t2t_training.check_known(imported.hparams)
    return Slots(optimizer, int(number.item()), found)


def _optimizer(slots: Sequence[str]) -> str:
    for end, why in _NOT_TAKEN.items():
        if any(slot.endswith(end) for slot in slots):
            raise DataError(f"The slots of {why}. {_ALONE}")
    for name, (of_matrices, _) in _ENDS.items():
        if any(slot.endswith(tuple(f"/{end}" for end in of_matrices.values())) for slot in slots):
            return name
    ends = sorted({slot.rpartition("/")[2] for slot in slots})
    raise DataError(
        f"The checkpoint's optimizer is neither adam nor Adafactor: its slots are named {join_names(ends)}. {_ALONE}"
    )


def _whole(shards: Sequence[Mapping[str, Any]], rows: Sequence[int]) -> dict[str, Any]:
    """The slots of a table, from those of its shards; `rows` are the shards' numbers of rows."""
    whole = {name: np.concatenate([shard[name] for shard in shards]) for name in shards[0] if name != "columns"}
    if "columns" in shards[0]:  # means over rows
        columns = np.average([shard["columns"] for shard in shards], axis=0, weights=rows)
        whole["columns"] = columns.astype(np.float32)
    return whole


def _change(slots: dict[str, Any], where: Place, imported: Imported) -> dict[str, Any]:
    """The slots, changed as `tensor2tensor.read` changes the weight."""
    described, space = imported.description, imported.target_space
    if where.change == "row" and space is not None:
        if "rows" not in slots:
            return {name: array[space.row] for name, array in slots.items()}
        rows = slots["rows"]
        return {"v": rows[space.row] / rows.mean() * slots["columns"]}
    if not where.change:
        return slots
    if "rows" in slots:
        what = "learned positions" if where.change == "zeros" else "attention_variables_3d"
        raise DataError(f"Adafactor's slots of a model with {what} cannot be expressed here. {_ALONE}")
    if where.change == "zeros":
        return {name: append_zeros(array) for name, array in slots.items()}
    # A weight multiplied by c has gradients divided by c.
    scale = math.sqrt(described.d_k) if where.change == "scaled heads" else 1.0
    shape = (-1, described.d_model) if where.path.endswith("/output") else (described.d_model, -1)
    parts = {"m": slots["m"] / scale, "v": slots["v"] / scale**2}
    return {name: np.float32(array).reshape(shape) for name, array in parts.items()}
