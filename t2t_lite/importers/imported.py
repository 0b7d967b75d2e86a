"""A checkpoint that was read, as the weights of a `Transformer`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from t2t_lite.importers.description import Description

if TYPE_CHECKING:  # it loads TensorFlow
    from t2t_lite.importers.t2t_variables import Variables
    from t2t_lite.importers.target_space import TargetSpace


class Weights(Mapping[str, Any]):
    """Arrays by path, each read when it is asked for: memory does not hold a large model twice.

    Args:
        readers: of each array.
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
    """What an import gives.

    toolkit: that trained it, "tensor2tensor" or "OpenNMT-tf".
    weights: path of a weight here -> float32 array; `t2t_model.build` makes a model of them.
    target_space: the row that `source_bias` is, or None.
    variables: the names in the checkpoint; of `weights` each was used once (see t2t_2017 for the one exception).
    hparams: the toolkit's, as read and given.
    checkpoints: the prefixes that were read, the newest last.
    usual: fields of a recipe, by name, that its models have there by default.
    assumed: hparams that change the outputs and that nothing says, with the values taken; and why, a few words.
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
