"""What Keras keeps of layers and models that are made as a recipe says: the recipe's values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import keras

from t2t_lite import config
from t2t_lite.config import HParams


def to_config(hparams: HParams) -> dict[str, Any]:
    """Returns {"hparams": ...}, JSON-ready, with the name of the model whose recipe it is."""
    return {"hparams": {"model": type(hparams).model, **config.to_dict(hparams)}}


def of_config(kept: Mapping[str, Any]) -> dict[str, Any]:
    """The inverse of `to_config`: `kept`, with the recipe in the place of its values."""
    values = dict(kept["hparams"])
    family = config.recipe_class(values.pop("model"))
    return {**kept, "hparams": config.from_dict(family or HParams, values)}


class RecipeLayer(keras.layers.Layer):
    """A layer that is made as a recipe says.

    Args:
        hparams: the recipe.
    """

    def __init__(self, hparams: Any, **kwargs: Any) -> None:
        super().__init__(autocast=False, **kwargs)
        self.hparams = hparams

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), **to_config(self.hparams)}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        return super().from_config(of_config(config))
