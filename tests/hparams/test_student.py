"""Students beside their teachers: depths, sizes, and formats that can express other depths of encoder and decoder."""

import pytest

from t2t_lite import config, registry
from t2t_lite.errors import UsageError
from t2t_lite.export.expressible import check_recipe
from t2t_lite.models.transformer_hparams import TransformerHParams


def _set(name: str) -> TransformerHParams:
    hparams = registry.hparams(name)
    assert isinstance(hparams, TransformerHParams)
    return hparams


def test_depths_and_sizes() -> None:
    for name, like, depth in (("small_student", "small", 12), ("multi30k_student", "multi30k", 6)):
        student = _set(name)
        assert (student.num_layers, student.decoder_layers, student.norm) == (depth, 2, "pre")
        teacher = _set(like)
        assert config.replace(student, num_layers=teacher.num_layers, num_decoder_layers=0, norm="post") == teacher
    assert _set("small_student").parameters(8000) < _set("base").parameters(37_000) / 4
    assert _set("multi30k_student").parameters(10_000) < _set("multi30k").parameters(10_000)


@pytest.mark.parametrize("name", ["small_student", "multi30k_student"])
def test_other_engines_take_their_depths(name: str) -> None:
    check_recipe("marian", "transformer", config.replace(_set(name), positions="tensor2tensor", norm_epsilon=1e-6))
    post = config.replace(_set(name), positions="sinusoidal", norm_epsilon=1e-5, norm="post")
    check_recipe("huggingface", "transformer", post)
    with pytest.raises(UsageError, match=r"MarianMT of Hugging Face cannot compute norm=pre \(only post\)"):
        check_recipe("huggingface", "transformer", config.replace(post, norm="pre"))
