"""The page in a real browser: what it draws, what pointing, clicking and keys change, and that nothing is loaded."""

import base64
import hashlib
import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from t2t_lite.insights.page import attention_page
from t2t_lite.insights.sentence import Sentence

# Runs in the page after the page's own script and records what it sees as JSON.
SCRIPT = """
const seen = {}, blocked = [];
addEventListener("securitypolicyviolation", (event) => blocked.push(event.violatedDirective));
addEventListener("error", (event) => blocked.push(event.message));
const all = (selector) => [...document.querySelectorAll("main " + selector)];
const send = (node, type) => node.dispatchEvent(new MouseEvent(type, {bubbles: true}));
const key = (name) => document.activeElement.dispatchEvent(new KeyboardEvent("keydown", {key: name, bubbles: true}));
const look = (name) => seen[name] = {
  tokens: [".left", ".right"].map((side) => all(side + " .token span:first-child").map((node) => node.textContent)),
  weights: all(".left .weight").map((node) => node.textContent),
  groups: all(".lines > svg g").length,
  lines: all(".lines > svg path").length,
  pressed: all("button.head").map((node) => node.getAttribute("aria-pressed")),
  isolated: all(".isolated").length,
  maps: all("figure:not([hidden])").length,
  thumbnails: all(".layers button").length,
  readout: all(".readout")[0].textContent,
};
const radio = (name) => all("label").find((node) => node.textContent === name).firstChild.click();
look("start");
const token = all(".right .token")[1];
send(token, "mouseover"); look("token"); send(token, "mouseout"); look("left");
token.click(); look("pinned"); token.focus(); key("Escape"); look("unpinned");
key("ArrowDown"); seen.down = all(".right .token").indexOf(document.activeElement);
key("ArrowLeft"); seen.across = all(".left .token").indexOf(document.activeElement);
document.activeElement.blur();
const head = all("button.head")[2];
send(head, "mouseover"); look("head"); send(head, "mouseout");
head.click(); look("without"); send(head, "dblclick"); look("alone"); all(".all")[0].click(); look("all");
radio("Decoder"); look("decoder"); radio("Encoder"); look("encoder");
radio("Heat maps"); send(all(".map")[0], "mousemove"); look("maps");
radio("All layers"); look("layers"); all(".layers button")[4].click(); look("clicked");
seen.layer = all("label").filter((node) => node.firstChild.checked).map((node) => node.textContent);
seen.heading = document.querySelector("h1").textContent;
seen.strange = document.querySelectorAll("main b, main script, h1 *").length;
seen.loaded = performance.getEntriesByType("resource").length;
seen.blocked = blocked;
const result = document.createElement("pre");
result.id = "seen"; result.textContent = JSON.stringify(seen); document.body.append(result);
"""


@pytest.fixture(scope="module")
def seen(plain: Sentence, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What SCRIPT saw. Its hash is added to the page's policy, which is otherwise unchanged."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("there is no chromium")
    folder = tmp_path_factory.mktemp("browser")
    allowed = base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()
    page = attention_page("a run", [plain], {"attention": "memory", "layer": 1})
    page = page.replace("script-src ", f"script-src 'sha256-{allowed}' ", 1)
    Path(folder, "page.html").write_text(page.replace("</body>", f"<script>{SCRIPT}</script></body>"), encoding="utf-8")
    command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
    command += [f"--user-data-dir={folder / 'profile'}", "--virtual-time-budget=3000"]
    command += ["--dump-dom", f"file://{folder / 'page.html'}"]
    done = subprocess.run(command, capture_output=True, check=False, timeout=120)
    found = re.search(r'<pre id="seen">(.*?)</pre>', done.stdout.decode("utf-8"), re.DOTALL)
    assert found, done.stderr.decode("utf-8")[-2000:]
    return json.loads(html.unescape(found[1]))


def _strong(weights: np.ndarray) -> int:
    """Returns the number of weights that are drawn as lines, rounded as on the page."""
    return int((weights.astype(np.float64).round(3) >= 0.02).sum())


def test_all_tokens_and_lines_are_drawn(seen: dict[str, Any], plain: Sentence) -> None:
    start, best = seen["start"], plain.translations[0]
    left, right = start["tokens"]
    assert [len(left), len(right)] == [len(plain.source), len(best.target)]
    assert [left[-1], right[-1]] == ["⟨end⟩", "⟨end⟩"]
    assert "".join(left[:-1]).replace("·", "") == plain.text.replace(" ", "")
    assert (start["groups"], start["lines"]) == (3, _strong(best.memory[0]))
    assert start["weights"] == [""] * len(left)


def test_pointing_at_a_token_isolates_it(seen: dict[str, Any], plain: Sentence) -> None:
    weights = plain.translations[0].memory[0, :, 1]
    token = seen["token"]
    assert token["lines"] == _strong(weights) < seen["start"]["lines"]
    assert token["isolated"] == 1
    mean = weights.mean(0)
    assert [float(text or 0) for text in token["weights"]] == pytest.approx(np.where(mean >= 0.02, mean, 0), abs=0.006)
    label = plain.source[int(mean.argmax())].replace("▁", "")
    assert f"looks at {label}" in token["readout"].replace("·", "")
    assert "(mean of 3 heads)" in token["readout"]
    assert seen["left"] == seen["unpinned"] == seen["start"]
    assert seen["pinned"]["lines"] == token["lines"]


def test_arrow_keys_walk_through_the_tokens(seen: dict[str, Any]) -> None:
    assert (seen["down"], seen["across"]) == (2, 2)


def test_heads_are_isolated_and_switched(seen: dict[str, Any], plain: Sentence) -> None:
    memory = plain.translations[0].memory[0]
    on, off = "true", "false"
    for name, groups, lines, pressed in (
        ("head", 1, _strong(memory[2]), [on, on, on]),
        ("without", 2, _strong(memory[:2]), [on, on, off]),
        ("alone", 1, _strong(memory[2]), [off, off, on]),
        ("all", 3, _strong(memory), [on, on, on]),
    ):
        assert (seen[name]["groups"], seen[name]["lines"], seen[name]["pressed"]) == (groups, lines, pressed), name


def test_the_other_attentions_and_views(seen: dict[str, Any], plain: Sentence) -> None:
    best = plain.translations[0]
    left, right = seen["decoder"]["tokens"]
    assert right == ["⟨start⟩", *left[:-1]]
    assert seen["decoder"]["lines"] == _strong(best.decoder[0])
    assert seen["encoder"]["lines"] == _strong(plain.encoder[0])
    assert seen["encoder"]["tokens"][0] == seen["encoder"]["tokens"][1] == seen["start"]["tokens"][0]
    assert seen["maps"]["maps"] == 3
    assert re.search(r" looks at .* [01]\.\d\d \(head 1\)", seen["maps"]["readout"])
    assert seen["layers"]["thumbnails"] == 6
    # The fifth of 2 x 3 maps: layer 2, head 2.
    assert seen["layer"] == [plain.translations[0].text + "given", "Encoder", "Lines", "2"]
    assert seen["clicked"]["lines"] == _strong(plain.encoder[1, 1])


def test_text_stays_text_and_nothing_is_loaded(seen: dict[str, Any], plain: Sentence) -> None:
    assert seen["heading"] == plain.text
    assert (seen["strange"], seen["loaded"], seen["blocked"]) == (0, 0, [])
