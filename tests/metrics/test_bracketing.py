import dataclasses
import random
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from t2t_lite.data.sources import read_lines
from t2t_lite.errors import DataError
from t2t_lite.metrics import bracketing
from t2t_lite.metrics.evalb_parameters import Parameters, read_parameters
from t2t_lite.metrics.evalb_report import SentenceScore, Status
from t2t_lite.text.trees import tree as trees

COLLINS = Parameters(quote_label=())
# COLLINS.prm with the additions of new.prm, which came with the expected results of the bug set.
NEW = dataclasses.replace(
    COLLINS,
    delete_label=(*COLLINS.delete_label, "S1", "?", "!"),
    quote_label=("``", "''", "POS", "NN", "CD", "VBZ", ":"),
)
GOLD = "(S (NP (DT the) (NN cat)) (VP (VBZ sleeps) (PP (IN on) (NP (NNS mats)))) (. .))"


def numbers(line: str) -> list[str]:
    return line.split()


def score(gold: str, test: str, parameters: Parameters | None = None) -> SentenceScore:
    return bracketing.Scorer(parameters).score(gold, test)


def test_evalbs_sample_set(shared_data: Callable[[str], Path]) -> None:
    """All numbers are those of sample.rsl, except three faults of its old version of EVALB (see SOURCES.md)."""
    folder = shared_data("evalb") / "sample"
    parameters = read_parameters(read_lines(folder / "sample.prm"), "sample.prm")
    gold, test, expected = (list(read_lines(folder / f"sample.{name}")) for name in ("gld", "tst", "rsl"))
    found = list(bracketing.evaluate(gold, test, parameters).columns())
    assert found[:3] == expected[:3]
    for ours, theirs in zip(found[3:27], expected[3:27], strict=True):
        if numbers(theirs)[2] == "0":
            assert ours == theirs
        else:  # 1: the old version shows the words of a sentence in error; newer ones show 0
            assert numbers(ours) == [*numbers(theirs)[:9], "0", *numbers(theirs)[10:]]
    assert found[27] == expected[27]
    total, old_total = numbers(found[28]), numbers(expected[28])
    assert total == [*old_total[:5], "1", *old_total[6:]]  # 2: the old version does not add up the crossings
    assert old_total[5] == "16"
    without_f = [line for line in found[29:] if "FMeasure" not in line]  # 3: the old version has no F
    assert without_f == expected[29:]
    assert [line for line in found if "FMeasure" in line] == [
        "Bracketing FMeasure       =  89.12",
        "Bracketing FMeasure       =  83.20",
    ]


def test_evalbs_bug_set(shared_data: Callable[[str], Path]) -> None:
    """All numbers are those of bug.rsl-new, except the total of crossings, which that version does not add up."""
    folder = shared_data("evalb") / "bug"
    gold, test, expected = (list(read_lines(folder / f"bug.{name}")) for name in ("gld", "tst", "rsl-new"))
    evaluation = bracketing.evaluate(gold, test, NEW)
    found = list(evaluation.columns())
    assert len(found) == len(expected)
    for number, (ours, theirs) in enumerate(zip(found, expected, strict=True)):
        if number == 9:
            assert numbers(ours) == [*numbers(theirs)[:5], "36", *numbers(theirs)[6:]]
        else:
            assert numbers(ours) == numbers(theirs)
    assert evaluation.score().value == pytest.approx(60.17, abs=0.005)


def test_built_in_parameters_are_collinss(shared_data: Callable[[str], Path]) -> None:
    path = shared_data("evalb") / "COLLINS.prm"
    assert read_parameters(read_lines(path), path) == COLLINS


