"""The LSTM encoder-decoder against NumPy; test_contract.py asks what every model must do."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from t2t_lite import registry
from t2t_lite.errors import UsageError
from t2t_lite.models.rnn import Rnn
from t2t_lite.models.rnn_decoder import WIRINGS
from t2t_lite.runs.run_dir import make_model
from tests import reference, rnn_reference
from tests.families import BATCH, SOURCE, TARGET, TINY, V, build, variants

UNITS = TINY["rnn"].d_model


@pytest.fixture(scope="module", params=variants("rnn"))
def model(request: Any) -> Rnn:
    return build("rnn", variants("rnn")[request.param])


def _plain(model: Rnn) -> rnn_reference.Rnn:
    [wiring] = [name for name, wiring in WIRINGS.items() if wiring == model.decoder.wiring]
    names = model.encoder.kind, wiring, model.decoder.attention.score
    return rnn_reference.Rnn(reference.weights_of(model), model.encoder.num_layers, UNITS, *names)


def _pairs() -> list[tuple[int, np.ndarray, np.ndarray]]:
    return [(i, s[s > 0], t[t > 0]) for i, (s, t) in enumerate(zip(SOURCE, TARGET, strict=True))]


@pytest.mark.commit
def test_logits_and_weights_equal_the_equations(model: Rnn) -> None:
    logits, maps = np.asarray(model(BATCH)), np.asarray(model.attention_maps(BATCH)["memory"])
    assert logits.dtype == maps.dtype == np.float32
    assert maps.shape == (3, 1, 1, 6, 5)
    plain, late = _plain(model), model.decoder.wiring.late
    for i, source, target in _pairs():
        wanted, shares = plain(source, target)
        if late:
            shares = np.pad(shares[:-1], ((1, 0), (0, 0)))
        reference.assert_close(logits[i, : len(target)], wanted, 1e-5)
        reference.assert_close(maps[i, 0, 0, : len(target), : len(source)], shares, 1e-5)
        assert (maps[i, ..., len(source) :] == 0).all()
    np.testing.assert_allclose(maps[..., int(late) :, :].sum(-1), 1, atol=1e-6)


def test_two_vocabularies() -> None:
    model = build("rnn", TINY["rnn"], (31, V))
    wanted, _ = rnn_reference.Rnn(reference.weights_of(model), 2, UNITS)(np.array([30, 25, 1]), np.array([4, 1]))
    got = model({"source": np.array([[30, 25, 1]]), "target": np.array([[4, 1]])})
    reference.assert_close(np.asarray(got)[0], wanted, 1e-5)


@pytest.mark.commit("vinyals")
@pytest.mark.parametrize("name", ["general", "no_feeding", "gnmt", "gnmt_v2_not_fed", "vinyals"])
def test_the_mean_over_many_dropout_masks_is_near_the_output_without(name: str) -> None:
    """Kept values are scaled up."""
    model, spec = build("rnn", variants("rnn")[name]), tf.TensorSpec([None, None], tf.int32)
    hidden = tf.function(
        lambda source, target, seed: model.hidden({"source": source, "target": target}, seed),
        input_signature=[spec, spec, tf.TensorSpec([3], tf.int32)],
        autograph=False,
    )
    mean = np.mean([hidden(SOURCE, TARGET, np.array([2, n, 0], "int32")) for n in range(150)], 0)
    assert np.abs(mean - model.hidden(BATCH)).mean() < 0.1


def test_it_refuses_a_recipe_of_another_model() -> None:
    with pytest.raises(UsageError, match="The model 'rnn' needs a recipe of the class RnnHParams, not Transformer"):
        make_model("rnn", registry.hparams("tiny"), V, V, True)
