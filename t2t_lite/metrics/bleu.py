"""BLEU, chrF and TER as sacreBLEU computes them."""

from sacrebleu.metrics import BLEU, CHRF, TER

from t2t_lite.errors import UsageError, did_you_mean
from t2t_lite.languages import TOKENIZERS, base_language
from t2t_lite.metrics.metric import Metric

SPLIT_BY_TER = {  # what TER takes for words
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


def chrf(*, lowercase: bool = False, word_order: int = 0) -> Metric:
    """Returns chrF2 (character 6-grams, beta 2, no word n-grams) as sacreBLEU computes it; chrF2++ has word_order 2."""
    return Metric(CHRF(lowercase=lowercase, word_order=word_order))


def ter(language: str = "") -> Metric:
    """Returns TER, edits per reference word in percent, as sacreBLEU computes it by default: without case.

    Chinese and Japanese are split with sacreBLEU's asian_support, which needs its normalized: each Chinese character
    (kanji) and each punctuation mark is a word, and so is each run of kana between them.
    """
    split = base_language(language) in SPLIT_BY_TER
    return Metric(TER(normalized=split, asian_support=split))