@pytest.mark.parametrize(
    ("gold", "test", "expected"),
    [
        # matched, gold, test, crossing, words, tags
        (GOLD, GOLD, (5, 5, 5, 0, 5, 5)),
        (GOLD, GOLD.replace("NP", "NP-SBJ=1"), (5, 5, 5, 0, 5, 5)),
        (GOLD, f"( {GOLD} )", (5, 5, 5, 0, 5, 5)),
        (f"({GOLD})", f"(TOP{GOLD})", (5, 5, 5, 0, 5, 5)),
        (GOLD, GOLD.replace("(VP", "(NP"), (4, 5, 5, 0, 5, 5)),
        (GOLD, GOLD.replace("NN ", "JJ "), (5, 5, 5, 0, 5, 4)),
        (GOLD, GOLD.replace(" (. .)", ""), (5, 5, 5, 0, 5, 5)),  # punctuation is left out
        (GOLD, GOLD.replace("(. .)", "(SBAR (-NONE- 0) (S (-NONE- *T*)))"), (5, 5, 5, 0, 5, 5)),
        ("(S (A x) (A y) (A z))", "(S (NP (A x) (A y)) (A z))", (1, 1, 2, 0, 3, 3)),
        ("(S (A x) (NP (A y) (A z)))", "(S (NP (A x) (A y)) (A z))", (1, 2, 2, 1, 3, 3)),
        ("(NP (NP (A x)))", "(NP (NP (NP (A x))))", (2, 2, 3, 0, 1, 1)),  # EVALB's README, section 7.5
        ("(NP (ADVP (A x)))", "(NP (PRT (A x)))", (2, 2, 2, 0, 1, 1)),
        ("(X (A a) (A b))", "(A a) (A b)", (0, 1, 0, 0, 2, 2)),
        ("(X\t(A a)\r (A b) )\n", " ( X(A  a )(A b))", (1, 1, 1, 0, 2, 2)),
        ("(X (A a\u00a0b))", "(X (A a\u00a0b))", (1, 1, 1, 0, 1, 1)),
        ("(X (A a))", "(X (Y) (Z ) (A a) ())", (1, 1, 1, 0, 1, 1)),  # brackets around nothing
    ],
)
def test_counts(gold: str, test: str, expected: tuple[int, ...]) -> None:
    found = score(gold, test)
    assert found.status == Status.VALID, found.fault
    assert tuple(found)[2:8] == expected


@pytest.mark.parametrize(
    ("gold", "test", "expected"),
    [
        # matched, gold, test: EVALB pushes every bracket, and then leaves out only those with a label to delete
        (f"( {GOLD} )", f"( {GOLD} )", (6, 6, 6)),
        (f"({GOLD})", f"(TOP{GOLD})", (5, 6, 5)),
        (f"(({GOLD}))", f"({GOLD})", (6, 7, 6)),
        (f"(=2 {GOLD})", f"(-SBJ {GOLD})", (6, 6, 6)),  # a label that is cut off completely is empty, too
        (f"( (-NONE- *) ) {GOLD}", GOLD, (5, 5, 5)),  # a bracket without words
    ],
)
def test_unlabelled_brackets_count_where_they_are_asked_to(gold: str, test: str, expected: tuple[int, ...]) -> None:
    assert tuple(score(gold, test, Parameters(unlabelled=True)))[2:5] == expected
    assert tuple(score(gold, test))[2:5] == (5, 5, 5)
    assert Parameters(unlabelled=True).signature.endswith("|unlabelled:counted")
    assert Parameters().signature.endswith("|unlabelled:left-out")


def test_evalbs_sample_set_in_unlabelled_brackets(shared_data: Callable[[str], Path]) -> None:
    """Each valid sentence of sample.rsl gets one more matching bracket; with the default, none."""
    folder = shared_data("evalb") / "sample"
    parameters = read_parameters(read_lines(folder / "sample.prm"), "sample.prm")
    gold, test, expected = (list(read_lines(folder / f"sample.{name}")) for name in ("gld", "tst", "rsl"))
    gold, test = ([f"( {line})" for line in lines] for lines in (gold, test))
    compared = 0
    for more in (0, 1):
        found = bracketing.evaluate(gold, test, dataclasses.replace(parameters, unlabelled=bool(more)))
        for ours, theirs in zip(found.sentences, map(numbers, expected[3:27]), strict=True):
            if theirs[2] == "0":
                assert (ours.matched, ours.gold, ours.test) == tuple(int(n) + more for n in theirs[5:8])
                assert (ours.crossing, ours.words, ours.tags) == tuple(map(int, theirs[8:11]))
                compared += 1
    assert compared == 2 * 17


