"""A tensor2tensor checkpoint as the weights of a `Transformer`: each variable is used once, or the import fails."""

from __future__ import annotations

import functools
import math
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from t2t_lite.errors import DataError
from t2t_lite.importers import t2t_hparams, t2t_precision, target_space, tf1_checkpoint
from t2t_lite.importers.imported import Description, Imported, Weights, check_ranks
from t2t_lite.importers.t2t_description import describe
from t2t_lite.importers.t2t_variables import (
    Embeddings,
    Mean,
    Place,
    Table,
    append_zeros,
    find_tables,
    join_names,
    modernize,
    place,
    sort_variables,
)
from t2t_lite.importers.target_space import TargetSpace
from t2t_lite.importers.tf1_checkpoint import Tf1Checkpoints


def read(
    paths: Sequence[str | os.PathLike[str]],
    *,
    average: int = 1,
    hparams_set: str | None = None,
    hparams: str | None = None,
    target_space_id: int | None = None,
) -> Imported:
    """Reads a model that tensor2tensor trained.

    Args:
        paths: folders or prefixes of checkpoints of one training; several are averaged, as by t2t-avg-all.
        average: how many of the newest checkpoints in each folder are taken.
        hparams_set, hparams: tensor2tensor's, if there is no hparams.json beside the checkpoint; given ones win.
        target_space_id: the row of the target space's table; default: the one that was trained.

    Raises:
        UsageError, DataError: something is missing, damaged, or cannot be expressed here.
    """
    prefixes = [prefix for path in paths for prefix in tf1_checkpoint.find(path, average)]
    known = t2t_hparams.read(Path(prefixes[-1]).parent, hparams_set, hparams)
    checkpoints = Tf1Checkpoints(prefixes, t2t_precision.decoder(known.hparams))
    variables = sort_variables(checkpoints.shapes)
    written = {name: checkpoints.shapes[full] for name, full in variables.weights.items()}
    check_ranks(
        {name: shape for name, shape in written.items() if place(name) or re.search("_single/|/weights_", name)}
    )
    shapes, mean = modernize(written, lambda name: checkpoints.mean(variables.weights[name]))
    tables = find_tables(shapes)
    description = describe(shapes, tables, known.hparams)
    space = target_space.choose(checkpoints, variables, target_space_id)
    readers = {path: functools.partial(_table, mean, table) for path, table in tables.tables.items()}
    for name, where in _places(shapes, tables).items():
        readers[where.path] = functools.partial(_change, mean, name, where, description, space)
    return Imported(
        "tensor2tensor",
        Weights(readers),
        description,
        space,
        variables,
        known.hparams,
        tuple(prefixes),
        assumed=known.assumed,
        settings_file=known.file,
        training_set=known.training_set,
    )


def _places(shapes: Mapping[str, tuple[int, ...]], tables: Embeddings) -> dict[str, Place]:
    """Where each variable of the body goes; DataError if one has no place, or two have the same."""
    used = {name for table in tables.tables.values() for name in table.shards}
    found = {name: where for name in shapes if (where := place(name))}
    if unknown := sorted(set(shapes) - used - set(found)):
        raise DataError(
            f"The checkpoint holds variables that nothing here is like: {join_names(unknown)}. It is of another model "
            "than tensor2tensor's Transformer, or uses an option of it that is not known here."
        )
    by_path: dict[str, str] = {}
    for name, where in found.items():
        if where.path in by_path:
            raise DataError(f"The checkpoint holds both {by_path[where.path]} and {name}, which mean the same weight.")
        by_path[where.path] = name
    return found


def _table(mean: Mean, table: Table) -> Any:
    return np.concatenate([mean(name) for name in table.shards])


def _change(mean: Mean, name: str, where: Place, description: Description, space: TargetSpace | None) -> Any:
    array = mean(name)
    if where.change == "row" and space is not None:
        return array[space.row]
    if where.change == "zeros":
        return append_zeros(array)
    if where.change == "scaled heads":
        array = array * np.float32(math.sqrt(description.d_k))
    if where.change.endswith("heads"):
        d_model = description.d_model
        if array.size % d_model:
            raise DataError(
                f"The checkpoint contradicts itself: {name} has shape {array.shape}, not {d_model} columns."
            )
        return array.reshape((-1, d_model) if where.path.endswith("/output") else (d_model, -1))
    return array
