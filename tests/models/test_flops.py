"""The count of FLOPs against the matrix products of the real graph, and against the cost that Table 2 states."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from t2t_lite import config, registry
from t2t_lite.models.flops import Sizes
from t2t_lite.models.transformer import Transformer
from t2t_lite.models.transformer_hparams import TransformerHParams

P100 = 9.5e12  # FLOP/s in single precision (section 6.1, footnote 5)
GPUS = 8
PAPER_HOURS = {"base": 12, "big": 3.5 * 24}  # section 5.2
PAPER_FLOPS = {"base": 3.3e18, "big": 2.3e19}  # Table 2
LENGTH = 30  # pieces a side: some 25 words (116M and 110M in 4.5M pairs, Luong et al. 2015), and what BPE adds


def _sizes(hparams: config.HParams, vocab_size: int) -> Sizes:
    per_head = hparams.d_model // hparams.num_heads
    return Sizes(
        num_layers=hparams.num_layers,
        d_model=hparams.d_model,
        d_ff=hparams.d_ff,
        num_heads=hparams.num_heads,
        d_k=hparams.d_k or per_head,
        d_v=hparams.d_v or per_head,
        target_vocab_size=vocab_size,
    )


def _products(graph: Any) -> int:
    """FLOPs of all matrix products in a graph of fixed shapes: 2 m k n each."""
    total = 0
    for operation in graph.get_operations():
        if operation.type in ("MatMul", "BatchMatMulV2"):
            transposed = operation.get_attr("transpose_a" if operation.type == "MatMul" else "adj_x")
            inner = operation.inputs[0].shape[-2 if transposed else -1]
            total += 2 * inner * int(np.prod(operation.outputs[0].shape))
    return total


@pytest.mark.parametrize("overrides", ["num_heads=4,d_k=3,d_v=5", "norm=pre,num_layers=1"])
def test_the_count_is_that_of_the_products_in_the_graph(overrides: str) -> None:
    hparams = config.override(
        TransformerHParams(num_layers=2, d_model=16, d_ff=40, num_heads=2, dropout=0.1), overrides
    )
    model = Transformer.from_hparams(hparams, 23, 23, True)
    batch = {"source": tf.ones([3, 6], tf.int32), "target": tf.ones([3, 5], tf.int32)}

    def forward() -> Any:
        return tf.reduce_sum(model(batch, seed=tf.constant([1, 1])))

    def training() -> Any:
        with tf.GradientTape() as tape:
            loss = forward()
        return tape.gradient(loss, [w.value for w in model.trainable_weights])

    counted = [_products(tf.function(f, autograph=False).get_concrete_function().graph) for f in (forward, training)]
    assert model.cost == _sizes(hparams, 23)
    assert counted == [3 * model.cost.forward_flops(6, 5), 3 * model.cost.training_flops(6, 5)]


def test_pairs_add_up_and_a_window_bounds_what_self_attention_costs() -> None:
    sizes = Sizes(num_layers=2, d_model=16, d_ff=40, num_heads=2, d_k=8, d_v=8, target_vocab_size=23)
    window = Sizes(**{**vars(sizes), "attention_window": 10})
    lengths = np.array([[7, 30, 0, 10], [9, 4, 0, 300]], np.int32)
    for counted in (sizes, window):
        assert counted.training_flops(*lengths) == sum(counted.training_flops(s, t) for s, t in lengths.T.tolist())
    assert window.forward_flops(10, 10) == sizes.forward_flops(10, 10)
    # 2 products of 290 fewer keys, 16 wide each, for each of 300 queries in 2 layers
    assert sizes.forward_flops(5, 300) - window.forward_flops(5, 300) == 2 * 2 * 300 * 290 * (16 + 16)
    long = window.forward_flops(0, 200_000) / window.forward_flops(0, 100_000)
    assert long == pytest.approx(2)  # linear
    assert sizes.forward_flops(np.int32(60_000), np.int32(60_000)) > 2**31  # int32 lengths do not overflow


@pytest.mark.parametrize("name", ["base", "big"])
def test_table_2s_cost_is_the_time_of_8_gpus_at_9_5_tflops(name: str) -> None:
    flops = PAPER_HOURS[name] * 3600 * GPUS * P100
    assert float(f"{flops:.1e}") == PAPER_FLOPS[name]


# The figures of docs/paper.md: FLOPs, and their share of Table 2's.
@pytest.mark.parametrize(("name", "wanted", "share"), [("base", 9.531e17, 0.290), ("big", 9.682e18, 0.421)])
def test_the_models_own_products_are_less_than_half_of_that(name: str, wanted: float, share: float) -> None:
    hparams = registry.hparams(name)
    pairs = hparams.train_steps * 25000 / LENGTH  # 25,000 tokens on each side in every update (section 5.1)
    flops = pairs * _sizes(hparams, 37000).training_flops(LENGTH, LENGTH)
    assert flops == pytest.approx(wanted, rel=1e-3)
    assert flops / (PAPER_HOURS[name] * 3600 * GPUS * P100) == pytest.approx(share, abs=5e-4)
