"""Models whose weights a checkpoint replaces: zeros in place of random numbers, and nothing else."""

import random

import keras
import numpy as np
import pytest

from t2t_lite.distributed import tensorflow_loading
from t2t_lite.models.zero_weights import zero_weights
from t2t_lite.runs.run_dir import make_model
from tests import families


@pytest.mark.commit("transformer", "convs2s")
@pytest.mark.parametrize("family", ["transformer", "rnn", "convs2s", "bytenet", "moe", "transformer_moe"])
def test_a_model_to_be_restored_has_the_same_weights_but_no_random_ones(
    family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tensorflow_loading, "in_command", lambda: True)
    hparams, sizes = families.TINY[family], (families.V, families.V, True)
    keras.utils.set_random_seed(1)
    usual, following = make_model(family, hparams, *sizes), random.random()
    keras.utils.set_random_seed(1)
    restored = make_model(family, hparams, *sizes, restored=True)
    assert random.random() == following  # as many seeds were taken
    assert [(w.path, w.shape, w.dtype) for w in restored.weights] == [(w.path, w.shape, w.dtype) for w in usual.weights]
    tables = [weight for weight in restored.weights if len(weight.shape) == 2 and families.V in weight.shape]
    assert tables
    assert not any(np.any(table) for table in tables)


def test_initializers_draw_again_after_an_error() -> None:
    with pytest.raises(ValueError, match="stop"), zero_weights():
        raise ValueError("stop")
    assert np.all(np.asarray(keras.initializers.RandomNormal(seed=1)((3,))))
