"""multi30k_wu2021 against what Wu et al. (ACL 2021) print, and against fairseq's settings in their code."""

import numpy as np
import pytest

from t2t_lite import registry
from t2t_lite.models.transformer import Transformer
from t2t_lite.train.recipe import make_schedule

RECIPE = registry.hparams("multi30k_wu2021")
SYMBOLS = 9712  # of 10,000 joint merges, with fairseq's special symbols


def test_the_learning_rate_is_fairseqs_inverse_square_root() -> None:
    rate = make_schedule(RECIPE, RECIPE.d_model)
    assert rate(2000) == pytest.approx(0.005)
    assert rate(1000) == pytest.approx(0.0025)
    assert rate(8000) == pytest.approx(0.0025)


def test_the_model_has_the_published_size() -> None:
    model = Transformer.from_hparams(RECIPE, SYMBOLS, SYMBOLS, True)
    parameters = sum(int(np.prod(weight.shape)) for weight in model.trainable_weights)
    biases = 12 * 4 * 128  # fairseq's attentions have them
    assert (parameters, parameters + biases) == (2_562_048, 2_568_192)  # "2.6M"


def test_initial_queries_are_smaller_than_those_of_multi30k() -> None:
    def spread(name: str) -> float:
        model = Transformer.from_hparams(registry.hparams(name), 8, 8, True)
        return float(np.std(np.asarray(model.encoder.blocks[0].self_attention.query)))

    assert spread("multi30k_wu2021") / spread("multi30k") == pytest.approx(0.5**0.5, rel=0.03)


def test_a_last_ten_average_spans_ten_epochs() -> None:
    assert (RECIPE.average_checkpoints, RECIPE.keep_checkpoints, RECIPE.save_every) == (10, 10, 62)
