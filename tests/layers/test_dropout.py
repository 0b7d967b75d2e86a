"""Dropout by seed: what a row's mask depends on, its statistics, and that no two places share a seed."""

import functools
import math
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from t2t_lite.layers.dropout import Dropout, fold_in, random_bits
from t2t_lite.models.transformer import Transformer
from t2t_lite.models.transformer_hparams import TransformerHParams

SITES = 2 + 6 * 4 + 6 * 6  # two embeddings; per layer each residual, attention and ReLU


def _seed(a: int, b: int) -> np.ndarray:
    return np.array([a, b, 0], "int32")


def _lowbias32(x: np.ndarray) -> np.ndarray:
    """The hash as its author wrote it down in C."""
    x = x.astype(np.uint32)
    x ^= x >> np.uint32(16)
    x *= np.uint32(0x7FEB352D)
    x ^= x >> np.uint32(15)
    x *= np.uint32(0x846CA68B)
    return x ^ (x >> np.uint32(16))


@np.errstate(over="ignore")
def _bits_by_hand(shape: tuple[int, ...], seed: np.ndarray, axis: int = 0) -> np.ndarray:
    """`random_bits` in NumPy."""
    words = seed.astype(np.uint32)
    bits = _lowbias32(_lowbias32(words[:1])[0] ^ words[1:2])[0]
    for number, size in enumerate(shape):
        index = np.arange(size, dtype=np.uint32) + (words[2] if number == axis else np.uint32(0))
        bits = _lowbias32(np.expand_dims(bits, -1) + index * np.uint32(0x9E3779B1))
    return np.asarray(bits)


def _mask(seed: np.ndarray, rate: float = 0.5, size: int = 10_000) -> np.ndarray:
    return np.asarray(Dropout(rate)(np.ones(size, "float32"), seed=seed)) != 0


def test_the_same_seed_draws_the_same_mask_in_eager_graph_and_xla_mode() -> None:
    wanted = _mask(_seed(3, 4))
    np.testing.assert_array_equal(_mask(_seed(3, 4)), wanted)
    layer, ones = Dropout(0.5), np.ones(10_000, "float32")
    for jit in (False, True):
        drawn = tf.function(lambda seed: layer(ones, seed=seed), jit_compile=jit, autograph=False)(_seed(3, 4))
        np.testing.assert_array_equal(np.asarray(drawn) != 0, wanted)


@pytest.mark.commit
@pytest.mark.parametrize(("shape", "axis"), [((5,), 0), ((4, 7), 0), ((3, 4, 5), 1), ((2, 3, 4, 5), 0), ((0, 3), 0)])
def test_the_bits_are_the_hash_in_graphs_with_unknown_sizes_too(shape: tuple[int, ...], axis: int) -> None:
    seed, like = np.array([3, -4, 9], "int32"), np.zeros(shape, "float32")
    wanted = _bits_by_hand(shape, seed, axis)
    np.testing.assert_array_equal(random_bits(like, seed, axis), wanted)
    specs = [tf.TensorSpec([None] * len(shape)), tf.TensorSpec([3], tf.int32)]
    for jit in (False, True):
        drawn = tf.function(
            lambda x, seed: random_bits(x, seed, axis), input_signature=specs, jit_compile=jit, autograph=False
        )
        np.testing.assert_array_equal(drawn(like, seed), wanted)


def test_a_rows_bits_do_not_depend_on_other_rows_or_on_padding() -> None:
    seed, whole = _seed(3, 4), np.asarray(random_bits(np.zeros((9, 8, 6), "float32"), _seed(3, 4)))
    part = random_bits(np.zeros((4, 5, 6), "float32"), seed + np.array([0, 0, 3], "int32"))
    np.testing.assert_array_equal(part, whole[3:7, :5])


def test_masks_are_independent_of_each_other_and_of_their_neighbours() -> None:
    """Each number is a z score: the sum of n products of two centred masks, in its standard deviation."""
    shape, rate = (128, 32, 256), 0.3
    drop = Dropout(rate)

    def mask(a: int, b: int) -> np.ndarray:
        return np.asarray(drop(np.ones(shape, "float32"), seed=_seed(a, b)) == 0, np.float32) - rate

    def score(one: np.ndarray, other: np.ndarray) -> float:
        return float((one * other).sum(dtype=np.float64) / (rate * (1 - rate)) / math.sqrt(one.size))

    one, variance = mask(1, 1000), rate * (1 - rate)
    scores = [float(one.sum(dtype=np.float64)) / math.sqrt(variance * one.size)]
    scores += [score(one, mask(*seed)) for seed in ((1, 1001), (1, 1002), (2, 1000), (1, 1000 + 1000003))]
    for axis in range(3):
        for lag in (1, 2, 3, 4, 8):
            scores.append(score(np.roll(one, lag, axis), one))
        kept = one.sum(axis=tuple({0, 1, 2} - {axis}), dtype=np.float64)
        each = one.size / kept.size
        scores.append(float(((kept**2).sum() / (variance * each) - kept.size) / math.sqrt(2 * kept.size)))
    assert len(scores) == 23
    assert max(map(abs, scores)) < 4  # by chance above it once in 700 seeds
    assert 0.5 < np.mean(np.square(scores)) < 2