@pytest.mark.parametrize(
    ("gold", "test", "status", "fault"),
    [
        (GOLD, "", Status.SKIP, ""),
        (GOLD, "(S (. .))", Status.SKIP, ""),
        (GOLD, GOLD.replace("cat", "dog"), Status.ERROR, "Words unmatch (cat|dog)"),
        (GOLD, GOLD.replace("(NN cat)", ""), Status.ERROR, "Length unmatch (5|4)"),
        ("", GOLD, Status.ERROR, "Length unmatch (0|5)"),
        (GOLD, GOLD.replace("(. .)", "(NN .)"), Status.ERROR, "Length unmatch (5|6)"),
        (GOLD, GOLD[:-1], Status.ERROR, "Bracketing is unbalanced (too many open bracket), test tree"),
        (f"{GOLD})", GOLD, Status.ERROR, "Bracketing unbalance (too many close bracket), gold tree"),
        (GOLD, f"{GOLD} x", Status.ERROR, "Reading sentence: 'x' stands in no bracket of its own, test tree"),
        (GOLD, "( a)", Status.ERROR, "A word without a tag, test tree"),
        (GOLD, "(NP a (NN b))", Status.ERROR, "More than two elements in a bracket, test tree"),
    ],
)
def test_sentences_that_do_not_count(gold: str, test: str, status: Status, fault: str) -> None:
    found = score(gold, test)
    assert (found.status, found.fault) == (status, fault)
    assert tuple(found)[2:8] == (0,) * 6


@pytest.mark.parametrize(
    ("change", "gold", "test", "expected"),
    [
        ({"labeled": False}, "(X (A a) (Y (A b)))", "(Z (A a) (Q (A b)))", (2, 2, 2)),
        ({"eq_label": (("A", "B"), ("B", "C"))}, "(A (D a))", "(C (D a))", (1, 1, 1)),
        ({"eq_word": (("a", "b"),)}, "(A (D a))", "(A (D b))", (1, 1, 1)),
        ({"delete_label": ("X",), "eq_label": (("X", "Y"),)}, "(A (Y (D a)))", "(A (D a))", (1, 1, 1)),
        ({"delete_label": ()}, "(TOP (D a))", "(TOP (D a))", (1, 1, 1)),
    ],
)
def test_parameters_bear_on_the_counts(
    change: dict[str, object], gold: str, test: str, expected: tuple[int, int, int]
) -> None:
    found = score(gold, test, dataclasses.replace(COLLINS, **change))  # type: ignore[arg-type]
    assert (found.status, found.matched, found.gold, found.test) == (Status.VALID, *expected)


@pytest.mark.parametrize(
    ("gold", "test"),
    [
        ("(S (NP (NNS cats) (POS ')) (NN x))", "(S (NP (NNS cats)) ('' ') (NN x))"),
        ("(S (NP (NNS cats)) ('' ') (NN x))", "(S (NP (NNS cats) (POS ')) (NN x))"),
        ("(S ('' ') ('' ') (NN x))", "(S (POS ') ('' ') (NN x))"),
        ("(S ('' ') (NN x) ('' ') (POS '))", "(S (POS ') (NN x) (POS ') ('' '))"),
        ("(S (Q ('' ')) (NN x))", "(S (Q (POS ')) (NN x))"),
    ],
)
def test_quotation_marks_are_put_back(gold: str, test: str) -> None:
    found = score(gold, test)
    assert found.status == Status.VALID, found.fault
    assert found.tags < found.words
    assert score(gold, test, COLLINS).status == Status.ERROR


def direct(gold: str, test: str, parameters: Parameters) -> tuple[int, ...]:
    """EVALB's rules, applied naively: matched, gold, test and crossing brackets of two trees over the same words."""
    sides = []
    for line in (gold, test):
        tree = trees.parse(line)
        kept = [leaf.tag not in parameters.delete_label for leaf in tree.leaves]
        place = [sum(kept[:i]) for i in range(len(kept) + 1)]
        spans = [(re.split("[-=]", label)[0], place[start], place[end]) for label, start, end in tree.spans()]
        sides.append([span for span in spans if span[1] < span[2] and span[0] not in parameters.delete_label])
    right, found = sides
    same = {*parameters.eq_label, *(pair[::-1] for pair in parameters.eq_label)}
    free = list(found)
    matched = 0
    for label, *span in right:
        for other in free:
            if span == list(other[1:]) and (label == other[0] or (label, other[0]) in same):
                free.remove(other)
                matched += 1
                break
    crossing = sum(any(a < c < b < d or c < a < d < b for _, a, b in right) for _, c, d in found)
    return matched, len(right), len(found), crossing


