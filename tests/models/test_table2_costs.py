"""Table 2's training costs: each of the 14 is days x accelerators x FLOPS (section 6.1 and its footnote 5)."""

from pathlib import Path

import pytest

TFLOPS = {"K40": 3.7, "K80": 2.8, "M40": 6.0, "P100": 9.5}  # footnote 5: sustained, single precision

# System, language pair, days, accelerators, kind, the table's cost. Days and numbers: Zhou et al. (2016), Wu et al.
# (2016), Gehring et al. (2017), Shazeer et al. (2017), and section 5.2 of the paper for its own two models.
SINGLE = [
    ("Deep-Att + PosUnk", "En-Fr", 10, 32, "K40", 1.0e20),
    ("GNMT + RL", "En-De", 1, 96, "K80", 2.3e19),
    ("GNMT + RL", "En-Fr", 6, 96, "K80", 1.4e20),
    ("ConvS2S", "En-De", 18.5, 1, "M40", 9.6e18),
    ("ConvS2S", "En-Fr", 37, 8, "M40", 1.5e20),
    ("MoE", "En-De", 1, 64, "K40", 2.0e19),
    ("MoE", "En-Fr", 6, 64, "K40", 1.2e20),
    ("base", "", 0.5, 8, "P100", 3.3e18),
    ("big", "", 3.5, 8, "P100", 2.3e19),
]
ENSEMBLES = [  # of 8 models each; the table multiplies the rounded cost of one
    ("Deep-Att + PosUnk", "En-Fr", 8.0e20),
    ("GNMT + RL", "En-De", 1.8e20),
    ("GNMT + RL", "En-Fr", 1.1e21),
    ("ConvS2S", "En-De", 7.7e19),
    ("ConvS2S", "En-Fr", 1.2e21),
]
PAGE = (Path(__file__).parents[2] / "docs" / "paper.md").read_text(encoding="utf-8")


def _rounded(flops: float) -> float:
    return float(f"{flops:.1e}")


def _row(text: str) -> str:
    return text.replace("|  |", "| |").replace("e+", "e")


@pytest.mark.parametrize(("system", "pair", "days", "number", "kind", "cost"), SINGLE)
def test_cost_of_one_model(system: str, pair: str, days: float, number: int, kind: str, cost: float) -> None:
    flops = days * 24 * 3600 * number * TFLOPS[kind] * 1e12
    assert _rounded(flops) == cost
    assert _row(f"| {system} | {pair} | {days} x {number} {kind} | {flops:.2e} | {cost:.1e} |") in PAGE


@pytest.mark.parametrize(("system", "pair", "cost"), ENSEMBLES)
def test_cost_of_an_ensemble(system: str, pair: str, cost: float) -> None:
    (one,) = (row[-1] for row in SINGLE if row[:2] == (system, pair))
    assert _rounded(8 * one) == cost
    assert _row(f"| {system}, ensemble | {pair} | 8 x {one:.1e} | {8 * one:.2e} | {cost:.1e} |") in PAGE
