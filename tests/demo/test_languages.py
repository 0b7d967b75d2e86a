"""The list of target languages: in the page's requests, and in a browser."""

import threading
from typing import Any

import pytest
from werkzeug.serving import make_server

from t2t_lite.decoding.translate import Translator
from t2t_lite.demo.app import make_app
from t2t_lite.demo.backends import Run
from t2t_lite.models.transformer import Transformer
from t2t_lite.text.vocabulary_training import train_vocabulary
from tests import reference
from tests.browser import chromium, opened
from tests.demo.conftest import CARD, HPARAMS, LINES

LABELS = [">>de<<", ">>fr<<"]


@pytest.fixture(scope="module")
def run() -> Run:
    vocabulary = train_vocabulary(LINES * 3, size=100, labels=LABELS)
    model = Transformer.from_hparams(HPARAMS, vocabulary.size, vocabulary.size, True)
    reference.randomise(model, 1, scale=2)
    made = Run(Translator(model, vocabulary, vocabulary, HPARAMS), CARD)
    made.translate([made.example])  # as the command does: the first one takes seconds
    return made


@pytest.mark.commit
def test_the_page_learns_the_labels_unless_the_language_is_fixed(run: Run, translator: Translator) -> None:
    client = make_app(run, "127.0.0.1").test_client()
    assert client.get("/card").json["labels"] == LABELS
    assert '<label id="languages" hidden>Translate into <select id="language"></select></label>' in client.get("/").text
    fixed = Run(run._translator.with_language("fr"), CARD)
    for other in (fixed, Run(translator, CARD)):
        assert make_app(other, "127.0.0.1").test_client().get("/card").json["labels"] == []


@pytest.mark.nightly
def test_a_language_is_chosen_by_keyboard(run: Run) -> None:
    from playwright.sync_api import expect

    expect.set_options(timeout=30_000)
    server = make_server("127.0.0.1", 0, make_app(run, "127.0.0.1"), threaded=True)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    sent: list[Any] = []
    try:
        with chromium() as browser, opened(browser, f"http://127.0.0.1:{server.port}/", (1280, 800)) as page:
            page.on(
                "request", lambda request: sent.append(request.post_data_json) if request.method == "POST" else None
            )
            choice = page.get_by_label("Translate into")
            assert choice.locator("option").all_inner_texts() == ["German", "French"]
            page.locator("#text").fill("a small dog\n\n>>de<< a cat")
            expect(page.locator("#translation p")).to_have_count(3)
            assert sent[-1] == {"text": ">>de<< a small dog\n\n>>de<< a cat"}
            choice.focus()
            page.keyboard.press("ArrowDown")
            expect(page.locator("#translation")).to_have_attribute("lang", "fr")
            wanted = ">>fr<< a small dog\n\n>>de<< a cat"
            best = [found[0].text for found in run.translate(wanted.split("\n"))]
            expect(page.locator("#translation p").first).to_have_text(best[0])
            assert sent[-1] == {"text": wanted}
            page.locator("#attention summary").click()
            page.locator("#text").press("Control+Home")
            expect(page.locator("#attention > p")).to_contain_text(">>fr<< a small dog")
            assert sent[-1] == {"text": ">>fr<< a small dog"}
    finally:
        server.shutdown()
        server.server_close()
