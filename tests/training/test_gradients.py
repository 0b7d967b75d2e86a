"""Gradients of rows that are computed in shards, side by side, against those of the whole."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from t2t_lite import config
from t2t_lite.errors import UsageError
from t2t_lite.layers.dropout import Dropout, fold_in
from t2t_lite.models.bytenet import ByteNet
from t2t_lite.models.bytenet_hparams import ByteNetHParams
from t2t_lite.models.convs2s import ConvS2S
from t2t_lite.models.convs2s_hparams import ConvS2SHParams
from t2t_lite.models.transformer import Transformer
from t2t_lite.ops import batch_shards
from t2t_lite.training.gradients import loss_and_gradients

V, ROWS = 60, 5
SEED = np.array([3, -4, 0], "int32")
DROPPING = {"dropout": 0.2, "attention_dropout": 0.3, "relu_dropout": 0.1}
LENGTHS = {"source": 7, "target": 6}


def _batch(rows: int = ROWS) -> dict[str, np.ndarray]:
    draw = np.random.default_rng(1)
    batch = {side: draw.integers(2, V, (rows, length), "int32") for side, length in LENGTHS.items()}
    batch["source"][1:, 5:] = 0
    batch["target"][2:, 4:] = 0
    return batch


class Computed:
    """Loss and gradients of a model. Each graph is made once; rows and lengths are unknown to it, as in training."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self._graphs: dict[Any, Any] = {}

    def __call__(self, batch: dict[str, np.ndarray], shards: int, jit: bool = False) -> list[np.ndarray]:
        key = (*batch, shards, jit)
        if key not in self._graphs:
            self._graphs[key] = self._graph(batch, shards, jit)
        return [value.numpy() for value in self._graphs[key](batch)]

    def _graph(self, batch: dict[str, np.ndarray], shards: int, jit: bool) -> Any:
        spec = {name: tf.TensorSpec([None, None], tf.int32) for name in batch}

        @tf.function(input_signature=[spec], autograph=False, jit_compile=jit)
        def run(batch: Any) -> Any:
            loss, gradients = loss_and_gradients(
                self.model, batch, SEED, 20.0, (0.1, "all"), groups=0, shards=shards, jit=jit
            )
            return [loss, *gradients]

        return run


@pytest.fixture(scope="module")
def computed(make_model: Callable[..., Any]) -> Computed:
    """Loss and gradients of a model with dropout wherever it is possible."""
    return Computed(make_model(V, **DROPPING))


def _assert_same(got: list[np.ndarray], wanted: list[np.ndarray]) -> None:
    for one, other in zip(got, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=3e-6 * np.abs(other).max())


@pytest.mark.nightly
def test_shards_of_rows_give_what_the_whole_gives(computed: Computed) -> None:
    _assert_same(computed(_batch(), 2), computed(_batch(), 1))


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("shards", "changes"),
    [
        (2, {"norm": "pre", "share_embeddings": False, "positions": "learned", "max_positions": 64, "remat": True}),
        # Rows whose masks do not divide evenly.
        (3, {"attention_window": 4, "num_heads": 1, "d_k": 3, "d_v": 5, "d_ff": 30}),
    ],
    ids=str,
)
def test_so_they_do_in_other_models(make_model: Callable[..., Any], shards: int, changes: dict[str, Any]) -> None:
    computed = Computed(make_model(V, **DROPPING, **changes))
    _assert_same(computed(_batch(), shards), computed(_batch(), 1))


@pytest.mark.parametrize("rows", [0, 1])
def test_shards_may_be_empty(computed: Computed, rows: int) -> None:
    _assert_same(computed(_batch(rows), 2), computed(_batch(rows), 1))


class _Scaled(Transformer):
    """A Transformer whose softmax table is computed from two weights; lookups use one of them, too."""

    def output(self) -> Any:
        table = self.softmax.table
        return table * (2 + self.encoder.blocks[0].feed_forward.bias_2), None


@pytest.fixture(scope="module")
def computed_scaled(small_hparams: Any) -> Computed:
    keras.utils.set_random_seed(1)
    return Computed(_Scaled.from_hparams(config.replace(small_hparams, **DROPPING), V, V, True))


