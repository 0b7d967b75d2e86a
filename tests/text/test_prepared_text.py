"""Marks of subword-nmt, SentencePiece and Moses in text, and text that only looks like it."""

import pytest

from t2t_lite.text.prepared_text import PreparedText, prepared_warnings

PLAIN = [
    "The cat sat on the mat.",
    "Press Find &amp; Replace, then &lt;b&gt;Save&lt;/b&gt;, or don&apos;t.",  # escaped markup, not Moses
    *["Write to ann@@example.org; @@ -1,3 +1,4 @@ begins a hunk of a diff."] * 3,
] + ["A plain sentence of some eight words here."] * 60


@pytest.mark.parametrize(
    ("lines", "verb", "undo"),
    [
        (["ein Leh@@ rer fin@@ det das Haus ."], "25% of the words of the references end in @@", "s/(@@ )|(@@ ?$)//g"),
        (["\u2581der \u2581Hund s ieht"], "50% of the words of the references hold \u2581", "s/\u2581/ /g"),
        (["he doesn &apos;t know"], "25% of the words of the references are escaped by Moses", "detokenize"),
        (["l&apos; homme est venu"], "25% of the words of the references are escaped by Moses", "detokenize"),
        (["he said &quot; no &quot; ."], "33% of the words of the references are escaped by Moses", "detokenize"),
    ],
)
def test_prepared_text_is_named_with_its_share_and_the_command_that_undoes_it(
    lines: list[str], verb: str, undo: str
) -> None:
    [warning] = prepared_warnings({"the references": PreparedText(lines), "the translations": PreparedText(PLAIN)})
    assert verb in warning
    assert undo in warning
    assert "the translations" not in warning


def test_plain_text_has_no_warning() -> None:
    assert prepared_warnings({"the references": PreparedText(PLAIN)}) == []


def test_a_warning_names_each_text_with_its_share() -> None:
    texts = {"the translations": PreparedText(["a b@@ c d"] * 2), "the references": PreparedText(["a@@ b c d"] * 2)}
    [warning] = prepared_warnings(texts)
    assert "25% of the words of the translations and 25% of the words of the references end in @@" in warning


def test_escapes_are_no_news_in_text_that_is_meant_to_be_tokenised() -> None:
    moses, cut = PreparedText(["he doesn &apos;t know ."]), PreparedText(["he does@@ n't know ."])
    assert prepared_warnings({"dev": moses}, tokenised=True) == []
    assert len(prepared_warnings({"dev": cut}, tokenised=True)) == 1
