"""Scores of a model on dev or test: loss, perplexity, accuracy, and BLEU of beam-searched text."""

from __future__ import annotations

import dataclasses
import logging
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from t2t_lite.data.pipeline import assemble, by_length
from t2t_lite.data.plan import PlannedBatch
from t2t_lite.data.store import Store
from t2t_lite.decoding.memory import explain_memory
from t2t_lite.decoding.translate import Translator
from t2t_lite.errors import DataError
from t2t_lite.metrics.evalb_report import TreeScore
from t2t_lite.metrics.score import CorpusMetric, Score, score_lines
from t2t_lite.models.ensemble import Ensemble
from t2t_lite.ops import threads
from t2t_lite.ops.graph import graph
from t2t_lite.ops.int8 import int8_matrices
from t2t_lite.progress import Progress
from t2t_lite.runs.ranking import SCORES
from t2t_lite.training.loss import batch_loss

_BATCH_TOKENS = 4096  # padded tokens of the longer side whose loss is computed at once
_LONGEST = 1024  # pieces of a pair's longer side: attention's memory grows with its square

_log = logging.getLogger("t2t_lite")


@dataclasses.dataclass(frozen=True)
class Scores:
    """Scores on one split.

    loss: nats per target token, without label smoothing.
    accuracy: share of target tokens that have the highest probability, given those before them.
    score: the problem's metric, on beam-searched text.
    hypotheses: the outputs themselves, in the split's order.
    references: what they were scored against, line by line.
    repaired: how many outputs had to be repaired to be trees.
    sources: what was translated.
    kind: what metrics.jsonl calls the score.
    """

    loss: float
    accuracy: float
    score: Score
    hypotheses: list[str]
    references: list[str]
    repaired: int
    sources: Sequence[str] = ()
    kind: str = "score"

    def samples(self, number: int) -> list[tuple[str, str, str]]:
        """(source, output, reference) of `number` lines, evenly spaced: the same lines at each evaluation."""
        rows = list(zip(self.sources, self.hypotheses, self.references, strict=True))
        return rows if len(rows) <= number else [rows[i * len(rows) // number] for i in range(number)]

    @property
    def perplexity(self) -> float:
        """Perplexity per piece, not per word (as in the paper's Table 3)."""
        return math.exp(min(self.loss, 700.0))

    @property
    def errors(self) -> int:
        """The number of trees in error, which are not in the score."""
        return self.score.errors if isinstance(self.score, TreeScore) else 0

    def as_metrics(self, split: str) -> dict[str, float]:
        """The entries of an evaluation line of metrics.jsonl."""
        trees = isinstance(self.score, TreeScore)
        return {
            f"{split}_loss": self.loss,
            f"{split}_perplexity": self.perplexity,
            f"{split}_accuracy": self.accuracy,
            f"{split}_{self.kind}": self.score.value,
            **({f"{split}_repaired": self.repaired / len(self.hypotheses)} if trees else {}),
            **({f"{split}_errors": self.errors} if trees else {}),
        }


class Evaluator:
    """Scores one model again and again; its graphs are traced once.

    Args:
        model: a `models.base.Model`.
        store: the prepared data; dev and test are opened now, and stay as they are if others take their place.
        translator: decodes with the same model.
        metric: as `Problem.make_metric` returns it.

    Attributes:
        guessing_loss: the loss of a model that gives all pieces the same probability.
    """

    def __init__(self, model: Any, store: Store, translator: Translator, metric: CorpusMetric) -> None:
        self._store, self._translator, self._metric = store, translator, metric
        for split in store.splits():
            if split != "train":
                store.split(split)
                store.text(split)
        self._kind = metric.kind if f"dev_{metric.kind}".startswith(SCORES) else "score"  # as a resumed run finds it

        # Members of an ensemble have softmax layers of their own, and int8 matrices no gradients.
        by_logits = isinstance(model, Ensemble) or bool(int8_matrices(model))

        def sums(source: Any, target: Any) -> tuple[Any, Any]:
            batch = {"source": source, "target": target}
            logits = model(batch)
            best = tf.argmax(logits, axis=-1, output_type=tf.int32)
            right = tf.math.count_nonzero(tf.equal(best, target) & (target > 0))
            if by_logits:
                loss = tf.nn.sparse_softmax_cross_entropy_with_logits(target, logits)
                return tf.reduce_sum(tf.where(target > 0, loss, 0.0)), right
            return batch_loss(model, batch, 1.0, 0.0), right

        signature = [tf.TensorSpec([None, None], tf.int32)] * 2
        self._sums = graph(sums, input_signature=signature)
        self.guessing_loss = math.log(store.target_vocabulary.size)

    def __call__(self, split: str, lines: int = 0) -> Scores:
        """Scores `split`: its loss, and the outputs for `lines` of it, evenly spaced (0: all). Shows its progress."""
        pairs = list(zip(*self._store.text(split), strict=True))
        if 0 < lines < len(pairs):
            pairs = [pairs[i * len(pairs) // lines] for i in range(lines)]
        sources = [source for source, _ in pairs]
        with Progress(len(pairs), " lines", f"translating {split}") as bar:
            hypotheses = [h[0] for h in self._translator.translate(sources, progress=bar)]
        references = [self._translator.outputs.reference(*pair) for pair in pairs]
        texts = [h.text for h in hypotheses]
        score = score_lines(self._metric, texts, references, sources)
        repaired = sum(h.repaired for h in hypotheses)
        return Scores(*self.loss_and_accuracy(split), score, texts, references, repaired, sources, self._kind)

    def loss_and_accuracy(self, split: str) -> tuple[float, float]:
        """Cross entropy per target token, in nats, and the share of target tokens with the highest probability.

        Very long pairs are left out, and counted in a warning.

        Raises:
            DataError: all pairs are that long.
            T2TError: the device has too little memory.
        """
        tokens = self._store.split(split)
        source, target = tokens.source.lengths, tokens.target.lengths
        longer = np.maximum(source, target)
        left_out = int((longer > _LONGEST).sum())
        if left_out:
            what = f"{left_out} of {len(longer)} pairs of {split} are longer than {_LONGEST:,} pieces"
            if left_out == len(longer):
                raise DataError(f"{what}: there is none to compute a loss of. Cut its lines into sentences.")
            _log.warning("%s; its loss is that of the others.", what)

        def sums(planned: PlannedBatch) -> list[float]:
            batch = assemble(tokens, planned, packing=False)
            longest = max(planned.source_length, planned.target_length)
            what = f"the loss of {len(planned.rows)} pairs of up to {longest} pieces a side"
            with explain_memory(what, "In a training, a larger --accumulate leaves more room for it."):
                return [float(value) for value in self._sums(batch["source"], batch["target"])]

        # Batches that are computed in parallel share the tokens.
        planned = by_length(tokens, _BATCH_TOKENS // threads.num_parallel(), skip=left_out)
        loss, right = map(sum, zip(*threads.parallel_map(sums, planned), strict=True))
        number = int(target[longer <= _LONGEST].sum(dtype=np.int64))
        return loss / number, right / number
