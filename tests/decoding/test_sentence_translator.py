"""Lines translated sentence by sentence: N lines in, N lines out, and nothing is cut."""

import dataclasses
import random
from collections.abc import Sequence

import pytest

from t2t_lite.decoding.given import Given
from t2t_lite.decoding.line_translator import Hypothesis, LineTranslator
from t2t_lite.decoding.sentence_translator import SentenceTranslator
from t2t_lite.errors import UsageError
from t2t_lite.groups import DecodeGroup
from t2t_lite.text.vocabulary_training import train_vocabulary

LIMIT = 12
VOCABULARY = train_vocabulary(["a b c A B C . , ! 你 好 。"] * 5, size=40, kind="char")


class Marks(LineTranslator):
    """Puts brackets around what it is given; the Nth output has N of them, and a score of -N."""

    def __init__(self) -> None:
        super().__init__(VOCABULARY, DecodeGroup(beam_size=3, max_source_length=LIMIT))
        self.most = 0

    def _decode(
        self, lines: Sequence[str], ids: Sequence[Sequence[int]], nbest: int, given: Given
    ) -> list[list[Hypothesis]]:
        self.most = max(self.most, *map(len, ids))
        return [[Hypothesis("[" * n + line + "]" * n, -float(n)) for n in range(1, nbest + 1)] for line in lines]


ODD = [
    "",
    " ",
    "...",
    "。。。",
    "Abc.",
    "no mark",
    "A. b. c",
    " Ab! B c. ",
    "abcabcabcabcabc",
    "a b c a b c a b",
    "好。你！你。",
]


def test_as_many_lines_come_out_as_go_in() -> None:
    found = [row[0].text for row in SentenceTranslator(Marks()).translate(ODD)]
    assert found == [
        *("", "", "[...]", "[。。。]", "[Abc.]", "[no mark]", "[A. b. c]", "[Ab!] [B c.]", "[abcabca] [bcabcabc]"),
        *("[a b c a] [b c a b]", "[好。] [你！] [你。]"),
    ]
    rng = random.Random(1)
    lines = ["".join(rng.choices("abcABC.,! 你好。", k=rng.randrange(60))) for _ in range(300)]
    marks = Marks()
    found = [row[0].text for row in SentenceTranslator(marks).translate(lines)]
    assert len(found) == 300
    assert marks.most == LIMIT
    for line, text in zip(lines, found, strict=True):
        assert "".join(line.split()) == "".join(text.replace("[", "").replace("]", "").split())


def test_a_long_sentence_is_broken_with_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    SentenceTranslator(Marks()).translate(["abc " * 9, "cba " * 9, "A. B."])
    [message] = caplog.messages
    assert message.startswith(
        "A sentence of more than max_source_length=12 pieces is broken, after a comma, at a space"
    )
    assert "'abc abc abc" in message
    caplog.clear()
    Marks().translate(["abc " * 9])
    assert "only their beginning is translated" in caplog.text


def test_scores_are_sums_and_progress_counts_lines() -> None:
    calls = []
    lines = ["Ab. Bc. Ca.", "Ab.", "", "Ab. B!"]
    found = SentenceTranslator(Marks()).translate(lines, nbest=2, progress=lambda *call: calls.append(call))
    assert [[h.score for h in row] for row in found] == [[-3, -6], [-1, -2], [0, 0], [-2, -4]]
    assert found[3][1].text == "[[Ab.]] [[B!]]"
    assert sum(number for number, _ in calls) == len(lines)
    assert sum(weight for _, weight in calls) == pytest.approx(len(lines))


def test_trees_are_refused() -> None:
    parser = Marks()
    parser.is_text = False
    with pytest.raises(UsageError, match="--split_sentences is for text; this model writes trees"):
        SentenceTranslator(parser)


def test_a_line_of_one_sentence_is_translated_as_it_is() -> None:
    marks = Marks()
    plain = [dataclasses.astuple(row[0]) for row in marks.translate(ODD[:7])]
    assert [dataclasses.astuple(row[0]) for row in SentenceTranslator(marks).translate(ODD[:7])] == plain
