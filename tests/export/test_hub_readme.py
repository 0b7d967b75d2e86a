"""README.md beside an export: its head as the Hub reads it, and what an imported model's licence becomes."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from t2t_lite.export.hub_readme import make_readme, write_readme
from t2t_lite.importers.kept_files import find_licence

_CARD: dict[str, Any] = {
    "made_by": "t2t-lite 0.1",
    "problem": {"name": "toy", "source_language": "en", "target_language": "no"},
    "model": "transformer",
    "parameters": 1234567,
    "scores": [
        {"split": "test", "metric": "BLEU", "value": 31.25, "signature": "nrefs:1|case:mixed", "weights": "averaged/7"},
        {"split": "test", "metric": "chrF", "value": 55.5, "signature": None, "weights": "averaged/7"},
        {"split": "dev", "metric": "score", "value": 1.0, "signature": None, "weights": "averaged/7"},
    ],
    "licence": "as its data's",
}


def _head(text: str) -> dict[str, Any]:
    match = re.match(r"(?s)---\n(.*?)\n---\n\n# ", text)
    assert match
    found: dict[str, Any] = yaml.safe_load(match[1])
    return found


def test_the_head_has_what_the_card_has() -> None:
    text = make_readme(_CARD, "huggingface")
    assert _head(text) == {
        "language": ["en", "no"],  # not False, as a reader of YAML takes a bare no
        "license": "unknown",
        "library_name": "transformers",
        "pipeline_tag": "translation",
        "tags": ["t2t-lite", "marian", "translation"],
        "metrics": ["bleu", "chrf"],
        "model-index": [
            {
                "name": "toy en-no",
                "results": [
                    {
                        "task": {"type": "translation"},
                        "dataset": {"name": "toy", "type": "toy", "split": "test"},
                        "metrics": [
                            {
                                "type": "bleu",
                                "value": 31.25,
                                "name": "BLEU",
                                "args": {"signature": "nrefs:1|case:mixed"},
                            }
                        ],
                    },
                    {
                        "task": {"type": "translation"},
                        "dataset": {"name": "toy", "type": "toy", "split": "test"},
                        "metrics": [{"type": "chrf", "value": 55.5, "name": "chrF"}],
                    },
                ],
            }
        ],
    }
    assert "- BLEU 31.25 on test (`nrefs:1|case:mixed`)\n" in text
    assert "1,234,567" in text


@pytest.mark.parametrize("name", ["saved_model", "ctranslate2", "marian", "huggingface"])
def test_a_card_may_have_little(name: str) -> None:
    head = _head(make_readme({}, name))
    assert head["license"] == "unknown"
    assert head["pipeline_tag"] == "translation"
    assert {"language", "metrics", "model-index"}.isdisjoint(head)
    assert "pipeline_tag" not in _head(make_readme({"trees": {}}, name))


@pytest.mark.parametrize(
    "odd", ["x: [y", "---", "a\n---\nlicense: mit", "\u2028", "`b` <i> [c](d)", "'\"\\", "#", "null"]
)
def test_odd_names_stay_what_they_are(odd: str) -> None:
    problem = {"name": odd, "source_language": odd, "target_language": "de"}
    card = {**_CARD, "problem": problem, "made_by": odd, "imported": {"toolkit": odd, "licence": {"name": odd}}}
    text = make_readme(card, "marian")
    head = _head(text)
    assert head["language"] == [odd, "de"]
    assert head["license"] == odd
    assert head["model-index"][0]["results"][0]["dataset"]["name"] == odd
    body = text.partition("\n---\n\n# ")[2]
    assert "\nlicense:" not in body
    assert "\n---" not in body
    assert "<i>" not in body


@pytest.mark.parametrize(
    ("files", "name", "head"),
    [
        ({"LICENSE": "Creative Commons\nAttribution 4.0 International\n"}, "cc-by-4.0", "cc-by-4.0"),
        ({"LICENSE.txt": "Attribution-ShareAlike 4.0 International"}, "cc-by-sa-4.0", "cc-by-sa-4.0"),
        ({"LICENSE": "  Apache License\n  Version 2.0, January 2004"}, "apache-2.0", "apache-2.0"),
        ({"COPYING": "Ask me."}, None, "other"),
        ({"README.md": "---\nlanguage: en\nlicense: 'cc-by-4.0'\n---\n"}, "cc-by-4.0", "cc-by-4.0"),
        ({"README.md": "---\nlicense: mit\n---", "LICENSE": "Attribution 4.0 International"}, "mit", "mit"),
        ({"README.md": "---\nlicense: unknown\n---\n"}, None, "unknown"),
        ({"README.md": "---\nlicense: other\n---\n", "LICENSE": "MIT License"}, "mit", "mit"),
        ({"README.md": "license: mit\n"}, None, "unknown"),
        ({"LICENSE": "MIT License\n" + "x" * (1 << 16)}, None, "unknown"),
        ({}, None, "unknown"),
    ],
)  # fmt: skip
def test_the_licence_of_an_imported_folder(tmp_path: Path, files: dict[str, str], name: str | None, head: str) -> None:
    for file, text in files.items():
        (tmp_path / file).write_text(text)
    found, kept = find_licence(tmp_path)
    assert found.get("name") == name
    assert ("file" in found) == ("LICENSE" in kept)
    out = tmp_path / "out"
    out.mkdir()
    write_readme(out, {"imported": {"licence": found}}, "saved_model", kept.get("LICENSE"))
    assert _head((out / "README.md").read_text())["license"] == head
    assert (out / "LICENSE").exists() == ("LICENSE" in kept)
