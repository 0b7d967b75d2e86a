"""Sampling against the model's own probabilities, and against greedy search."""

import itertools
import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from t2t_lite.decoding import sampling
from t2t_lite.decoding.piece_scores import log_probs
from t2t_lite.decoding.rules import NO_RULES, Rules
from t2t_lite.decoding.sampling import Sampling, sample, seed_variable, sentence_keys, uniform
from t2t_lite.errors import UsageError
from t2t_lite.models.ensemble import Ensemble
from t2t_lite.models.rnn import Rnn
from t2t_lite.models.rnn_hparams import RnnHParams
from t2t_lite.models.transformer import Transformer
from t2t_lite.models.transformer_hparams import TransformerHParams
from t2t_lite.samplers.base import make_sampler
from tests import reference
from tests.searches import EOS, EXTRA, PAD, Searches, hypotheses, random_sources, without_padding

V = 30
SOURCES = random_sources(V)


def _transformer(vocab_size: int = V) -> Transformer:
    hparams = TransformerHParams(num_layers=1, d_model=16, d_ff=32, num_heads=2)
    model = Transformer.from_hparams(hparams, vocab_size, vocab_size, True)
    reference.randomise(model, 4, 2.0)
    return model


def _rnn(vocab_size: int = V) -> Rnn:
    model = Rnn.from_hparams(RnnHParams(num_layers=1, d_model=8, dropout=0.0), vocab_size, vocab_size, True)
    reference.randomise(model, 4, 2.0)
    return model


def _samples(
    model: Any,
    sources: np.ndarray,
    number: int,
    seed: int = 1,
    extra: int = EXTRA,
    sampler: str = "random",
    rules: Rules = NO_RULES,
    **options: Any,
) -> tuple[np.ndarray, np.ndarray]:
    sampling = Sampling(make_sampler(sampler, options), seed)
    graph = tf.function(
        lambda source: sample(model, source, sampling, num_samples=number, extra_length=extra, rules=rules),
        input_signature=[tf.TensorSpec([None, None], tf.int32)],
        autograph=False,
    )
    ids, scores = graph(sources)
    return ids.numpy(), scores.numpy()


@pytest.fixture(scope="module")
def model() -> Transformer:
    return _transformer()


def _ensemble() -> Ensemble:
    """An ensemble with two kinds of state: one that has slots, one that is reordered in a beam search."""
    return Ensemble([_transformer(), _rnn()])


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("made", "sampler", "options"), [(_ensemble, "top_k", {"top_k": 1}), (_rnn, "random", {"temperature": 1e-6})]
)
def test_the_most_likely_symbol_alone_is_greedy_search(
    made: Callable[[], Any], sampler: str, options: dict[str, Any]
) -> None:
    model = made()
    ids, scores = _samples(model, SOURCES, 1, sampler=sampler, **options)
    wanted, totals = Searches(model).fast(SOURCES, 1, 0.0, True)
    np.testing.assert_array_equal(ids, wanted)
    np.testing.assert_allclose(scores, totals, rtol=1e-5, atol=1e-4)


@pytest.mark.commit
def test_a_score_is_the_log_probability_of_the_output(model: Transformer) -> None:
    ids, scores = _samples(model, SOURCES, 2, sampler="nucleus", top_p=0.8, temperature=1.5)
    for i in range(2):
        totals, pieces = log_probs(model, SOURCES, ids[:, i])
        np.testing.assert_allclose(scores[:, i], totals, rtol=1e-4, atol=1e-4)
        assert max(pieces) > 20


@pytest.mark.nightly
def test_a_repetition_penalty_changes_what_is_drawn_and_no_score(model: Transformer) -> None:
    rules = Rules(2, 4, 1.5)
    ids, scores = _samples(model, SOURCES, 1, sampler="top_k", top_k=1, rules=rules)
    wanted, _ = Searches(model).fast(SOURCES, 1, 0.0, True, rules=rules)
    np.testing.assert_array_equal(ids, wanted)
    free, _ = _samples(model, SOURCES, 1, sampler="top_k", top_k=1, rules=Rules(2, 4))
    assert hypotheses(ids[:, 0]) != hypotheses(free[:, 0])
    np.testing.assert_allclose(scores[:, 0], log_probs(model, SOURCES, ids[:, 0])[0], rtol=1e-4, atol=1e-4)


@pytest.mark.nightly
def test_a_sentence_has_its_samples_whatever_is_beside_it(model: Transformer) -> None:
    ids, scores = _samples(model, np.pad(SOURCES[::-1], ((0, 1), (0, 4))), 3)  # wider, and with an empty row
    rows = [hypotheses(row) for row in ids[-2::-1]]
    alone, values = _samples(model, SOURCES[4:5], 5)
    assert hypotheses(alone[0])[:3] == rows[4]  # whatever the number of samples
    np.testing.assert_allclose(values[0, :3], scores[-6], rtol=1e-5)
    found = list(itertools.chain(*rows))
    assert len(set(found)) > 0.9 * len(found)
    assert {output[-1] == EOS for output in found} == {True, False}
    for source, outputs in zip(SOURCES, rows, strict=True):
        longest = len(without_padding(source)) + EXTRA
        assert all(output[-1] == EOS or len(output) == longest for output in outputs)
    again, _ = _samples(model, SOURCES, 3, seed=2)
    assert not set(found) & {output for row in again for output in hypotheses(row) if len(output) > 3}


