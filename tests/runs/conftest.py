"""Fixtures that these tests share with tests/training."""

from tests.training.conftest import make_model, small_hparams, toy_store

__all__ = ["make_model", "small_hparams", "toy_store"]
