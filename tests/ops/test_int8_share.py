"""How much of a model becomes int8, and what is refused; runs on any processor, with int8 products or without."""

import keras
import numpy as np
import pytest

from t2t_lite.errors import DataError, UsageError
from t2t_lite.ops.int8 import quantize
from tests.families import VARIANTS, build

POSITIONS = [f"convs2s/{side}_embedding/positions" for side in ("source", "target")]


@pytest.mark.parametrize(
    ("name", "left"),
    [
        *((name, []) for name in ("transformer/post", "bytenet/paper", "rnn/general", "rnn/gnmt_v2_not_fed")),
        ("convs2s/sizes", POSITIONS),
        ("rnn/vinyals", ["rnn/decoder/attention/vector"]),
    ],
)
def test_the_share_of_int8_is_logged(name: str, left: list[str], caplog: pytest.LogCaptureFixture) -> None:
    model = build(name.partition("/")[0], VARIANTS[name])
    matrices = [weight for weight in model.weights if len(weight.shape) > 1 and not weight.path.endswith("positions")]
    exact = sum(weight.value.shape.num_elements() for weight in matrices if weight.path in left)
    share = 1 - exact / sum(weight.value.shape.num_elements() for weight in matrices)
    with caplog.at_level("INFO", "t2t_lite"):
        quantize(model)
    assert caplog.messages == [
        f"int8: {100 * share:.1f}% of the numbers in the matrices of the model; all else is float32."
    ]
    assert [weight.path for weight in model.weights if len(weight.shape) > 1] == left


def test_a_model_of_other_layers_is_refused() -> None:
    with pytest.raises(
        UsageError, match="Sequential: 0% of what it multiplies with is in layers that int8 weights are made"
    ):
        quantize(keras.Sequential([keras.Input([2]), keras.layers.Dense(3)]))


def test_weights_that_are_not_finite_are_not_rounded_to_something() -> None:
    model = build("transformer", VARIANTS["transformer/post"])
    table = model.softmax.table.numpy()
    table[3, 4] = np.nan
    model.softmax.table.assign(table)
    with pytest.raises(DataError, match="transformer/target_embedding/table has numbers that are not finite"):
        quantize(model)
