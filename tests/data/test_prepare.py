"""prepare: pairs become a store, once, completely or not at all, the same for any number of processes."""

import random
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from t2t_lite.data.prepare import prepare
from t2t_lite.data.store import Store, open_store
from t2t_lite.errors import DataError, UsageError
from t2t_lite.ids import EOS
from t2t_lite.problem import Problem, reverse
from t2t_lite.text.codec import Codec
from t2t_lite.text.trees.codec import TreeCodec


class Made(Problem):
    """Pairs of made-up lines."""

    name = "made"
    vocab_size = 300

    def __init__(self, pairs: int = 200, **settings: object) -> None:
        self._pairs = pairs
        self.read: list[str] = []
        for name, value in settings.items():
            setattr(self, name, value)

    def samples(self, split: str) -> Iterator[tuple[str, str]]:
        self.read.append(split)
        generator = random.Random(split)
        for _ in range(self._pairs if split == "train" else 20):
            words = generator.choices("ein zwei drei vier fünf sechs sieben acht neun zehn".split(), k=4)
            yield " ".join(words), " ".join(reversed(words)).upper()


class Given(Made):
    """The same given pairs in each split."""

    name = "given"

    def __init__(self, pairs: list, **settings: object) -> None:
        super().__init__(**settings)
        self._given = pairs

    def samples(self, split: str) -> Iterator[tuple[str, str]]:
        yield from self._given


def _contents(store: Store) -> dict[str, bytes]:
    """All files but the record of where and when the store was prepared."""
    return {path.name: path.read_bytes() for path in store.folder.iterdir() if path.name != "origin.json"}


def _leftovers(data_dir: Path) -> list[str]:
    return sorted(path.name for path in data_dir.iterdir() if "partial" in path.name)


def test_a_store_holds_the_pairs(tmp_path: Path) -> None:
    problem = Made()
    store = prepare(problem, tmp_path / "new" / "data")
    assert store.folder == tmp_path / "new" / "data" / "made"
    assert store.splits() == ("train", "dev", "test")
    store.verify()
    for name in store.splits():
        split, pairs = store.split(name), list(problem.samples(name))
        assert len(split) == len(pairs)
        for i, pair in enumerate(pairs):
            for tokens, text in zip((split.source, split.target), pair, strict=True):
                assert tokens[i][-1] == EOS
                assert EOS not in tokens[i][:-1]
                assert store.source_vocabulary.decode(tokens[i]) == text
        if name != "train":
            assert store.text(name) == tuple(map(list, zip(*pairs, strict=True)))
    with pytest.raises(DataError, match="holds the text of dev and test only, not of train"):
        store.text("train")


def test_the_second_call_does_nothing(tmp_path: Path) -> None:
    first = prepare(Made(), tmp_path)
    times = {path: path.stat().st_mtime_ns for path in [first.folder, *first.folder.iterdir()]}
    problem = Made()
    second = prepare(problem, tmp_path)
    assert {path: path.stat().st_mtime_ns for path in [second.folder, *second.folder.iterdir()]} == times
    assert problem.read == []  # not read: the text may be gone by then
    assert second.manifest == first.manifest


def test_other_settings_are_listed(tmp_path: Path) -> None:
    before = _contents(prepare(Made(), tmp_path))
    other = Made(vocab_size=400, vocab_type="unigram", options=lambda: {"folder": "/x", "vocab_size": 400})
    with pytest.raises(UsageError) as caught:
        prepare(other, tmp_path)
    assert str(caught.value).split("\n") == [
        f"{tmp_path / 'made'} was prepared with other settings:",
        "  folder: None -> '/x'",
        "  vocab_size: 300 -> 400",
        "  vocab_type: 'bpe' -> 'unigram'",
        "Give another --data_dir, or go back to the old settings; --prepare_again prepares it again.",
    ]
    assert _contents(open_store(tmp_path / "made")) == before


@pytest.mark.commit
def test_a_store_behind_a_link_is_replaced_where_it_is(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "made").symlink_to(tmp_path / "disk" / "made")
    for size in (60, 80, 100):  # the first one makes what the link points to
        prepare(Made(vocab_size=size), tmp_path, force=True)
        assert (tmp_path / "made").is_symlink()
        assert prepare(Made(vocab_size=size), tmp_path).source_vocabulary.size == size
        assert {path.name for path in (tmp_path / "disk").iterdir()} - {".made.lock"} == {"made"}
    assert {path.name for path in tmp_path.iterdir()} == {"disk", "made"}


def test_a_folder_of_something_else_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "made").mkdir()
    (tmp_path / "made" / "precious").write_text("x")
    for force in (False, True):
        with pytest.raises(
            DataError,
            match=r"made holds no prepared data \(no manifest.json\), so it is not replaced\. Give another --da",
        ):
            prepare(Made(), tmp_path, force=force)
    assert (tmp_path / "made" / "precious").read_text() == "x"


