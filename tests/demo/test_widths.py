"""The demo page at three widths, light and dark: axe finds no faults, everything can be read and reached."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from werkzeug.serving import make_server

from t2t_lite.decoding.translate import Translator
from t2t_lite.demo.app import make_app
from t2t_lite.demo.backends import Run
from tests import browser
from tests.demo.conftest import CARD

pytestmark = pytest.mark.commit

PARAGRAPH = "The small dog sees the cat. The cat is very big! Mr. Smith runs away from both."


@pytest.fixture(scope="module")
def address(translator: Translator) -> Iterator[str]:
    card = {**CARD, "scores": [{"split": "dev", "metric": "bleu", "value": 39.5, "weights": "averaged/model-10"}]}
    card |= {"vocabularies": {"source": {"pieces": 100, "sha256": "0123456789abcdef" * 4}}, "date": "2026-01-01"}
    server = make_server("127.0.0.1", 0, make_app(Run(translator, card), "127.0.0.1"), threaded=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.port}/"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with browser.chromium() as running:
        yield running


@pytest.mark.nightly
@pytest.mark.parametrize("scheme", browser.SCHEMES)
@pytest.mark.parametrize("size", browser.SIZES, ids=lambda size: str(size[0]))
def test_axe_finds_nothing_and_the_card_is_readable(
    chromium: Any, address: str, size: tuple[int, int], scheme: str
) -> None:
    with browser.opened(chromium, address + "#text=a%20small%20dog", size, scheme) as page:
        page.wait_for_selector("#nbest:not([hidden])")
        for summary in ("#attention > summary", "#card > summary"):
            page.click(summary)
        page.wait_for_selector("#attention .stage > svg", state="attached")
        assert browser.violations(page) == []
        assert browser.overflow(page) == 0
        assert page.locator("#card").bounding_box()["height"] < 1500
        narrowest = page.eval_on_selector_all("#card dd", "nodes => Math.min(...nodes.map((n) => n.clientWidth))")
        assert narrowest > 100
        page.click("#card details summary")
        page.click("#attention label:has-text('Heat maps')")
        assert browser.violations(page) == []
        page.click("#attention label:has-text('All layers')")
        assert browser.violations(page) == []


def _contrast(page: Any, selector: str) -> float:
    """Returns the contrast of a node's text and its own background, by WCAG's formula."""
    return page.eval_on_selector(
        selector,
        """node => {
          const luminance = (colour) => {
            const [r, g, b] = colour.match(/[0-9.]+/g).slice(0, 3).map((c) => c / 255)
              .map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
            return 0.2126 * r + 0.7152 * g + 0.0722 * b;
          };
          const style = getComputedStyle(node);
          const [low, high] = [style.color, style.backgroundColor].map(luminance).sort((a, b) => a - b);
          return (high + 0.05) / (low + 0.05);
        }""",
    )


@pytest.mark.parametrize("scheme", browser.SCHEMES)
def test_the_option_just_clicked_can_be_read(chromium: Any, address: str, scheme: str) -> None:
    with browser.opened(chromium, address + "#text=a%20small%20dog", (1280, 800), scheme) as page:
        page.click("#attention > summary")
        page.click("#attention label:has-text('Heat maps')")  # the mouse stays on it
        assert _contrast(page, "#attention label:has-text('Heat maps') :checked + span") >= 4.5


def test_everything_works_by_keyboard(chromium: Any, address: str) -> None:
    with browser.opened(chromium, address, (390, 844)) as page:
        page.keyboard.type("a small dog")
        page.wait_for_selector("#nbest:not([hidden])")
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.id") == "copy"
        page.keyboard.press("Tab")
        page.keyboard.press("ArrowDown")
        second = page.locator("#nbest li").nth(1).locator("span").first.text_content()
        assert page.text_content("#translation") == second
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        page.wait_for_selector("#attention .stage > svg", state="attached")


def test_the_translation_is_copied(chromium: Any, address: str) -> None:
    with browser.opened(chromium, address + "#text=a%20small%20dog%0Athe%20cat", (1280, 800)) as page:
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        page.wait_for_selector("#translation p")
        lines = page.locator("#translation p").all_text_contents()
        page.click("#copy")
        page.wait_for_selector("#copy:has-text('Copied')")
        assert page.evaluate("navigator.clipboard.readText()") == "\n".join(lines)


def test_a_pasted_paragraph_gets_a_hint_and_is_broken_into_lines(chromium: Any, address: str) -> None:
    with browser.opened(chromium, address, (390, 844)) as page:
        page.fill("#text", PARAGRAPH)
        page.wait_for_selector("#hint:not([hidden])")
        assert "3 sentences" in page.text_content("#hint")
        assert browser.violations(page) == []
        page.click("#hint button")
        lines = page.input_value("#text").split("\n")
        assert lines[0] == "The small dog sees the cat."
        assert lines[2] == "Mr. Smith runs away from both."
        page.wait_for_selector("#translation p >> nth=2")
        assert not page.is_visible("#hint")
