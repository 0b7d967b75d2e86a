"""Minimum Bayes risk: the candidate that is expected to be most like the others by a metric, not the most probable one.

Kumar and Byrne (2004) choose among the n-best list of a search, weighted by its probabilities; Eikema and Aziz (2020)
among samples, which count alike.
"""

from __future__ import annotations

import dataclasses
import functools
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from t2t_lite.decoding.beam_search import length_penalty
from t2t_lite.errors import UsageError
from t2t_lite.groups import DecodeGroup
from t2t_lite.metrics import names
from t2t_lite.metrics.pairwise import score_pairs
from t2t_lite.metrics.score import CorpusMetric, check_metric
from t2t_lite.problem import Problem
from t2t_lite.text.labels import target_of

if TYPE_CHECKING:
    from t2t_lite.decoding.line_translator import Hypothesis


class MinimumBayesRisk:
    """How the best of a line's candidates is chosen.

    Args:
        utility: the name of a metric of METRICS, which scores a candidate with each of them as its reference.
        problem: the model's, which knows its target languages.

    Raises:
        UsageError: there is no such metric, lower scores of it are better, or outputs are trees.
    """

    def __init__(self, utility: str, problem: Problem) -> None:
        def metric(language: str) -> CorpusMetric:
            return check_metric(names.metric(utility, language), f"mbr_utility={utility}")

        if not problem.codec.is_text:
            raise UsageError("decode=mbr compares outputs as text, and this model writes trees. Leave it out.")
        self._problem, self._metric = problem, functools.cache(metric)
        self._lock = threading.Lock()  # batches run at the same time, and a metric need not know of that
        self._metric(problem.target_language)

    def choose(self, line: str, candidates: Sequence[Hypothesis], search: DecodeGroup | None) -> list[Hypothesis]:
        """Returns the candidates by their expected utility, which is their score; repeated texts come last.

        Args:
            line: the source, after its label.
            search: the settings of the beam search that found the candidates, whose probabilities, normalised among
                them, are their weights; None: they are samples.
        """
        weights, is_output = np.ones(len(candidates)), np.ones(len(candidates), bool)
        if search is not None:
            scores = np.array([one.score for one in candidates])
            is_output = np.isfinite(scores)  # a search that has found too few outputs fills the list up
            lengths = [len(one.ids) for one in candidates]
            log_probs = scores * np.array(length_penalty(lengths, search.length_penalty, search.length_penalty_form))
            weights = np.exp(log_probs - log_probs.max())
        texts = [*dict.fromkeys(one.text for one in candidates)]
        places = np.array([texts.index(one.text) for one in candidates])
        language = target_of(line, self._problem.labels) or self._problem.target_language
        with self._lock:
            pairs = score_pairs(self._metric(language), texts, line)
        expected = (pairs @ np.bincount(places, weights, len(texts)) / weights.sum())[places]
        expected[~is_output] = -np.inf
        repeats = np.ones(len(candidates), bool)
        repeats[np.unique(places, return_index=True)[1]] = False
        order = np.lexsort((-expected, repeats))
        return [dataclasses.replace(candidates[i], score=float(expected[i])) for i in order]
