"""The picture of t2t-lite-compare: its points, and whether its labels can be read."""

import itertools
from xml.etree import ElementTree

import pytest

from t2t_lite.compare.picture import Point, svg


def _labels(root: ElementTree.Element, names: list[str]) -> list[ElementTree.Element]:
    texts = root.findall("{*}text")
    return [next(text for text in texts if (text.text or "").startswith(name)) for name in names]


def test_more_flops_are_further_right_and_better_scores_are_higher() -> None:
    root = ElementTree.fromstring(svg([Point("one", 30.0, 1e12), Point("<two>", 40.5, 4e12)], "BLEU"))
    one, two = root.findall("{*}circle")
    assert float(one.attrib["cx"]) < float(two.attrib["cx"])
    assert float(one.attrib["cy"]) > float(two.attrib["cy"])
    texts = [text.text for text in root.findall("{*}text")]
    assert {"BLEU", "training FLOPs", "1.0e+12", "4.0e+12", "one 30.00", "<two> 40.50"} <= set(texts)


@pytest.mark.parametrize("scores", [[99.8, 99.9, 99.85, 100.0, 99.9], [0.0] * 30, [0.0, 0.1, 99.9, 100.0], [12.0]])
def test_labels_neither_overlap_nor_leave_the_picture(scores: list[float]) -> None:
    names = [f"multi30k_rnn+num_layers=4+encoder=gnmt+wiring=gnmt*{n:02}" for n in range(len(scores))]
    root = ElementTree.fromstring(svg([Point(*point, 1e12) for point in zip(names, scores, strict=True)], "BLEU"))
    width, height = map(float, root.attrib["viewBox"].split()[2:])
    labels = _labels(root, names)
    lines = sorted(float(label.attrib["y"]) for label in labels)
    assert all(after - before > 16.9 for before, after in itertools.pairwise(lines))
    assert 13 < lines[0] <= lines[-1] < height - 40  # the numbers of the axis are below
    assert all(float(label.attrib["x"]) + 7 * len(label.text or "") < width for label in labels)
    shown = [text.text for text in root.findall("{*}text")]
    assert shown.count("1.0e+12") == 1


@pytest.mark.parametrize("scores", [[-40.0, -50.0], [130.0, 120.0], [-3.0], [103.0], [-5.0, 105.0], [0.0, 100.0]])
def test_scores_of_any_size_are_inside_the_picture(scores: list[float]) -> None:
    """A metric of one's own may have values that BLEU never has."""
    root = ElementTree.fromstring(svg([Point("a", score, 1e12) for score in scores], "own"))
    places = [float(circle.attrib["cy"]) for circle in root.findall("{*}circle")]
    assert all(20 <= place <= 20 + 340 for place in places)
    assert sorted(places, reverse=True) == [place for _, place in sorted(zip(scores, places, strict=True))]


def test_flops_that_are_nearly_equal_are_written_once() -> None:
    texts = ElementTree.fromstring(svg([Point("a", 1.0, 2.98e12), Point("b", 2.0, 3.01e12)], "BLEU")).findall("{*}text")
    assert [text.text for text in texts if "e+12" in (text.text or "")] == ["3.0e+12"]