@pytest.mark.commit
def test_any_number_of_processes_gives_the_same_store(tmp_path: Path) -> None:
    one = prepare(Made(pairs=20_000), tmp_path / "1", num_workers=1)
    reports: list[tuple[int, str]] = []
    two = prepare(Made(pairs=20_000), tmp_path / "2", num_workers=2, progress=lambda *report: reports.append(report))
    assert _contents(one) == _contents(two)
    assert [done for done, label in reports if label == "train"] == list(range(2000, 20_001, 2000))
    assert {label for _, label in reports} == {"vocabulary", "train", "dev", "test"}


def test_pairs_with_an_empty_side_leave_train_only(tmp_path: Path) -> None:
    pairs = [("a b", "c d"), ("", "c"), ("a", " \u2028 "), ("", ""), ("b", "d")]
    store = prepare(Given(pairs), tmp_path)
    assert len(store.split("train")) == 2
    assert store.manifest["splits"]["train"]["dropped"] == 3
    assert len(store.split("dev")) == len(store.split("test")) == 5
    assert store.manifest["splits"]["dev"]["dropped"] == 0
    assert store.split("dev").source[1].tolist() == [EOS]
    assert store.text("dev") == tuple(map(list, zip(*pairs, strict=True)))


def test_cleaning_is_counted_and_is_for_train_only(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    pairs = [("a b", "c d"), ("", "c"), ("a b", "c d"), ("a", "b b b b"), ("a\x02", "b"), ("b", "d " * 6), ("b", "d")]
    caplog.set_level("INFO", "t2t_lite")
    store = prepare(Given(pairs, clean=True, clean_max_words=5, clean_max_ratio=3), tmp_path)
    train = store.split("train")
    assert [store.source_vocabulary.decode(train.source[i]) for i in range(len(train))] == ["a b", "b"]
    facts = store.manifest["splits"]
    assert (facts["train"]["pairs"], facts["train"]["dropped"]) == (2, 1)
    assert facts["train"]["cleaned"] == {"control": 1, "markup": 0, "length": 1, "ratio": 1, "copy": 0, "duplicate": 1}
    assert "Cleaning leaves out 4 training pairs: 1 control, 1 length, 1 ratio, 1 duplicate." in caplog.messages
    for split in ("dev", "test"):
        assert len(store.split(split)) == len(pairs)
        assert "cleaned" not in facts[split]
    assert [path.name for path in tmp_path.iterdir() if path.name not in (".given.lock", "given")] == []


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ([("", "")], "no text to train a vocabulary on"),
        ([], "no text to train a vocabulary on"),
        ([("a", "b", "c")], r"samples\('dev'\) of 'given' gave \('a', 'b', 'c'\) as pair 1; a pair is \(str, str\)"),
        (["ab"], "gave 'ab' as pair 1"),
        ([("a", "b"), ("c", "d\ud83d")], r"samples\('dev'\) of 'given': pair 2 holds '\\ud83d', half of a character"),
        ([(b"a", b"b")], r"gave \(b'a', b'b'\) as pair 1"),
    ],
)
def test_faulty_samples(tmp_path: Path, pairs: list, message: str) -> None:
    with pytest.raises(DataError, match=message):
        prepare(Given(pairs), tmp_path)
    assert not (tmp_path / "given").exists()
    assert _leftovers(tmp_path) == []


def test_samples_without_a_return(tmp_path: Path) -> None:
    problem = Made()
    problem.samples = lambda split: None
    with pytest.raises(DataError, match=r"samples\('dev'\) of 'made' gave None; it yields pairs \(str, str\)\."):
        prepare(problem, tmp_path)


def test_an_empty_dev_split(tmp_path: Path) -> None:
    problem = Made()
    problem.samples = lambda split: iter([("a", "b")] if split == "train" else [])
    with pytest.raises(DataError, match="The split 'dev' of 'made' has no pairs"):
        prepare(problem, tmp_path)


def test_arguments(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--num_workers=0 must be at least 1"):
        prepare(Made(), tmp_path, num_workers=0)
    with pytest.raises(DataError, match="'made' has no split 'dev', only train"):
        prepare(Made(splits=lambda: ("train",)), tmp_path)
    with pytest.raises(UsageError, match="Made has no name; decorate it with @register_problem"):
        prepare(Made(name=""), tmp_path)
    (tmp_path / "file").write_text("x")
    with pytest.raises(UsageError, match=r"--data_dir=\S*file: \S*file is not a folder"):
        prepare(Made(), tmp_path / "file")


class _OwnCodec(Codec):
    """A codec that is neither of the two known ones."""


@pytest.mark.parametrize("codec", [_OwnCodec(), TreeCodec, "tree"])
def test_a_codec_that_is_not_known(tmp_path: Path, codec: object) -> None:
    """An unknown codec is refused before anything is written."""
    with pytest.raises(
        UsageError, match=r"has the codec .*, which nothing would find again for its prepared data\. Gi"
    ):
        prepare(Made(codec=codec), tmp_path)
    with pytest.raises(UsageError, match="'made' has the codec"):
        reverse(type("Other", (Made,), {"name": "made", "codec": codec}))
    assert not list(tmp_path.iterdir())


def test_two_at_once_make_one_store(tmp_path: Path) -> None:
    problems = [Made(pairs=2000), Made(pairs=2000)]
    threads = [threading.Thread(target=prepare, args=(problem, tmp_path)) for problem in problems]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(bool(problem.read) for problem in problems) == [False, True]
