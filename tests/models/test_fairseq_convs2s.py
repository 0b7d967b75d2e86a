"""The convolutional encoder-decoder against fairseq's, with fairseq's weights.

tests/golden/fairseq_convs2s.py wrote the numbers.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from t2t_lite import registry
from t2t_lite.models.convs2s import ConvS2S
from t2t_lite.models.convs2s_hparams import ConvS2SHParams
from tests import model_checks, reference
from tests.searches import search_graph

pytestmark = pytest.mark.commit

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "fairseq_convs2s.npz"
CASES = {
    "one_size": {"encoder_layers": "2x8x3", "decoder_layers": "2x8x3"},
    "sizes": {"encoder_layers": "8x3+12x4+6x1", "decoder_layers": "8x2+12x3+12x1+6x3"},
}
EXTRA = 6
RECIPES = {"convs2s_ende": 42_000, "convs2s_enfr": 44_000, "convs2s_small": 10_000}  # with sizes of vocabularies


@pytest.fixture(scope="module", params=CASES)
def case(request: Any) -> tuple[ConvS2S, dict[str, np.ndarray]]:
    """Our model with fairseq's weights, and what fairseq computed with them."""
    start = f"{request.param}/"
    with np.load(GOLDEN, allow_pickle=False) as file:
        golden = {name.removeprefix(start): file[name] for name in file if name.startswith(start) or "/" not in name}
    weights = {name.removeprefix("weights/"): golden.pop(name) for name in list(golden) if name.startswith("weights/")}
    (sources, d_model), targets = weights["source_embedding/table"].shape, len(weights["target_embedding/table"])
    hparams = ConvS2SHParams(
        **CASES[request.param],
        d_model=d_model,
        d_out=weights["softmax/direction"].shape[1],
        max_positions=len(weights["source_embedding/positions"]),
        dropout=0.0,
    )
    model = ConvS2S.from_hparams(hparams, sources, targets, False)
    for weight in model.weights:
        weight.assign(weights.pop(weight.path.removeprefix(f"{model.name}/")))
    assert not weights
    return model, golden


def test_logits_and_attention_are_those_of_fairseq(case: tuple[ConvS2S, dict[str, np.ndarray]]) -> None:
    model, golden = case
    batch = {side: golden[side] for side in ("source", "target")}
    logits, maps = np.asarray(model(batch)), np.asarray(model.attention_maps(batch)["memory"])[:, :, 0]
    there = golden["target"] > 0
    assert there.sum() == 16
    reference.assert_close(logits[there], golden["logits"][there], 2e-6)
    maps, wanted = (np.moveaxis(values, 1, 2)[there] for values in (maps, golden["attention"]))
    np.testing.assert_allclose(maps, wanted, rtol=0, atol=5e-6)


@pytest.mark.commit("one_size")
def test_gradients_are_those_of_fairseq(case: tuple[ConvS2S, dict[str, np.ndarray]]) -> None:
    model, golden = case
    # sums in float32 that almost cancel; most differ by 6e-6
    model_checks.assert_golden_gradients(model, golden, 5e-5)


@pytest.mark.nightly
def test_a_greedy_search_finds_what_that_of_fairseq_finds(case: tuple[ConvS2S, dict[str, np.ndarray]]) -> None:
    model, golden = case
    ids, _ = search_graph(model, 1, extra=EXTRA)(golden["source"])
    np.testing.assert_array_equal(ids[:, 0], golden["greedy"])
    assert len(np.unique(golden["greedy"])) >= 6


@pytest.mark.nightly
@pytest.mark.parametrize(("name", "at"), [(name, i) for i, name in enumerate(RECIPES)])
def test_recipes_have_as_many_parameters_as_fairseqs(name: str, at: int) -> None:
    hparams, size = registry.hparams(name), RECIPES[name]
    with tf.Graph().as_default():  # in a graph, weights are only shapes
        count = ConvS2S.from_hparams(hparams, size, size, True).count_params()
    with np.load(GOLDEN, allow_pickle=False) as file:
        assert count == file["parameters"][at]
    assert 0.5 * count < hparams.parameters(size) <= count
