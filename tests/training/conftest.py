"""Fixtures for the tests of training: a small store and small models."""

from collections.abc import Callable
from typing import Any

import keras
import pytest

from t2t_lite import config, registry
from t2t_lite.config import HParams
from t2t_lite.data.prepare import prepare
from t2t_lite.data.store import Store
from t2t_lite.models.transformer import Transformer
from t2t_lite.models.transformer_hparams import TransformerHParams

SMALL = TransformerHParams(num_layers=1, d_model=16, d_ff=32, num_heads=2, batch_tokens=256, max_length=64, dropout=0.0)


@pytest.fixture(scope="session")
def toy_store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """240 training, 40 dev and 20 test pairs of toy_ende, with a vocabulary of 800 pieces for both sides."""
    problem = registry.problem("toy_ende", train_size=240)
    problem.dev_size, problem.test_size = 40, 20
    return prepare(problem, tmp_path_factory.mktemp("data"), num_workers=1)


@pytest.fixture(scope="session")
def small_hparams() -> HParams:
    """The recipe of `make_model`."""
    return SMALL


@pytest.fixture(scope="session")
def make_model() -> Callable[..., Any]:
    """Gives make_model(vocab_size=..., shared=..., seed=..., d_model=...): a fresh Transformer of one small layer."""

    def make(vocab_size: int = 50, shared: bool = True, seed: int = 1, **changes: Any) -> Transformer:
        keras.utils.set_random_seed(seed)
        hparams = config.replace(SMALL, **changes)
        return Transformer.from_hparams(hparams, vocab_size, vocab_size, shared)

    return make
