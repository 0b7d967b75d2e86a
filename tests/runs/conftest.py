"""Fixtures of the tests of training that these tests share."""

from tests.training.conftest import make_model, small_hparams, toy_store

__all__ = ["make_model", "small_hparams", "toy_store"]
