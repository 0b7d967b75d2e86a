"""Embeddings of tensor2tensor: tables in shards, and what they show about vocabularies and sharing.

The variables decide, not hparams.json: if the two vocabularies have different sizes, tensor2tensor unsets
shared_embedding_and_softmax_weights in a copy of the hparams, but writes True to the file.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping

from t2t_lite.errors import DataError

_SHARD = re.compile(r"symbol_modality_(\d+)_(\d+)/(shared|input_emb|target_emb|softmax)/weights_(\d+)")


@dataclasses.dataclass(frozen=True)
class Table:
    """One table [rows, d_model]: the names of its shards, in their order."""

    rows: int
    d_model: int
    shards: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Embeddings:
    """The tables of a model.

    tables: path of the weight here -> the table; one table may serve two paths.
    shared: one table for source, target and softmax.
    tied: the softmax uses the target's table.
    """

    tables: Mapping[str, Table]
    source_vocab_size: int
    target_vocab_size: int
    d_model: int
    shared: bool
    tied: bool


def embeddings(shapes: Mapping[str, tuple[int, ...]]) -> Embeddings:
    """Finds the tables among the weights of a model.

    Args:
        shapes: of the weights, by their names without the scope.

    Raises:
        DataError: shards or tables are missing, or their shapes contradict each other.
    """
    found: dict[str, dict[int, str]] = {}
    sizes: dict[str, tuple[int, int]] = {}
    for name in shapes:
        if match := _SHARD.fullmatch(name):
            rows, width, part, shard = int(match[1]), int(match[2]), match[3], int(match[4])
            if sizes.setdefault(part, (rows, width)) != (rows, width):
                raise DataError(f"The checkpoint has two tables {part!r}, of {sizes[part]} and {(rows, width)}.")
            found.setdefault(part, {})[shard] = name
    tables = {part: _table(part, sizes[part], shards, shapes) for part, shards in found.items()}
    roles = _roles(set(tables))
    by_path = {f"transformer/{role}/table": tables[part] for role, part in roles.items()}
    target = by_path["transformer/target_embedding/table"]
    source = by_path.get("transformer/source_embedding/table", target)
    softmax = by_path.get("transformer/softmax/table", target)
    if softmax.rows != target.rows or len({table.d_model for table in tables.values()}) > 1:
        raise DataError(f"The embeddings of the checkpoint do not fit together: {sizes}.")
    shared, tied = "source_embedding" not in roles, "softmax" not in roles
    return Embeddings(by_path, source.rows, target.rows, target.d_model, shared, tied)


def _roles(parts: set[str]) -> dict[str, str]:
    """Weight here -> the table of tensor2tensor that goes there."""
    roles = {
        frozenset({"shared"}): {"target_embedding": "shared"},
        frozenset({"shared", "softmax"}): {
            "target_embedding": "shared",
            "source_embedding": "shared",
            "softmax": "softmax",
        },
        frozenset({"input_emb", "target_emb", "softmax"}): {
            "target_embedding": "target_emb",
            "source_embedding": "input_emb",
            "softmax": "softmax",
        },
    }
    if frozenset(parts) not in roles:
        raise DataError(
            f"The checkpoint has the embeddings {', '.join(sorted(parts)) or 'none'}; a model of text to text has "
            "shared, or shared and softmax, or input_emb, target_emb and softmax."
        )
    return roles[frozenset(parts)]


def _table(part: str, size: tuple[int, int], shards: dict[int, str], shapes: Mapping[str, tuple[int, ...]]) -> Table:
    names = tuple(shards[i] for i in sorted(shards))  # by number: weights_10 comes after weights_2
    there = [shapes[name] for name in names]
    if sorted(shards) != list(range(len(shards))) or sum(shape[0] for shape in there) != size[0]:
        raise DataError(
            f"The table {part!r} of the checkpoint has {sum(shape[0] for shape in there)} rows in the shards "
            f"{sorted(shards)}; its name says {size[0]} rows."
        )
    if any(shape[1:] != size[1:] for shape in there):
        raise DataError(f"The table {part!r} of the checkpoint has shards of shapes {there}; its name says {size[1]}.")
    return Table(size[0], size[1], names)
