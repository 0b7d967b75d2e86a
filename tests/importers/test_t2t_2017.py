"""Models of tensor2tensor 1.2.9, whose attention has biases; tests/golden/tensor2tensor_2017.py made the numbers."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from t2t_lite.errors import DataError
from t2t_lite.importers import t2t_model, t2t_slots, tensor2tensor
from tests.importers.made_up import save

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "tensor2tensor_2017.npz"
SPACE = 8
ATTENTION = "body/encoder/layer_1/self_attention/multihead_attention"


def _golden(name: str) -> tuple[dict[str, np.ndarray], dict[str, Any], dict[str, Any]]:
    """Returns the ids and logits, the variables, and the hparams."""
    with np.load(GOLDEN, allow_pickle=False) as file:
        golden = {path.partition("/")[2]: file[path] for path in file if path.startswith(f"{name}/")}
    arrays, at = {}, 0
    for path, shape in json.loads(str(golden["shapes"])):
        arrays[path] = golden["values"][at : at + math.prod(shape)].reshape(shape)
        at += math.prod(shape)
    return golden, arrays, json.loads(str(golden["hparams"]))


@pytest.mark.commit
@pytest.mark.parametrize("name", ["post", "pre"])
def test_logits_are_those_of_tensor2tensor(tmp_path: Path, name: str) -> None:
    golden, arrays, hparams = _golden(name)
    assert np.abs(arrays[f"{ATTENTION}/qkv_transform_single/bias"]).min() > 0
    imported = tensor2tensor.read([save(tmp_path / "model.ckpt-60", arrays, hparams)], target_space_id=SPACE)
    described = imported.description
    assert (described.norm, described.attention_biases, described.num_heads) == (name, True, 2)
    model = t2t_model.build(imported)
    logits = np.array(model({side: golden[side] for side in ("source", "target")}))
    assert np.abs(logits - golden["logits"])[golden["target"] != 0].max() <= 1e-5
    output = "transformer/encoder/layer_1/around_attention/self_attention/output_bias"
    assert np.abs(imported.weights[output] - arrays[f"{ATTENTION}/output_transform_single/bias"]).max() > 1e-3


def test_what_cannot_be_taken_over(tmp_path: Path) -> None:
    _, arrays, hparams = _golden("post")
    slots = {f"training/{name}/{end}": array for name, array in arrays.items() for end in ("Adam", "Adam_1")}
    imported = tensor2tensor.read(
        [save(tmp_path / "a" / "model.ckpt-60", arrays | slots, hparams)], target_space_id=SPACE
    )
    with pytest.raises(DataError, match="attention has more biases than ours. The weights alone can"):
        t2t_slots.read(imported)
    for name, change in (
        (f"{ATTENTION}/qkv_transform_single/bias", None),
        (f"{ATTENTION}/output_transform_single/bias", 3),
    ):
        broken = {path: array for path, array in arrays.items() if path != name}
        if change is not None:
            broken[name] = np.zeros(change, np.float32)
        with pytest.raises(
            DataError, match="not complete: it has .*layer_1|contradicts itself: the widths of .*layer_1"
        ):
            tensor2tensor.read([save(tmp_path / str(change) / "model.ckpt-60", broken, hparams)])
