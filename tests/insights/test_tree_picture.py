"""Trees as pictures: every word, tag and label is there, each below its parent, and nothing overlaps."""

import itertools
import xml.etree.ElementTree as ElementTree

import pytest

from t2t_lite.insights.tree_picture import tree_svg
from t2t_lite.text.trees.tree import parse

SVG = "{http://www.w3.org/2000/svg}"
TREE = parse("(S (NP (DT the) (NN R&D) (NN -LRB-)) (VP (VBZ sees) (NP (PRP <it>))) (. .))")


def _texts(svg: str, kind: str) -> list[tuple[str, float, float]]:
    root = ElementTree.fromstring(svg)
    found = [e for e in root.iter(f"{SVG}text") if e.get("class") == kind]
    return [(e.text or "", float(e.get("x", "")), float(e.get("y", ""))) for e in found]


def test_all_is_there_from_left_to_right() -> None:
    svg = tree_svg(TREE)
    assert [text for text, _, _ in _texts(svg, "word")] == ["the", "R&D", "(", "sees", "<it>", "."]
    assert [text for text, _, _ in _texts(svg, "tag")] == ["DT", "NN", "NN", "VBZ", "PRP", "."]
    assert [text for text, _, _ in _texts(svg, "phrase")] == ["S", "NP", "VP", "NP"]
    words = _texts(svg, "word")
    for (left, x, _), (right, next_x, _) in itertools.pairwise(words):
        assert next_x - x > 4 * (len(left) + len(right))  # at least 8 pixels per character


def test_phrases_stand_above_the_middle_of_what_they_hold() -> None:
    svg = tree_svg(TREE)
    places = {text: (x, y) for kind in ("word", "tag") for text, x, y in _texts(svg, kind)}
    (_, s_x, s_y), (_, np_x, np_y), (_, vp_x, vp_y), (_, it_x, it_y) = _texts(svg, "phrase")
    assert s_y < np_y == vp_y < it_y == places["DT"][1] < places["the"][1]
    assert np_x == pytest.approx((places["DT"][0] + places["("][0]) / 2, abs=0.2)  # coordinates have one decimal
    assert it_x == places["PRP"][0] == places["<it>"][0]
    assert vp_x == pytest.approx((places["VBZ"][0] + it_x) / 2, abs=0.2)
    assert np_x < s_x < places["."][0]


def test_a_line_from_each_part_to_what_holds_it() -> None:
    root = ElementTree.fromstring(tree_svg(TREE))
    assert len(list(root.iter(f"{SVG}line"))) == 6 + 6 + 3
    width, height = float(root.get("width", "")), float(root.get("height", ""))
    for line in root.iter(f"{SVG}line"):
        (x1, y1), (x2, y2) = ((float(line.get(f"x{i}", "")), float(line.get(f"y{i}", ""))) for i in (1, 2))
        assert 0 < x1 < width
        assert 0 < x2 < width
        assert 0 < y1 < y2 < height


def test_a_deep_tree_and_one_word() -> None:
    deep = parse("(NP " * 3000 + "(NN x)" + ")" * 3000)
    assert len(_texts(tree_svg(deep), "phrase")) == 3000
    assert [text for text, _, _ in _texts(tree_svg(parse("(NN x)")), "word")] == ["x"]
