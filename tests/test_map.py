"""docs/architecture.md: its packages are those of the code, its arrows are imports, and each named file exists."""

import itertools
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
TEXT = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
SECTIONS = dict(section.split("\n", 1) for section in TEXT.split("\n## ")[1:])
FILES = sorted(set(re.findall(r"`([\w/]+/[\w/]+\.py)`", TEXT)))


def _packages_imported(package: str) -> set[str]:
    """Returns the packages that the modules of a package import."""
    folder = ROOT / package if (ROOT / package).is_dir() else ROOT / "t2t_lite" / package
    texts = (path.read_text(encoding="utf-8") for path in folder.rglob("*.py"))
    found = re.findall(r"^ *from t2t_lite(?:\.(\w+)[\w.]* import| import (.+)$)", "\n".join(texts), re.MULTILINE)
    return {name for part, names in found for name in (part, *names.split(", ")) if name} - {package}


def test_every_package_has_a_row_and_every_row_is_a_package() -> None:
    named = set(re.findall(r"^\| `([\w/]+)/` \|", SECTIONS["The packages"], re.MULTILINE))
    packages = {str(path.parent.relative_to(ROOT)) for path in (ROOT / "t2t_lite").glob("*/__init__.py")}
    assert named == packages | {"problems", "hparams"}


def _arrows() -> list[tuple[str, str]]:
    lines = re.findall(r"^    (\w+(?: --> \w+)+)$", SECTIONS["The packages"], re.MULTILINE)
    return [pair for line in lines for names in [line.split(" --> ")] for pair in itertools.pairwise(names)]


@pytest.mark.commit
def test_each_arrow_of_the_picture_is_an_import() -> None:
    arrows = _arrows()
    assert len(arrows) > 15
    assert [(a, b) for a, b in arrows if b not in _packages_imported(a)] == []


@pytest.mark.commit
def test_each_import_of_a_package_is_on_a_path_of_arrows() -> None:
    arrows, packages = _arrows(), {path.parent.name for path in (ROOT / "t2t_lite").glob("*/__init__.py")}

    def below(package: str) -> set[str]:
        return {package}.union(*(below(b) for a, b in arrows if a == package))

    missing = {(a, b) for a in packages for b in (_packages_imported(a) & packages) - below(a)}
    assert missing == set()


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_named_is_there(name: str) -> None:
    assert (ROOT / name).is_file()


def test_the_file_of_each_errand_holds_what_is_named() -> None:
    rows = re.findall(r"^\| .+ \| `([\w/]+\.py)`: `(\w+)` \|$", SECTIONS["To change X, edit Y"], re.MULTILINE)
    assert len(rows) >= 20
    texts = {name: (ROOT / name).read_text(encoding="utf-8") for name, _ in rows}
    assert [row for row in rows if not re.search(rf"^(?:def|class) {row[1]}\b", texts[row[0]], re.MULTILINE)] == []
