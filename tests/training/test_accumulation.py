"""The number of parts that a batch is computed in, against the memory that its estimate gives them."""

from collections.abc import Callable
from typing import Any

import pytest

from t2t_lite import config
from t2t_lite.models.transformer_moe import TransformerMoe
from t2t_lite.models.transformer_moe_hparams import TransformerMoeHParams
from t2t_lite.training import split as module
from t2t_lite.training.split import Split, choose_accumulate, largest_part

SHAPES = [(100, 7, 9), (31, 30, 20), (3, 200, 210)]


@pytest.fixture(scope="module", params=[0, 4])
def model(request: pytest.FixtureRequest, make_model: Callable[..., Any]) -> Any:
    """A model whose losses are of single rows, and one whose are also of 4 groups of rows."""
    if not request.param:
        return make_model()
    sizes: dict[str, int] = {"num_layers": 2, "d_model": 8, "d_ff": 8, "num_heads": 2, "num_experts": 4}
    hparams = config.replace(TransformerMoeHParams(**sizes), balance_groups=request.param)
    return TransformerMoe.from_hparams(hparams, 20, 20, True)


@pytest.mark.commit
@pytest.mark.parametrize("devices", [1, 3, 8])
@pytest.mark.parametrize("share", [2.0, 0.9, 0.3, 0.02])
def test_it_is_the_least_that_fits(model: Any, monkeypatch: pytest.MonkeyPatch, devices: int, share: float) -> None:
    groups = model.balance_groups
    room = share * largest_part(model.cost, SHAPES, Split(1, 1), 4)
    monkeypatch.setattr(module, "_ON_CPU", room)
    monkeypatch.setattr(module, "on_gpus", lambda: False)
    found = choose_accumulate(model, SHAPES, devices)

    def fits(accumulate: int) -> bool:
        split = Split(devices, accumulate, groups)
        return all(split.is_finest(shape[0]) or largest_part(model.cost, [shape], split, 4) <= room for shape in SHAPES)

    assert found == next(number for number in range(1, 1000) if fits(number))


def test_a_gpu_also_holds_the_weights(make_model: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    model = make_model()
    largest = largest_part(model.cost, SHAPES[:1], Split(1, 1), 4)
    weights = 4 * sum(int(weight.numpy().size) for weight in model.weights)
    monkeypatch.setattr(module, "on_gpus", lambda: True)
    for memory, wanted in ((1.25 * (largest + 5 * weights) + 8, 1), (1.25 * (largest / 2 + 5 * weights) + 8, 2)):
        monkeypatch.setattr(module, "memory_there", lambda memory=memory: (memory, "a GPU's"))
        assert choose_accumulate(model, SHAPES[:1], 1) == wanted
