"""Warnings about the text that a metric is to score: what makes BLEU say little about it."""

from collections.abc import Callable, Iterable
from typing import Any

from t2t_lite.languages import CHARACTERS_PER_WORD, base_language, lacks_spaces
from t2t_lite.metrics import bleu, names
from t2t_lite.metrics.score import Lines

_FEW = 0.2  # share of the references with _ORDER tokens, below which BLEU says little
_ORDER = 4  # of BLEU's n-grams
# Lines that end in " .", from which a text is tokenised: their share of all lines and of those that end in a full stop,
# or their number, as sacreBLEU's.
_OF_LINES, _OF_STOPS, _NUMBER = 0.1, 0.5, 100


def tokenizer_note(name: str, language: str, tokenize: str | None) -> str:
    """Returns a sentence if the metric `name` has a tokeniser that was asked for or is not the usual 13a; else "".

    If it has 13a, and the language has no spaces between words, it returns a warning.
    """
    if name not in names.TOKENISING:
        return ""
    if tokenize is not None:
        return f"BLEU has the tokeniser {tokenize}, as asked for."
    chosen = getattr(bleu.bleu(language=language).counter, "tokenizer_signature", "13a")
    if chosen != "13a":
        return f"BLEU has the tokeniser {chosen}, as the target language is {language}."
    if base_language(language) in CHARACTERS_PER_WORD:
        return _no_spaces(language)
    return ""


def text_warning(name: str, language: str, tokenize: str | None, references: Iterable[str], what: str) -> str:
    """Returns the warning of `tokenizer_note` where the references call for it and the code does not; else "".

    Args:
        what: the references' name in the warning, such as "the text of dev".
    """
    if name not in names.TOKENISING or tokenizer_note(name, language, tokenize) or not lacks_spaces(references):
        return ""
    return (
        f"{_no_spaces(what)} With the language code zh or ja BLEU takes the right one itself (t2t-lite-eval of files: "
        "--language=CODE)."
    )


def _no_spaces(language: str) -> str:
    return (
        f"warning: BLEU counts words, and {language} has no spaces between them: its usual tokeniser, 13a, takes a "
        "sentence for one word, and BLEU is near 0. Give --bleu_tokenize=char, or zh for Chinese characters (of "
        "t2t-lite-eval --tokenize=...), or --metric=chrf."
    )


def ter_note(language: str, references: Iterable[str]) -> str:
    """Returns a sentence if TER splits the target language into characters, or a warning if it should; else ""."""
    if split := bleu.SPLIT_BY_TER.get(base_language(language)):
        return f"TER counts {split}, as the target language is {language}."
    if not lacks_spaces(references):
        return ""
    return (
        "warning: TER counts words, and the text of the references has no spaces between them: it takes a sentence for "
        "one word. With the language code zh or ja TER counts characters (t2t-lite-eval of files: --language=CODE); "
        "or give --metric=chrf."
    )


def reference_warnings(
    name: str, language: str, tokenize: str | None, references: Lines, what: str, *, effective_order: bool = False
) -> list[str]:
    """Returns what is wrong with scoring these references by the metric `name`; nothing for metrics that are not BLEU.

    Args:
        language: of the target side.
        tokenize, effective_order: BLEU's options, as in `bleu.bleu`.
        what: the references' name in the warnings, such as "the text of dev".
    """
    if spaces := text_warning(name, language, tokenize, references, what):
        return [spaces]
    one_word = tokenizer_note(name, language, tokenize).startswith("warning")
    if effective_order or one_word or name not in names.BLEU or not references:
        return []
    metric: Any = names.metric(name, language, tokenize)
    tokenizer: Callable[[str], str] = vars(metric.counter)["tokenizer"]
    tokens = (tokenizer(metric.reference(line).rstrip()) for line in references)
    share = sum(len(line.split()) >= _ORDER for line in tokens) / len(references)
    if share >= _FEW:
        return []
    order = " (or --bleu_effective_order, of t2t-lite-eval --effective_order)" if name in names.OF_SACREBLEU else ""
    return [
        f"warning: {share:.0%} of the lines in {what} have {_ORDER} tokens or more: BLEU counts sequences of {_ORDER} "
        "tokens, so it is 0.00 or hangs on these few lines, however good the outputs are. Give --metric=chrf, or "
        f"--metric=accuracy for the share of outputs that are entirely right{order}."
    ]


def tokenised_warning(name: str, tokenize: str | None, lines: Lines, what: str) -> str:
    """Returns a warning if a text that BLEU tokenises is tokenised already; else ""."""
    if name not in names.TOKENISING or tokenize == "none":
        return ""
    stops = [line.rstrip() for line in lines if line.rstrip().endswith(".")]
    count = sum(line.endswith(" .") for line in stops)
    if count < _NUMBER and (count <= _OF_STOPS * len(stops) or count < _OF_LINES * len(lines)):
        return ""
    return (
        f'warning: {what} is tokenised: {count:,} of {len(lines):,} lines end in " .". Its BLEU does not compare with '
        "that of plain text. --bleu_tokenize=none or --metric=bleu_tok_lc (of t2t-lite-eval --tokenize=none) scores it "
        "as it is."
    )
