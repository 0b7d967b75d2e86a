"""The target space of a tensor2tensor model: a number that chooses one of 32 vectors, added to the source.

Which one a model was trained with depends on the release (en-de: 8 in 2017, 0 in 1.15.7), and no file says it. But
training moved no other row.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from t2t_lite.errors import DataError, UsageError
from t2t_lite.importers.t2t_variables import Variables, join_names
from t2t_lite.importers.tf1_checkpoint import Tf1Checkpoints

KERNEL = "body/target_space_embedding/kernel"


@dataclasses.dataclass(frozen=True)
class TargetSpace:
    """A row of the table, and a phrase on how it was found."""

    row: int
    why: str


def choose(checkpoints: Tf1Checkpoints, variables: Variables, given: int | None) -> TargetSpace | None:
    """Returns the row, or None where the model has no such table.

    Args:
        given: what the user says; it has priority over what the checkpoint says.

    Raises:
        UsageError: there is no such row.
        DataError: several rows were trained, and none was given.
    """
    if KERNEL not in variables.weights:
        if given is not None:
            raise UsageError(f"target_space_id={given}: this model has no embedding of a target space.")
        return None
    rows = checkpoints.shapes[variables.weights[KERNEL]][0]
    if given is not None and not 0 <= given < rows:
        raise UsageError(f"target_space_id={given}: the model has the rows 0 to {rows - 1}.")
    moved = _move(checkpoints, variables)
    trained = f"training moved {join_names([f'row {row}' for row in moved])}" if moved else ""
    if given is not None:
        return TargetSpace(given, f"given{'' if not moved or moved == [given] else f', though {trained}'}")
    if len(moved) == rows:
        raise DataError(
            f"Training moved all {rows} rows of the target spaces, as weight_decay does, so that the one it was of "
            "cannot be seen. Give --target_space_id=N: 1.15.7 has 0 for translation and 15 for parsing."
        )
    if len(moved) > 1:
        raise DataError(f"The model knows several target spaces: {trained}. Give --target_space_id=N.")
    if moved:
        return TargetSpace(moved[0], trained)
    return TargetSpace(0, "assumed: nothing in the checkpoint says it; give --target_space_id=N if outputs are poor")


def _move(checkpoints: Tf1Checkpoints, variables: Variables) -> list[int]:
    """Rows that were trained according to an optimizer's slots, or else rows in which checkpoints differ.

    Slots with the shape of the table, and Adafactor's sums over it, have a row for each row of the table. Rows that no
    gradient reached are all alike.
    """
    name = variables.weights[KERNEL]
    shape = checkpoints.shapes[name]
    slots = [slot for slot in variables.slots if slot.rpartition("/")[0].endswith(name)]
    slots = [s for s in slots if checkpoints.shapes[s] in (shape, shape[:1] if s.endswith("/Adafactor") else shape)]
    if slots:
        arrays = [checkpoints.mean(slot).reshape(shape[0], -1) for slot in slots]
        changed = [np.any(array != np.median(array, axis=0), axis=1) for array in arrays]
    else:
        arrays = checkpoints.each(name)
        changed = [np.any(array != arrays[0], axis=1) for array in arrays]
    return [int(row) for row in np.flatnonzero(np.any(changed, axis=0))]
