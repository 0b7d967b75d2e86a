"""BLEU as the paper's authors computed it, against Moses' own output and the published counts."""

import functools
import gzip
import math
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from t2t_lite.errors import UsageError
from t2t_lite.metrics import names
from t2t_lite.metrics.paper_bleu import LANGUAGES, PaperBleu

PAIRS = {"de": "newstest2014.deen.de", "fr": "newstest2014.fren.fr"}

Data = Callable[[str], Path]


@functools.cache
def read(path: Path) -> list[str]:
    with gzip.open(path, "rt", encoding="utf-8", newline="\n") as file:
        return file.read().removesuffix("\n").split("\n")


def raw(shared_data: Data, language: str) -> list[str]:
    return read(shared_data("newstest") / f"{PAIRS[language]}.gz")


def moses(shared_data: Data, language: str) -> list[str]:
    """The same lines, tokenised by Moses' tokenizer.perl."""
    return read(shared_data("moses") / f"{PAIRS[language]}.tok.gz")


def damaged(lines: Sequence[str]) -> list[str]:
    """Drops every 11th word and moves every 7th of the others before its neighbour; counted over all lines."""
    found, number = [], 0
    for line in lines:
        words: list[str] = []
        for word in line.split(" "):
            number += 1
            if number % 11 == 0:
                continue
            words.insert(-1 if number % 7 == 0 and words else len(words), word)
        found.append(" ".join(words))
    return found


def split_compounds(line: str) -> str:
    """Makes a hyphen inside a token a token, unless the last split used up the character before it."""
    out, start, i = [], 0, 1
    while i < len(line) - 1:
        if line[i] == "-" and " " not in (line[i - 1], line[i + 1]):
            out += [line[start:i], "##AT##-##AT##"]
            start, i = i + 1, i + 3  # the character after the hyphen is used up
        else:
            i += 1
    return " ".join([*out, line[start:]])


@pytest.mark.commit
@pytest.mark.parametrize(("language", "tokens"), [("de", 63_078), ("fr", 81_194)])
def test_the_tokens_are_those_of_moses_line_by_line(shared_data: Data, language: str, tokens: int) -> None:
    """All 3,003 lines have Moses' tokens, without exception; many lines have German low quotes."""
    expected = moses(shared_data, language)
    assert sum(len(line.split()) for line in expected) == tokens
    # The file was made from the unchanged text, without the step that replaces unicode punctuation first.
    from sacremoses import MosesTokenizer

    tokenize = MosesTokenizer(lang=language).tokenize
    assert [tokenize(line, return_str=True) for line in raw(shared_data, language)] == expected
    # In lines without such punctuation, the metric's own tokens are the same.
    metric, odd = PaperBleu(language), set("“”„’…")
    plain = [(line, tok) for line, tok in zip(raw(shared_data, language), expected, strict=True) if not odd & {*line}]
    assert len(plain) > 2500
    split = split_compounds if language == "de" else str
    assert [metric.hypothesis(line) for line, _ in plain] == [split(tok) for _, tok in plain]


@pytest.mark.commit
def test_the_published_token_counts_of_newstest2014(shared_data: Data) -> None:
    """62,688 with sacreBLEU's tokeniser, 64,496 with Moses' and compounds split (fairseq's scaling_nmt prints both)."""
    lines = raw(shared_data, "de")
    nothing = [""] * 3003
    assert names.metric("bleu").score(nothing, lines).detail.endswith("hyp_len = 0 ref_len = 62688)")
    assert names.metric("bleu_paper", "de").score(nothing, lines).detail.endswith("hyp_len = 0 ref_len = 64496)")


@pytest.mark.commit
@pytest.mark.parametrize(
    ("language", "value", "detail"),
    [
        ("de", 46.29, "99.1/60.2/41.8/27.9 (BP = 0.901 ratio = 0.906 hyp_len = 58422 ref_len = 64496)"),
        ("fr", 46.98, "99.6/61.0/42.5/28.7 (BP = 0.901 ratio = 0.905 hyp_len = 73476 ref_len = 81149)"),
    ],
)
def test_the_score_is_what_multi_bleu_prints(shared_data: Data, language: str, value: float, detail: str) -> None:
    """Moses' multi-bleu.perl printed these; for German, perl split the compounds of Moses' own tokenised reference."""
    lines = raw(shared_data, language)
    score = names.metric("bleu_paper", language).score(damaged(lines), lines)
    assert round(score.value, 2) == value
    assert score.detail == detail


