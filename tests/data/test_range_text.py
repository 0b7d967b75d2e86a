"""Text read in ranges: the same store as reading pair by pair, from any number of processes."""

import logging
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from t2t_lite import registry
from t2t_lite.data import line_ranges, range_text
from t2t_lite.data.prepare import prepare
from t2t_lite.errors import DataError
from t2t_lite.problem import Problem

WORDS = ["größe", "猫が", "\U0001f600", "naïve", "haus", "@@", "of", *map(str, range(60))]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """A folder with 1200 pairs, some of which are odd, doubles, or those of dev."""
    draw = random.Random(1)
    rows: list[tuple[str, str]] = []
    for i in range(1200):
        source, target = (" ".join(draw.choices(WORDS, k=draw.randint(1, 20))) for _ in range(2))
        odd = [("", target), (f" {source}", " "), (f"a\t  {source}", f"\x85{target}"), ("<u>x</u>", "<u>x</u>")]
        odd += [("w " * 300, target), (source, source), (f"{source}@@ a", target), (f"a\rb {source}", target)]
        rows.append(odd[i // 9 % len(odd)] if i % 9 == 0 else rows[-7] if i % 31 == 30 else (source, target))
    folder = tmp_path / "corpus"
    folder.mkdir()
    for name, chosen in (("train", rows), ("dev", rows[100:1100:50])):
        for side, code in enumerate(("en", "de")):
            text = ("\n" if side else "\r\n").join(pair[side] for pair in chosen)
            (folder / f"{name}.{code}").write_bytes(text.encode())
    return folder


def _problem(folder: Path, name: str = "text2text", **options: Any) -> Problem:
    return registry.problem(name, source_dir=str(folder), languages="en-de", vocab_size=300, **options)


def _manifest(folder: Path, problem: Problem, num_workers: int) -> dict[str, Any]:
    store = prepare(problem, folder, num_workers=num_workers)
    store.verify()
    return {key: value for key, value in store.manifest.items() if key != "made_by"}


CASES: list[dict[str, Any]] = [
    {},
    {"clean": True, "shared_vocab": False},
    {"labelled": True, "clean": "markup,ratio"},
    {"name": "text2text_rev", "vocab_type": "unigram", "line_breaks": "symbol", "keep_whole": "59,nowhere"},
]


@pytest.mark.parametrize("options", CASES)
def test_ranges_give_the_store_and_the_messages_of_reading_pair_by_pair(
    tmp_path: Path,
    corpus: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    options: dict[str, Any],
) -> None:
    monkeypatch.setattr(line_ranges, "RANGE_BYTES", 3000)
    monkeypatch.setattr(line_ranges, "_BLOCK", 512)
    caplog.set_level(logging.INFO)
    found = []
    for way in ("ranges", "pairs"):
        problem = _problem(corpus, **options)
        problem.drop_overlap = True
        if way == "pairs":
            monkeypatch.setattr(type(problem), "line_files", Problem.line_files)
        caplog.clear()
        manifest = _manifest(tmp_path / way, problem, 1)
        found.append((manifest, [record.getMessage() for record in caplog.records]))
    assert found[0] == found[1]
    assert found[0][0]["splits"]["train"]["overlapping"] > 0


@pytest.mark.commit("2")
@pytest.mark.parametrize("num_workers", [2, 5])
def test_processes_give_the_same_bytes_as_this_one(
    tmp_path: Path, corpus: Path, monkeypatch: pytest.MonkeyPatch, num_workers: int
) -> None:
    monkeypatch.setattr(line_ranges, "RANGE_BYTES", 3000)
    monkeypatch.setattr(line_ranges, "_BLOCK", 512)
    manifests = [_manifest(tmp_path / str(n), _problem(corpus, clean=True), n) for n in (1, num_workers)]
    assert manifests[0] == manifests[1]


def test_samples_of_a_class_of_its_own_come_before_the_files(tmp_path: Path, corpus: Path) -> None:
    base: Any = type(_problem(corpus))

    class Half(base):  # type: ignore[misc]
        """Every second pair."""

        name = "half"

        def samples(self, split: str) -> Iterator[tuple[str, str]]:
            yield from list(super().samples(split))[::2]

    problem = Half(str(corpus), "en-de", vocab_size=300)
    assert _manifest(tmp_path / "data", problem, 1)["splits"]["dev"]["pairs"] == 10
    assert range_text.own_line_files(problem) is None


@pytest.mark.commit
def test_a_fault_that_a_process_finds_is_named_and_leaves_nothing(
    tmp_path: Path, corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(line_ranges, "RANGE_BYTES", 3000)
    lines = (corpus / "train.de").read_bytes().split(b"\n")
    lines[1000] = b"\xff"
    (corpus / "train.de").write_bytes(b"\n".join(lines))
    with pytest.raises(DataError, match=r"train\.de, line 1001: byte 0xff at column 1 is not UTF-8"):
        prepare(_problem(corpus), tmp_path / "data", num_workers=2)
    assert [path.name for path in (tmp_path / "data").iterdir()] == [".text2text.lock"]
