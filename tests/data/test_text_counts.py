"""What is unusual in a problem's text is said when its data are prepared: counts, splits, sides and first examples."""

import json
import unicodedata
from pathlib import Path

import pytest

from t2t_lite import registry
from t2t_lite.data.prepare import prepare
from t2t_lite.data.store import Store
from t2t_lite.errors import UsageError
from t2t_lite.problem import Problem
from t2t_lite.text.trees.codec import TreeCodec

Pair = tuple[str, str]

PLAIN = [(f"the dog sees {name} .", f"der Hund sieht {name} .") for name in ("Jörg", "Kurt", "René", "a café")] * 5


def _prepared(folder: Path, splits: dict[str, list[Pair]], **options: object) -> Store:
    """Prepares splits that are written as files of lines; of JSON where a text has a line break."""
    for split, pairs in splits.items():
        if any("\n" in text for pair in pairs for text in pair):
            rows = [json.dumps(dict(zip(("en", "de"), pair, strict=True))) for pair in pairs]
            (folder / f"{split}.jsonl").write_text("".join(f"{row}\n" for row in rows))
            continue
        for side, language in enumerate(("en", "de")):
            (folder / f"{split}.{language}").write_text("".join(f"{pair[side]}\n" for pair in pairs))
    problem = registry.problem("text2text", source_dir=str(folder), languages="en-de", vocab_size=90, **options)
    return prepare(problem, folder / "data", num_workers=1)


def _changed(change: str) -> list[Pair]:
    if change in ("NFC", "NFD"):
        return [(unicodedata.normalize(change, source), target) for source, target in PLAIN]
    return [(getattr(source, change)(), target) for source, target in PLAIN]


@pytest.mark.commit
@pytest.mark.parametrize(
    ("train", "dev", "characters", "advice"),
    [
        ("NFC", "NFD", "U+0301, U+0308", "Compose all text"),
        ("NFD", "NFC", "é (U+00E9), ö (U+00F6)", "decomposed (NFD). Compose all text, that of training too"),
        ("lower", "title", "T (U+0054), D (U+0044), S (U+0053)", "in lower case only"),
        ("upper", "lower", "e (U+0065)", "in capitals only"),
    ],
)
def test_unknown_pieces_of_dev(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, train: str, dev: str, characters: str, advice: str
) -> None:
    splits = {"train": _changed(train), "dev": _changed(dev)}
    facts = _prepared(tmp_path, splits, shared_vocab=False).manifest["splits"]["dev"]["source"]
    [message] = [message for message in caplog.messages if "unknown" in message]
    share = 100 * facts["unknown"] / facts["ids"]
    assert message.startswith(
        f"dev: {facts['unknown']} of {facts['ids']} source pieces ({share:.1f}%) are unknown to the vocabulary, the "
        f"most frequent characters are {characters}"
    )
    assert "(first in dev.en, line 1:" in message
    assert advice in caplog.text


