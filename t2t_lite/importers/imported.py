"""A checkpoint that was read: the description of its Transformer, whichever toolkit trained it, and its weights."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from t2t_lite.errors import DataError

if TYPE_CHECKING:
    from t2t_lite.importers.t2t_variables import Variables
    from t2t_lite.importers.target_space import TargetSpace

# What the end of a name says about the number of axes; else there are two.
_RANKS = (
    (r"(bias|scale|gamma|beta)$", 1),
    (r"/[qkvo]$", 3),  # tensor2tensor's attention_variables_3d
    (r"_single/kernel$", 4),  # tensor2tensor's convolutions of 2017
)


@dataclasses.dataclass(frozen=True)
class Description:
    """A Transformer of another toolkit: fields of `TransformerHParams`, and three of its tables.

    max_positions: 0 if positions are not learned.
    source_vocab_size, target_vocab_size: rows of the tables.
    shared: one table for source and target.
    """

    num_layers: int
    num_decoder_layers: int
    d_model: int
    d_ff: int
    num_heads: int
    d_k: int
    d_v: int
    norm: str
    positions: str
    max_positions: int
    max_relative_position: int
    attention_biases: bool
    source_vector: bool
    source_vocab_size: int
    target_vocab_size: int
    shared: bool
    share_embeddings: bool
    norm_epsilon: float = 1e-6
    source_end: bool = True
    start_vector: bool = False
    output_bias: bool = False
    activation: str = "relu"
    alignment_layer: int = 0


def shape_of(shapes: Mapping[str, tuple[int, ...]], name: str) -> tuple[int, ...]:
    """Returns the shape of a weight that each Transformer has; DataError if it is missing."""
    if not shapes.get(name):
        raise DataError(f"The checkpoint is not complete: it has no {name}.")
    return shapes[name]


def count_layers(names: Iterable[str], stack: str) -> int:
    """Returns how many layers a stack has; DataError if one of them is missing.

    Args:
        names: of weights.
        stack: what stands before "/layer_0/" in them, such as "body/encoder".
    """
    numbers = {int(match[1]) for name in names if (match := re.match(rf"{re.escape(stack)}/layer_(\d+)/", name))}
    if numbers != set(range(len(numbers))):
        raise DataError(f"The checkpoint has of {stack} the layers {sorted(numbers)}; one of them is missing.")
    return len(numbers)


def check_ranks(shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Raises DataError if a weight, by its name in the checkpoint, has an odd number of axes, or an empty one."""
    for name, shape in shapes.items():
        rank = next((rank for pattern, rank in _RANKS if re.search(pattern, name)), 2)
        if len(shape) != rank or 0 in shape:
            raise DataError(
                f"The checkpoint contradicts itself: {name} has shape {shape}, and such a weight has {rank} axes, none "
                "of them empty."
            )


class Weights(Mapping[str, Any]):
    """Arrays by path, each read when it is asked for: memory does not hold a large model twice.

    Args:
        readers: path -> function that reads the array.
    """

    def __init__(self, readers: Mapping[str, Callable[[], Any]]) -> None:
        self._readers = readers

    def __getitem__(self, path: str) -> Any:
        return self._readers[path]()

    def __iter__(self) -> Iterator[str]:
        return iter(self._readers)

    def __len__(self) -> int:
        return len(self._readers)


@dataclasses.dataclass(frozen=True)
class Imported:
    """Result of an import.

    toolkit: the one that trained the model, "tensor2tensor" or "OpenNMT-tf".
    weights: path of a weight here -> float32 array; `t2t_model.build` makes a model from them.
    target_space: the row that is used as `source_bias`, or None.
    variables: the names in the checkpoint; each weight was used once (one exception: t2t_variables.modernize).
    hparams: the toolkit's, both those that were read and those that the user gave.
    checkpoints: the prefixes that were read, the newest last.
    usual: fields of a recipe, by name, with the toolkit's default values for such models.
    assumed: hparams that change the outputs but are not known, with the values assumed; and the reason, a few words.
    settings_file: path of the file that hparams were read from, or None.
    training_set: the set that settings of the training were taken from, as nothing else says them; or None.
    kept: small files that the run keeps, by name; see importers/kept_files.py.
    licence: "name" and "file" of the licence that the model came with, as far as they are known.
    ignored: settings of the model's files that change nothing here, as they stand there, and that are not known.
    """

    toolkit: str
    weights: Mapping[str, Any]
    description: Description
    target_space: TargetSpace | None
    variables: Variables
    hparams: Mapping[str, Any]
    checkpoints: tuple[str, ...]
    usual: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    assumed: tuple[Mapping[str, Any], str] = ({}, "")
    settings_file: str | None = None
    training_set: str | None = None
    kept: Mapping[str, bytes] = dataclasses.field(default_factory=dict)
    licence: Mapping[str, str] = dataclasses.field(default_factory=dict)
    ignored: tuple[str, ...] = ()