def test_other_seeds_draw_other_masks() -> None:
    seeds = [_seed(3, 4), _seed(4, 4), _seed(3, 5), _seed(4, 3), np.asarray(fold_in(_seed(3, 4), 0)), _seed(3, -5)]
    masks = [_mask(seed) for seed in seeds]
    for i, one in enumerate(masks):
        for other in masks[:i]:
            # Independent fair coins agree in half of 10,000 places, give or take 50 (one standard deviation).
            assert abs((one == other).sum() - 5000) < 5 * 50


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("rate", [0.1, 0.3])
def test_the_rate_is_right_and_the_rest_is_scaled(rate: float, dtype: str) -> None:
    n = 400_000
    got = np.float32(Dropout(rate)(np.ones(n, dtype), seed=_seed(1, 9)))
    dropped = int((got == 0).sum())
    assert abs(dropped - n * rate) < 5 * math.sqrt(n * rate * (1 - rate))  # binomial, five standard deviations
    np.testing.assert_allclose(got[got != 0], 1 / (1 - rate), rtol=1e-6 if dtype == "float32" else 2**-8)


@pytest.mark.parametrize(("rate", "seed"), [(0.5, None), (0.0, _seed(1, 2))])
def test_without_a_seed_or_a_rate_nothing_changes(rate: float, seed: np.ndarray | None) -> None:
    x = np.random.default_rng(1).standard_normal((3, 4)).astype("float32")
    np.testing.assert_array_equal(Dropout(rate)(x, seed=seed), x)


def test_fold_in_keeps_none_and_the_runs_seed() -> None:
    assert fold_in(None, 3) is None
    folded = np.asarray(fold_in(_seed(7, 5), 2))
    assert folded.dtype == np.int32
    assert folded[0] == 7
    wide = fold_in(ops.convert_to_tensor(_seed(7, 2**31 - 1)), 2**20)  # past 2^31 it wraps
    assert int(wide[1]) == (1000003 * (2**31 - 1) + 2**20 + 1 + 2**31) % 2**32 - 2**31


@pytest.fixture
def seeds_of_sites(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function (seed) -> uint32 [SITES, 3]: the seed that each Dropout of a 6-layer model gets in a real call."""
    hparams = TransformerHParams(d_model=8, d_ff=8, num_heads=2, dropout=0.1, attention_dropout=0.1, relu_dropout=0.1)
    model = Transformer.from_hparams(hparams, 10, 10, True)
    seen: list[np.ndarray] = []
    call = Dropout.call

    @functools.wraps(call)
    def spy(self: Dropout, x: Any, seed: Any = None, axis: int = 0) -> Any:
        seen.append(np.asarray(seed))
        return call(self, x, seed=seed, axis=axis)

    monkeypatch.setattr(Dropout, "call", spy)
    ids = np.array([[3, 1]], "int32")

    def collect(seed: np.ndarray) -> np.ndarray:
        seen.clear()
        model({"source": ids, "target": ids}, seed=seed)
        return np.stack(seen).astype(np.uint32)

    return collect


@pytest.mark.nightly
def test_no_two_sites_or_steps_share_a_seed(seeds_of_sites: Any) -> None:
    here = seeds_of_sites(_seed(1, 5))
    assert here.shape == (SITES, 3)
    assert len(np.unique(here, axis=0)) == SITES
    assert (here[:, 0] == 1).all()  # the run's seed is kept, so another run seed shares none of them

    # A site's seed is a * seed + b modulo 2^32. Read a and b off three real calls, then look at many steps at once.
    offset, next_one, far = (seeds_of_sites(_seed(1, n))[:, 1].astype(np.uint64) for n in (0, 1, 12345))
    modulus = np.uint64(2**32)
    factor = (next_one - offset) % modulus
    np.testing.assert_array_equal((factor * np.uint64(12345) + offset) % modulus, far)

    some = np.arange(1, 801, dtype=np.uint64)
    seeds = (some[:, None] * factor + offset) % modulus
    assert len(np.unique(seeds)) == seeds.size == 800 * SITES
    assert (factor % np.uint64(2) == 1).all()  # so different steps stay different at a site
