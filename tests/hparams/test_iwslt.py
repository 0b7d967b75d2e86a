"""transformer_iwslt against the command and the architecture of fairseq's README.md for IWSLT 2014."""

import pytest

from t2t_lite import registry
from t2t_lite.optimizers.choices import make_schedule

RECIPE = registry.hparams("transformer_iwslt")
# fairseq-train of examples/translation/README.md, with the sizes of --arch transformer_iwslt_de_en.
_FAIRSEQ = {
    "d_model": 512,  # --encoder-embed-dim
    "d_ff": 1024,  # --encoder-ffn-embed-dim
    "num_heads": 4,  # --encoder-attention-heads
    "num_layers": 6,  # --encoder-layers
    "dropout": 0.3,
    "attention_dropout": 0.0,
    "relu_dropout": 0.0,
    "norm": "post",
    "weight_decay": 1e-4,
    "adam_beta1": 0.9,
    "adam_beta2": 0.98,
    "clip_norm": 0.0,
    "label_smoothing": 0.1,
    "batch_tokens": 4096,  # --max-tokens
    "beam_size": 5,
}


def test_settings_are_fairseqs() -> None:
    assert {name: getattr(RECIPE, name) for name in _FAIRSEQ} == _FAIRSEQ
    assert RECIPE.decoder_layers == 6


def test_the_learning_rate_is_fairseqs() -> None:
    rate = make_schedule(RECIPE, RECIPE.d_model)
    assert [rate(step) for step in (2000, 4000, 16_000)] == pytest.approx([2.5e-4, 5e-4, 2.5e-4])
