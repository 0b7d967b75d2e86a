"""Statistics of attention heads: how spread out their weights are and how far they look, over some sentences.

"Individual attention heads clearly learn to perform different tasks" (section 4): if so, these numbers differ.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from t2t_lite.insights.sentence import Sentence


class Head(NamedTuple):
    """One head; its numbers are means over all queries, without those that attend to nothing (as an LSTM's first may).

    Attributes:
        kind: "memory", "encoder" or "decoder".
        layer, head: counted from 1.
        entropy: of a query's weights, in nats; 0: all weight is on one position; ln S: each of S has the same weight.
        distance: weighted distance from a query's position to those that it attends to, in pieces. In the decoder, a
            query is at the piece that it has read last; in memory, positions of target and source are compared.
    """

    kind: str
    layer: int
    head: int
    entropy: float
    distance: float


def heads(sentences: Sequence[Sentence]) -> list[Head]:
    """Returns the heads of a model, in order, with means over sentences and their best translations."""
    maps = [sentence.maps() for sentence in sentences]
    found: list[Head] = []
    for kind in maps[0]:
        rows = np.concatenate([_numbers(weights[kind]) for weights in maps], axis=-1)  # [2, L, H, all queries]
        means = rows.sum(-1) / max(rows.shape[-1], 1)  # there may be no query that attends to anything
        for layer, head in np.ndindex(means.shape[1:]):
            entropy, distance = means[:, layer, head].tolist()
            found.append(Head(kind, layer + 1, head + 1, entropy, distance))
    return found


def table(found: Sequence[Head]) -> str:
    """Returns the heads as tab-separated lines with a header line."""
    lines = [f"{h.kind}\t{h.layer}\t{h.head}\t{h.entropy:.4f}\t{h.distance:.4f}" for h in found]
    return "\n".join(["\t".join(Head._fields), *lines, ""])


def _numbers(weights: np.ndarray) -> np.ndarray:
    """Weights [L, H, T, S] -> entropy and distance of each query that attends to something, [2, L, H, at most T]."""
    weights = np.asarray(weights, np.float64)
    logs = np.log(weights, out=np.zeros_like(weights), where=weights > 0)
    far = np.abs(np.arange(weights.shape[2])[:, None] - np.arange(weights.shape[3]))
    return np.stack([-(weights * logs).sum(-1), (weights * far).sum(-1)])[..., weights.any((0, 1, 3))]
