"""The statistics of attention heads: for weights of known entropy and distance, and against plain loops."""

import math

import numpy as np
import pytest

from t2t_lite.insights.heads import heads, table
from t2t_lite.insights.sentence import Sentence, Translation


def _sentence(encoder: np.ndarray) -> Sentence:
    return Sentence("a", ["a"], encoder, [Translation("b", None, ["b"], None, None)])


def test_a_head_that_looks_at_itself_one_that_looks_back_and_one_that_looks_everywhere() -> None:
    itself, back, everywhere = np.eye(4), np.eye(4)[[0, 0, 1, 2]], np.full((4, 4), 0.25)
    found = heads([_sentence(np.stack([itself, back, everywhere])[None].astype("float32"))])
    assert [h[:3] for h in found] == [("encoder", 1, 1), ("encoder", 1, 2), ("encoder", 1, 3)]
    np.testing.assert_allclose([h.entropy for h in found], [0, 0, math.log(4)], atol=1e-7)
    np.testing.assert_allclose([h.distance for h in found], [0, 0.75, 1.25], atol=1e-7)


def test_the_mean_is_over_all_queries_of_all_sentences() -> None:
    one, two = np.eye(1), np.eye(3)[[2, 2, 2]]  # distances 0; 2, 1, 0
    (head,) = heads([_sentence(weights[None, None].astype("float32")) for weights in (one, two)])
    assert head.distance == pytest.approx(3 / 4)


def test_a_query_that_attends_to_nothing_does_not_count() -> None:
    late = np.array([[0, 0, 0], [1, 0, 0], [0, 0.5, 0.5]])
    (head,) = heads([_sentence(weights[None, None].astype("float32")) for weights in (late, np.zeros((1, 1)))])
    assert (head.entropy, head.distance) == pytest.approx((math.log(2) / 2, 0.75))
    (head,) = heads([_sentence(np.zeros((1, 1, 1, 1), "float32"))])
    assert (head.entropy, head.distance) == (0, 0)


@pytest.mark.nightly
def test_every_kind_layer_and_head_of_a_model(sentences: list[Sentence]) -> None:
    found = {h[:3]: h for h in heads(sentences)}
    assert len(found) == 3 * 2 * 3
    for kind in ("memory", "encoder", "decoder"):
        for layer, head in np.ndindex(2, 3):
            entropies, distances = [], []
            for sentence in sentences:
                for t, row in enumerate(np.float64(sentence.maps()[kind][layer, head])):
                    entropies.append(-sum(w * math.log(w) for w in row if w > 0))
                    distances.append(sum(w * abs(s - t) for s, w in enumerate(row)))
            got = found[kind, layer + 1, head + 1]
            np.testing.assert_allclose([got.entropy, got.distance], [np.mean(entropies), np.mean(distances)], rtol=1e-9)


@pytest.mark.nightly
def test_the_table_has_a_line_for_each(rnn_sentence: Sentence) -> None:
    first, *lines = table(heads([rnn_sentence])).splitlines()
    assert first.split("\t") == ["kind", "layer", "head", "entropy", "distance"]
    assert [line.split("\t")[:3] for line in lines] == [["memory", "1", "1"]]
