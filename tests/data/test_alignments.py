"""Alignments of training text: from lines of links between words to batches of links between pieces."""

import logging
import pickle
from pathlib import Path

import numpy as np
import pytest

from t2t_lite import registry
from t2t_lite.data.alignment_files import count_words, piece_links
from t2t_lite.data.pipeline import assemble, make_plan
from t2t_lite.data.prepare import prepare
from t2t_lite.data.store import Store, open_store
from t2t_lite.data.store_writer import recover
from t2t_lite.errors import DataError, UsageError
from t2t_lite.groups import BatchGroup
from t2t_lite.problem import AlignedPair, Problem

LINES = {
    "en": ["ba be", "bibo", "ba  bu be ", "bo bi ba", "ba\tbe bu", "be"],
    "de": ["ebe aba", "obobi", "aba ebe", "abi", "ubu ebe", "ebe"],
    "align": ["0-1 1-0", "0-0", "2-1 0-0", "", "1-0 2-1", "0-0"],
}


def _write(folder: Path, **changes: list[str]) -> Path:
    folder.mkdir(exist_ok=True)
    for name, lines in {**LINES, **changes}.items():
        (folder / f"train.{name}").write_text("".join(f"{line}\n" for line in lines), "utf-8")
    for side in ("en", "de"):
        (folder / f"dev.{side}").write_text(f"{LINES[side][1]}\n", "utf-8")
    return folder


def _problem(folder: Path, name: str = "text2text", **options: object) -> Problem:
    given = {"source_dir": str(folder), "languages": "en-de", "alignments": "align", "vocab_type": "char", **options}
    return registry.problem(name, **given)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    folder = tmp_path_factory.mktemp("aligned")
    return prepare(_problem(_write(folder / "text")), folder / "data", num_workers=1)


def _links(store: Store, pair: int) -> list[tuple[int, int]]:
    alignment = store.split("train").alignment
    assert alignment is not None
    return [(int(s), int(t)) for s, t in alignment[pair].reshape(-1, 2)]


def test_links_of_words_become_links_of_pieces() -> None:
    source, target = ["\u2581a", "b", "\u2581c", "</s>"], ["\u2581", "x", "\u2581y", "z", "</s>"]
    found = piece_links(AlignedPair("ab c", "x yz", [(0, 1), (1, 0)]), source, target)
    assert found == [(0, 2), (0, 3), (1, 2), (1, 3), (2, 0), (2, 1), (3, 4)]
    assert piece_links(AlignedPair("ab  c", "x\tyz", []), source, target) == [(3, 4)]
    assert piece_links(AlignedPair("ab c d", "x yz", [(0, 1)]), source, target) is None
    assert piece_links(AlignedPair(">>a<< c", "x", [(0, 0)]), [">>a<<", *source[2:]], ["\u2581x", "</s>"]) is not None


def test_words_are_what_spaces_and_tabs_separate() -> None:
    assert [count_words(text) for text in ("", " ", "a", " a  b\tc ", "a\u00a0b")] == [0, 0, 1, 3, 1]


def test_a_store_holds_the_links_of_its_pairs(store: Store) -> None:
    # Of single characters: "ba be" is _ b a _ b e </s>, and "ebe aba" is _ e b e _ a b a </s>.
    first = [(s, t) for s in range(3) for t in range(4, 8)] + [(s, t) for s in range(3, 6) for t in range(4)]
    assert sorted(_links(store, 0)) == sorted([*first, (6, 8)])
    assert sorted(_links(store, 2)) == sorted(
        [(s, t) for s in range(6, 9) for t in range(4, 8)] + [(s, t) for s in range(3) for t in range(4)] + [(9, 8)]
    )
    assert _links(store, 3) == [(9, 4)]  # no words are linked
    assert _links(store, 4) == [(9, 8)]  # a tab is a piece of its own, and parts no words in the vocabulary
    assert store.manifest["splits"]["train"]["alignment"]["lost"] == 1
    assert "alignment" not in store.manifest["splits"]["dev"]
    store.verify()
    assert open_store(store.folder).split("train").alignment is not None


def test_lost_links_are_counted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "t2t_lite"):
        prepare(_problem(_write(tmp_path / "text")), tmp_path / "data", num_workers=1)
    assert "1 of 6 training pairs are used without their alignment" in caplog.text


