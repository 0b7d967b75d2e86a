"""A Transformer with restricted self-attention: how far it sees, that it trains, and that beam search works with it."""

import keras
import numpy as np
import pytest

from t2t_lite import config
from t2t_lite.distributed.devices import Devices, make_strategy
from t2t_lite.groups import OptimizerGroup
from t2t_lite.models.transformer import Transformer
from t2t_lite.models.transformer_hparams import TransformerHParams
from t2t_lite.optimizers.adam import Adam
from t2t_lite.training.step import TrainStep
from tests import reference
from tests.searches import search_graph

V = 12
WINDOW = TransformerHParams(num_layers=1, d_model=32, d_ff=64, num_heads=2, attention_window=8, dropout=0.1)


@pytest.fixture(scope="module")
def model() -> Transformer:
    return Transformer.from_hparams(WINDOW, V, V, True)


@pytest.mark.nightly
def test_it_trains_on_packed_rows() -> None:
    keras.utils.set_random_seed(1)
    model = Transformer.from_hparams(config.replace(WINDOW, attention_dropout=0.1), V, V, True)
    optimizer = Adam([w.value for w in model.trainable_weights], 0.9, 0.98, 1e-9)
    parts = model, optimizer, make_strategy(Devices(1)), OptimizerGroup(label_smoothing=0.0)
    step = TrainStep(*parts, accumulate=1, seed=1, jit=False, packed=True)
    # Rows of two pairs of 11 symbols; a target is its source with each symbol replaced by the next.
    source = np.random.default_rng(1).integers(2, V - 1, (8, 22), "int32")
    source[..., 10::11] = 1
    batch = {"source": source, "target": np.where(source > 1, source + 1, 1).astype("int32")}
    at = np.broadcast_to(np.arange(22, dtype="int32"), source.shape)
    for side in ("source", "target"):
        batch |= {f"{side}_segment": at // 11 + 1, f"{side}_position": at % 11}
    losses = []
    for number in range(1, 61):
        step(batch, number, 5e-3)
        losses.append(step.outcome().loss)
    assert losses[0] > 2.2
    assert np.mean(losses[-5:]) < 1.7  # a model that ignores the source gets 2.2, the entropy of the symbols


@pytest.mark.nightly
def test_greedy_search_follows_the_whole_decoder(model: Transformer) -> None:
    reference.randomise(model, 3, 2.0)
    source = np.random.default_rng(5).integers(2, V, (3, 9), "int32")
    found = search_graph(model, 1, alpha=0.0, extra=16)(source)[0].numpy()[:, 0]
    assert found.shape[1] > 20  # longer than the first block of the caches, and than the window
    logits = np.asarray(model({"source": source, "target": found}))[..., 1:]  # padding is no output
    going_on = np.cumsum(np.pad(found == 1, ((0, 0), (1, 0))), axis=1)[:, :-1] == 0
    np.testing.assert_array_equal(np.where(going_on, 1 + logits.argmax(-1), 0), found)
