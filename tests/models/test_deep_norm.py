"""DeepNorm's scales and initial weights, against Figure 2 of its paper."""

import math

import numpy as np
import pytest

from t2t_lite import config, registry
from t2t_lite.models.transformer import Transformer
from t2t_lite.models.transformer_hparams import TransformerHParams


def test_scales_of_known_depths() -> None:
    deep = registry.hparams("deep")
    assert isinstance(deep, TransformerHParams)
    assert (deep.num_layers, deep.decoder_layers, deep.norm) == (18, 6, "deep")
    encoder, decoder = deep.deep_norm["encoder"], deep.deep_norm["decoder"]
    assert encoder == pytest.approx((0.81 * (18**4 * 6) ** 0.0625, 0.87 * (18**4 * 6) ** -0.0625))
    assert decoder == pytest.approx((18**0.25, 72**-0.25))
    same = config.replace(deep, num_layers=6, num_decoder_layers=0).deep_norm
    assert same["encoder"] == pytest.approx((0.81 * 6 ** (5 / 16), 0.87 * 6 ** (-5 / 16)))
    assert same["decoder"] == pytest.approx((18**0.25, 72**-0.25))
    assert config.replace(deep, norm="post").deep_norm == {"encoder": (1.0, 1.0), "decoder": (1.0, 1.0)}


@pytest.mark.commit
@pytest.mark.parametrize("ffn", ["plain", "gated"])
def test_initial_weights(ffn: str) -> None:
    """Of Glorot and Bengio's bounds, those of values, outputs and feed-forward networks are multiplied by beta."""
    small = {"num_layers": 3, "num_decoder_layers": 2, "d_model": 64, "d_ff": 128, "num_heads": 2}
    hparams = config.replace(registry.hparams("deep"), **small, ffn=ffn)
    model = Transformer.from_hparams(hparams, 30, 30, True)
    seen = 0
    for weight in model.weights:
        if len(weight.shape) != 2 or "layer_" not in weight.path:
            continue
        of_side = hparams.deep_norm["encoder" if "/encoder/" in weight.path else "decoder"]
        beta = 1.0 if weight.name in ("query", "key") else of_side[1]
        bound = beta * math.sqrt(6 / sum(weight.shape))
        assert 0.98 * bound < np.abs(np.asarray(weight)).max() <= bound * (1 + 1e-6), weight.path
        seen += 1
    assert seen == 3 * (6 + (ffn == "gated")) + 2 * (10 + (ffn == "gated"))
