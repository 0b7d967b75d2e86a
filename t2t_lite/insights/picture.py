"""The attention over a sentence as a picture for a paper: lines as in Figures 3-5, or heat maps (matplotlib)."""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from t2t_lite.errors import UsageError

if TYPE_CHECKING:
    from t2t_lite.insights.sentence import Sentence

_LEAST = 0.02  # smaller weights are not drawn as lines
_ROW = 0.2  # inches, height of a token
_FONT = 9  # points
_DPI = 200  # of a PNG

Labels = Sequence[str]
Numbers = Sequence[int]

_log = logging.getLogger("t2t_lite")


def check_matplotlib() -> None:
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError:
        raise UsageError("A picture needs matplotlib, which is not installed: pip install 't2t-lite[plots]'") from None


def attention_picture(figure: Any, kind: str) -> bytes:
    """Returns the file ("png", "svg" or "pdf") of a figure; logs matplotlib's warnings."""
    file = io.BytesIO()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        figure.savefig(file, format=kind, dpi=_DPI, bbox_inches="tight")
    for message in sorted({str(w.message) for w in caught}):  # such as a character that the font lacks
        _log.warning("%s", message)
    return file.getvalue()


def attention_figure(sentence: Sentence, attention: str, *, layer: int, head: int, style: str) -> Any:
    """Draws the attention over a sentence and its best translation, as a `matplotlib.figure.Figure`.

    Args:
        attention: one of the kinds that `Sentence.maps` has.
        layer, head: counted from 1; 0 for all.
        style: "lines": a panel per layer, a colour per head. "maps": a heat map per layer and head.
    """
    from matplotlib.figure import Figure

    weights, queries, keys = _parts(sentence, attention)
    layers = [layer - 1] if layer else list(range(weights.shape[0]))
    heads = [head - 1] if head else list(range(weights.shape[1]))
    figure = Figure()
    if style == "lines":
        _draw_lines(figure, weights, queries, keys, layers, heads, mirrored=attention == "memory")
    else:
        _draw_maps(figure, weights, queries, keys, layers, heads)
    return figure


def _parts(sentence: Sentence, attention: str) -> tuple[np.ndarray, list[str], list[str]]:
    """Returns weights [layer, head, query, key] and the labels of the queries and keys."""
    best = sentence.translations[0]
    source, target = ([_label(piece) for piece in pieces] for pieces in (sentence.source, best.target))
    sides = {"encoder": (source, source), "decoder": (target, ["⟨start⟩", *target[:-1]]), "memory": (target, source)}
    return sentence.maps()[attention], *sides[attention]


def _label(piece: str) -> str:
    """Returns the piece as attention.js writes it."""
    if piece in ("</s>", "▁"):
        return {"</s>": "⟨end⟩", "▁": "␣"}[piece]
    return piece[1:] if piece.startswith("▁") else f"·{piece}"


def _draw_lines(
    figure: Any, weights: np.ndarray, queries: Labels, keys: Labels, layers: Numbers, heads: Numbers, mirrored: bool
) -> None:
    """Draws a panel per layer. mirrored: the keys are on the left, as a source is before its translation."""
    from matplotlib import colormaps
    from matplotlib.collections import LineCollection

    rows = max(len(queries), len(keys))
    figure.set_size_inches(3.4 * len(layers), _ROW * rows)
    colours = colormaps["tab10" if weights.shape[1] <= 10 else "tab20"]
    panels = figure.subplots(1, len(layers), squeeze=False, gridspec_kw={"wspace": 1.0})[0]
    for axes, layer in zip(panels, layers, strict=True):
        axes.set(xlim=(0, 1), ylim=(rows - 0.5, -0.5))
        axes.set_title(f"layer {layer + 1}", fontsize=_FONT)
        axes.axis("off")
        left, right = (keys, queries) if mirrored else (queries, keys)
        for x, align, tokens in ((-0.03, "right", left), (1.03, "left", right)):
            for y, token in enumerate(tokens):
                axes.text(x, y, token, ha=align, va="center", fontsize=_FONT, parse_math=False)
        spread = min(0.1, 0.6 / len(heads))  # heads that agree make a ribbon
        for rank, head in enumerate(heads):
            shift = (rank - (len(heads) - 1) / 2) * spread
            where = np.argwhere(weights[layer, head] >= _LEAST)
            strength = weights[layer, head][tuple(where.T)].clip(0, 1)
            ends = where[:, ::-1] if mirrored else where
            shades = np.tile(colours(head % colours.N), (len(where), 1))
            shades[:, 3] = strength
            segments = [[(0, y + shift), (1, z + shift)] for y, z in ends.tolist()]
            axes.add_collection(LineCollection(segments, colors=shades, linewidths=0.5 + 72 * _ROW * spread * strength))


def _draw_maps(
    figure: Any, weights: np.ndarray, queries: Labels, keys: Labels, layers: Numbers, heads: Numbers
) -> None:
    """Draws a grid: a row per layer, a column per head; in each map, queries go down and keys go right."""
    height, width = _ROW * len(queries), _ROW * len(keys)
    figure.set_size_inches((width + 0.4) * len(heads), (height + 0.4) * len(layers))
    grid = figure.subplots(len(layers), len(heads), squeeze=False, gridspec_kw={"wspace": 0.15, "hspace": 0.2})
    image: Any = None
    for row, layer in zip(grid, layers, strict=True):
        for axes, head in zip(row, heads, strict=True):
            image = axes.imshow(weights[layer, head], cmap="Blues", vmin=0, vmax=1, aspect="auto")
            axes.set_xlabel(f"layer {layer + 1}, head {head + 1}", fontsize=_FONT)
            axes.tick_params(length=0, labeltop=True, labelbottom=False)
            _set_ticks(axes.xaxis, keys if layer == layers[0] else [], rotation=60, ha="left", rotation_mode="anchor")
            _set_ticks(axes.yaxis, queries if head == heads[0] else [])
    figure.colorbar(image, ax=grid, shrink=0.6, label="weight", pad=0.02)


def _set_ticks(axis: Any, tokens: Labels, **options: Any) -> None:
    axis.set_ticks(range(len(tokens)), tokens, fontsize=_FONT, **options)
    for label in axis.get_ticklabels():
        label.set_parse_math(False)
