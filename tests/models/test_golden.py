"""Models against other implementations, with their weights: logits, attention, gradients and greedy searches.

tests/golden/NAME.py ran fairseq, OpenNMT-py or tensor2tensor, or torch's modules as the equations say, and wrote
NAME.npz.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from t2t_lite import config, registry
from t2t_lite.layers import noisy_top_k
from t2t_lite.models.bytenet_hparams import ByteNetHParams
from t2t_lite.models.convs2s_hparams import ConvS2SHParams
from t2t_lite.models.moe_hparams import MoeHParams
from t2t_lite.models.rnn_hparams import RnnHParams
from t2t_lite.models.transformer_moe_hparams import TransformerMoeHParams
from tests import model_checks, reference
from tests.searches import search_graph

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
ADDITIVE: dict[str, Any] = {"attention_score": "additive", "num_layers": 2}
GNMT: dict[str, Any] = {"encoder": "gnmt", "attention_score": "additive", "num_layers": 3}
MLPERF: dict[str, Any] = {"attention_score": "normed_additive", "num_layers": 4, "input_feeding": False}
WRAPPER: dict[str, Any] = {"num_layers": 2, "wiring": "attention_wrapper", "softmax_bias": False}
PRODUCT: dict[str, Any] = {"attention_score": "product", "num_layers": 2, "input_feeding": False}
EXPERTS: dict[str, Any] = {"d_model": 4, "d_ff": 5, "balance_weight": 0.3, "dropout": 0.0}
LSTMS: dict[str, dict[str, Any]] = {  # besides what the weights show
    "opennmt_rnn/general": {"num_layers": 2},
    "opennmt_rnn/additive": ADDITIVE,
    "opennmt_rnn/no_feeding": {"num_layers": 2, "input_feeding": False},
    "fairseq_lstm/luong": {"num_layers": 2},
    "fairseq_lstm/wiseman": {"num_layers": 1},
    "tensor2tensor_lstm/both_ways": {**WRAPPER, "encoder": "bi", "attention_score": "additive"},
    "tensor2tensor_lstm/luong": {**WRAPPER, "encoder": "reversed"},
    "torch_rnn/mlperf": {**MLPERF, "encoder": "gnmt", "wiring": "gnmt_v2"},
    "torch_rnn/gnmt": {**GNMT, "wiring": "gnmt"},
    "torch_rnn/both_ways": {**ADDITIVE, "encoder": "bi", "wiring": "attention_wrapper"},
    "torch_rnn/parser": {**ADDITIVE, "encoder": "reversed", "wiring": "vinyals"},
    "torch_rnn/gnmt_v2": {**GNMT, "wiring": "gnmt_v2", "attention_score": "normed_additive", "softmax_bias": False},
    "torch_rnn/tied": {"num_layers": 2, "share_embeddings": True},
    "torch_rnn/dot": {"num_layers": 1, "attention_score": "dot"},
    "torch_rnn/interleaved": {**PRODUCT, "encoder": "interleaved"},
}
PAPER = ByteNetHParams(num_layers=4, d_model=5, dilations=3)
# A sentence of the file has 50 columns, of 6 symbols.
T2T = {"num_layers": 2, "d_model": 8, "dilations": 3, "dropout": 0.0, "unfold_factor": 1.0, "unfold_extra": 44}
OTHERS: dict[str, Any] = {
    "fairseq_convs2s/one_size": ConvS2SHParams(encoder_layers="2x8x3", decoder_layers="2x8x3"),
    "fairseq_convs2s/sizes": ConvS2SHParams(encoder_layers="8x3+12x4+6x1", decoder_layers="8x2+12x3+12x1+6x3"),
    "tensor2tensor_bytenet": config.replace(registry.hparams("t2t_bytenet"), **T2T),
    "torch_bytenet/paper": PAPER,
    "torch_bytenet/tensor2tensor": config.replace(PAPER, wiring="tensor2tensor", num_layers=2, unfold_factor=1.5),
    "torch_moe/lstm": MoeHParams(cells=6, num_experts=5, experts_per_token=3, **EXPERTS),
    "torch_moe/post": TransformerMoeHParams(num_layers=4, num_heads=2, num_experts=4, **EXPERTS),
    "torch_moe/pre": TransformerMoeHParams(num_layers=2, num_heads=2, num_experts=4, norm="pre", **EXPERTS),
}
# The largest difference of gradients; it is larger where sums in float32 almost cancel. Those of tensor2tensor's wiring
# hang on the last bit of float32: weights changed by 6e-8 move them by up to 4e-4 (AVX-512, five tries).
BOUNDS = {"torch_bytenet/tensor2tensor": 1e-3, "fairseq_convs2s": 5e-5, "torch_moe": 5e-5, "torch_rnn": 3e-5}
EACH_FAMILY = ("tensor2tensor_lstm/luong", "fairseq_convs2s/one_size", "torch_bytenet/paper", "torch_moe/pre")


def _load(case: str) -> tuple[Any, dict[str, np.ndarray]]:
    """Our model with the weights of a case, and what the other implementation computed with them."""
    file, _, name = case.partition("/")
    golden = model_checks.golden_case(GOLDEN / f"{file}.npz", name)
    target = golden["weights/target_embedding/table"]
    source = golden.get("weights/source_embedding/table", target)  # if tied, one table is all three
    if case in LSTMS:
        changes = {"share_embeddings": False, **LSTMS[case]}
        hparams: Any = RnnHParams(d_model=target.shape[1], dropout=0.0, **changes)
    else:
        hparams = OTHERS[case]
    if file == "fairseq_convs2s":
        d_out, positions = (
            golden["weights/softmax/direction"].shape[1],
            len(golden["weights/source_embedding/positions"]),
        )
        sizes = {"d_model": target.shape[1], "d_out": d_out, "max_positions": positions, "dropout": 0.0}
        hparams = config.replace(hparams, **sizes)
    shared = file in ("torch_moe", "tensor2tensor_bytenet") or getattr(hparams, "share_embeddings", False)
    model = registry.MODELS.get(hparams.model).from_hparams(hparams, len(source), len(target), shared)
    model_checks.assign_golden(model, golden)
    return model, golden


@pytest.mark.commit(*EACH_FAMILY)
@pytest.mark.parametrize("case", [*LSTMS, *OTHERS])
def test_logits_attention_and_gradients_are_those_of_the_other(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, golden = _load(case)
    batch, real = {side: tf.constant(golden[side]) for side in ("source", "target")}, golden["target"] > 0
    assert real.sum() >= 12
    wanted = golden["logits"] if golden["logits"].ndim == 2 else golden["logits"][real]
    reference.assert_close(np.asarray(model(batch))[real], wanted, 2e-6 if case.startswith("fairseq_convs2s") else 1e-5)
    if "attention" in golden:
        maps, wanted = np.asarray(model.attention_maps(batch)["memory"])[:, :, 0], golden["attention"]
        if case == "torch_rnn/gnmt":  # golden has the weights that each position looks up, which the next one uses
            wanted = np.pad(wanted[:, :-1], ((0, 0), (1, 0), (0, 0)))
        wanted = wanted if wanted.ndim == 4 else wanted[:, None]  # [B, L, T, S]
        for layer in range(maps.shape[1]):
            np.testing.assert_allclose(maps[:, layer][real], wanted[:, layer][real], rtol=0, atol=1e-5)
    bound = BOUNDS.get(case) or BOUNDS.get(case.partition("/")[0], 2e-5)
    if "loss" in golden:
        noise = iter([golden[key] for key in sorted(golden) if key.startswith("noise_")])
        monkeypatch.setattr(noisy_top_k, "standard_normal", lambda like, seed: tf.constant(next(noise)))
        over = "others" if case == "torch_bytenet/tensor2tensor" else "all"
        model_checks.assert_golden_loss(model, golden, (0.1, over), bound)
        assert next(noise, None) is None
    else:
        model_checks.assert_golden_gradients(model, golden, bound)


@pytest.mark.nightly
@pytest.mark.parametrize("case", [case for case in [*LSTMS, *OTHERS] if case.startswith(("opennmt_rnn", "fairseq"))])
def test_a_greedy_search_finds_what_that_of_the_other_finds(case: str) -> None:
    model, golden = _load(case)
    ids, _ = search_graph(model, 1, extra=6)(golden["source"])
    np.testing.assert_array_equal(ids[:, 0], golden["greedy"])
    assert len(np.unique(golden["greedy"])) >= 4
