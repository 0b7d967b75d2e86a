"""The Transformer of a checkpoint of another toolkit: its recipe, and a model with its weights."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from t2t_lite import config
from t2t_lite.errors import DataError
from t2t_lite.importers import t2t_training
from t2t_lite.importers.imported import Description, Imported
from t2t_lite.models.transformer import Transformer
from t2t_lite.models.transformer_hparams import TransformerHParams


def recipe(described: Description, hparams: Mapping[str, Any]) -> TransformerHParams:
    """Returns the recipe of a model; of one of tensor2tensor's, also with what its hparams say about training.

    Args:
        hparams: the toolkit's, as far as they are known.
    """
    known = config.fields(TransformerHParams)
    model = {name: value for name, value in dataclasses.asdict(described).items() if name in known}
    if not described.max_positions:
        del model["max_positions"]
    return TransformerHParams(**model, label_smoothing_over="others", **t2t_training.recipe(hparams))


def build(imported: Imported, hparams: TransformerHParams | None = None) -> Transformer:
    """Returns the model with the imported weights; one array at a time is in memory besides it.

    Args:
        hparams: a recipe of the same model, such as one of another precision; default: `recipe`.

    Raises:
        DataError: a weight of the model is not in the checkpoint, or has another shape there, or the reverse.
    """
    described, weights = imported.description, imported.weights
    model = Transformer.from_hparams(
        hparams or recipe(described, imported.hparams),
        described.source_vocab_size,
        described.target_vocab_size,
        described.shared,
    )
    variables = {weight.path: weight for weight in model.weights}
    for path in sorted(variables.keys() | set(weights)):
        array, variable = weights.get(path), variables.get(path)
        here, there = (None if found is None else tuple(found.shape) for found in (variable, array))
        if array is None or variable is None or here != there:
            raise DataError(
                f"The checkpoint contradicts itself: {path} has shape {there or 'none'} in it, and {here or 'none'} in "
                "the model that the rest of it describes."
            )
        variable.assign(array)
    return model
