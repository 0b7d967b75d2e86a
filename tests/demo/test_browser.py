"""The page in a real browser.

Checks what the page shows, what typing, the caret, clicks and errors change, and that nothing else is loaded.
"""

import html
import json
import re
import shutil
import subprocess
import threading
from typing import Any

import flask
import pytest
from werkzeug.serving import make_server

from t2t_lite.decoding.translate import Translator
from t2t_lite.demo.app import MAX_CHARACTERS, make_app
from t2t_lite.demo.backends import Run
from tests.demo.conftest import CARD, LINES

pytestmark = pytest.mark.commit

# Runs in the page after the page's own script and records what it sees as JSON. Each answer takes at least 0.3 s.
PROBE = """
const seen = {blocked: [], most: 0, sent: []};
addEventListener("securitypolicyviolation", (event) => seen.blocked.push(event.violatedDirective));
addEventListener("error", (event) => seen.blocked.push(event.message));
addEventListener("unhandledrejection", (event) => seen.blocked.push(`${event.reason}`));
const find = (selector) => document.querySelector(selector);
const all = (selector) => [...document.querySelectorAll(selector)];
const sleep = (time) => new Promise((done) => setTimeout(done, time));
const until = async (name, condition) => {
  for (let i = 0; i < 500; i++) if (condition()) return; else await sleep(20);
  seen.blocked.push(`waited for ${name}`);
};
const box = find("#text"), result = find("#translation"), status = find("#status");
const type = (text) => { box.value = text; box.dispatchEvent(new Event("input")); };
const lines = () => all("#translation p").map((node) => node.textContent);
const rows = () => all("#nbest li").map((row) => [...row.querySelectorAll("span")].map((node) => node.textContent));
const look = () => ({lines: lines(), rows: find("#nbest").hidden ? [] : rows(), current: all(".current").length,
                     status: status.textContent, failed: status.className, role: status.getAttribute("role")});

await until("the first", () => lines().length);
seen.first = {...look(), title: document.title, heading: find("h1").textContent, about: find("#about").textContent,
              text: box.value, labels: [box.labels[0].textContent, find("#target").textContent],
              lang: [box.lang, result.lang], focus: document.activeElement === box, card: find("#card").textContent};

const real = fetch;
let under_way = 0;
window.fetch = async (path, options) => {
  seen.most = Math.max(seen.most, ++under_way);
  seen.sent.push([path, JSON.parse(options.body).text]);
  await sleep(300);
  try { return await real(path, options); } finally { under_way--; }
};
seen.shown = [];
const observer = new MutationObserver(() => seen.shown.push(lines()));
observer.observe(result, {childList: true});
type(LINES[1]); await sleep(50); type(LINES[2]); await sleep(400);
type(`${LINES[0]}\\n${LINES[1]}`);
await until("two lines", () => lines().length === 2);
observer.disconnect();
seen.two = look();
box.focus(); box.setSelectionRange(3, 3);
await until("the first line", () => find("#translation p").className === "current");
seen.moved = look();
all("#nbest input")[1].click();
seen.chosen = look();
box.setSelectionRange(box.value.length, box.value.length);
await until("the second line", () => lines().length > 1 && all("#translation p")[1].className === "current");
seen.elsewhere = look();
box.setSelectionRange(3, 3);
await until("the first line again", () => find("#translation p").className === "current");
seen.back = {...look(), checked: all("#nbest input").findIndex((input) => input.checked)};
find("#attention").open = true;
await until("lines", () => find("#attention svg path"));
seen.attention = {caption: find("#attention p").textContent, paths: all(".lines > svg path").length,
                  list: getComputedStyle(find("#attention .translations")).display};
all("#attention label").find((node) => node.textContent === "Heat maps").click();
all("#attention button.head")[0].click();
type(LINES[2]);
await until("new maps", () => find("#attention p").textContent.startsWith(LINES[2]));
seen.kept = {maps: all("#attention figure:not([hidden])").length, caption: find("#attention p").textContent};
type("a".repeat(2001)); await until("a message", () => status.className); seen.long = look();
type(" \\n"); await until("no message", () => !status.className); seen.blank = look();
window.fetch = () => Promise.reject(new TypeError("gone"));
type("b"); await until("another message", () => status.className); seen.gone = look();
window.fetch = real;
type(LINES[0]); await until("the last", () => lines().length); seen.last = look();
seen.unlabelled = all("textarea, input").filter((node) => !node.labels.length).length;
seen.strange = all("b, i:not(.head i), main script").length;
seen.loaded = performance.getEntriesByType("resource").map((entry) => new URL(entry.name).pathname);
const pre = document.createElement("pre");
pre.id = "seen"; pre.textContent = JSON.stringify(seen); document.body.append(pre);
"""


@pytest.fixture(scope="module")
def run(translator: Translator) -> Run:
    return Run(translator, CARD)


