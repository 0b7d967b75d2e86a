"""Scores of each of several texts against each of them, by a metric's scores of single lines."""

import itertools
from collections.abc import Sequence

import numpy as np
from sacrebleu.metrics import CHRF

from t2t_lite.metrics.metric import Metric
from t2t_lite.metrics.score import CorpusMetric, score_lines


def score_pairs(metric: CorpusMetric, texts: Sequence[str], source: str) -> np.ndarray:
    """Returns float64 [N, N], the score of text i with text j as its reference.

    A metric without scores of single lines (`Score.segments`) scores each pair as a corpus of one line.

    Args:
        source: the line that all texts are outputs for.
    """
    if type(metric) is Metric and isinstance(metric.counter, CHRF):
        return _chrf_of_pairs(metric, metric.counter, texts)
    pairs = [*itertools.product(texts, texts)]
    hypotheses, references = ([pair[side] for pair in pairs] for side in (0, 1))
    segments = score_lines(metric, hypotheses, references, [source] * len(pairs)).segments
    if not len(segments):
        segments = [score_lines(metric, [one], [other], [source]).value for one, other in pairs]
    return np.array(segments, np.float64).reshape(len(texts), len(texts))


def _chrf_of_pairs(metric: Metric, counter: CHRF, texts: Sequence[str]) -> np.ndarray:
    """chrF with the n-grams of each text counted once, not for each pair."""
    counts = counter._extract_reference_info([counter._preprocess_segment(text) for text in texts])["ref_ngrams"]
    statistics = np.zeros((len(texts), len(texts), 3 * counter.order), np.int64)  # of hypothesis, reference, both
    for order, of_texts in enumerate(zip(*counts, strict=True)):
        places: dict[str, int] = {}
        for ngram in itertools.chain(*of_texts):
            places.setdefault(ngram, len(places))
        table = np.zeros((len(texts), len(places)), np.int32)
        for row, ngrams in zip(table, of_texts, strict=True):
            row[[places[ngram] for ngram in ngrams]] = [*ngrams.values()]
        totals = table.sum(1)
        of_order = statistics[:, :, 3 * order : 3 * order + 3]
        of_order[:, :, 0] = totals[:, None] * (totals > 0)  # as sacreBLEU: none where the reference has none
        of_order[:, :, 1] = totals
        for i, row in enumerate(table):
            of_order[i, :, 2] = np.minimum(row, table).sum(1)
    return np.array([[metric.from_counts(pair) for pair in row] for row in statistics.tolist()], np.float64)
