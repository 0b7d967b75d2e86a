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
    (r"(bias|scale|gamma|beta)$", (1,)),
    (r"/[qkvo]$", (3,)),  # tensor2tensor's attention_variables_3d
    (r"_single/kernel$", (4,)),  # tensor2tensor's convolutions of 2017
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

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Path -> shape of all weights but the embeddings."""
        model, inner = self.d_model, self.d_ff
        attention: dict[str, tuple[int, ...]] = {
            "query": (model, self.num_heads * self.d_k),
            "key": (model, self.num_heads * self.d_k),
            "value": (model, self.num_heads * self.d_v),
            "output": (self.num_heads * self.d_v, model),
        }
        if self.attention_biases:
            attention |= {"query_bias": (self.num_heads * self.d_k,), "output_bias": (model,)}
        distances = 2 * self.max_relative_position + 1
        relative = {"relative_keys": (distances, self.d_k), "relative_values": (distances, self.d_v)}
        self_attention = attention | (relative if self.max_relative_position else {})
        feed_forward = {"kernel_1": (model, inner), "bias_1": (inner,), "kernel_2": (inner, model), "bias_2": (model,)}
        stacks: dict[str, tuple[int, dict[str, dict[str, tuple[int, ...]]]]] = {
            "encoder": (
                self.num_layers,
                {"around_attention/self_attention": self_attention, "around_feed_forward/feed_forward": feed_forward},
            ),
            "decoder": (
                self.num_decoder_layers,
                {
                    "around_self/self_attention": self_attention,
                    "around_memory/memory_attention": attention,
                    "around_feed_forward/feed_forward": feed_forward,
                },
            ),
        }
        norm = {"layer_norm/gamma": (model,), "layer_norm/beta": (model,)}
        found: dict[str, tuple[int, ...]] = {}
        for stack, (layers, parts) in stacks.items():
            for layer in range(layers):
                for part, weights in parts.items():
                    around = f"{stack}/layer_{layer}/{part.partition('/')[0]}"
                    found |= {f"{stack}/layer_{layer}/{part}/{name}": shape for name, shape in weights.items()}
                    found |= {f"{around}/{name}": shape for name, shape in norm.items()}
            if self.norm == "pre":
                found |= {f"{stack}/final_norm/gamma": (model,), f"{stack}/final_norm/beta": (model,)}
        if self.positions == "learned":
            found |= {f"{side}_positions/table": (self.max_positions, model) for side in ("source", "target")}
        vectors = {"source_bias": self.source_vector, "start_vector": self.start_vector}
        found |= {name: (model,) for name, there in vectors.items() if there}
        if self.output_bias:
            found["output_bias"] = (self.target_vocab_size,)
        return {f"transformer/{name}": shape for name, shape in found.items()}


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
    """Raises DataError if a weight has another number of axes than its name says, or none of some size.

    Args:
        shapes: of the weights, by their names in the checkpoint.
    """
    for name, shape in shapes.items():
        ranks = next((ranks for pattern, ranks in _RANKS if re.search(pattern, name)), (2,))
        if len(shape) not in ranks or 0 in shape:
            wanted = " or ".join(map(str, ranks))
            raise DataError(
                f"The checkpoint contradicts itself: {name} has shape {shape}, and such a weight has {wanted} "
                f"{'axis' if ranks == (1,) else 'axes'}, none of them empty."
            )


def check(found: Mapping[str, tuple[int, ...]], description: Description) -> None:
    """Raises DataError unless all weights but the embeddings have the paths and shapes of the model described."""
    wanted = description.shapes()
    for path, shape in wanted.items():
        if path not in found:
            raise DataError(f"The checkpoint is not complete: nothing in it is {path}, of shape {shape}.")
        if found[path] != shape:
            raise DataError(f"The checkpoint contradicts itself: {path} has shape {found[path]}, not {shape}.")
    if other := sorted(set(found) - set(wanted)):
        raise DataError(f"The checkpoint has weights that the rest of it does not use: {', '.join(other[:4])}.")


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
    variables: the names in the checkpoint; each of its `weights` was used once (one exception: t2t_variables.modern).
    hparams: the toolkit's, both those that were read and those that the user gave.
    checkpoints: the prefixes that were read, the newest last.
    usual: fields of a recipe, by name, with the toolkit's default values for such models.
    assumed: hparams that change the outputs but are not known, with the values assumed; and the reason, a few words.
    settings_file: path of the file that hparams were read from, or None.
    training_set: the set that settings of the training were taken from, as nothing else says them; or None.
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
