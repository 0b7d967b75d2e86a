"""The LSTM encoder-decoder against those of OpenNMT-py, fairseq and tensor2tensor, with their weights.

The numbers are from opennmt_rnn.py, fairseq_lstm.py and tensor2tensor_lstm.py in tests/golden.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from t2t_lite.decoding.beam_search import beam_search
from t2t_lite.models.rnn import Rnn
from t2t_lite.models.rnn_hparams import RnnHParams
from tests import model_checks

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
WRAPPER: dict[str, Any] = {"wiring": "attention_wrapper", "softmax_bias": False}
CASES: dict[str, dict[str, Any]] = {
    "opennmt_rnn/general": {},
    "opennmt_rnn/additive": {"attention_score": "additive"},
    "opennmt_rnn/no_feeding": {"input_feeding": False},
    "fairseq_lstm/luong": {},
    "fairseq_lstm/wiseman": {"num_layers": 1},
    "tensor2tensor_lstm/both_ways": {"encoder": "bi", "attention_score": "additive", **WRAPPER},
    "tensor2tensor_lstm/luong": {"encoder": "reversed", **WRAPPER},
}
SEARCHED = [name for name in CASES if not name.startswith("tensor2tensor")]
EXTRA = 6


@pytest.fixture(scope="module", params=CASES)
def case(request: Any) -> tuple[Rnn, dict[str, np.ndarray]]:
    """Our model with the weights of a case, and what the other implementation computed with them."""
    name, start = request.param.split("/")
    start += "/"
    with np.load(GOLDEN / f"{name}.npz", allow_pickle=False) as file:
        golden = {name.removeprefix(start): file[name] for name in file if name.startswith(start) or "/" not in name}
    weights = {name.removeprefix("weights/"): golden.pop(name) for name in list(golden) if name.startswith("weights/")}
    (sources, units), targets = weights["source_embedding/table"].shape, len(weights["target_embedding/table"])
    changes = {"num_layers": 2, **CASES[request.param]}
    hparams = RnnHParams(d_model=units, dropout=0.0, share_embeddings=False, extra_length=EXTRA, **changes)
    model = Rnn.from_hparams(hparams, sources, targets, False)
    for weight in model.weights:
        weight.assign(weights.pop(weight.path.removeprefix(f"{model.name}/")))
    assert not weights
    return model, golden


@pytest.mark.commit
def test_logits_and_attention_are_those_of_the_other(case: tuple[Rnn, dict[str, np.ndarray]]) -> None:
    model, golden = case
    batch = {side: golden[side] for side in ("source", "target")}
    there = golden["target"] > 0
    assert there.sum() >= 12
    np.testing.assert_allclose(np.asarray(model(batch))[there], golden["logits"][there], rtol=0, atol=1e-5)
    if "attention" not in golden:  # tensor2tensor returns none
        return
    maps = np.asarray(model.attention_maps(batch)["memory"])[:, 0, 0]
    np.testing.assert_allclose(maps[there], golden["attention"][there], rtol=0, atol=1e-5)


@pytest.mark.commit("tensor2tensor_lstm/luong")
def test_gradients_are_those_of_the_other(case: tuple[Rnn, dict[str, np.ndarray]]) -> None:
    model_checks.assert_golden_gradients(*case, 2e-5)


@pytest.mark.nightly
@pytest.mark.parametrize("case", SEARCHED, indirect=True)
def test_a_greedy_search_finds_what_that_of_the_other_finds(case: tuple[Rnn, dict[str, np.ndarray]]) -> None:
    model, golden = case
    ids, _ = beam_search(model, golden["source"], beam_size=1, alpha=0.6, extra_length=EXTRA)
    np.testing.assert_array_equal(ids[:, 0], golden["greedy"])
    assert len(np.unique(golden["greedy"])) >= 4
