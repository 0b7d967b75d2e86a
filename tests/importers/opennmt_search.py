"""OpenNMT-tf's beam search in NumPy, on a model of ours: finished hypotheses stay among the K of a sentence.

It ranks by log-probability over ((5 + length) / 6)^alpha. The length counts the end symbol, and one more once the
hypothesis has ended. Release 2.32 has a fault: a finished hypothesis gets the log-probability of the hypothesis that
had the same rank before (utils/decoding.py, dynamic_decode). This search repeats the fault; otherwise the lists would
differ.

Legend: B sentences, K hypotheses of each, V ids.
"""

from __future__ import annotations

from typing import Any

import numpy as np

EOS = 1
_NEVER = -1e30


def search(
    model: Any, source: np.ndarray, beam_size: int, alpha: float, longest: int = 24
) -> tuple[np.ndarray, np.ndarray]:
    """Maps int [B, S] to ids [B, K, T], which end with 1, and log-probabilities [B, K], the best first."""
    if len(source) > 1:  # a batch would go on with finished sentences until all are finished
        alone = [search(model, row[None], beam_size, alpha, longest) for row in source]
        return tuple(np.concatenate(found) for found in zip(*alone, strict=True))
    batch = len(source)
    repeated = np.repeat(source, beam_size, 0)
    ids = np.zeros((batch, beam_size, longest), np.int32)
    logp = np.tile([0.0] + [_NEVER] * (beam_size - 1), (batch, 1))
    finished, lengths = np.zeros((batch, beam_size), bool), np.zeros((batch, beam_size))
    for at in range(longest):
        target = ids.reshape(batch * beam_size, longest)  # later positions are not seen
        logits = np.array(model({"source": repeated, "target": target}), np.float64)[:, at]
        steps = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
        steps = steps.reshape(batch, beam_size, -1)
        ended = np.where(np.arange(steps.shape[-1]) == EOS, 0.0, _NEVER)
        total = logp[..., None] + np.where(finished[..., None], ended, steps)
        ranked = total / ((5 + lengths[..., None] + 1) / 6) ** alpha
        best = np.argsort(-ranked.reshape(batch, -1), -1, kind="stable")[:, :beam_size]
        parents, symbols = np.divmod(best, steps.shape[-1])
        lengths = np.take_along_axis(np.where(finished, lengths, lengths + 1), parents, 1)
        finished = np.take_along_axis(finished, parents, 1)
        logp = np.where(finished, logp, np.take_along_axis(total.reshape(batch, -1), best, 1))  # not of the parents
        ids = np.take_along_axis(ids, parents[..., None], 1)
        ids[..., at] = symbols
        finished |= symbols == EOS
        if finished.all():
            return ids, logp
    raise AssertionError("a hypothesis did not end")
