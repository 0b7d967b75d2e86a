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
    variables: the names in the checkpoint; each of its `weights` was used once (see t2t_2017 for the one exception).
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
