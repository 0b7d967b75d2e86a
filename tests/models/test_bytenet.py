"""ByteNet against NumPy; test_contract.py asks what every model must do."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from t2t_lite import config, registry
from t2t_lite.errors import UsageError
from t2t_lite.models.bytenet import ByteNet
from t2t_lite.models.bytenet_hparams import ByteNetHParams
from tests import bytenet_reference, reference
from tests.families import SOURCE, V, build, variants
from tests.families import TINY as ALL

pytestmark = pytest.mark.commit

TINY = ALL["bytenet"]

TARGET = np.array([[4, 8, 1, 0, 0, 0, 0], [6, 5, 4, 3, 12, 9, 1], [2, 7, 7, 1, 0, 0, 0]], "int32")
BATCH = {"source": SOURCE, "target": TARGET}


def _plain(model: ByteNet, hparams: ByteNetHParams) -> bytenet_reference.ByteNet:
    sizes = (hparams.num_layers, hparams.kernel_width, hparams.dilations)
    unfolding = (str(hparams.unfold_factor), hparams.unfold_extra)
    return bytenet_reference.ByteNet(reference.weights_of(model), *sizes, *unfolding, hparams.wiring == "tensor2tensor")


@pytest.fixture(scope="module", params=variants("bytenet"))
def hparams(request: Any) -> ByteNetHParams:
    return variants("bytenet")[request.param]


@pytest.fixture(scope="module")
def model(hparams: ByteNetHParams) -> ByteNet:
    return build("bytenet", hparams)


def _pairs() -> list[tuple[int, np.ndarray, np.ndarray]]:
    return [(i, s[s > 0], t[t > 0]) for i, (s, t) in enumerate(zip(SOURCE, TARGET, strict=True))]


def test_logits_equal_the_equations(model: ByteNet, hparams: ByteNetHParams) -> None:
    logits = np.asarray(model(BATCH))
    assert logits.dtype == np.float32
    for i, source, target in _pairs():
        reference.assert_close(logits[i, : len(target)], _plain(model, hparams)(source, target), 1e-5)


def test_two_vocabularies() -> None:
    model = build("bytenet", TINY, (31, V))
    wanted = _plain(model, TINY)(np.array([30, 25, 1]), np.array([4, 1]))
    got = model({"source": np.array([[30, 25, 1]]), "target": np.array([[4, 1]])})
    reference.assert_close(np.asarray(got)[0], wanted, 1e-5)


def test_columns_end_with_those_of_a_sentence() -> None:
    """n symbols have 1.2 n columns, rounded up, in any batch; 5 have 6, not 7 through a rounding error."""
    model = build("bytenet", TINY)
    columns = np.asarray(model.encode({"source": np.pad(SOURCE, ((0, 0), (0, 5)))}))
    assert columns.shape == (3, 12, 12)
    assert [int(np.abs(row).max(-1).nonzero()[0].max()) + 1 for row in columns] == [6, 4, 3]
    lengths = np.arange(1, 2000)
    assert model.unfolding.columns(lengths).tolist() == [-(-6 * n // 5) for n in lengths.tolist()]


def test_a_decoder_position_reads_the_column_at_it() -> None:
    """With convolutions of width 1, a symbol of the source changes only the logits at its own position."""
    model = build("bytenet", config.replace(TINY, kernel_width=1))
    changed = SOURCE.copy()
    changed[0, 2] = 14
    logits, other = (np.asarray(model({"source": source, "target": TARGET})) for source in (SOURCE, changed))
    assert np.flatnonzero(np.abs(logits[0] - other[0]).max(-1)).tolist() == [2]


def test_empty_rows_of_a_batch_cost_nothing() -> None:
    cost = build("bytenet", config.replace(TINY, unfold_extra=3)).cost
    assert cost.forward_flops([2, 0, 0], [2, 0, 0]) == cost.forward_flops([2], [2]) > cost.forward_flops([], []) == 0


def _body(hparams: ByteNetHParams) -> int:
    """Number of parameters without the three tables: the blocks, and the layers that join and end them."""
    d, n, k = hparams.d_model, hparams.num_layers, hparams.kernel_width
    if hparams.wiring == "paper":
        return 2 * n * ((4 + k) * d**2 + 12 * d) + 2 * 4 * d  # and a norm of 2 d at the end of each side
    block = 2 * d + hparams.dilations * (k * d**2 + 2 * d)
    return 2 * n * block + k * 2 * d * d + 2 * d


def test_the_number_of_parameters_is_the_formulas(hparams: ByteNetHParams, model: ByteNet) -> None:
    assert model.count_params() == _body(hparams) + 3 * V * model.encoder.channels
    assert 0.5 * model.count_params() < hparams.parameters(V) <= model.count_params()


@pytest.mark.commit("t2t_bytenet-60225024-62529024")
@pytest.mark.parametrize(
    ("name", "body", "whole"),
    [
        ("bytenet", 60 * 4_489_600 + 2 * 4 * 800, 274_182_400),  # 7 d^2 + 12 d a block; 1,000 symbols
        ("t2t_bytenet", 60_225_024, 62_529_024),  # what tensor2tensor 1.15.7 reports for 1,000 symbols
    ],
)
def test_recipes_have_the_published_numbers_of_parameters(name: str, body: int, whole: int) -> None:
    hparams = registry.hparams(name)
    assert isinstance(hparams, ByteNetHParams)
    assert _body(hparams) == body
    with tf.Graph().as_default():  # in a graph, weights are only shapes
        model = ByteNet.from_hparams(hparams, 1000, 1000, True)
    assert model.count_params() == body + 3 * 1000 * model.encoder.channels == whole


def test_sizes_that_cannot_be_are_refused() -> None:
    with pytest.raises(UsageError, match="unfold_factor=1.2345 has more than three digits .* Give 1.23"):
        config.override(TINY, "unfold_factor=1.2345")
    with pytest.raises(
        UsageError, match="kernel_width=3, dilations=20 give a convolution over 1,048,577 positions; at"
    ):
        config.override(TINY, "dilations=20")
    with pytest.raises(UsageError, match="unfold_factor=0.5 must be from 1 to"):
        config.override(TINY, "unfold_factor=0.5")
