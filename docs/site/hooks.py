"""What MkDocs calls: adds files from outside docs/ and the generated reference, and turns links that lead to them."""

from __future__ import annotations

import posixpath
import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[2]
PAGES = (  # outside docs/; files that a page links to come by themselves
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "benchmarks/README.md",
    "benchmarks/notebook.md",
    "examples/my_model/README.md",
    "examples/my_problem/README.md",
    "examples/serving/README.md",
)
_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)\s#:]+)(#[^)\s]*)?\)")  # of Markdown, to a file and not to a picture
_SEARCH = {  # page -> its weight in the site's search, 1 if absent; None: not searched
    "CHANGELOG.md": None,
    "benchmarks/notebook.md": None,
    "multi30k.md": 0.5,
    "results.md": 0.5,
    "benchmarks/README.md": 0.5,
    "reference/commands.md": 4,
    "reference/hparams.md": 4,
}
_CODE = re.compile(r"`[^`\n]+`")
_PICTURE = re.compile(r"(!\[[^\]]*\])\(([^)\s#:]+)()\)")


def on_files(files: Any, config: Any) -> Any:
    """Adds pages and files of the repository, and the reference."""
    sys.path[:0] = [str(ROOT), str(Path(__file__).parent)]
    import reference

    pages = [*PAGES, *(f"docs/{page.src_uri}" for page in files.documentation_pages())]
    for path in sorted({*PAGES, *(file for page in pages for file in _linked(page))}):
        files.append(File.generated(config, uri_of(path), content=(ROOT / path).read_text(encoding="utf-8")))
    for uri, text in reference.pages().items():
        files.append(File.generated(config, uri, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Turns links between files of the repository into links within the site; a folder is named without a link.

    GitHub needs a backslash before a bar in a table's code, and Python-Markdown would show it: it is taken out.
    """
    here = page.file.src_uri
    if here in _SEARCH:
        weight = _SEARCH[here]
        page.meta["search"] = {"exclude": True} if weight is None else {"boost": weight}
    if here.startswith("reference/"):
        return markdown
    markdown = _CODE.sub(lambda code: code[0].replace(r"\|", "|"), markdown)
    path = "README.md" if here == "index.md" else here if here in PAGES else f"docs/{here}"

    def turned(match: re.Match[str]) -> str:
        text, link, anchor = match.groups(default="")
        target = _target(path, link)
        if (ROOT / target).is_dir():
            return text
        text = text if text.startswith("!") else f"[{text}]"
        return f"{text}({posixpath.relpath(uri_of(target), posixpath.dirname(here) or '.')}{anchor})"

    return _PICTURE.sub(turned, _LINK.sub(turned, markdown))


def uri_of(path: str) -> str:
    """Where the site has a file of the repository: docs/ is its root, and README.md its first page."""
    return "index.md" if path == "README.md" else path.removeprefix("docs/")


def _target(page: str, link: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(page), link))


def _linked(page: str) -> list[str]:
    """Files outside docs/ that a page links to."""
    links = _LINK.findall((ROOT / page).read_text(encoding="utf-8"))
    targets = [_target(page, link) for _, link, _ in links]
    return [target for target in targets if not target.startswith("docs/") and (ROOT / target).is_file()]