@pytest.fixture(scope="module")
def seen(run: Run, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What PROBE saw. The page loads it as a file of the same origin, so the page's policy is unchanged."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("there is no chromium")
    app = make_app(run, "127.0.0.1")
    probe = f"const LINES = {json.dumps(LINES)};{PROBE}"
    app.add_url_rule("/probe.js", view_func=lambda: flask.Response(probe, mimetype="text/javascript"))

    @app.after_request
    def add_probe(response: flask.Response) -> flask.Response:
        if flask.request.path == "/":
            script = b'<script src="probe.js" type="module"></script></head>'
            response.set_data(response.get_data().replace(b"</head>", script))
        return response

    server = make_server("127.0.0.1", 0, app, threaded=True)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    profile = tmp_path_factory.mktemp("browser")
    command = [browser, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}"]
    command += ["--virtual-time-budget=30000", "--dump-dom"]
    try:
        done = subprocess.run(
            [*command, f"http://127.0.0.1:{server.port}/#text=a%20small%20%3Cb%3Edog%3C/b%3E"],
            capture_output=True,
            check=False,
            timeout=120,
        )
    finally:
        server.shutdown()
        server.server_close()
    found = re.search(r'<pre id="seen">(.*?)</pre>', done.stdout.decode("utf-8"), re.DOTALL)
    assert found, done.stdout.decode("utf-8") + done.stderr.decode("utf-8")[-2000:]
    return json.loads(html.unescape(found[1]))


def _rows(run: Run, line: str) -> list[list[str]]:
    """Returns the n-best list as the page shows it."""
    return [[h.text, f"{h.score:.3f}".replace("-", "−")] for h in run.translate([line])[0]]


def _best(run: Run, *lines: str) -> list[str]:
    return [outputs[0].text for outputs in run.translate(lines)]


def test_the_page_begins_with_the_text_of_its_address(seen: dict[str, Any], run: Run) -> None:
    first = seen["first"]
    assert first["text"] == "a small <b>dog</b>"
    assert first["lines"] == _best(run, first["text"])
    assert first["rows"] == _rows(run, first["text"])
    assert first["focus"]
    assert re.fullmatch(r"\d+\.\d\d s", first["status"])
    assert (first["failed"], first["role"], first["current"]) == ("", "none", 0)


def test_the_model_is_described(seen: dict[str, Any]) -> None:
    first = seen["first"]
    assert first["title"] == first["heading"] == "English → German"
    assert first["labels"] == ["English", "German"]
    assert first["lang"] == ["en", "de"]
    assert first["about"] == "toy · 1.2 million parameters"
    assert "<i>none</i>" in first["card"]
    assert "d_model16" in first["card"]


def test_only_the_newest_text_is_translated_and_one_request_is_under_way(seen: dict[str, Any], run: Run) -> None:
    both = f"{LINES[0]}\n{LINES[1]}"
    assert seen["most"] == 1
    # The first text was replaced before it was sent, the second while its request was under way.
    assert seen["sent"][:2] == [["translate", LINES[2]], ["translate", both]]
    assert seen["shown"] == [_best(run, LINES[0], LINES[1])]


def test_the_caret_chooses_the_line_and_a_click_the_translation(seen: dict[str, Any], run: Run) -> None:
    assert (seen["two"]["rows"], seen["two"]["current"]) == (_rows(run, LINES[1]), 1)
    assert (seen["moved"]["rows"], seen["moved"]["current"]) == (_rows(run, LINES[0]), 1)
    chosen = [_rows(run, LINES[0])[1][0], _best(run, LINES[1])[0]]
    assert [seen[when]["lines"] for when in ("chosen", "elsewhere", "back")] == [chosen] * 3
    assert (seen["elsewhere"]["rows"], seen["elsewhere"]["current"]) == (_rows(run, LINES[1]), 1)
    assert seen["back"]["checked"] == 1


def test_attention_is_that_of_the_chosen_translation_and_stays_as_it_was_set(seen: dict[str, Any], run: Run) -> None:
    second = run.attention(LINES[0])["translations"][1]
    strong = sum(weight >= 0.02 for head in second["memory"][0] for row in head for weight in row)
    assert seen["attention"] == {"caption": f"{LINES[0]} → {second['text']}", "paths": strong, "list": "none"}
    assert seen["kept"] == {"maps": 1, "caption": f"{LINES[2]} → {_best(run, LINES[2])[0]}"}


def test_mistakes_are_reported_and_left_behind(seen: dict[str, Any], run: Run) -> None:
    for name, message in (
        ("long", f"The text has 2,001 characters; at most {MAX_CHARACTERS:,} are translated at once."),
        ("blank", ""),
        ("gone", "t2t-lite-demo does not answer. Is it still running?"),
    ):
        state = seen[name]
        assert (state["status"], state["lines"], state["rows"]) == (message, [], [])
        assert (state["failed"], state["role"]) == (("failed", "alert") if message else ("", "none"))
    assert seen["last"]["lines"] == _best(run, LINES[0])
    assert seen["last"]["rows"] == _rows(run, LINES[0])


def test_text_stays_text_and_nothing_else_is_loaded(seen: dict[str, Any]) -> None:
    files = {"/attention.css", "/demo.css", "/attention.js", "/demo.js", "/card.js", "/probe.js"}
    assert set(seen["loaded"]) == files | {"/card", "/translate", "/attention"}
    assert (seen["strange"], seen["unlabelled"], seen["blocked"]) == (0, 0, [])