def draw_tree(draw: random.Random, words: list[str]) -> str:
    """A tree with random brackets, many of them around the same words."""
    parts = [f"({draw.choice('A A A , .'.split())} {word})" for word in words]
    while len(parts) > 1 or not parts[0].startswith("(TOP"):
        start = draw.randrange(len(parts))
        end = min(len(parts), start + draw.choice([1, 2, 2, 3]))
        label = "TOP" if len(parts) == 1 and draw.random() < 0.5 else draw.choice("NP VP-X ADVP PRT S=1".split())
        parts[start:end] = [f"({label} {' '.join(parts[start:end])})"]
    return parts[0]


def test_the_fast_way_counts_as_the_direct_one() -> None:
    draw = random.Random(3)
    scorer = bracketing.Scorer()
    crossed = doubled = 0
    for _ in range(1500):
        words = [draw.choice("abcd") for _ in range(draw.randint(1, 12))]
        gold, test = draw_tree(draw, words), draw_tree(draw, words)
        tags = re.findall(r"\((A|,|\.) ", gold)
        test = re.sub(r"\((?:A|,|\.) ", "({} ", test).format(*tags)
        found = scorer.score(gold, test)
        if found.status == Status.SKIP:
            assert "A" not in tags
            continue
        expected = direct(gold, test, scorer.parameters)
        assert tuple(found)[2:6] == expected, (gold, test)
        crossed += expected[3] > 1
        doubled += gold.count("(NP (NP") > 0
    assert crossed > 100
    assert doubled > 50


def test_a_sentence_of_5000_words() -> None:
    words = [f"(NN w{i})" for i in range(5000)]
    left = "(NP " * 5000 + "".join(f"{word})" for word in words)
    right = "".join(f"(NP {word}" for word in words) + ")" * 5000
    found = score(right, left)
    assert (found.matched, found.gold, found.test, found.crossing) == (1, 5000, 5000, 4998)


def test_totals() -> None:
    evaluation = bracketing.evaluate([GOLD] * 4, [GOLD, GOLD.replace("(VP", "(NP"), "", GOLD.replace("cat", "dog")])
    total = evaluation.total
    assert (total.sentences, total.errors, total.skipped, total.valid) == (4, 1, 1, 2)
    assert (total.recall, total.precision, total.f1, total.complete_match) == (90, 90, 90, 50)
    assert evaluation.short == total
    cut = dataclasses.replace(evaluation, parameters=Parameters(cutoff_len=5)).short
    assert (cut.sentences, cut.f1, cut.complete_match) == (0, 0, 0)
    assert evaluation.faults() == ["4 : Words unmatch (cat|dog)"]
    result = evaluation.score()
    assert result.format() == (
        "F1|evalb|labeled:yes|delete:TOP -NONE- , : `` '' .|quote:`` '' POS|equal:ADVP=PRT|equal-words:none|"
        "unlabelled:left-out = 90.00 (recall 90.00, precision 90.00, complete match 50.00, average crossing 0.00, "
        "tagging accuracy 100.00; 2 of 4 sentences, 1 in error, 1 skipped)"
    )


@pytest.mark.parametrize(
    ("gold", "test", "match"),
    [([GOLD], [GOLD] * 2, "There are 2 trees to score but 1 gold trees"), ([], [], "nothing to score")],
)
def test_files_that_do_not_go_together(gold: list[str], test: list[str], match: str) -> None:
    with pytest.raises(DataError, match=match):
        bracketing.evaluate(gold, test)


