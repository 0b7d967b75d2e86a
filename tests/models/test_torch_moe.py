"""Models with experts against torch's modules (tests/golden/torch_moe.py wrote the numbers)."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from t2t_lite.layers import noisy_top_k
from t2t_lite.models.moe_hparams import MoeHParams
from t2t_lite.models.transformer_moe_hparams import TransformerMoeHParams
from t2t_lite.runs.run_dir import make_model
from tests import model_checks, reference

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "torch_moe.npz"
SIZES: dict[str, Any] = {"d_model": 4, "d_ff": 5, "balance_weight": 0.3, "dropout": 0.0}
CASES: dict[str, Any] = {
    "lstm": MoeHParams(cells=6, num_experts=5, experts_per_token=3, **SIZES),
    "post": TransformerMoeHParams(num_layers=4, num_heads=2, num_experts=4, **SIZES),
    "pre": TransformerMoeHParams(num_layers=2, num_heads=2, num_experts=4, norm="pre", **SIZES),
}


@pytest.mark.commit("pre")
@pytest.mark.parametrize("name", CASES)
def test_logits_losses_and_gradients_are_those_of_torch(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sentences of 1 to 7 symbols in one batch, which torch computes alone; with torch's noise in training."""
    golden = model_checks.golden_case(GOLDEN, name)
    vocab_size = len(golden["weights/target_embedding/table"])
    model = make_model(CASES[name].model, CASES[name], vocab_size, vocab_size, True)
    model_checks.assign_golden(model, golden)
    logits = np.asarray(model({side: tf.constant(golden[side]) for side in ("source", "target")}))
    reference.assert_close(logits[golden["target"] > 0], golden["logits"], 1e-5)

    noise = iter([golden[key] for key in sorted(golden) if key.startswith("noise_")])
    monkeypatch.setattr(noisy_top_k, "standard_normal", lambda like, seed: tf.constant(next(noise)))
    model_checks.assert_golden_loss(model, golden, (0.1, "all"), 5e-5)
    assert next(noise, None) is None
