"""The attention page at three widths, light and dark: axe finds no faults, each token can be reached."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from t2t_lite.insights.page import attention_page
from t2t_lite.insights.sentence import Sentence
from tests import browser


@pytest.fixture(scope="module")
def address(plain: Sentence, sentences: list[Sentence], tmp_path_factory: pytest.TempPathFactory) -> str:
    path: Path = tmp_path_factory.mktemp("page") / "page.html"
    path.write_text(attention_page("a run", [plain, *sentences], {"attention": "memory", "layer": 1}), encoding="utf-8")
    return path.as_uri()


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with browser.chromium() as running:
        yield running


@pytest.mark.nightly
@pytest.mark.parametrize("scheme", browser.SCHEMES)
@pytest.mark.parametrize("size", browser.SIZES, ids=lambda size: str(size[0]))
def test_axe_finds_nothing(chromium: Any, address: str, size: tuple[int, int], scheme: str) -> None:
    with browser.opened(chromium, address, size, scheme) as page:
        assert browser.violations(page) == []
        page.click("button.head >> nth=1")
        page.click(".right .token >> nth=1")
        assert browser.violations(page) == []
        for view in ("Heat maps", "All layers"):
            page.click(f"label:has-text('{view}')")
            assert browser.violations(page) == []
        assert browser.overflow(page) == 0


@pytest.mark.parametrize("size", browser.SIZES, ids=lambda size: str(size[0]))
@pytest.mark.parametrize("kind", ["Encoder–decoder", "Encoder", "Decoder"])
def test_each_token_of_the_lines_can_be_scrolled_into_view(
    chromium: Any, address: str, size: tuple[int, int], kind: str
) -> None:
    with browser.opened(chromium, address, size) as page:
        page.get_by_label(kind, exact=True).check()
        beyond = page.eval_on_selector(
            ".stage",
            """stage => {
              stage.scrollLeft = 0;
              const start = stage.getBoundingClientRect().left;
              return [...stage.querySelectorAll(".token span:first-child")]
                .filter((node) => node.getBoundingClientRect().left < start - 0.5).map((node) => node.textContent);
            }""",
        )
        assert beyond == []
        tops = [page.locator(f"{place} >> nth=0").bounding_box()["y"] for place in (".left .token", ".right .token")]
        assert tops == [page.locator(".lines > svg").bounding_box()["y"]] * 2
