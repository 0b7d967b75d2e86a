"""The numbers of parameters of the LSTM encoder-decoders: formulas against published numbers."""

from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import tensorflow as tf

from t2t_lite import config, registry
from t2t_lite.models.rnn import Rnn
from t2t_lite.models.rnn_encoder import RnnEncoder
from t2t_lite.models.rnn_hparams import RnnHParams
from tests.families import V, variants

GOLDEN = Path(__file__).resolve().parents[1] / "golden"


def _lstm(inputs: int, units: int, biases: int = 1) -> int:
    return 4 * units * (inputs + units + biases)


def _count(hparams: RnnHParams, vocabulary: int, tables: int, biases: int = 1) -> int:
    """Number of parameters with `tables` tables of `vocabulary` rows; torch has 2 biases for each gate."""
    d, n, b = hparams.d_model, hparams.num_layers, biases
    u = 2 * d if hparams.encoder == "bi" else d
    one = _lstm(d, d, b)
    encoder = {"bi": 2 * n * one, "gnmt": n * one + _lstm(2 * d, d, b)}.get(hparams.encoder, n * one)
    gnmt = hparams.wiring in ("gnmt", "gnmt_v2")
    result = {"vinyals": 2 * u, "gnmt": u, "gnmt_v2": u}.get(hparams.wiring, d)
    decoder = _lstm(d, u, b) + (n - 1) * _lstm(2 * u if gnmt else u, u, b) + hparams.input_feeding * 4 * u * result
    query = {"dot": 0, "general": u * u, "normed_additive": 2 * u * u + u + u + 1}.get(
        hparams.attention_score, 2 * u * u + u
    )
    combined = 2 * u * d if hparams.wiring in ("top", "attention_wrapper") else 0
    softmax = vocabulary * (result - d) * (tables > 1) + vocabulary * hparams.softmax_bias
    return tables * vocabulary * d + softmax + encoder + decoder + query + combined


@pytest.mark.parametrize("name", variants("rnn"))
def test_the_number_of_parameters_is_the_formulas(name: str) -> None:
    hparams = variants("rnn")[name]
    model = Rnn.from_hparams(hparams, V, V, True)
    assert model.count_params() == _count(hparams, V, 1 if hparams.share_embeddings else 3)


def _set(name: str, **changes: Any) -> RnnHParams:
    return cast(RnnHParams, config.replace(registry.hparams(name), **changes))


def _built(hparams: RnnHParams, vocabulary: int) -> Rnn:
    """The real model of a recipe. Its weights are only shapes, as it is built in a graph."""
    with tf.Graph().as_default():
        return Rnn.from_hparams(hparams, vocabulary, vocabulary, True)


def test_luongs_model_has_the_number_of_parameters_of_fairseqs_but_for_a_second_bias() -> None:
    assert _count(_set("luong"), 50_000, 3) == 221_082_000
    assert _count(_set("luong"), 50_000, 3, biases=2) == 221_114_000  # fairseq's lstm_luong_wmt_en_de
    assert _built(_set("luong"), 50_000).count_params() == 221_082_000
    with np.load(GOLDEN / "fairseq_lstm.npz", allow_pickle=False) as file:
        assert int(file["parameters"]) == 221_114_000


@pytest.mark.nightly
def test_gnmts_number_of_parameters_and_products_are_those_published() -> None:
    """MLPerf's model has torch's second bias, no context in the bottom layer, and one table for both sides."""
    mlperf = _set("gnmt_nmt4", input_feeding=False, softmax_bias=True)
    assert _count(mlperf, 32_320, 2, biases=2) == 160_671_297
    assert _built(mlperf, 32_320).count_params() == _count(mlperf, 32_320, 3)
    assert _built(_set("gnmt"), 32_000).count_params() == 280_858_880  # Shazeer et al. (2017): 278M
    assert _built(_set("gnmt", input_feeding=False), 32_000).count_params() == 276_664_576
    encoder = RnnEncoder("gnmt", 8, 1024, 0.0, name="encoder")
    of_encoder = sum(size.products for size in encoder.sizes)
    of_decoder = 8 * 4 * 1024 * 3072
    assert round((of_encoder + of_decoder + 32_000 * 1024 + 1024**2) / 1e6, 1) == 214.2  # the same paper: 214M a step


@pytest.mark.commit
def test_tensor2tensors_lstms_have_its_numbers_of_parameters() -> None:
    """Those of 1,000 symbols: lstm_attention both ways, and lstm_luong_attention."""
    both_ways = _set("t2t_lstm")
    luong = config.replace(both_ways, encoder="reversed", attention_score="general")
    with np.load(GOLDEN / "tensor2tensor_lstm.npz", allow_pickle=False) as file:
        theirs = [int(file[f"{name}/parameters"]) for name in ("both_ways", "luong")]
    assert theirs == [2_157_824, 1_025_024]
    for hparams, count in zip((both_ways, luong), theirs, strict=True):
        assert _built(hparams, 1000).count_params() == count == _count(hparams, 1000, 3)


def test_the_parser_has_more_parameters_than_by_the_sizes_known_of_it() -> None:
    """Counts 90,000 words with vectors of 256, and 128 symbols. 34M are published; neither 256 nor 512 gives that."""
    words = (90_000 - 128) * 256
    assert _count(_set("vinyals"), 128, 3) + words == 26_945_920
