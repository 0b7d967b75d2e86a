"""Warnings about text that BLEU says little about: very short lines, and text that is tokenised already."""

import logging

import pytest

from t2t_lite.metrics import bleu, names
from t2t_lite.metrics.reference_warnings import reference_warnings, tokenised_warning
from t2t_lite.problem import Problem

SHORT = ["Save", "Open file", "Cancel.", "Copy it."]
LONG = ["Open the file first.", "Save it under another name."]
NAMES = ("bleu", "bleu_lc", "bleu_tok_lc", "bleu_paper")


@pytest.mark.parametrize("name", NAMES)
def test_few_references_of_four_tokens(name: str) -> None:
    [warning] = reference_warnings(name, "de", None, [*SHORT * 4, LONG[0]], "the text of dev")
    assert warning.startswith("warning: 6% of the lines in the text of dev have 4 tokens or more: BLEU counts")
    assert "--metric=chrf, or --metric=accuracy" in warning
    assert ("--bleu_effective_order" in warning) == (name != "bleu_paper")
    assert reference_warnings(name, "de", None, [*SHORT, *LONG], "the text of dev") == []


def test_tokens_are_those_of_the_metric() -> None:
    lines = ["(Save) it!"] * 9  # two words, five tokens of 13a
    assert reference_warnings("bleu", "en", None, lines, "the text of dev") == []
    assert len(reference_warnings("bleu", "en", "none", lines, "the text of dev")) == 1
    assert len(reference_warnings("bleu_tok_lc", "en", None, lines, "the text of dev")) == 1
    assert reference_warnings("bleu", "zh", None, ["保存文件"] * 9, "the text of dev") == []  # characters
    assert len(reference_warnings("bleu", "zh", None, ["保存"] * 9, "the text of dev")) == 1


def test_other_metrics_and_an_effective_order_need_no_warning() -> None:
    for name in ("chrf", "chrf2", "accuracy"):
        assert reference_warnings(name, "de", None, SHORT, "the text of dev") == []
    assert reference_warnings("bleu", "de", None, SHORT, "the text of dev", effective_order=True) == []


def test_text_without_spaces_has_one_warning_not_two() -> None:
    assert reference_warnings("bleu", "th", None, ["บันทึก"] * 9, "the text of dev") == []  # tokenizer_note says it
    assert len(reference_warnings("bleu", "target", None, ["บันทึกไฟล์"] * 9, "the text of dev")) == 1


@pytest.mark.parametrize(
    ("lines", "warns"),
    [
        (["ein Hund ."] * 3, True),
        (["ein Hund .", "und mehr"] * 50, True),
        (["ein Hund ."] * 100 + ["und mehr"] * 5000, True),  # as sacreBLEU
        (["ein Hund ."] + ["und mehr."] * 20, False),
        (["Quoi ?", "Non !"] * 50, False),  # French
    ],
)
def test_tokenised_text(lines: list[str], warns: bool) -> None:
    found = tokenised_warning("bleu", None, lines, "the text of dev")
    assert bool(found) == warns
    if warns:
        assert "--bleu_tokenize=none or --metric=bleu_tok_lc" in found
    assert tokenised_warning("bleu", "none", lines, "the text of dev") == ""
    assert tokenised_warning("bleu_tok_lc", None, lines, "the text of dev") == ""
    assert tokenised_warning("chrf", None, lines, "the text of dev") == ""


def test_sacrebleus_message_about_tokenised_text_does_not_show(caplog: pytest.LogCaptureFixture) -> None:
    lines = ["ein Hund sah ihn ."] * 200
    with caplog.at_level(logging.WARNING):
        for name in (*NAMES, "chrf", "chrf2", "accuracy"):
            names.metric(name, "de").score(lines, lines)
        bleu.ter().score(lines, lines)
    assert caplog.messages == []


def test_a_problem_warns_of_its_dev_set_unless_the_metric_is_its_own() -> None:
    class Short(Problem):
        """Short lines."""

        target_language = "de"

    assert [warning[:14] for warning in Short().metric_warnings(SHORT)] == ["warning: 0% of"]
    assert [warning[:30] for warning in Short().metric_warnings(["a b c ."])] == ["warning: the text of dev is to"]
    problem = Short()
    problem.bleu_effective_order = True
    assert problem.metric_warnings(SHORT) == []
    assert problem.make_metric().signature.startswith("nrefs:1|case:mixed|eff:yes|tok:13a|")

    class Own(Short):
        """Its metric is its own."""

        def make_metric(self) -> bleu.Metric:
            return bleu.chrf()

    assert Own().metric_warnings(SHORT) == []
