"""Fixtures that these tests share with tests/training."""

from tests.training.conftest import make_model

__all__ = ["make_model"]
