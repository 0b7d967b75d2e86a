"""Accuracy of whole outputs, as tensor2tensor's accuracy_per_sequence: the share that equal their references.

The counter is a metric of sacreBLEU, so that its paired tests apply.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sacrebleu.metrics import base

from t2t_lite.metrics.metric import Metric


class SequenceAccuracy(Metric):
    """Share of the outputs that are right, in percent; of several references, one has to be met.

    White space at the ends does not count, and inside it counts as one space, as in a vocabulary's pieces.

    Args:
        lowercase: compare without case.
    """

    kind = "accuracy_per_sequence"  # dev_accuracy is that of single pieces

    def __init__(self, *, lowercase: bool = False) -> None:
        super().__init__(_Counter(lowercase))


class _Signature(base.Signature):
    def __init__(self, args: dict[str, Any]) -> None:
        super().__init__(args)
        # No version: what is counted does not depend on sacreBLEU's.
        self.info |= {"case": "lc" if args["lowercase"] else "mixed", "space": "folded", "version": None}


class _Accuracy(base.Score):
    def __init__(self, right: int, lines: int) -> None:
        super().__init__("accuracy", 100 * right / lines)
        self._verbose = f"({right:,} of {lines:,} outputs right)"


class _Counter(base.Metric):
    _SIGNATURE_TYPE = _Signature

    def __init__(self, lowercase: bool) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.lowercase = lowercase

    def _preprocess_segment(self, sent: str) -> str:
        text = " ".join(sent.split())
        return text.lower() if self.lowercase else text

    def _extract_reference_info(self, refs: Sequence[str]) -> dict[str, Any]:
        return {"references": frozenset(refs)}

    def _compute_segment_statistics(self, hypothesis: str, ref_kwargs: Mapping[str, Any]) -> list[int]:
        return [int(hypothesis in ref_kwargs["references"]), 1]

    def _aggregate_and_compute(self, stats: Sequence[Sequence[int]]) -> _Accuracy:
        return self._compute_score_from_stats([sum(column) for column in zip(*stats, strict=True)])

    def _compute_score_from_stats(self, stats: Sequence[float]) -> _Accuracy:
        right, lines = stats
        return _Accuracy(int(right), int(lines))
