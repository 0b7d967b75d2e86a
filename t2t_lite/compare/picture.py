"""The picture of t2t-lite-compare: scores against training FLOPs, as SVG."""

import html
import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

# In pixels: the plot's width and height, the space to its left, above and below; the least distance between labels
# and between the FLOPs on the axis, and a letter's width.
_PLOT_WIDTH, _PLOT_HEIGHT, _LEFT, _TOP, _BELOW = 500, 340, 70, 20, 60
_LINE, _TICK, _LETTER = 17, 60, 7.5


class Point(NamedTuple):
    """A row of the table: its name, its score, and the FLOPs of its training."""

    name: str
    score: float
    flops: float


def svg(points: Sequence[Point], score_name: str) -> str:
    """Draws each point as a circle with its name beside it; the FLOPs axis is logarithmic."""
    labels = [f"{point.name} {point.score:.2f}" for point in points]
    plot_height = max(_PLOT_HEIGHT, _LINE * len(points))
    height, axis = _TOP + plot_height + _BELOW, _TOP + plot_height
    logs, scores = [math.log10(point.flops) for point in points], [point.score for point in points]
    low, high = min(logs) - 0.2, max(logs) + 0.2
    bottom, top = min(scores) - 3, max(scores) + 3
    if 0 <= min(scores) <= max(scores) <= 100:  # as BLEU; a problem's own metric may have other values
        bottom, top = max(bottom, 0), min(top, 100)

    def x(log: float) -> float:
        return _LEFT + (log - low) / (high - low) * _PLOT_WIDTH

    def y(score: float) -> float:
        return axis - (score - bottom) / (top - bottom) * plot_height

    ends = [x(log) + 40 + _LETTER * len(label) for log, label in zip(logs, labels, strict=True)]
    width = max(*ends, _LEFT + _PLOT_WIDTH + 20)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" font-family="sans-serif" '
        'font-size="13">',
        f'<rect width="{width:.0f}" height="{height}" fill="white"/>',
        f'<path d="M{_LEFT} {_TOP}V{axis}H{_LEFT + _PLOT_WIDTH}" fill="none" stroke="#888"/>',
        _text("training FLOPs", _LEFT + _PLOT_WIDTH / 2, height - 15, "middle"),
        f'<text x="18" y="{height / 2}" text-anchor="middle" transform="rotate(-90 18 {height / 2})">'
        f"{html.escape(score_name)}</text>",
    ]
    ticks = (min(logs), max(logs)) if x(max(logs)) - x(min(logs)) > _TICK else (max(logs),)
    parts += [_text(f"{10**log:.1e}", x(log), axis + 18, "middle") for log in ticks]
    parts += [_text(f"{score:.1f}", _LEFT - 8, y(score) + 4, "end") for score in (bottom, (bottom + top) / 2, top)]
    lines = separate([y(score) for score in scores], _LINE, axis)
    for label, log, score, line in zip(labels, logs, scores, lines, strict=True):
        at, beside = (x(log), y(score)), x(log) + 22
        parts.append(f'<path d="M{at[0]:.1f} {at[1]:.1f}L{beside - 4:.1f} {line:.1f}" stroke="#aaa"/>')
        parts.append(f'<circle cx="{at[0]:.1f}" cy="{at[1]:.1f}" r="5" fill="#0072b2"/>')
        parts.append(_text(label, beside, line + 4, "start"))
    return "\n".join([*parts, "</svg>", ""])


def separate(places: Sequence[float], distance: float, end: float) -> list[float]:
    """Moves places down, or up where one would pass `end`, until neighbours are `distance` apart; keeps their order."""
    order = sorted(range(len(places)), key=places.__getitem__)
    moved = list(places)
    for before, after in itertools.pairwise(order):
        moved[after] = max(moved[after], moved[before] + distance)
    for index in reversed(order):
        moved[index] = min(moved[index], end)
        end = moved[index] - distance
    return moved


def _text(text: str, x: float, y: float, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{html.escape(text)}</text>'
