"""The documentation site: it builds without a warning, and its reference has every flag, field, name and signature."""

import html
import importlib
import os
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from t2t_lite import config, registry
from t2t_lite.export.export_folder import SIGNATURES

pytestmark = pytest.mark.nightly

ROOT = Path(__file__).resolve().parent.parent

pytest.importorskip("mkdocs", reason="the extra t2t-lite[docs] is not installed")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site; with --strict any warning, such as one about a broken link, is a failure."""
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", f"--site-dir={folder}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1", "TF_CPP_MIN_LOG_LEVEL": "3"},
    )
    assert done.returncode == 0, done.stderr
    return folder


def _code(site: Path, page: str) -> set[str]:
    """Returns the contents of the code spans of a page."""
    text = (site / page / "index.html").read_text(encoding="utf-8")
    return {html.unescape(re.sub(r"<[^>]+>", "", span)) for span in re.findall(r"<code>(.*?)</code>", text, re.DOTALL)}


def test_every_flag_of_every_command_is_in_the_reference(site: Path) -> None:
    flags = {span.partition("=")[0] for span in _code(site, "reference/commands")}
    commands = metadata.distribution("t2t-lite").entry_points.select(group="console_scripts")
    assert len(commands) > 8
    for command in commands:
        known = importlib.import_module(command.module).make_parser().known_flags()
        assert {flag for flag in known if flag.startswith("--")} <= flags, command.name


def test_every_recipe_field_and_name_is_in_the_reference(site: Path) -> None:
    registry.HPARAMS.load()
    ours = [cls for cls in config.families().values() if cls.__module__.startswith("t2t_lite.")]  # without tests' own
    fields = {name for cls in ours for name in config.fields(cls)}
    assert len(fields) > 40
    assert fields | set(registry.HPARAMS.names()) <= _code(site, "reference/hparams")
    names = [table for table in registry.TABLES.values() if table is not registry.HPARAMS]
    assert {name for table in names for name in table.names()} <= _code(site, "reference/registry")


def test_signatures_and_python_have_what_code_says(site: Path) -> None:
    page = (site / "reference/signatures/index.html").read_text(encoding="utf-8")
    assert re.findall(r'<h2 id="(\w+)"', page) == list(SIGNATURES)
    api = (site / "reference/python/index.html").read_text(encoding="utf-8")
    for name in ("api.load.load", "api.load.Loaded.translate", "api.train.train", "models.base.Model.start"):
        assert f'id="t2t_lite.{name}"' in api


def test_pages_of_the_repository_link_to_pages_of_the_site(site: Path) -> None:
    start = (site / "index.html").read_text(encoding="utf-8")
    assert 'href="serving/#eight-bits"' in start
    assert 'href="examples/my_problem/"' in start
    assert (site / "examples/notebook.py").read_text() == (ROOT / "examples/notebook.py").read_text()
    assert "beam" in (site / "search/search_index.json").read_text(encoding="utf-8")
