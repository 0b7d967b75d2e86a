"""The page is one file that loads nothing, and its text is never read as markup."""

import base64
import hashlib
import json
import re
import runpy
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from t2t_lite.insights.page import SCRIPTS, STYLES, attention_page
from t2t_lite.insights.sentence import Sentence, Translation

SVG = "http://www.w3.org/2000/svg"  # a namespace name; nothing is loaded from it


class _Elements(HTMLParser):
    """Collects all elements of a page as (tag, attributes, text)."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None], str]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs), ""))

    def handle_data(self, data: str) -> None:
        if self.found:
            tag, attributes, text = self.found[-1]
            self.found[-1] = (tag, attributes, text + data)

    def handle_endtag(self, tag: str) -> None:
        self.found.append(("", {}, ""))  # following text belongs to no element

    def texts(self, tag: str) -> list[str]:
        return [text for name, _, text in self.found if name == tag]


def _page(*sentences: Sentence) -> str:
    return attention_page('run <b> & "1"', sentences, {"view": "lines"})


def test_nothing_is_loaded(sentence: Sentence) -> None:
    page = _page(sentence)
    assert "://" not in page.replace(SVG, "")
    elements = _Elements(page).found
    assert not [(tag, a) for tag, a, _ in elements if {"src", "href", "srcset", "style", "action"} & a.keys()]
    assert "@import" not in page
    assert not re.search(r"url\(|fetch\(|innerHTML|XMLHttpRequest|WebSocket|eval\(", page)


def test_the_policy_allows_its_own_script_and_style_and_nothing_else(plain: Sentence) -> None:
    elements = _Elements(_page(plain))
    policies = [a["content"] for tag, a, _ in elements.found if a.get("http-equiv") == "Content-Security-Policy"]
    hashes = {
        kind: base64.b64encode(hashlib.sha256(elements.texts(kind)[-1].encode()).digest()).decode()
        for kind in ("style", "script")
    }
    assert policies == [
        f"default-src 'none'; style-src 'sha256-{hashes['style']}'; script-src 'sha256-{hashes['script']}'; "
        "base-uri 'none'; form-action 'none'"
    ]


def test_text_is_data_and_comes_back_as_it_was(sentence: Sentence) -> None:
    elements = _Elements(_page(sentence, sentence))
    assert [a.get("type") for tag, a, _ in elements.found if tag == "script"] == ["application/json", None]
    data = json.loads(elements.texts("script")[0])
    assert data == json.loads(json.dumps({"show": {"view": "lines"}, "sentences": [sentence.to_json()] * 2}))
    assert elements.texts("title") == [f"Attention: {sentence.text}"]
    assert 'run <b> & "1"' in elements.texts("p")
    assert not elements.texts("b")


def test_installations_have_every_file_of_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    root = Path(__file__).resolve().parent.parent.parent
    options: dict[str, Any] = {}
    monkeypatch.setattr("setuptools.setup", lambda **given: options.update(given))
    runpy.run_path(str(root / "setup.py"))
    package = root / "t2t_lite"
    shipped = {path for pattern in options["package_data"]["t2t_lite"] for path in package.glob(pattern)}
    files = {package / "insights" / name for name in (*SCRIPTS, *STYLES, "page.css", "page.html", "page.js")}
    assert files == {path for path in (package / "insights").iterdir() if path.suffix in (".css", ".html", ".js")}
    assert files <= shipped


def test_a_long_sentence_makes_a_page_of_a_few_megabytes() -> None:
    """6 layers, 8 heads, 40 tokens and 4 translations take less than 4 MB; equal weights, so that none rounds to 0."""
    layers, heads, length = 6, 8, 40
    full = np.full((layers, heads, length, length), 0.025, np.float32)
    pieces = ["▁word"] * length
    translations = [Translation("word " * length, -1.0, pieces, np.tril(full), full)] * 4
    assert len(_page(Sentence("word " * length, pieces, full, translations)).encode("utf-8")) < 4e6
