"""ByteNet against torch's modules (tests/golden/torch_bytenet.py wrote the numbers)."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from t2t_lite import config
from t2t_lite.models.bytenet import ByteNet
from t2t_lite.models.bytenet_hparams import ByteNetHParams
from tests import model_checks, reference

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "torch_bytenet.npz"
PAPER = ByteNetHParams(num_layers=4, d_model=5, dilations=3)
CASES: dict[str, tuple[Any, str]] = {
    "paper": (PAPER, "all"),
    "tensor2tensor": (config.replace(PAPER, wiring="tensor2tensor", num_layers=2, unfold_factor=1.5), "others"),
}


@pytest.mark.commit("paper")
@pytest.mark.parametrize("name", CASES)
def test_logits_loss_and_gradients_are_those_of_torch(name: str) -> None:
    """Sentences of 1 to 6 symbols, with targets of 2 to 9, in one batch; torch's each have one of their own."""
    golden, (hparams, over) = model_checks.golden_case(GOLDEN, name), CASES[name]
    sizes = (len(golden[f"weights/{side}_embedding/table"]) for side in ("source", "target"))
    model = ByteNet.from_hparams(hparams, *sizes, False)
    model_checks.assign_golden(model, golden)
    logits = np.asarray(model({side: golden[side] for side in ("source", "target")}))
    reference.assert_close(logits[golden["target"] > 0], golden["logits"], 1e-5)
    # The gradients of this wiring hang on the last bit of float32: weights changed by 6e-8 move them by up to 4e-4
    # (AVX-512, five tries), so kernels of processors that sum in another order do not agree more closely.
    model_checks.assert_golden_loss(model, golden, (0.1, over), 1e-3 if name == "tensor2tensor" else 2e-5)
