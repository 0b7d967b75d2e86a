"""How much of a model becomes int8, and what is refused; runs on any processor, with int8 products or without."""

from typing import Any

import keras
import numpy as np
import pytest

from t2t_lite.errors import DataError, UsageError
from t2t_lite.models.bytenet import ByteNet
from t2t_lite.models.bytenet_hparams import ByteNetHParams
from t2t_lite.models.convs2s import ConvS2S
from t2t_lite.models.convs2s_hparams import ConvS2SHParams
from t2t_lite.models.rnn import Rnn
from t2t_lite.models.rnn_hparams import RnnHParams
from t2t_lite.models.transformer import Transformer
from t2t_lite.models.transformer_hparams import TransformerHParams
from t2t_lite.ops.int8 import quantize

V = 30
TRANSFORMER = TransformerHParams(num_layers=2, d_model=16, d_ff=48, num_heads=2)
CONVS2S = ConvS2SHParams(encoder_layers="2x16x3", decoder_layers="16x3+12x1", d_model=16, d_out=16)


def _rnn(**changes: Any) -> RnnHParams:
    return RnnHParams(num_layers=3, d_model=16, **changes)


@pytest.mark.parametrize(
    ("model_class", "hparams", "share", "left"),
    [
        (Transformer, TRANSFORMER, "100.0%", []),
        (ConvS2S, CONVS2S, "100.0%", [f"convs2s/{side}_embedding/positions" for side in ("source", "target")]),
        (ByteNet, ByteNetHParams(num_layers=1, d_model=16), "100.0%", []),
        (Rnn, _rnn(), "100.0%", []),
        (Rnn, _rnn(attention_score="additive"), "99.9%", ["rnn/decoder/attention/vector"]),
        (Rnn, _rnn(encoder="gnmt", wiring="gnmt"), "100.0%", []),
        (Rnn, _rnn(encoder="reversed", wiring="vinyals", share_embeddings=False), "100.0%", []),
    ],
    ids=["transformer", "convs2s", "bytenet", "rnn", "rnn_additive", "gnmt", "vinyals"],
)
def test_the_share_of_int8_is_said(
    model_class: Any, hparams: Any, share: str, left: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    model = model_class.from_hparams(hparams, V, V, True)
    with caplog.at_level("INFO", "t2t_lite"):
        quantize(model)
    assert caplog.messages == [f"int8: {share} of the numbers in the matrices of the model; all else is float32."]
    assert [weight.path for weight in model.weights if len(weight.shape) > 1] == left


def test_a_model_of_other_layers_is_refused() -> None:
    with pytest.raises(
        UsageError, match="Sequential: 0% of what it multiplies with is in layers that int8 weights are made"
    ):
        quantize(keras.Sequential([keras.Input([2]), keras.layers.Dense(3)]))


def test_weights_that_are_not_finite_are_not_rounded_to_something() -> None:
    model = Transformer.from_hparams(TRANSFORMER, V, V, True)
    table = model.softmax.table.numpy()
    table[3, 4] = np.nan
    model.softmax.table.assign(table)
    with pytest.raises(DataError, match="transformer/target_embedding/table has numbers that are not finite"):
        quantize(model)
