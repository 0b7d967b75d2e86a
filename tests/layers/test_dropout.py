"""Dropout by seed: the same seed draws the same mask, and no two places share a seed."""

import functools
import math
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from t2t_lite.layers.dropout import Dropout, fold_in
from t2t_lite.models.transformer import Transformer
from t2t_lite.models.transformer_hparams import TransformerHParams

SITES = 2 + 6 * 4 + 6 * 6  # two embeddings; per layer each residual, attention and ReLU


def _seed(a: int, b: int) -> np.ndarray:
    return np.array([a, b], "int32")


def _mask(seed: np.ndarray, rate: float = 0.5, size: int = 10_000) -> np.ndarray:
    return np.asarray(Dropout(rate)(np.ones(size, "float32"), seed=seed)) != 0


def test_the_same_seed_draws_the_same_mask_in_eager_graph_and_xla_mode() -> None:
    wanted = _mask(_seed(3, 4))
    np.testing.assert_array_equal(_mask(_seed(3, 4)), wanted)
    layer, ones = Dropout(0.5), np.ones(10_000, "float32")
    for jit in (False, True):
        drawn = tf.function(lambda seed: layer(ones, seed=seed), jit_compile=jit, autograph=False)(_seed(3, 4))
        np.testing.assert_array_equal(np.asarray(drawn) != 0, wanted)


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
    """A function (seed) -> uint32 [SITES, 2]: the seed that each Dropout of a 6-layer model gets in a real call."""
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


def test_no_two_sites_steps_or_parts_of_a_batch_share_a_seed(seeds_of_sites: Any) -> None:
    here = seeds_of_sites(_seed(1, 5))
    assert here.shape == (SITES, 2)
    assert len(np.unique(here, axis=0)) == SITES
    assert (here[:, 0] == 1).all()  # the run's seed is kept, so another run seed shares none of them

    # A site's seed is a * seed + b modulo 2^32. Read a and b off three real calls, then look at many steps at once.
    offset, next_one, far = (seeds_of_sites(_seed(1, n))[:, 1].astype(np.uint64) for n in (0, 1, 12345))
    modulus = np.uint64(2**32)
    factor = (next_one - offset) % modulus
    np.testing.assert_array_equal((factor * np.uint64(12345) + offset) % modulus, far)

    def of_parts(steps: np.ndarray, parts: int) -> np.ndarray:
        stepped = [np.asarray(fold_in(np.stack([steps, steps]), part))[1] for part in range(parts)]
        return np.stack(stepped).astype(np.uint32).ravel().astype(np.uint64)

    some = of_parts(np.arange(1, 101, dtype="int32"), 8)
    seeds = (some[:, None] * factor + offset) % modulus
    assert len(np.unique(seeds)) == seeds.size == 100 * 8 * SITES
    # One site, all steps of the big model, 8 parts each: factors are odd, so different seeds stay different.
    assert (factor % np.uint64(2) == 1).all()
    every = of_parts(np.arange(1, 300_001, dtype="int32"), 8)
    assert len(np.unique(every)) == every.size
