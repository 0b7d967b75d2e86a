"""Students beside their teachers: depths, sizes, and formats that can express other depths of encoder and decoder."""

import pytest

from t2t_lite import config, registry
from t2t_lite.export.expressible import check_recipe
from t2t_lite.models.transformer_hparams import TransformerHParams


def _set(name: str) -> TransformerHParams:
    hparams = registry.hparams(name)
    assert isinstance(hparams, TransformerHParams)
    return hparams


def test_depths_and_sizes() -> None:
    for name, like, depth in (("small_student", "small", 12), ("multi30k_student", "multi30k", 6)):
        student = _set(name)
        assert (student.num_layers, student.decoder_layers) == (depth, 2)
        assert config.replace(student, num_layers=_set(like).num_layers, num_decoder_layers=0) == _set(like)
    assert _set("small_student").parameters(8000) < _set("base").parameters(37_000) / 4
    assert _set("multi30k_student").parameters(10_000) < _set("multi30k").parameters(10_000)


@pytest.mark.parametrize("name", ["small_student", "multi30k_student"])
def test_other_engines_take_their_depths(name: str) -> None:
    for engine, positions, epsilon in (("marian", "tensor2tensor", 1e-6), ("huggingface", "sinusoidal", 1e-5)):
        check_recipe(engine, "transformer", config.replace(_set(name), positions=positions, norm_epsilon=epsilon))