@pytest.mark.nightly
def test_many_samples_are_drawn_in_groups(model: Transformer, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a group each sample sees the KV cache's slots of all, so a group of all takes the square of their number."""
    number, sizes = 68, []  # five groups, the last of which has two places too many
    start = model.start
    monkeypatch.setattr(model, "start", lambda memory, size, steps: (sizes.append(size), start(memory, size, steps))[1])
    monkeypatch.setattr(sampling, "_AT_ONCE", 300)  # two groups of each sentence, and so a sixth group that is empty
    ids, scores = _samples(model, SOURCES, number)
    monkeypatch.setattr(sampling, "_GROUP", number)
    wanted, totals = _samples(model, SOURCES, number)
    assert sizes == [14, number]
    np.testing.assert_array_equal(ids, wanted)
    np.testing.assert_allclose(scores, totals, rtol=1e-5)
    assert len(set(hypotheses(ids[0]))) > 0.9 * number


def _outputs(searches: Searches, source: tuple[int, ...], longest: int, power: float) -> dict[tuple[int, ...], float]:
    """Every output and its probability, if the probability of each symbol but padding is raised to `power`."""
    found, alive = {}, {(): 1.0}
    for _ in range(longest):
        table = searches.logp(source, list(alive)) * power
        table[:, PAD] = -np.inf
        steps = np.exp(table - np.logaddexp.reduce(table, 1, keepdims=True))
        pairs = list(zip(alive.items(), steps, strict=True))
        after = {(*ids, i): p * step[i] for (ids, p), step in pairs for i in range(1, table.shape[1])}
        found |= {ids: p for ids, p in after.items() if ids[-1] == EOS}
        alive = {ids: p for ids, p in after.items() if ids[-1] != EOS}
    return found | alive


def _chi_square(counts: Counter[tuple[int, ...]], probabilities: dict[tuple[int, ...], float]) -> tuple[float, int]:
    """The statistic, and the number of outputs that are expected at least 5 times; all others are one category."""
    total = counts.total()
    often = [ids for ids, p in probabilities.items() if p * total >= 5]
    seen, wanted = [counts[ids] for ids in often], [probabilities[ids] * total for ids in often]
    seen, wanted = np.array([*seen, total - sum(seen)]), np.array([*wanted, total - sum(wanted)])
    return float(((seen - wanted) ** 2 / np.maximum(wanted, 1)).sum()), len(often)


@pytest.mark.nightly
@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_samples_are_as_frequent_as_they_are_probable(temperature: float) -> None:
    model, source = _rnn(4), (2, 3, EOS)
    ids, _ = _samples(model, np.array([source], "int32"), 20_000, extra=1, temperature=temperature)
    counts = Counter(hypotheses(ids[0]))
    statistic, categories = _chi_square(counts, _outputs(Searches(model), source, 4, 1 / temperature))
    assert categories >= 8
    assert statistic < categories + 4 * (2 * categories) ** 0.5
    other, _ = _chi_square(counts, _outputs(Searches(model), source, 4, 0.9 / temperature))
    assert other > 3 * categories + 4 * (2 * categories) ** 0.5  # a wrong temperature would show


@pytest.mark.commit
@pytest.mark.parametrize(("size", "sampler"), [(30, "random"), (1_000, "random"), (1_000, "top_k"), (4_096, "nucleus")])
def test_a_symbol_is_where_the_running_sum_of_probabilities_passes_the_point(size: int, sampler: str) -> None:
    random = np.random.default_rng(1)
    logits = (3 * random.normal(size=(600, size))).astype("float32")
    points = np.concatenate([random.uniform(size=400), np.full(100, 0.0), np.full(100, 1 - 2.0**-52)])
    made = make_sampler(sampler, {})
    found = sampling.draw(made, tf.constant(logits), tf.constant(points), (PAD,)).numpy()
    logits[:, PAD] = -np.inf
    probabilities = tf.nn.softmax(made(tf.constant(logits))).numpy().astype("float64")
    sums = np.cumsum(probabilities, axis=1)
    wanted = (sums <= points[:, None] * sums[:, -1:]).sum(axis=1)
    np.testing.assert_array_equal(found[:500], wanted[:500])  # the last points lie within the rounding of an end
    assert (np.take_along_axis(probabilities, found[:, None], 1) > 0).all()
    assert len(set(found.tolist())) > 20


def test_points_are_uniform() -> None:
    sources = list(itertools.product(range(2, 12), repeat=2))
    keys = sentence_keys(tf.constant(sources), 1)
    np.testing.assert_array_equal(keys, sentence_keys(np.pad(sources, ((0, 0), (0, 3))), 1))
    points = np.stack([uniform(keys, tf.range(40)[None], tf.constant(step)).numpy() for step in range(30)])
    assert len(np.unique(points)) == points.size
    for bins in (2, 100):
        counts = np.histogram(points, bins, (0, 1))[0]
        assert ((counts - points.size / bins) ** 2 / (points.size / bins)).sum() < bins + 4 * (2 * bins) ** 0.5
    for axis in range(3):  # neighbours are not correlated
        one, other = np.moveaxis(points, axis, 0)[:-1].ravel(), np.moveaxis(points, axis, 0)[1:].ravel()
        assert abs(np.corrcoef(one, other)[0, 1]) < 4 / one.size**0.5


@pytest.mark.parametrize("seed", [3, np.int64(3), np.uint64(3), 3 - 2**64, 2**64 + 3])
def test_a_seed_is_any_integer(seed: Any) -> None:
    assert seed_variable(seed).numpy() == 3


@pytest.mark.parametrize("seed", [None, 2.7, "3", np.float32(3)])
def test_what_is_no_seed_is_said(seed: Any) -> None:
    with pytest.raises(UsageError, match=rf"^seed={re.escape(repr(seed))} is not an integer\. Give a whole number"):
        seed_variable(seed)
