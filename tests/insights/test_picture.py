"""Pictures for papers: the weights that they show, and their files."""

import logging
import sys

import numpy as np
import pytest

from t2t_lite.errors import UsageError
from t2t_lite.insights.picture import attention_figure, attention_picture, check_matplotlib
from t2t_lite.insights.sentence import Sentence

START = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}


@pytest.mark.commit
@pytest.mark.parametrize("kind", START)
def test_files_begin_as_their_kind_does(sentence: Sentence, kind: str, caplog: pytest.LogCaptureFixture) -> None:
    """A warning names characters that the font lacks (emoji); dollar signs do not start a formula."""
    figure = attention_figure(sentence, "memory", layer=1, head=0, style="lines")
    with caplog.at_level(logging.WARNING):
        data = attention_picture(figure, kind)
    assert data.startswith(START[kind])
    assert len(data) > 3000
    assert ("missing from font" in caplog.text) == ("🐕" in sentence.text)


@pytest.mark.parametrize(("attention", "layer", "head"), [("memory", 2, 0), ("encoder", 0, 3), ("decoder", 1, 1)])
def test_lines_are_the_weights(plain: Sentence, attention: str, layer: int, head: int) -> None:
    best = plain.translations[0]
    weights = {"memory": best.memory, "encoder": plain.encoder, "decoder": best.decoder}[attention]
    figure = attention_figure(plain, attention, layer=layer, head=head, style="lines")
    layers = [layer - 1] if layer else [0, 1]
    assert [axes.get_title() for axes in figure.axes] == [f"layer {i + 1}" for i in layers]
    for axes, i in zip(figure.axes, layers, strict=True):
        heads = [head - 1] if head else [0, 1, 2]
        assert len(axes.collections) == len(heads)
        for lines, h in zip(axes.collections, heads, strict=True):
            drawn = np.zeros_like(weights[i, h])
            for ((_, left), (_, right)), colour in zip(lines.get_segments(), lines.get_colors(), strict=True):
                query, key = (right, left) if attention == "memory" else (left, right)
                drawn[round(query), round(key)] = colour[3]
            np.testing.assert_allclose(drawn, np.where(weights[i, h] >= 0.02, weights[i, h], 0), atol=1e-6)
        assert len(axes.texts) == sum(weights.shape[2:])


def test_heat_maps_are_the_weights(plain: Sentence) -> None:
    figure = attention_figure(plain, "decoder", layer=0, head=0, style="maps")
    maps = [axes for axes in figure.axes if axes.get_xlabel()]
    assert [axes.get_xlabel() for axes in maps] == [f"layer {i}, head {h}" for i in (1, 2) for h in (1, 2, 3)]
    drawn = np.stack([axes.images[0].get_array() for axes in maps])
    np.testing.assert_array_equal(drawn.reshape(2, 3, *drawn.shape[1:]), plain.translations[0].decoder)
    columns = [label.get_text() for label in maps[0].get_xticklabels()]
    rows = [label.get_text() for label in maps[0].get_yticklabels()]
    assert columns == ["⟨start⟩", *rows[:-1]]
    assert rows[-1] == "⟨end⟩"


def test_without_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    check_matplotlib()
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(UsageError, match=r"pip install 't2t-lite\[plots\]'"):
        check_matplotlib()
