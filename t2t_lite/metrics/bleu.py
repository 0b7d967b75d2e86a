"""BLEU, chrF, TER and accuracy, and BLEU as the paper's authors computed it; METRICS: those a problem may name."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable

from sacrebleu.metrics import BLEU, CHRF, TER

from t2t_lite.errors import UsageError, did_you_mean
from t2t_lite.languages import CHARACTERS_PER_WORD, TOKENIZERS, base_language, lacks_spaces
from t2t_lite.metrics.accuracy import SequenceAccuracy
from t2t_lite.metrics.metric import Metric
from t2t_lite.metrics.names import OF_SACREBLEU, canonical
from t2t_lite.metrics.paper_bleu import PaperBleu

_SPLIT_BY_TER = {  # what TER takes for words
    "zh": "each Chinese character as a word",
    "ja": "each kanji as a word, and each run of kana between them",
}
_EXTRAS = {"ja-mecab": "ja", "ko-mecab": "ko"}  # t2t-lite[ja] has what the tokeniser needs


def bleu(
    *, lowercase: bool = False, tokenize: str | None = None, language: str = "", effective_order: bool = False
) -> Metric:
    """Returns BLEU as sacreBLEU computes it, by default of detokenised text.

    Args:
        lowercase: compare without case.
        tokenize: one of TOKENIZERS: "13a" (WMT's mteval-v13a), "intl" (mteval-v14's), "none" (for text that is
            tokenised already, split at spaces), "char", "zh", "ja-mecab", "ko-mecab" or "flores200". None: sacreBLEU
            chooses by language: "zh", "ja-mecab" and "ko-mecab" for Chinese, Japanese and Korean, else "13a".
        language: code of the target language.
        effective_order: leave out the orders of n-grams that no output is long enough for.

    Raises:
        UsageError: an unknown tokeniser, or one whose package or model is missing.
    """
    if tokenize is not None and tokenize not in TOKENIZERS:
        raise UsageError(
            f"BLEU: there is no tokeniser {tokenize!r}; known: {', '.join(TOKENIZERS)}."
            f"{did_you_mean(tokenize, TOKENIZERS)}"
        )
    code = base_language(language)
    try:
        # force: sacreBLEU prints no message about tokenised text; reference_warnings.py has one. The language decides
        # if no tokeniser is given; if one is given, sacreBLEU would warn about the language.
        return Metric(
            BLEU(
                lowercase=lowercase,
                tokenize=tokenize,
                force=True,
                trg_lang="" if tokenize else code,
                effective_order=effective_order,
            )
        )
    except (RuntimeError, OSError, ImportError) as error:
        raise _missing(tokenize or f"{code}-mecab", error) from error


def _missing(tokenize: str, error: Exception) -> UsageError:
    """What to do about a tokeniser that lacks a package, or a model that sacreBLEU would download."""
    need = (
        f"pip install 't2t-lite[{_EXTRAS[tokenize]}]'" if tokenize in _EXTRAS else "sacreBLEU must download its model"
    )
    words = " ".join(str(error).split())
    return UsageError(
        f"BLEU's tokeniser {tokenize} cannot be used ({words:.120}): {need}; or take characters instead "
        "(--bleu_tokenize=char, of t2t-lite-eval --tokenize=char), or chrF (--metric=chrf)."
    )


def tokenizer_note(name: str, language: str, tokenize: str | None) -> str:
    """Returns a sentence if the metric `name` has a tokeniser that was asked for or is not the usual 13a; else "".

    If it has 13a, and the language has no spaces between words, it returns a warning.
    """
    if name not in ("bleu", "bleu_lc"):
        return ""
    if tokenize is not None:
        return f"BLEU has the tokeniser {tokenize}, as asked for."
    chosen = getattr(metric(name, language).counter, "tokenizer_signature", "13a")
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
    if name not in ("bleu", "bleu_lc") or tokenizer_note(name, language, tokenize) or not lacks_spaces(references):
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


def chrf(*, lowercase: bool = False, word_order: int = 0) -> Metric:
    """Returns chrF2 (character 6-grams, beta 2, no word n-grams) as sacreBLEU computes it; chrF2++ has word_order 2."""
    return Metric(CHRF(lowercase=lowercase, word_order=word_order))


def ter(language: str = "") -> Metric:
    """Returns TER, edits per reference word in percent, as sacreBLEU computes it by default: without case.

    Chinese and Japanese are split with sacreBLEU's asian_support, which needs its normalized: each Chinese character
    (kanji) and each punctuation mark is a word, and so is each run of kana between them.
    """
    split = base_language(language) in _SPLIT_BY_TER
    return Metric(TER(normalized=split, asian_support=split))


def ter_note(language: str, references: Iterable[str]) -> str:
    """Returns a sentence if TER splits the target language into characters, or a warning if it should; else ""."""
    if split := _SPLIT_BY_TER.get(base_language(language)):
        return f"TER counts {split}, as the target language is {language}."
    if not lacks_spaces(references):
        return ""
    return (
        "warning: TER counts words, and the text of the references has no spaces between them: it takes a sentence for "
        "one word. With the language code zh or ja TER counts characters (t2t-lite-eval of files: --language=CODE); "
        "or give --metric=chrf."
    )


def case_and_tokenizer(name: str, tokenize: str | None) -> tuple[bool, str | None]:
    """Returns whether the BLEU called `name` lowercases, and its tokeniser: `tokenize`, unless it has its own."""
    return name in ("bleu_lc", "bleu_tok_lc"), "none" if name == "bleu_tok_lc" else tokenize


def _named(name: str, language: str, tokenize: str | None, effective_order: bool) -> Metric:
    lowercase, tokenize = case_and_tokenizer(name, tokenize)
    return bleu(lowercase=lowercase, tokenize=tokenize, language=language, effective_order=effective_order)


# Of the target language, BLEU's tokeniser and whether it has an effective order.
METRICS: dict[str, Callable[[str, str | None, bool], Metric]] = {
    **{name: functools.partial(_named, name) for name in OF_SACREBLEU},
    "chrf": lambda *_: chrf(),
    "chrf2": lambda *_: chrf(word_order=2),
    "bleu_paper": lambda language, *_: PaperBleu(language),
    "accuracy": lambda *_: SequenceAccuracy(),
}


def metric(name: str, language: str = "", tokenize: str | None = None, *, effective_order: bool = False) -> Metric:
    """Returns the metric `name`, one of METRICS or another spelling of it, for a target language such as "de".

    Args:
        tokenize, effective_order: BLEU's options, as in `bleu`.

    Raises:
        UsageError: another name, a language for which the metric is not defined, or an option that is not the metric's.
    """
    name = canonical(name)
    if tokenize is not None and name not in ("bleu", "bleu_lc"):
        raise UsageError(f"--bleu_tokenize={tokenize} goes with --metric=bleu or bleu_lc, not with {name}.")
    if effective_order and name not in OF_SACREBLEU:
        raise UsageError(f"--bleu_effective_order goes with --metric={', '.join(OF_SACREBLEU)}, not with {name}.")
    if name not in METRICS:
        raise UsageError(
            f"There is no metric called {name!r}; known: {', '.join(METRICS)}.{did_you_mean(name, METRICS)}"
        )
    return METRICS[name](language, tokenize, effective_order)
