"""The code and tests that docs/paper.md and other pages name all exist."""

import ast
import re
from pathlib import Path

import pytest

from t2t_lite import registry
from t2t_lite.cli import completion

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "paper.md").read_text(encoding="utf-8")
OURS = ("t2t_lite", "hparams", "problems", "tests", "benchmarks", "docs")
SPANS = re.findall(r"`([^`\n]+)`", PAGE)
PATHS = sorted({span for span in SPANS if span.startswith(tuple(f"{folder}/" for folder in OURS))})
LINKS = sorted(set(re.findall(r"\]\(([^)#:]+)[^)]*\)", PAGE)))


def _names(path: Path) -> set[str]:
    """Returns the names that a module defines at its top level: functions, classes, constants."""
    names = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        targets = node.targets if isinstance(node, ast.Assign) else [node]
        names |= {getattr(target, "name", getattr(target, "id", "")) for target in targets}
    return names


def test_the_page_is_read_as_it_is_meant() -> None:
    assert len(PATHS) > 50
    assert sum(path.startswith("tests/") and "::" in path for path in PATHS) > 30
    assert LINKS == ["table1.svg"]


@pytest.mark.parametrize("name", PATHS)
def test_code_and_tests_that_are_named_exist(name: str) -> None:
    path, _, inside = name.partition("::")
    assert (ROOT / path).exists()
    assert not inside or inside in _names(ROOT / path)


@pytest.mark.parametrize("link", LINKS)
def test_links_lead_to_files(link: str) -> None:
    assert (ROOT / "docs" / link).is_file()


def test_each_claim_of_the_list_has_a_row() -> None:
    assert re.findall(r"^\| (P\d+) \|", PAGE, re.MULTILINE) == [f"P{n}" for n in range(1, 17)]


def test_recipes_that_are_named_exist() -> None:
    recipes = {span for span in SPANS if re.fullmatch(r"(base|big|t2t)(_\w+)?", span)}
    assert len(recipes) > 20
    assert recipes <= set(registry.HPARAMS.names())


def test_tests_that_the_page_on_security_names_exist() -> None:
    page = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(tests/[^`\n]+)`", page))
    assert len(named) > 20
    for name in named:
        path, _, inside = name.partition("::")
        assert (ROOT / path).exists(), name
        assert not inside or inside in _names(ROOT / path), name


@pytest.mark.parametrize("page", ["keeping.md", "reliability.md", "security.md"])
def test_files_that_a_page_names_exist(page: str) -> None:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    for name in set(re.findall(r"`((?:tests|examples|t2t_lite)/[\w/]+\.py)", text)):
        assert (ROOT / name).exists(), name
    for link in set(re.findall(r"\]\(([^)#:]+)[^)]*\)", text)):
        assert (ROOT / "docs" / link).is_file(), link


@pytest.mark.parametrize("page", ["docs/commands.md", "docs/from_tensor2tensor.md"])
def test_each_command_is_on_the_pages_that_list_them(page: str) -> None:
    rows = [line for line in (ROOT / page).read_text(encoding="utf-8").split("\n") if line.startswith("|")]
    assert [name for name in completion.COMMANDS if not any(f"`{name}" in row for row in rows)] == []
