"""Pairs of dev and test that are also in train: counted in the manifest, said once, left out with --drop_overlap."""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from t2t_lite import registry
from t2t_lite.data.prepare import prepare
from t2t_lite.data.store import Store
from t2t_lite.errors import UsageError
from t2t_lite.problem import Problem

TRAIN = [(f"word {n} of the text", f"Wort {n} des Textes") for n in range(100)]
NEW = [(f"new {n} here", f"neu {n} hier") for n in range(16)]
TEST = [*TRAIN[:3], ("word  3 of the text ", "Wort 3 des Textes"), (TRAIN[4][0], "anders übersetzt"), *NEW[:15]]
DEV = [*NEW, TRAIN[50], TRAIN[50]]
SPLITS = {"train": TRAIN, "dev": DEV, "test": TEST}


class Own(Problem):
    """A problem of a user's own."""

    name = "own"
    vocab_size = 120

    def samples(self, split: str) -> Iterator[tuple[str, str]]:
        yield from SPLITS[split]


def _in_train(store: Store) -> dict[str, Any]:
    return {split: store.in_train(split) for split in store.splits()}


def _problem(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch, **options: Any) -> Problem:
    """The problem `name` of SPLITS; the text of those with files is in `folder`."""
    if name.startswith("own"):
        monkeypatch.setitem(registry.PROBLEMS._things, "own", Own)
        return registry.problem(name, **options)
    names = {"train": "train", "dev": "newstest2013", "test": "newstest2014"} if name == "wmt14_ende" else {}
    for split, pairs in SPLITS.items():
        for side, language in enumerate(("en", "de")):
            path = folder / f"{names.get(split, split)}.{language}"
            path.write_text("".join(f"{pair[side]}\n" for pair in pairs), "utf-8")
    where = {"raw_dir": folder} if name == "wmt14_ende" else {"source_dir": folder, "languages": "en-de"}
    return registry.problem(name, **{key: str(value) for key, value in where.items()}, vocab_size=120, **options)


@pytest.mark.commit
@pytest.mark.parametrize("name", ["own", "own_rev", "text2text", "wmt14_ende"])
def test_what_is_also_in_train_is_counted_and_left_out_if_asked_for(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    problem = _problem(name, tmp_path, monkeypatch)
    counted = prepare(problem, tmp_path / "data", num_workers=1)
    of_test = {"pairs": 4, "sources": 4 if name == "own_rev" else 5}
    assert _in_train(counted) == {"train": None, "dev": {"pairs": 2, "sources": 2}, "test": of_test}
    lines = [line for line in caplog.messages if "also in train" in line]
    assert lines == [
        "dev: 2 of 18 pairs (11.1%) and 2 sources are also in train. --drop_overlap leaves such pairs out of train.",
        f"test: 4 of 20 pairs (20.0%) and {of_test['sources']} sources are also in train. --drop_overlap leaves such "
        "pairs out of train.",
    ]
    assert len(counted.split("train")) == 100

    dropping = _problem(name, tmp_path, monkeypatch, drop_overlap=True)
    with pytest.raises(UsageError, match="drop_overlap: None -> True"):
        prepare(dropping, tmp_path / "data", num_workers=1)
    caplog.clear()
    dropped = prepare(dropping, tmp_path / "dropped", num_workers=1)
    of_test = {"pairs": 0, "sources": of_test["sources"] - 4}
    assert _in_train(dropped) == {"train": None, "dev": {"pairs": 0, "sources": 0}, "test": of_test}
    assert dropped.manifest["splits"]["train"]["overlapping"] == 5
    assert "--drop_overlap leaves out 5 training pairs that are also in dev or test." in caplog.messages
    assert len(dropped.split("train")) == 95
    assert [len(dropped.split(split)) for split in ("dev", "test")] == [18, 20]
    assert not any("--drop_overlap leaves such" in line for line in caplog.messages)
    again = registry.problem(name, **dropping.all_options())  # as a run reopens it
    assert prepare(again, tmp_path / "dropped").checksum == dropped.checksum
    assert problem.all_options() == problem.options()


def test_held_out_pairs_are_not_in_train_but_their_sources_may_be(tmp_path: Path) -> None:
    pairs = [*TRAIN, *[(source, f"{target} anders") for source, target in TRAIN]]
    for side, language in enumerate(("en", "de")):
        (tmp_path / f"train.{language}").write_text("".join(f"{pair[side]}\n" for pair in pairs), "utf-8")
    problem = registry.problem("text2text", source_dir=str(tmp_path), languages="en-de", vocab_size=120, dev_lines=20)
    store = prepare(problem, tmp_path / "data", num_workers=1)
    found = store.in_train("dev")
    assert found is not None
    assert found["pairs"] == 0
    assert 10 <= found["sources"] <= 20


def test_cleaned_pairs_are_not_in_train(tmp_path: Path) -> None:
    problem = Own()
    problem.clean, problem.clean_max_words = True, 4  # all of train but none of it is shorter
    problem.samples = lambda split: iter(SPLITS[split] + [("a b", "c d")] * (split != "dev"))  # type: ignore[method-assign]
    store = prepare(problem, tmp_path, num_workers=1)
    assert store.in_train("test") == {"pairs": 1, "sources": 1}
    assert store.in_train("dev") == {"pairs": 0, "sources": 0}