@pytest.fixture(scope="module")
def computed_convolutions() -> Computed:
    """Loss and gradients of a model whose weights are all normalised."""
    keras.utils.set_random_seed(1)
    layers = {"encoder_layers": "8x3+12x3", "decoder_layers": "2x8x3"}
    hparams = ConvS2SHParams(**layers, d_model=8, d_out=8, max_positions=9, dropout=0.2)
    return Computed(ConvS2S.from_hparams(hparams, V, V, True))


@pytest.fixture(scope="module")
def computed_bytenet() -> Computed:
    """Loss and gradients of a model that makes the source longer."""
    keras.utils.set_random_seed(1)
    return Computed(ByteNet.from_hparams(ByteNetHParams(num_layers=1, d_model=4, dropout=0.2), V, V, True))


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["computed_convolutions", "computed_bytenet", "computed_scaled"])
def test_so_they_do_in_a_convolutional_model(name: str, request: pytest.FixtureRequest) -> None:
    computed: Computed = request.getfixturevalue(name)
    _assert_same(computed(_batch(), 2), computed(_batch(), 1))


@pytest.mark.commit("computed")
@pytest.mark.parametrize("name", ["computed", "computed_scaled", "computed_convolutions", "computed_bytenet"])
def test_gradients_are_those_of_plain_differentiation(name: str, request: pytest.FixtureRequest) -> None:
    computed: Computed = request.getfixturevalue(name)
    batch, weights = _batch(), [weight.value for weight in computed.model.trainable_weights]
    with tf.GradientTape() as tape:
        logp = tf.math.log_softmax(computed.model(batch, seed=SEED))
        wanted = 0.9 * tf.one_hot(batch["target"], V) + 0.1 / V
        real = tf.cast(batch["target"] > 0, tf.float32)
        loss = tf.reduce_sum(-tf.reduce_sum(wanted * logp, -1) * real) / 20
    plain = [tf.convert_to_tensor(gradient).numpy() for gradient in tape.gradient(loss, weights)]
    for jit in (False, True):
        _assert_same(computed(batch, 1, jit), [loss.numpy(), *plain])


@pytest.mark.nightly
def test_the_softmax_may_be_frozen(make_model: Callable[..., Any]) -> None:
    model = make_model(V, share_embeddings=False, **DROPPING)
    wanted = Computed(model)(_batch(), 1)
    names = [weight.path for weight in model.trainable_weights]
    model.softmax.trainable = False
    left = [weight.path for weight in model.trainable_weights]
    assert len(left) == len(names) - 1
    kept = [wanted[0], *(gradient for name, gradient in zip(names, wanted[1:], strict=True) if name in left)]
    _assert_same(Computed(model)(_batch(), 2), kept)


@pytest.mark.commit
@pytest.mark.parametrize("shape", [(ROWS, 16), (ROWS, 3, 8), (ROWS, 3, 5), (ROWS, 1)])
@pytest.mark.parametrize("known", [False, True])
def test_a_shard_drops_what_the_whole_drops_of_its_rows(shape: tuple[int, ...], known: bool) -> None:
    layer, ones = Dropout(0.5), np.ones(shape, "float32")
    whole = np.asarray(layer(ones, seed=fold_in(SEED, 3)))
    assert 0 < (whole == 0).mean() < 1
    batch = {"target": np.zeros((ROWS, 2), "int32")}
    shards = list(batch_shards.batch_shards(batch, SEED, 3))
    assert [len(shard["target"]) for shard, _ in shards] == [1, 2, 2]
    start = 0
    for shard, seed in shards:
        rows = ones[start : start + len(shard["target"])]
        spec = tf.TensorSpec(rows.shape if known else [None] * len(shape), tf.float32)
        drop = tf.function(lambda x, seed=seed: layer(x, seed=fold_in(seed, 3)), [spec], autograph=False)
        np.testing.assert_array_equal(drop(rows), whole[start : start + len(rows)])
        start += len(rows)


@pytest.mark.commit
@pytest.mark.parametrize("remat", [False, True])
def test_a_weight_on_which_the_loss_does_not_depend_is_named(make_model: Callable[..., Any], remat: bool) -> None:
    model = make_model(V, remat=remat)
    model._tracker.unlock()
    model.surplus = model.add_weight(name="surplus", shape=(3,))
    with pytest.raises(UsageError, match=r"Transformer: the loss does not depend on \S*surplus\. Use these weights"):
        Computed(model)(_batch(), 1)
