"""The count of FLOPs against the matrix products of the real graph, and against the cost that Table 2 states."""

from typing import Any

import numpy as np
import pytest

from t2t_lite import config, registry
from t2t_lite.models.transformer import Transformer
from t2t_lite.models.transformer_cost import TransformerCost
from t2t_lite.models.transformer_hparams import TransformerHParams
from tests.model_checks import assert_cost_is_counted

P100 = 9.5e12  # FLOP/s in single precision (section 6.1, footnote 5)
GPUS = 8
PAPER_HOURS = {"base": 12, "big": 3.5 * 24}  # section 5.2
PAPER_FLOPS = {"base": 3.3e18, "big": 2.3e19}  # Table 2
LENGTH = 30  # pieces a side: some 25 words (116M and 110M in 4.5M pairs, Luong et al. 2015), and what BPE adds


def _cost(vocab_size: int = 23, **changes: Any) -> TransformerCost:
    sizes: dict[str, Any] = {"num_layers": 2, "d_model": 16, "d_ff": 40, "num_heads": 2, **changes}
    return TransformerCost(TransformerHParams(**sizes), vocab_size)


@pytest.mark.nightly
@pytest.mark.parametrize(
    "overrides",
    [
        "num_layers=1,attention_score=additive,d_k=3,d_v=5",
        "num_decoder_layers=3,d_k=3,d_v=5,max_relative_position=2,attention_biases=true,positions=none",
    ],
)
def test_the_count_is_that_of_the_products_in_the_graph(overrides: str) -> None:
    hparams = config.override(
        TransformerHParams(num_layers=2, d_model=16, d_ff=40, num_heads=2, dropout=0.1), overrides
    )
    model = Transformer.from_hparams(hparams, 23, 23, True)
    assert_cost_is_counted(model, 6, 5)


def test_stacks_of_different_depth_add_up() -> None:
    """12 + 6 and 6 + 12 layers cost as much as 12 + 12 and 6 + 6; also with remat, which keeps each layer's inputs."""

    def cost(encoder: int, decoder: int, remat: bool) -> TransformerCost:
        return _cost(0, num_layers=encoder, num_decoder_layers=decoder, remat=remat)

    for remat in (False, True):
        deep, mixed, shallow = (cost(*depths, remat) for depths in ((12, 0), (12, 6), (6, 6)))
        swapped = cost(6, 12, remat)
        assert mixed.forward_flops(7, 9) + swapped.forward_flops(7, 9) == sum(
            depth.forward_flops(7, 9) for depth in (deep, shallow)
        )
        assert mixed.activation_bytes(3, 7, 9, 4) + swapped.activation_bytes(3, 7, 9, 4) == sum(
            depth.activation_bytes(3, 7, 9, 4) for depth in (deep, shallow)
        )


def test_pairs_add_up_and_a_window_bounds_what_self_attention_costs() -> None:
    cost, window = _cost(), _cost(attention_window=10)
    lengths = np.array([[7, 30, 0, 10], [9, 4, 0, 300]], np.int32)
    for counted in (cost, window):
        assert counted.training_flops(*lengths) == sum(counted.training_flops(s, t) for s, t in lengths.T.tolist())
    assert window.forward_flops(10, 10) == cost.forward_flops(10, 10)
    # 2 products of 290 fewer keys, 16 wide each, for each of 300 queries in 2 layers
    assert cost.forward_flops(5, 300) - window.forward_flops(5, 300) == 2 * 2 * 300 * 290 * (16 + 16)
    long = window.forward_flops(0, 200_000) / window.forward_flops(0, 100_000)
    assert long == pytest.approx(2)  # linear
    assert cost.forward_flops(np.int32(60_000), np.int32(60_000)) > 2**31  # int32 lengths do not overflow


@pytest.mark.parametrize("name", ["base", "big"])
def test_table_2s_cost_is_the_time_of_8_gpus_at_9_5_tflops(name: str) -> None:
    flops = PAPER_HOURS[name] * 3600 * GPUS * P100
    assert float(f"{flops:.1e}") == PAPER_FLOPS[name]


# The figures of docs/paper.md: FLOPs, and their share of Table 2's.
@pytest.mark.parametrize(("name", "wanted", "share"), [("base", 9.531e17, 0.290), ("big", 9.682e18, 0.421)])
def test_the_models_own_products_are_less_than_half_of_that(name: str, wanted: float, share: float) -> None:
    hparams: Any = registry.hparams(name)
    pairs = hparams.train_steps * 25000 / LENGTH  # 25,000 tokens on each side in every update (section 5.1)
    flops = pairs * TransformerCost(hparams, 37000).training_flops(LENGTH, LENGTH)
    assert flops == pytest.approx(wanted, rel=1e-3)
    assert flops / (PAPER_HOURS[name] * 3600 * GPUS * P100) == pytest.approx(share, abs=5e-4)
