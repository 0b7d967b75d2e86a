"""The whole model against NumPy; test_contract.py asks what every model must do."""

import dataclasses
from typing import Any

import keras
import numpy as np
import pytest

from t2t_lite import config
from t2t_lite.errors import UsageError
from t2t_lite.models.transformer import Transformer
from t2t_lite.models.transformer_hparams import TransformerHParams
from tests import reference
from tests.families import OPENNMT, V, variants
from tests.families import TINY as ALL

pytestmark = pytest.mark.commit

TINY = ALL["transformer"]

SOURCE = np.array([[5, 9, 3, 17, 1], [7, 7, 1, 0, 0], [1, 0, 0, 0, 0]], "int32")
TARGET = np.array([[4, 8, 1, 0, 0, 0], [6, 5, 4, 3, 12, 1], [1, 0, 0, 0, 0, 0]], "int32")


def _model(hparams: config.HParams = TINY, source: int = V, target: int = V, shared: bool = True) -> Transformer:
    model = Transformer.from_hparams(hparams, source, target, shared)
    reference.randomise(model, 1)
    return model


@dataclasses.dataclass(frozen=True)
class _Restricted(reference.Transformer):
    """Self-attention sees `window` // 2 positions to each side (section 4); 0: all of them."""

    window: int = 0

    def _attention(self, x: Any, around: str, name: str, memory: Any, allowed: Any) -> Any:
        if memory is None and self.window:
            at = np.arange(x.shape[1])
            allowed = allowed & (abs(at[:, None] - at) <= self.window // 2)
            allowed = allowed | ~allowed.any(-1, keepdims=True)  # padding that sees nothing: any number will do
        return super()._attention(x, around, name, memory, allowed)


def _reference(model: Transformer, hparams: config.HParams) -> reference.Transformer:
    names = ("num_layers", "num_heads", "norm", "num_decoder_layers", "positions", "norm_epsilon", "activation")
    sizes = {name: getattr(hparams, name) for name in names}
    more = {"window": hparams.attention_window, "score": hparams.attention_score}
    return _Restricted(reference.weights_of(model), **sizes, **more)


@pytest.fixture(scope="module", params=variants("transformer"))
def model(request: Any) -> Transformer:
    return _model(variants("transformer")[request.param])


def _logits(model: Transformer, source: np.ndarray, target: np.ndarray, **more: np.ndarray) -> np.ndarray:
    return np.asarray(model({"source": source, "target": target, **more}))


VARIANTS: dict[str, tuple[dict[str, Any], int, bool]] = {
    "post": ({}, V, True),
    "pre": ({"norm": "pre"}, V, True),
    "two_vocabularies_of_one_table": ({"num_layers": 1, "share_between_vocabularies": True}, V, False),
    "learned_unshared": ({"num_layers": 1, "positions": "learned", "share_embeddings": False}, V, True),
    "two_vocabularies": ({"num_layers": 1}, 31, False),
    "two_vocabularies_unshared_pre": ({"num_layers": 1, "share_embeddings": False, "norm": "pre"}, 31, False),
    "window": ({"num_layers": 1, "attention_window": 3}, V, True),
    "d_k_and_d_v": ({"num_layers": 1, "num_heads": 3, "d_k": 5, "d_v": 7}, V, True),
    "tensor2tensor": (
        {"norm": "pre", "positions": "tensor2tensor", "source_vector": True, "num_decoder_layers": 1},
        *(V, True),
    ),
    "deeper_decoder": ({"num_layers": 1, "num_decoder_layers": 3, "positions": "none"}, V, True),
    "relative": ({"max_relative_position": 2, "d_k": 5, "d_v": 7, "positions": "none"}, V, True),
    "relative_and_sinusoids": ({"num_layers": 1, "max_relative_position": 1}, V, True),
    "rotary": ({"positions": "rotary", "attention_biases": True, "attention_window": 5}, V, True),
    "deep": ({"num_layers": 3, "norm": "deep", "num_decoder_layers": 1}, V, True),
    "dot": ({"num_layers": 1, "attention_score": "dot", "attention_window": 3}, V, True),
    "additive": ({"num_layers": 1, "attention_score": "additive", "d_k": 5, "d_v": 7}, V, True),
    "opennmt": ({"num_layers": 1, "norm": "pre", **OPENNMT}, V, True),
    "gelu": ({"num_layers": 1, "activation": "gelu"}, V, True),
    "swiglu": ({"num_layers": 1, "activation": "swish", "ffn": "gated"}, V, True),
    "biases": ({"num_layers": 1, "attention_biases": True, "positions": "tensor2tensor"}, V, True),
}


@pytest.mark.commit
@pytest.mark.parametrize("name", VARIANTS)
def test_equals_the_papers_equations(name: str) -> None:
    changes, target_size, shared = VARIANTS[name]
    hparams = config.replace(TINY, **changes)
    model = _model(hparams, V, target_size, shared)
    one_table = shared or hparams.share_between_vocabularies
    tables = 1 if one_table and hparams.share_embeddings else 2 if hparams.share_embeddings else 3
    assert sum(w.path.endswith("embedding/table") or "softmax" in w.path for w in model.weights) == tables
    logits = _logits(model, SOURCE, TARGET)
    assert logits.dtype == np.float32
    reference.assert_close(logits, _reference(model, hparams)(SOURCE, TARGET), 1e-5)


def test_vocabularies_of_two_sizes_share_no_table() -> None:
    with pytest.raises(UsageError, match="have 30 and 31 pieces, so that they cannot share a table"):
        _model(config.replace(TINY, share_between_vocabularies=True), 30, 31, False)
    with pytest.raises(UsageError, match="needs share_embeddings=true"):
        config.replace(TINY, share_between_vocabularies=True, share_embeddings=False)


def test_a_packed_row_equals_its_pairs_alone(model: Transformer) -> None:
    sources, targets = [[5, 9, 3, 1], [7, 1], [8, 2, 1]], [[4, 1], [6, 5, 12, 1], [3, 1]]

    def packed(parts: list[list[int]], side: str) -> dict[str, np.ndarray]:
        rows = {
            side: [token for part in parts for token in part],
            f"{side}_segment": [i + 1 for i, part in enumerate(parts) for _ in part],
            f"{side}_position": [at for part in parts for at in range(len(part))],
        }
        return {name: np.array([[*row, 0, 0]], "int32") for name, row in rows.items()}

    got = np.asarray(model({**packed(sources, "source"), **packed(targets, "target")}))[0]
    at = 0
    for source, target in zip(sources, targets, strict=True):
        alone = _logits(model, np.array([source], "int32"), np.array([target], "int32"))[0]
        np.testing.assert_allclose(got[at : at + len(target)], alone, rtol=0, atol=1e-5)
        at += len(target)
    assert np.isfinite(got).all()


def test_an_encoder_that_does_not_see_the_end() -> None:
    """Checks sentences alone and packed; the reference gets sources without the end symbol."""
    hparams = config.replace(TINY, source_end=False)
    model, (source, target) = _model(hparams), (SOURCE[:2], TARGET[:2])
    wanted = _reference(model, hparams)(np.where(source == 1, 0, source), target)
    reference.assert_close(_logits(model, source, target), wanted, 1e-5)
    positions = np.array([[0, 1, 2, 3, 4, 0, 1, 2]], "int32")
    segments = np.array([[1, 1, 1, 1, 1, 2, 2, 2]], "int32")
    packed = {"source": np.concatenate([source[:1], source[1:, :3]], 1), "target": np.array([[4, 8, 1, 6, 5, 4, 3, 1]])}
    more = {"source_segment": segments, "source_position": positions}
    at = np.array([[0, 1, 2, 0, 1, 2, 3, 4]], "int32")
    more |= {"target_segment": np.array([[1, 1, 1, 2, 2, 2, 2, 2]], "int32"), "target_position": at}
    found = _logits(model, **packed, **more)[0]
    np.testing.assert_allclose(found[:3], wanted[0, :3], rtol=0, atol=1e-4)
    np.testing.assert_allclose(found[3:7], wanted[1, :4], rtol=0, atol=1e-4)


def test_an_empty_batch_has_empty_logits(model: Transformer) -> None:
    assert _logits(model, SOURCE[:0], TARGET[:0]).shape == (0, TARGET.shape[1], V)


def _count(hparams: config.HParams, vocab_size: int) -> int:
    """Number of parameters by the paper's formulas: tied tables, attention without biases, equation (2) with them."""
    d, width = hparams.d_model, hparams.num_heads
    attention = 2 * d * width * (hparams.d_k or d // width) + 2 * d * width * (hparams.d_v or d // width)
    feed_forward = 2 * d * hparams.d_ff + hparams.d_ff + d
    encoder_layer = attention + feed_forward + 2 * 2 * d
    decoder_layer = 2 * attention + feed_forward + 3 * 2 * d
    return vocab_size * d + hparams.num_layers * (encoder_layer + decoder_layer)


def test_parameter_counts_of_two_layers(model: Transformer) -> None:
    last_norms = 2 * 2 * TINY.d_model if "final_norm" in model.weights[-1].path else 0
    tables = 2 * TINY.max_positions * TINY.d_model if model.source_positions else 0
    more = 0
    if (
        model.source_bias is not None
    ):  # RELATIVE: a decoder layer less, a vector, two tables in three attentions, two biases in four
        d, per_head = TINY.d_model, TINY.d_model // TINY.num_heads
        layer = 2 * 4 * d * d + 2 * d * TINY.d_ff + TINY.d_ff + d + 3 * 2 * d
        more = d + 3 * 7 * 2 * per_head + 4 * 2 * d - layer
    if model.hparams.attention_score == "additive":  # a vector for each head, in six attentions
        more += 6 * TINY.d_model
    if model.hparams.ffn == "gated":  # in four layers a matrix more, and no biases
        more += 4 * (TINY.d_model * TINY.d_ff - TINY.d_model - TINY.d_ff)
    if model.output_bias is not None:
        more += TINY.d_model + V  # the start vector, and a bias for each piece
    assert model.count_params() == _count(TINY, V) + last_norms + tables + more


def test_parameter_counts_of_the_papers_models() -> None:
    one_layer = TransformerHParams(num_layers=1)  # of base; drawing all of base takes long
    assert Transformer.from_hparams(one_layer, V, V, True).count_params() == _count(one_layer, V)
    # The paper's base has 63.0M with a vocabulary of 37,000. With its authors' 40,960 it has the 65M of Table 3.
    assert _count(TransformerHParams(), 37000) == 63_045_632
    assert round(_count(TransformerHParams(), 40960) / 1e6) == 65
    assert _count(TransformerHParams(d_model=1024, d_ff=4096, num_heads=16), 37000) == 214_171_648


@pytest.mark.commit
def test_paths_of_weights_are_unique_and_stable() -> None:
    hparams = config.replace(TINY, num_layers=1, norm="pre", positions="learned", share_embeddings=False)
    for _ in range(2):  # a second model in the same process has the same names
        model = Transformer.from_hparams(hparams, V, 31, False)
        paths = [w.path for w in model.weights]
        assert len(paths) == len(GOLDEN_PATHS)
        assert set(paths) == GOLDEN_PATHS


def test_how_the_weights_that_the_paper_has_not_begin() -> None:
    """As in tensor2tensor, whose scope draws all from Glorot's uniform distribution; the vector is one row of 32."""
    sizes = {"num_layers": 1, "d_model": 256, "num_heads": 4, "max_relative_position": 20}
    hparams = TransformerHParams(source_vector=True, attention_biases=True, **sizes)  # type: ignore[arg-type]
    model = Transformer.from_hparams(hparams, V, V, True)
    attention = model.encoder.blocks[0].self_attention
    for weight, fans in ((model.source_bias, 32 + 256), (attention.relative_keys, 41 + 64)):
        bound = (6 / fans) ** 0.5
        assert 0.95 * bound < np.abs(np.asarray(weight)).max() <= bound * (1 + 1e-6)
    assert not np.asarray(attention.query_bias).any()
    assert not np.asarray(attention.output_bias).any()


_ATTENTION = ("query", "key", "value", "output")
_FEED_FORWARD = [f"feed_forward/{name}" for name in ("kernel_1", "bias_1", "kernel_2", "bias_2")]
_PARTS = {
    "encoder/layer_0/around_attention": [f"self_attention/{name}" for name in _ATTENTION],
    "encoder/layer_0/around_feed_forward": _FEED_FORWARD,
    "decoder/layer_0/around_self": [f"self_attention/{name}" for name in _ATTENTION],
    "decoder/layer_0/around_memory": [f"memory_attention/{name}" for name in _ATTENTION],
    "decoder/layer_0/around_feed_forward": _FEED_FORWARD,
}
_TABLES = ("softmax", "source_embedding", "source_positions", "target_embedding", "target_positions")
GOLDEN_PATHS = {
    *(f"transformer/{around}/{name}" for around, names in _PARTS.items() for name in names),
    *(f"transformer/{around}/layer_norm/{name}" for around in _PARTS for name in ("beta", "gamma")),
    *(f"transformer/{stack}/final_norm/{name}" for stack in ("encoder", "decoder") for name in ("beta", "gamma")),
    *(f"transformer/{table}/table" for table in _TABLES),
}


@pytest.mark.commit
def test_a_seed_draws_the_initial_weights_that_it_always_drew() -> None:
    """Commit 6aa19fc drew these; an option that is off must not use up a random number."""
    keras.utils.set_random_seed(1)
    model = Transformer.from_hparams(TransformerHParams(num_layers=1, d_model=8, d_ff=8, num_heads=2), 9, 9, True)
    weights = {weight.path: np.asarray(weight).ravel()[:3] for weight in model.weights}
    drawn = {
        "target_embedding/table": [-0.44203356, 0.37727746, 0.10505107],
        "decoder/layer_0/around_feed_forward/feed_forward/kernel_2": [-0.55181623, -0.03493655, -0.48095989],
    }
    for path, values in drawn.items():
        np.testing.assert_allclose(weights[f"transformer/{path}"], values, rtol=1e-6)