def test_unknown_pieces_of_another_script(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    _prepared(tmp_path, {"train": PLAIN, "dev": PLAIN[1:2], "test": [*PLAIN[:2], ("собака видит кота .", "Hund .")]})
    [message] = [message for message in caplog.messages if "unknown" in message]
    assert message.startswith("test: 3 of ")
    assert "source pieces" in message
    assert "first in test.en, line 3: 'собака видит кота .'" in message
    assert "Most are Cyrillic letters" in caplog.text


class Trees(Problem):
    """A few trees; NX occurs in dev alone."""

    name = "few_trees"
    codec = TreeCodec()
    shared_vocab = False
    vocab_size = 30

    def samples(self, split: str) -> list[Pair]:
        return [("a dog", "(NX TAG TAG )NX" if split == "dev" else "(NP TAG TAG )NP")] * 3

    def splits(self) -> tuple[str, ...]:
        return ("train", "dev")


def test_labels_of_trees_that_training_lacks(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    prepare(Trees(), tmp_path, num_workers=1)
    [message] = [message for message in caplog.messages if "unknown" in message]
    assert message.startswith(
        "dev: 6 of 15 target pieces (40.0%) are unknown to the vocabulary, the most frequent words"
    )
    assert "'(NX', ')NX'" in message


def test_white_space_that_is_lost(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "t2t_lite")
    train = [*PLAIN, ("a  dog", "ein\nHund"), ("a dog ", "ein   Hund\n"), ("a cat", " eine Katze")]
    store = _prepared(tmp_path, {"train": train, "dev": [*PLAIN, ("a\tdog", "ein Hund")]})
    assert [message for message in caplog.messages if "not kept" in message] == [
        "Line breaks are not kept: 'ein\\nHund' is read, and written, as 'ein Hund'. They are in 2 of 23 targets of "
        "train (first: train.jsonl, pair 21).",
        "Runs of spaces are not kept: 'a  dog' is read, and written, as 'a dog'. They are in 1 of 23 sources of train "
        "(first: train.jsonl, pair 21), 1 of 23 targets of train (first: train.jsonl, pair 22).",
        "Spaces at the beginning or end are not kept: 'a dog ' is read, and written, as 'a dog'. They are in 1 of 23 "
        "sources of train (first: train.jsonl, pair 22), 1 of 23 targets of train (first: train.jsonl, pair 23).",
        "Tabs are not kept: 'a\\tdog' is read, and written, as 'a ⁇ dog'. They are in 1 of 21 sources of dev (first: "
        "dev.en, line 21).",
    ]
    facts = store.manifest["splits"]
    assert facts["train"]["unusual"]["target"]["line breaks"] == 2
    assert facts["dev"]["unusual"] == {"source": {"tabs": 1}}


def test_text_without_anything_unusual_is_not_mentioned(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "t2t_lite")
    store = _prepared(tmp_path, {"train": PLAIN, "dev": [(f"{source} .", f"{target} .") for source, target in PLAIN]})
    assert [message for message in caplog.messages if "too small" not in message] == []
    assert "unusual" not in store.manifest["splits"]["train"]


TAGS = [("<url>http://example.org/0</url>", "<url>http://example.org/0</url>"), ("<talkid>7</talkid>",) * 2]


def test_lines_of_markup_and_cleaning_for_that_reason(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    pairs = [TAGS[0], *PLAIN[:4], TAGS[1], ("<b>dog</b>", "<b>Hund</b>"), ("a dog", "a dog")]
    (tmp_path / "all").mkdir()
    store = _prepared(tmp_path / "all", {"train": pairs, "dev": [*PLAIN, TAGS[0]]})
    assert store.manifest["splits"]["train"]["unusual"] == {"markup": 2}
    found = [message for message in caplog.messages if "XML" in message]
    assert "2 of 8 pairs of train (25.0%) are one XML element on both sides" in found[0]
    assert "'<url>http://example.org/0</url>' (train.en, line 1). --clean=markup leaves them out" in found[0]
    assert "1 of 21 pairs of dev (4.8%)" in found[1]
    assert "(dev.en, line 21). Take these lines out of the files" in found[1]
    caplog.clear()
    (tmp_path / "some").mkdir()
    facts = _prepared(tmp_path / "some", {"train": pairs, "dev": PLAIN}, clean="markup").manifest
    assert facts["splits"]["train"]["cleaned"] == {"markup": 2}
    assert facts["splits"]["train"]["pairs"] == 6
    assert facts["settings"]["clean"] == ["markup"]
    assert "on both sides, and not sentences" not in caplog.text


def test_an_empty_side(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "t2t_lite")
    _prepared(tmp_path, {"train": [*PLAIN, ("", "Hund")], "dev": [*PLAIN, ("the dog", " ")]})
    assert "1 of 21 pairs of train have an empty side (first: train.en, line 21). They are left out." in caplog.messages
    assert "1 of 21 pairs of dev have an empty side (first: dev.de, line 21). They are kept" in caplog.text


def test_line_breaks_and_texts_that_are_kept_whole(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "t2t_lite")
    pairs = [*PLAIN, ("copy %s\nto <b>%s</b>", "kopiere %s\r\nnach <b>%s</b>\n")]
    store = _prepared(tmp_path, {"train": pairs, "dev": pairs}, line_breaks="symbol", keep_whole="%s,<b>,keep.txt")
    assert "Line breaks" not in caplog.text
    assert "--keep_whole (--symbols): no training pair holds 'keep.txt'." in caplog.messages
    text = "kopiere %s\nnach <b>%s</b>\n"
    assert store.text("dev")[1][-1] == text
    vocabulary = store.target_vocabulary
    ids = store.split("dev").target[20]
    assert vocabulary.decode(ids) == text
    assert [vocabulary.pieces(ids).count(piece) for piece in ("%s", "<b>", "\n")] == [2, 1, 2]
    assert vocabulary.decode(vocabulary.encode("k%sk<b>%s")) == "k%sk<b>%s"
    settings = store.manifest["settings"]
    assert (settings["line_breaks"], settings["keep_whole"]) == ("symbol", ["%s", "<b>", "keep.txt"])
    other = registry.problem("text2text", source_dir=str(tmp_path), languages="en-de", vocab_size=90)
    with pytest.raises(
        UsageError, match=r"keep_whole: \['%s', '<b>', 'keep.txt'\] -> None\n  line_breaks: 'symbol' ->"
    ):
        prepare(other, tmp_path / "data")


def test_a_given_vocabulary_must_have_a_piece_for_line_breaks(tmp_path: Path) -> None:
    store = _prepared(tmp_path, {"train": PLAIN, "dev": PLAIN})
    problem = registry.problem("text2text", source_dir=str(tmp_path), languages="en-de", line_breaks="symbol")
    given = store.source_vocabulary, store.target_vocabulary
    with pytest.raises(UsageError, match="vocabulary of the source has no piece for a line break"):
        prepare(problem, tmp_path / "other", vocabularies=given)
