"""A real chromium at a given size and colour scheme, and the accessibility checker axe in it."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

SIZES = [(390, 844), (768, 1024), (1280, 800)]  # a telephone, a tablet, a laptop
SCHEMES = ["light", "dark"]


def find_chromium() -> str:
    """Returns chromium's path; skips the test where there is none."""
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        pytest.skip("there is no chromium")
    return found


@contextmanager
def chromium() -> Iterator[Any]:
    """Gives a running browser (Playwright's Browser)."""
    path = find_chromium()
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def opened(browser: Any, address: str, size: tuple[int, int], scheme: str = "light") -> Iterator[Any]:
    """Gives the page at `address` in a window of `size`, and checks at the end that it raised no error."""
    page = browser.new_page(viewport={"width": size[0], "height": size[1]}, color_scheme=scheme)
    page.set_default_timeout(15000)
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    try:
        page.goto(address)
        yield page
        assert errors == []
    finally:
        page.close()


def violations(page: Any) -> list[str]:
    """Returns the faults that axe finds on the page as shown now, for all rules and levels."""
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page).response["violations"]
    return [f"{rule['id']}: {node['target']} {node['failureSummary']}" for rule in found for node in rule["nodes"]]


def overflow(page: Any) -> int:
    """By how many pixels the page is wider than its window."""
    return page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
