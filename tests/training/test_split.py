"""Split of rows over devices and accumulation steps against cutting by hand; how many steps, against the memory."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from t2t_lite import config
from t2t_lite.models.transformer_moe import TransformerMoe
from t2t_lite.models.transformer_moe_hparams import TransformerMoeHParams
from t2t_lite.training import split as module
from t2t_lite.training.split import Split, choose_accumulate, largest_part


@pytest.mark.parametrize(
    ("devices", "accumulate", "rows", "wanted"),
    [
        (1, 1, 7, [7]),
        (2, 1, 7, [4, 3]),
        (3, 2, 7, [2, 2, 2, 1, 0, 0]),
        (5, 1, 3, [1, 1, 1, 0, 0]),
        (1, 3, 9, [3, 3, 3]),
    ],
)
def test_parts_are_consecutive_rows_with_empty_ones_at_the_end(
    devices: int, accumulate: int, rows: int, wanted: list[int]
) -> None:
    split = Split(devices, accumulate)
    ids = np.arange(1, rows + 1, dtype=np.int32)[:, None] * np.ones(4, np.int32)
    cut = split.cut({"target": ids})["target"]
    assert cut.shape == (devices, accumulate, split.part_rows(rows), 4)
    parts = cut.swapaxes(0, 1).reshape(split.parts, -1, 4)  # part p is of device p mod R
    assert [int((part[:, 0] > 0).sum()) for part in parts] == wanted
    np.testing.assert_array_equal(parts.reshape(-1, 4)[:rows], ids)


@pytest.mark.parametrize(
    ("devices", "accumulate", "groups", "part_groups", "busy"),
    [
        (1, 1, 8, 8, 1),
        (2, 1, 8, 4, 2),
        (3, 1, 8, 3, 3),
        (5, 1, 8, 2, 4),
        (7, 1, 8, 2, 4),
        (3, 2, 8, 2, 3),
        (5, 2, 8, 1, 5),
        (9, 1, 8, 1, 8),
    ],
)
def test_a_part_has_whole_groups(devices: int, accumulate: int, groups: int, part_groups: int, busy: int) -> None:
    split = Split(devices, accumulate, groups)
    assert split.part_groups == part_groups
    assert split.part_rows(30) == part_groups * 4  # groups of 4 rows, the last one of 2
    warning = split.warning()
    assert (warning is None) == (busy == devices)
    if warning:
        assert warning.startswith(f"warning: {busy} of {devices} devices have work. ")


def test_parts_of_one_row_or_group_are_the_finest() -> None:
    assert Split(2, 3).is_finest(6)
    assert not Split(2, 3).is_finest(7)
    assert Split(1, 8, balance_groups=8).is_finest(100)
    assert not Split(1, 4, balance_groups=8).is_finest(100)


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
    found = choose_accumulate(model, model.hparams, SHAPES, devices)

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
        assert choose_accumulate(model, model.hparams, SHAPES[:1], 1) == wanted