@pytest.mark.parametrize(
    ("language", "line", "translation", "reference"),
    [
        ("de", "Die US-Grenze.", "Die US ##AT##-##AT## Grenze .", None),
        ("fr", "C'est peut-être vrai.", "C&apos; est peut-être vrai .", None),
        ("en", "It's well-known.", "It &apos;s well-known .", None),
        ("de", "A-B-C", "A ##AT##-##AT## B-C", None),  # as perl's s///g: the B is used up
        ("de", "5 - 3, Ost- und West", "5 - 3 , Ost- und West", None),  # only hyphens inside a token
        ("de", "Er sagt: „Ja“.", "Er sagt : „ Ja &quot; .", "Er sagt : &quot; Ja &quot; ."),
        ("de", "Rock ’n’ Roll…", "Rock &apos; n &apos; Roll ...", None),
        ("fr", "« Oui », dit-il", "« Oui » , dit-il", None),  # no script replaced these
        ("de", "a & b <c> [d] | e", "a &amp; b &lt; c &gt; &#91; d &#93; &#124; e", None),
        ("de", "Am 3. Mai, z.B. mittags.", "Am 3. Mai , z.B. mittags .", None),
        ("de", "a\u00a0b\u2028c\tDIR", "a b c DIR", None),
        ("de", "", "", None),
        ("de", " \u3000 ", "", None),
    ],
)
def test_tokens(language: str, line: str, translation: str, reference: str | None) -> None:
    metric = PaperBleu(language)
    assert metric.hypothesis(line) == translation
    assert metric.reference(line) == (translation if reference is None else reference)


def test_the_low_quote_of_a_translation_counts_as_wrong_and_the_ascii_one_as_right() -> None:
    """Of 5 unigrams 4 are right, of 4 bigrams 3, of 3 trigrams 2, of 2 4-grams 1."""
    reference = ["„Hallo Welt“ !"]
    assert names.metric("bleu_paper", "de").score(['"Hallo Welt" !'], reference).value == pytest.approx(100)
    expected = 100 * math.exp(sum(map(math.log, (4 / 5, 3 / 4, 2 / 3, 1 / 2))) / 4)
    assert names.metric("bleu_paper", "de").score(reference, reference).value == pytest.approx(expected)


def test_no_smoothing_and_case_matters() -> None:
    """If no 4-gram is right, sacreBLEU smooths and multi-bleu gives 0."""
    hypotheses, references = ["a b c x e f"], ["a b c d e f"]
    assert names.metric("bleu_paper", "de").score(hypotheses, references).value == pytest.approx(0, abs=1e-9)
    assert names.metric("bleu").score(hypotheses, references).value > 10
    assert names.metric("bleu_paper", "de").score(["A B C D"], ["a b c d"]).value == 0


def test_without_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"BLEU-paper needs the package sacremoses: pip install 't2t-lite\[paper\]'"):
        PaperBleu("de")


@pytest.mark.parametrize(("language", "compounds"), [("de", "split"), ("en", "whole"), ("fr", "whole")])
def test_name_and_signature_are_not_sacrebleus(language: str, compounds: str) -> None:
    line = ["Eine kleine, rote Katze schläft."]
    score = names.metric("bleu_paper", language).score(line, line)
    assert score.value == pytest.approx(100)
    assert score.name == f"BLEU-paper (tokenised{', compound-split' if compounds == 'split' else ''})"
    start = f"nrefs:1|case:mixed|lang:{language}|tok:moses|compounds:{compounds}|quotes:reference-ascii|smooth:none|"
    assert score.signature.startswith(f"{start}sacremoses:0.")
    assert "|sacrebleu:2." in score.signature
    assert score.format().startswith(f"{score.name}|{start}")
    assert list(LANGUAGES) == ["de", "en", "fr"]


@pytest.mark.parametrize(
    ("code", "language"),
    [("de-AT", "de"), ("ger_Latn", "de"), ("eng", "en"), ("fr_CA", "fr")],
)
def test_a_code_with_a_region_or_of_three_letters_is_that_of_its_language(code: str, language: str) -> None:
    """The signature is that of the language, as the score is."""
    text = ["Ein Vor-Ort-Termin."], ["Ein Vor-Ort-Besuch."]
    assert PaperBleu(code).score(*text) == PaperBleu(language).score(*text)
    assert f"|lang:{language}|" in PaperBleu(code).score(*text).signature
    with pytest.raises(UsageError, match="BLEU-paper is not defined for text in 'pt_BR', only for"):
        PaperBleu("pt_BR")


@pytest.mark.parametrize(
    ("language", "line"), [("de", "schwer wie ein iPhone 5."), ("en", "So am I."), ("fr", "une œuvre d'art, etc.")]
)
def test_the_last_full_stop_is_that_of_moses_before_2018_11_07(language: str, line: str) -> None:
    assert PaperBleu(language).hypothesis(line).split()[-1] == line.split()[-1]
    assert PaperBleu(language).hypothesis("Ende.").split() == ["Ende", "."]