@pytest.mark.parametrize("packing", [False, True])
def test_batches_have_the_links_of_their_pairs(store: Store, packing: bool) -> None:
    split = store.split("train")
    plan = make_plan(split, BatchGroup(batch_tokens=60, max_length=20, packing=packing), 1)
    seen = 0
    for step in range(1, plan.steps_per_epoch + 1):
        planned = plan.batch(step)
        batch = assemble(split, planned, packing, aligned=True)
        sizes = len(planned.rows), planned.target_length, planned.source_length
        wanted = np.zeros(sizes, np.int32)
        for row, pairs in enumerate(planned.rows):
            source = target = 0
            for pair in pairs[pairs >= 0]:
                for s, t in _links(store, pair):
                    wanted[row, target + t, source + s] = 1
                    seen += 1
                source, target = source + len(split.source[pair]), target + len(split.target[pair])
        np.testing.assert_array_equal(batch["alignment"].reshape(sizes), wanted)
        assert batch["alignment"].dtype == np.int32
        assert "alignment" not in assemble(split, planned, packing)
    assert seen == sum(len(_links(store, pair)) for pair in range(len(split)))


def test_another_alignment_is_other_data(store: Store, tmp_path: Path) -> None:
    folder = _write(tmp_path / "text")
    prepare(_problem(folder), tmp_path / "data", num_workers=1)
    _write(folder, align=["0-0", *LINES["align"][1:]])
    with pytest.raises(DataError, match=r"prepared from other data(.|\n)*train\.align"):
        prepare(_problem(folder), tmp_path / "data", num_workers=1)
    with pytest.raises(UsageError, match="aligned: True -> None"):
        prepare(_problem(folder, alignments=None), tmp_path / "data", num_workers=1)
    recover(tmp_path / "data")


def test_pairs_keep_their_links() -> None:
    pair = pickle.loads(pickle.dumps(AlignedPair("a b", "c", [(1, 0)])))
    assert (pair, pair.links, pair.reversed(), pair.reversed().links) == (
        ("a b", "c"),
        ((1, 0),),
        ("c", "a b"),
        ((0, 1),),
    )


def test_a_reversed_problem_has_reversed_links(tmp_path: Path) -> None:
    found = list(_problem(_write(tmp_path / "text"), "text2text_rev").samples("train"))
    assert [pair.links for pair in found[:3] if isinstance(pair, AlignedPair)] == [
        ((1, 0), (0, 1)),
        ((0, 0),),
        ((1, 2), (0, 0)),
    ]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("0-1 1-2", "line 1: a link names word 2 of the target, which has 2 words"),
        ("2-0", "line 1: a link names word 2 of the source, which has 2 words"),
        ("0:1", "line 1: '0:1' is no link i-j"),
        ("0-1 -1-0", "line 1: '-1-0' is no link i-j"),
        ("0-\u0661\u0662\u0663x", "is no link i-j"),
    ],
)
def test_faulty_links_are_named(line: str, message: str, tmp_path: Path) -> None:
    folder = _write(tmp_path / "text", align=[line, *LINES["align"][1:]])
    with pytest.raises(DataError, match=rf"train\.align.*{message}"):
        list(_problem(folder).samples("train"))


@pytest.mark.parametrize(
    ("number", "message"), [(5, "more pairs than the 5 lines"), (7, "more lines than the 6 pairs")]
)
def test_as_many_lines_as_pairs_are_needed(number: int, message: str, tmp_path: Path) -> None:
    folder = _write(tmp_path / "text", align=(LINES["align"] * 2)[:number])
    with pytest.raises(DataError, match=message):
        list(_problem(folder).samples("train"))


def test_a_missing_file_and_a_table_are_refused(tmp_path: Path) -> None:
    folder = _write(tmp_path / "text")
    with pytest.raises(DataError, match=r"--alignments=links: .* has no train\.links"):
        list(_problem(folder, alignments="links").samples("train"))
    for side in ("en", "de"):
        (folder / f"train.{side}").unlink()
    (folder / "train.tsv").write_text("a\tb\n")
    with pytest.raises(DataError, match="is a table"):
        list(_problem(folder).samples("train"))


def test_a_problem_that_says_so_must_give_links(tmp_path: Path) -> None:
    class Unaligned(Problem):
        name = "unaligned"
        aligned = True

        def samples(self, split: str):  # type: ignore[no-untyped-def]
            yield "a", "b"

    with pytest.raises(DataError, match="pair 1 without an alignment"):
        prepare(Unaligned(), tmp_path, num_workers=1)