def test_stops_where_evalb_stops() -> None:
    bad = GOLD.replace("cat", "dog")
    bracketing.evaluate([GOLD] * 12, [bad] * 11 + [GOLD]).check_errors()
    with pytest.raises(DataError, match=r"12 of 12 sentences are in error, too many for MAX_ERROR 10.*\n1 : Words"):
        bracketing.evaluate([GOLD] * 12, [bad] * 12).check_errors()


def test_reads_parameter_files() -> None:
    text = "# comment\n\nDEBUG 1\nMAX_ERROR 3\nCUTOFF_LEN\t100\nLABELED 0  \nDELETE_LABEL ''\r\n"
    text += "DELETE_LABEL_FOR_LENGTH X\nQUOTE_LABEL POS\nEQ_LABEL A B\nEQ_WORD  a  b\nEQ_WORD c d"
    assert read_parameters(text.split("\n"), "x.prm") == Parameters(
        delete_label=("''",),
        delete_label_for_length=("X",),
        quote_label=("POS",),
        eq_label=(("A", "B"),),
        eq_word=(("a", "b"), ("c", "d")),
        cutoff_len=100,
        max_error=3,
        labeled=False,
    )


def test_the_example_of_tiger_counts_phrases_only(tmp_path: Path) -> None:
    """What docs/parsing.md does with files of TIGER: VROOT does not count, and words lose their function tags."""
    page = Path(__file__).parents[2].joinpath("docs", "parsing.md").read_text(encoding="utf-8")
    lines = re.findall(r"^    ((?:printf|sed) .*tiger.*)$", page, re.MULTILINE)
    (tmp_path / "tiger").mkdir()
    (tmp_path / "tiger.trees").write_text(
        "(VROOT (S (NP-SB (ART-NK Der) (NN-NK Mann)) (V-HD s-o)) ($. -) (-LRB- -LRB-))\n"
    )
    subprocess.run(["bash", "-ec", "\n".join(lines)], cwd=tmp_path, check=True)
    assert (tmp_path / "tiger" / "train.trees").read_text() == (
        "(VROOT (S (NP-SB (ART Der) (NN Mann)) (V s-o)) ($. -) (-LRB- -LRB-))\n"
    )
    parameters = read_parameters(read_lines(tmp_path / "tiger.prm"), "tiger.prm")
    gold = "(VROOT (S (NP (ART Der) (NN Mann)) (V s)) ($. .))"
    test = "(VROOT (S (NP (ART Der)) (NP (NN Mann) (V s))) ($. .))"
    assert bracketing.evaluate([gold], [test], parameters).score().value == pytest.approx(40)


def test_brackets_in_brackets_in_brackets_take_no_longer_than_others() -> None:
    """Removing empty brackets layer by layer would take an hour."""
    found = bracketing.evaluate([GOLD], ["(A " * 100_000 + ")" * 100_000 + GOLD])
    assert found.total == bracketing.evaluate([GOLD], [GOLD]).total


@pytest.mark.parametrize(
    ("line", "match"),
    [
        ("DELETE_LABLE X", "x.prm, line 2: 'DELETE_LABLE' is no parameter.*Did you mean 'DELETE_LABEL'"),
        ("DELETE_LABEL", "line 2: DELETE_LABEL takes one value, not 0"),
        ("EQ_LABEL A", "line 2: EQ_LABEL takes two values, not 1"),
        ("CUTOFF_LEN forty", "line 2: CUTOFF_LEN takes a whole number of up to 9 digits, not 'forty'"),
    ],
)
def test_faults_of_parameter_files(line: str, match: str) -> None:
    with pytest.raises(DataError, match=match):
        read_parameters(["# x", line], "x.prm")


def test_a_tree_that_is_malformed_only_in_its_regular_form_is_an_error_of_its_sentence() -> None:
    """The word that holds a bracket is left out; its tree is read again as the numbers of words differ."""
    malformed = "(S (NP-S cat)) (VP (VBZ smeeps) (NP (-NONE- *-1()) (. .))"
    for gold, test, side in ((GOLD, malformed, "test"), (malformed, GOLD, "gold")):
        found = bracketing.Scorer().score(gold, test)
        assert found.status is Status.ERROR
        assert found.fault == f"Bracketing is unbalanced (too many open bracket), {side} tree"
