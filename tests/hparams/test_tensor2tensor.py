"""The recipes of tensor2tensor's users, compared with the paper's: what differs, and nothing else."""

from typing import Any

import pytest

from t2t_lite import config, registry
from t2t_lite.schedules.noam import Noam

V3 = {  # changes to base
    "positions": "tensor2tensor",
    "source_vector": True,
    "norm": "pre",
    "attention_dropout": 0.1,
    "relu_dropout": 0.1,
    "warmup_steps": 8000,
    "learning_rate_factor": 2.0,
    "adam_beta2": 0.997,
    "label_smoothing_over": "others",
    "batch_tokens": 32768,
    "train_steps": 250000,
    "extra_length": 100,
}
BIG = {"d_model": 1024, "d_ff": 4096, "num_heads": 16, "dropout": 0.3}
RECIPES: dict[str, tuple[str, dict[str, Any]]] = {
    "t2t_base": ("base", V3),
    "t2t_relative": ("t2t_base", {"positions": "none", "max_relative_position": 20}),
    "t2t_big": ("t2t_base", BIG | {"batch_tokens": 16384}),
    "t2t_big_enfr": ("t2t_base", BIG | {"d_ff": 8192, "dropout": 0.1, "share_embeddings": False}),
}


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_changes_what_its_source_says_and_nothing_else(name: str) -> None:
    origin, changes = RECIPES[name]
    assert registry.hparams(name) == config.replace(registry.hparams(origin), **changes)


@pytest.mark.parametrize("name", [*RECIPES, "t2t_lstm", "t2t_bytenet"])
def test_outputs_may_be_longer_than_inputs_by_100(name: str) -> None:
    """The default of decode_hparams, utils/decoding.py, for every model."""
    assert registry.hparams(name).extra_length == 100


def test_the_peak_of_the_learning_rate_is_tensor2tensors() -> None:
    """The peak is 9.88e-4: with the factor 2 and the longer warm-up it is sqrt(2) times the paper's."""
    hparams = registry.hparams("t2t_base")
    rate = Noam(hparams.d_model, hparams.warmup_steps, hparams.learning_rate_factor)(8000)
    assert rate == pytest.approx(9.88e-4, rel=1e-3)
