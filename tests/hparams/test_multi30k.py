"""multi30k_wu2021 against what Wu et al. (ACL 2021) print, and against fairseq's settings in their code."""

import numpy as np
import pytest

from t2t_lite import config, registry
from t2t_lite.models.transformer import Transformer
from t2t_lite.models.transformer_moe import TransformerMoe
from t2t_lite.optimizers.choices import make_schedule

RECIPE = registry.hparams("multi30k_wu2021")
SYMBOLS = 9712  # of 10,000 joint merges, with fairseq's special symbols


def test_the_learning_rate_is_fairseqs_inverse_square_root() -> None:
    rate = make_schedule(RECIPE, RECIPE.d_model)
    assert rate(2000) == pytest.approx(0.005)
    assert rate(1000) == pytest.approx(0.0025)
    assert rate(8000) == pytest.approx(0.0025)


@pytest.mark.commit
def test_the_model_has_the_published_size() -> None:
    model = Transformer.from_hparams(RECIPE, SYMBOLS, SYMBOLS, True)
    parameters = sum(int(np.prod(weight.shape)) for weight in model.trainable_weights)
    biases = 12 * 4 * 128  # fairseq's attentions have them
    assert (parameters, parameters + biases) == (2_562_048, 2_568_192)  # "2.6M"


@pytest.mark.commit
def test_initial_weights_are_fairseqs() -> None:
    """If d_ff = 2 d_model, W_1 (within d_model^-0.5) is 2^-0.5 times Glorot's; W_2 (within d_ff^-0.5) is 0.5 times."""

    def spreads(initial_weights: str) -> list[float]:
        hparams = config.replace(RECIPE, num_layers=1, initial_weights=initial_weights)
        layer = Transformer.from_hparams(hparams, 8, 8, True).encoder.blocks[0]
        attention, feed_forward = layer.self_attention, layer.feed_forward
        kernels = (attention.query, attention.output_kernel, feed_forward.kernel_1, feed_forward.kernel_2)
        return [float(np.std(np.asarray(kernel))) for kernel in kernels]

    glorot = np.array(spreads("glorot"))
    np.testing.assert_allclose(spreads("fairseq09") / glorot, [0.5**0.5, 1, 1, 1], rtol=0.04)
    np.testing.assert_allclose(spreads("fairseq012") / glorot, [0.5**0.5, 1, 0.5**0.5, 0.5], rtol=0.04)


@pytest.mark.commit
def test_the_set_with_experts_differs_in_its_experts_alone() -> None:
    plain, experts = (config.to_dict(registry.hparams(name)) for name in ("multi30k", "multi30k_transformer_moe"))
    assert {name: plain[name] for name in experts if name in plain} == {n: v for n, v in experts.items() if n in plain}
    hparams = config.replace(registry.hparams("multi30k_transformer_moe"), num_layers=2)
    plain_layer, layer = TransformerMoe.from_hparams(hparams, 8, 8, True).encoder.blocks
    for name in ("kernel_1", "kernel_2"):  # W_1 and W_2 of a plain network, W and V of the experts
        kernels = np.asarray(getattr(plain_layer.feed_forward, name)), layer.feed_forward
        spreads = np.std(kernels[0]), np.std(np.asarray(getattr(kernels[1], name.replace("kernel", "kernels"))))
        np.testing.assert_allclose(*spreads, rtol=0.04)
    attentions = (np.std(np.asarray(each.self_attention.query)) for each in (plain_layer, layer))
    assert list(attentions) == pytest.approx([128**-0.5 * 0.5**0.5] * 2, rel=0.04)


def test_our_recipe_has_other_initial_weights_and_does_not_stop_early() -> None:
    ours, theirs = (config.to_dict(registry.hparams(name)) for name in ("multi30k", "multi30k_wu2021"))
    changed = {name: ours[name] for name in ours if ours[name] != theirs[name]}
    assert changed == {"initial_weights": "fairseq012", "early_stopping": 0}
