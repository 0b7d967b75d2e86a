"""Table 1's last two columns, measured: sequential operations and the length of paths between positions.

Sequential operations are the longest chain of products in an encoder's graph in which each product needs the one
before it. Two positions are connected if the gradient of one's output with respect to the other's embedding is not
zero. docs/paper.md has the table.
"""

import functools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from t2t_lite.models.bytenet import ByteNet
from t2t_lite.models.bytenet_hparams import ByteNetHParams
from t2t_lite.models.convs2s import ConvS2S
from t2t_lite.models.convs2s_hparams import ConvS2SHParams
from t2t_lite.models.rnn import Rnn
from t2t_lite.models.rnn_hparams import RnnHParams
from t2t_lite.models.transformer import Transformer
from t2t_lite.models.transformer_hparams import TransformerHParams
from tests import reference

PRODUCTS = ("MatMul", "BatchMatMulV2", "Einsum", "Conv2D")
CALLS = ("PartitionedCall", "StatefulPartitionedCall")
LOOPS = ("While", "StatelessWhile")


def _transformer(vocab_size: int, num_layers: int, window: int = 0) -> Any:
    hparams = TransformerHParams(num_layers=num_layers, d_model=16, d_ff=24, num_heads=2, attention_window=window)
    return Transformer.from_hparams(hparams, vocab_size, vocab_size, True)


def _rnn(vocab_size: int, encoder: str = "uni") -> Any:
    return Rnn.from_hparams(RnnHParams(num_layers=1, d_model=8, encoder=encoder), vocab_size, vocab_size, True)  # type: ignore[arg-type]


def _convs2s(vocab_size: int, layers: str) -> Any:
    hparams = ConvS2SHParams(encoder_layers=layers, decoder_layers="1x8x3", d_model=8, d_out=8, max_positions=200)
    return ConvS2S.from_hparams(hparams, vocab_size, vocab_size, True)


def _bytenet(vocab_size: int, num_layers: int, dilations: int, size: int = 8) -> Any:
    hparams = ByteNetHParams(num_layers=num_layers, d_model=size, dilations=dilations, unfold_factor=1)
    return ByteNet.from_hparams(hparams, vocab_size, vocab_size, True)


def _chain(graph: Any, rounds: int, inputs: Mapping[str, int] | None = None) -> dict[str, int]:
    """Number of products on the longest chain that ends in each tensor of a graph; loops make `rounds` rounds."""
    depth = dict(inputs or {})
    for operation in graph.get_operations():
        given = [depth.get(tensor.name, 0) for tensor in operation.inputs]
        if operation.type in (*LOOPS, *CALLS):
            name = operation.get_attr("body" if operation.type in LOOPS else "f").name
            inner = graph._get_function(name).graph
            for _ in range(rounds if operation.type in LOOPS else 1):
                within = _chain(inner, rounds, {t.name: d for t, d in zip(inner.inputs, given, strict=True)})
                given = [within.get(tensor.name, 0) for tensor in inner.outputs]
            depth |= {tensor.name: d for tensor, d in zip(operation.outputs, given, strict=True)}
        elif operation.outputs and not (inputs and operation.type == "Placeholder"):
            longest = max(given, default=0) + (operation.type in PRODUCTS)
            depth |= {tensor.name: longest for tensor in operation.outputs}
    return depth


def _sequential_operations(model: Any, length: int) -> int:
    encode = tf.function(lambda ids: model.encode({"source": ids}), autograph=False)
    graph = encode.get_concrete_function(tf.TensorSpec([1, length], tf.int32)).graph
    depth = _chain(graph, length)
    return max(depth.get(tensor.name, 0) for tensor in graph.outputs)


@pytest.mark.commit
@pytest.mark.parametrize(
    ("make", "number"),
    [
        (
            functools.partial(_transformer, 20, 1),
            6,
        ),  # queries, scores, sums of values, output; two of the feed-forward network
        (functools.partial(_transformer, 20, 2), 12),
        (functools.partial(_transformer, 20, 1, window=4), 6),
        (
            functools.partial(_convs2s, 20, "3x8x3"),
            5,
        ),  # a product for each of three layers, and the projections before and after them
        (
            functools.partial(_bytenet, 20, 3, 2),
            9,
        ),  # in each of three blocks the wide convolution is between products of single positions
    ],
    ids=["one_layer", "two_layers", "restricted", "convolutions", "dilated"],
)
def test_all_but_recurrent_layers_have_as_many_sequential_operations_at_any_length(
    make: Callable[[], Any], number: int
) -> None:
    model = make()
    assert [_sequential_operations(model, n) for n in (8, 16, 64)] == [number] * 3


@pytest.mark.nightly
def test_a_recurrent_layer_has_one_more_for_each_position() -> None:
    assert [_sequential_operations(_rnn(20), n) for n in (8, 16, 64)] == [8, 16, 64]


def _reached(model: Any, length: int, position: int) -> list[int]:
    """The positions whose embedding changes the encoder's output at `position`."""
    reference.randomise(model, 5)
    table = next(w for w in model.weights if w.path.endswith("embedding/table"))
    ids = np.arange(2, 2 + length, dtype="int32")[None]
    with tf.GradientTape() as tape:
        encoded = tf.nest.flatten(model.encode({"source": ids}))
        outputs = [x for x in encoded if len(x.shape) == 3 and x.shape[1] == length]  # without the masks
        total = sum(tf.reduce_sum(x[:, position] ** 2) for x in outputs)
    assert outputs
    gradient = np.asarray(tf.convert_to_tensor(tape.gradient(total, table.value)))[2 : 2 + length]
    return np.flatnonzero(np.abs(gradient).max(-1)).tolist()


@pytest.mark.commit
def test_one_layer_of_self_attention_connects_all_positions() -> None:
    assert _reached(_transformer(60, 1), 50, 25) == list(range(50))


@pytest.mark.nightly
@pytest.mark.parametrize("num_layers", [1, 8])
def test_restricted_self_attention_reaches_half_of_r_to_each_side_with_each_layer(num_layers: int) -> None:
    """So a path between positions 24 apart has 8 layers of r = 6: Table 1's O(n / r)."""
    reached = _reached(_transformer(60, num_layers, window=6), 50, 25)
    assert reached == list(range(25 - 3 * num_layers, 25 + 3 * num_layers + 1))


@pytest.mark.commit
def test_convolutions_of_convs2s_ende_reach_13_positions_to_each_side() -> None:
    """13 of its 15 layers have width 3, the others 1: a field of 27."""
    assert _reached(_convs2s(60, "9x8x3+4x8x3+2x8x1"), 50, 25) == list(range(12, 39))


def test_dilated_convolutions_reach_the_sum_of_their_dilations_to_each_side() -> None:
    """Dilations 1, 2, 4, 1, 2 reach 10."""
    assert _reached(_bytenet(60, 5, 3), 50, 25) == list(range(15, 36))


@pytest.mark.nightly
def test_the_30_blocks_of_bytenet_have_a_field_of_373() -> None:
    """They reach 6 (1 + 2 + 4 + 8 + 16) = 186 positions to each side. With d of 16 a ReLU seldom stops all channels."""
    assert _reached(_bytenet(402, 30, 5, size=16), 400, 200) == list(range(14, 387))


@pytest.mark.commit
def test_a_recurrent_layer_reaches_all_that_was_read_before() -> None:
    assert _reached(_rnn(60), 50, 25) == list(range(26))
    assert _reached(_rnn(60, "bi"), 50, 25) == list(range(50))
