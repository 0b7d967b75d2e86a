"""HTML page that shows the attention over sentences: one file that loads nothing else."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import string
from collections.abc import Sequence
from importlib import resources
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from t2t_lite.insights.sentence import Sentence

KINDS = ("memory", "encoder", "decoder")  # of attention; the default kind first
# In the order in which a page needs them; the last has the entry point, `drawAttention`.
SCRIPTS = ("attention_parts.js", "attention_lines.js", "attention_maps.js", "attention.js")
STYLES = ("attention.css",)


def component(kind: str) -> str:
    """Returns the whole drawing as one script ("js") or one style sheet ("css"), for any page to include."""
    return "".join(_file(name) for name in {"js": SCRIPTS, "css": STYLES}[kind])


def attention_page(run: str, sentences: Sequence[Sentence], show: dict[str, Any]) -> str:
    """Returns the page as HTML.

    Text is data only: it is in a JSON block, with "<" escaped, and the script makes text nodes of it. The page's policy
    allows no script or style but its own, and lets the page load nothing.

    Args:
        run: what the page says about the model.
        show: what the drawing shows at first, as in attention.js.
    """
    style, script = (component(kind) + _file(f"page.{kind}") for kind in ("css", "js"))
    policy = (
        f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; base-uri 'none'; form-action 'none'"
    )
    data = {"show": show, "sentences": [sentence.to_json() for sentence in sentences]}
    return string.Template(_file("page.html")).substitute(
        policy=policy,
        title=html.escape(f"Attention: {sentences[0].text}"),
        style=style,
        run=html.escape(run),
        data=json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c"),
        script=script,
    )


def _file(name: str) -> str:
    return (resources.files("t2t_lite.insights") / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """The name by which a Content-Security-Policy allows an inline script or style."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode('utf-8')).digest()).decode('ascii')}'"
