"""Tags of words, learned from training trees: which of a model's tags stay, which change, how the table is stored."""

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from t2t_lite.errors import DataError
from t2t_lite.text.trees import tag_table
from t2t_lite.text.trees.tag_table import PUNCTUATION, TAG, WSJ, TagLearner, TagTable, load_table, parse_table

DELETED = (",", ".", ":", "``", "''")
PAIRS = [
    ("pro - cat - fish .", "(S NN HYPH NN : NN . )S"),
    ("low - zebra & ... Wa", "(S JJ HYPH NN CC : , )S"),
    ("*** - .", "(S NFP XX . )S"),
]


def learned(pairs: list[tuple[str, str]], deleted: tuple[str, ...] = DELETED) -> TagTable:
    counts = TagLearner(deleted)
    assert list(counts.watch(pairs)) == pairs
    table = counts.table()
    assert table is not None
    return table


def table_text(**changed: Any) -> str:
    """The text of a tags.json, with some values changed."""
    values = {"version": 2, "deleted": [","], "words": {}, "model": {"first": [], "words": {}, "endings": {}}}
    return json.dumps(values | changed)


@pytest.mark.parametrize(
    ("word", "tag", "expected"),
    [
        ("-", "HYPH", "HYPH"),
        ("-", ":", ":"),  # EVALB mostly keeps this word, but this pair occurred
        ("-", ",", "HYPH"),  # this pair did not occur
        ("-", "NN", "NN"),  # this pair did not occur either, but EVALB keeps the word with both tags
        ("-", TAG, TAG),  # here XX is one of the treebank's own tags
        (".", "NN", "."),
        (".", ",", ","),  # EVALB leaves the word out with either tag
        (".", TAG, "."),
        ("***", ".", TAG),
        ("***", TAG, TAG),
        ("&", ":", TAG),
        ("fish", ".", TAG),
        ("fish", "JJ", "JJ"),
        ("Wa", ",", ","),  # an annotator's slip; otherwise this is an ordinary word
        ("Wa", ".", TAG),
        ("unseen", ":", TAG),
        ("unseen", "JJ", "JJ"),
        ("?!", ".", "."),  # no letters or digits: the model's tag is accepted
        ("?!", "NN", "NN"),
        ("-LRB-", ":", ":"),
        ("7", ":", TAG),
    ],
)
def test_a_tag_is_changed_only_where_the_pair_never_occurred(word: str, tag: str, expected: str) -> None:
    assert learned(PAIRS).tag(tag, word) == expected


def test_a_tag_that_words_bear_is_believed_of_words_that_never_occurred() -> None:
    table = learned([("uh I see um , yes", "(S UH PRP VB UH , UH )S")], ("UH", ","))
    assert table.open == {"UH"}
    assert [table.tag("UH", word) for word in ("er", "uh", "!")] == ["UH", "UH", "UH"]
    assert [table.tag(",", word) for word in ("er", "uh", "!")] == [TAG, TAG, ","]


def test_the_table_of_old_runs_is_the_old_rule() -> None:
    """The rule from before tables were learned: marks, and only marks, have a mark's tag; ' may have either kind."""
    marks = (",", ".", ":", "``", "''")
    words = [*PUNCTUATION, "cat", "?!", "-LRB-", "$", "\u3002"]
    for tag, word in itertools.product([*marks, "NN", "POS", "HYPH", "$,", TAG], words):
        own = PUNCTUATION.get(word, TAG)
        wrong = (own in marks) != (tag in marks) and word != "'"
        assert WSJ.tag(tag, word) == (own if wrong or tag == TAG else tag), (tag, word)


def test_memory_holds_the_words_that_matter_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tag_table, "_FLUSH", 2)
    many = [(f"w{i} - , x\u00a0{i}", "(S NN HYPH , NN )S") for i in range(50)]
    table = learned([*many, ("( Wa )", "(S -LRB- , -RRB- )S")])
    expected = {"-": {"HYPH": 50}, ",": {",": 50}, "-LRB-": {"-LRB-": 1}, "-RRB-": {"-RRB-": 1}, "Wa": {",": 1}}
    assert table.counts == expected


def test_trees_without_tags_of_their_own_have_no_table() -> None:
    counts = TagLearner(DELETED)
    list(counts.watch([("a b .", "(S XX XX XX )S")]))
    assert counts.table() is None


def test_pairs_that_are_no_trees_are_left_out_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    assert learned([*PAIRS, (". .", "(S NN )S")]).counts == learned(PAIRS).counts
    assert "1 training pairs have more or fewer tags than words" in caplog.text


def test_a_table_is_written_and_read(tmp_path: Path) -> None:
    table = learned([*PAIRS, ("\u3002 \u732b", "(S PU NN )S")], (*DELETED, "PU"))
    (tmp_path / "tags.json").write_text(table.to_json(), encoding="utf-8")
    assert load_table(tmp_path) == table
    assert load_table(tmp_path).to_json() == table.to_json()
    assert "\u3002" in table.to_json()


def test_without_a_table_the_one_of_wsj_is_used_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert load_table(tmp_path) is WSJ
    assert "has no tags.json, as its training trees have no tags" in caplog.text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        table_text(words={"a": {}}),
        table_text(words={"-": {",": 0}}),
        table_text(words={"\ud800": {"NN": 1}}),
        table_text(deleted=3),
        table_text(model={"first": [], "words": {}}),
        table_text(model={"first": [], "words": {"a": {"NN": 10**400}}, "endings": {}}),
        table_text(model={"first": [], "words": {"a": {"NN": 1}}, "endings": {"a": {"VB": 1}}}),
        "[" * 100_000,
        "\xff",
    ],
)
def test_a_damaged_table(tmp_path: Path, text: str) -> None:
    (tmp_path / "tags.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(DataError, match=r"tags\.json is damaged: it holds no table"):
        load_table(tmp_path)


def test_a_table_of_another_format() -> None:
    with pytest.raises(DataError, match="x has the format number 1; this version of t2t-lite reads format 2"):
        parse_table(table_text(version=1), "x")
    assert parse_table(table_text(), "x").words == {}


def test_gold_trees_that_would_be_changed_are_counted(caplog: pytest.LogCaptureFixture) -> None:
    gold = [*PAIRS, ("a b ,", "(S NN . , )S"), ("- \u2026 .", "(S NFP : . )S"), ("x . .", "(S NN NN , )S"), ("a", "(S")]
    learned(PAIRS).check_gold("dev", PAIRS)
    assert caplog.messages == []
    learned(PAIRS).check_gold("dev", gold)
    (line,) = caplog.messages
    assert line.startswith("2 of 7 dev trees have a word, such as (. b), that EVALB leaves out there and keeps in the")
