"""Exports in bfloat16 and float16 of models whose layers use some weights in float32."""

from typing import Any, ClassVar

import keras
import numpy as np
import pytest
import tensorflow as tf

from t2t_lite import config, registry
from t2t_lite.decoding.score import score
from t2t_lite.decoding.translate import Translator
from t2t_lite.export.saved_model import ServedModel
from t2t_lite.ops.stored import stored_weights
from t2t_lite.runs.run_dir import make_model
from tests import reference
from tests.export.conftest import Exported

pytestmark = pytest.mark.commit

SIZES = {  # by the hparams set
    "convs2s_tiny": "encoder_layers=2x16x3,decoder_layers=16x3,d_model=16,d_out=16",
    "moe_tiny": "d_model=16,cells=16,d_ff=16",
    "rnn_tiny": "num_layers=2,d_model=16,encoder=gnmt,wiring=gnmt,attention_score=normed_additive",
    "tiny": "num_layers=1,d_model=16,d_ff=16,num_heads=2,positions=learned,start_vector=true",
    "transformer_moe_tiny": "num_layers=2,d_model=16,d_ff=16,num_heads=2",
}


@pytest.mark.commit("bfloat16-convs2s_tiny", "bfloat16-tiny")
@pytest.mark.parametrize("name", SIZES)
@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_the_scores_are_the_runs(exported: Exported, precision: str, name: str) -> None:
    hparams = config.override(registry.hparams(name), f"{SIZES[name]},precision={precision}")
    source, target = exported.served.vocabularies
    model: Any = make_model(registry.model_of(name), hparams, source.size, target.size, False)
    reference.randomise(model, 1)
    translator = Translator(model, source, target, hparams)
    served = ServedModel(translator, ("serving_default", "score"))
    lines = exported.lines
    answer = served.signatures["score"](tf.constant(lines), tf.constant(lines[::-1]))
    wanted = [pair.log_prob for pair in score(translator, lines, lines[::-1])]
    np.testing.assert_allclose(answer["log_probs"].numpy(), wanted, rtol=1e-6)


class _Own(keras.Model):
    """A user's model, some of whose matrices are used in float32."""

    FLOAT32: ClassVar = ("table",)

    def __init__(self) -> None:
        super().__init__(name="own", dtype="mixed_bfloat16")
        self.table = self.add_weight(name="table", shape=(3, 2))
        self.rounded = self.add_weight(name="rounded", shape=(3, 2))
        self.embedding = keras.layers.Embedding(3, 2, dtype="float32", name="embedding")
        self.dense = keras.layers.Dense(4, dtype="mixed_bfloat16", name="dense")
        self.embedding.build((None,))
        self.dense.build((None, 2))


def test_matrices_that_a_users_model_uses_in_float32_are_not_rounded() -> None:
    assert {path: weight.dtype for path, weight in stored_weights(_Own()).items()} == {
        "own/table": tf.float32,
        "own/rounded": tf.bfloat16,
        "embedding/embeddings": tf.float32,
        "dense/kernel": tf.bfloat16,
        "dense/bias": tf.float32,
    }
