"""BLEU as the paper's authors computed it: not comparable with sacreBLEU's, from which it differs by 0.7 to 1.5 points.

It follows tensor2tensor's get_ende_bleu.sh, step by step: unicode punctuation becomes ASCII, Moses' tokeniser runs (not
aggressive; & < > ' " escaped), German compounds are split at their hyphens, and multi-bleu counts: cased, 4-grams,
one brevity penalty for the corpus, no smoothing.

Moses is the version of 2017, as in the paper: the full stop that ends a line stays with an abbreviation, a single
letter or a number ("iPhone 5."). Since 2018-11-07 (its pull request 204) Moses separates it.

The published numbers need one more step, which no script did (tensor2tensor's issue 317, 2018-04-12): in the reference,
the low quotation mark also becomes '"' before tokenisation. In a translation it stays, and so counts as wrong: a text
with low marks does not score 100 against itself. The script leaves the rest of the reference as Moses tokenised it.
Here its punctuation becomes ASCII as well; on newstest2014 in German this changes only the marks. For French nothing
was published; the same is done there, without compounds.
"""

import dataclasses
import functools
import importlib.util
import re
from collections.abc import Callable, Sequence
from importlib.metadata import version

from sacrebleu.metrics import BLEU

from t2t_lite.errors import UsageError
from t2t_lite.languages import base_language
from t2t_lite.metrics.metric import Metric
from t2t_lite.metrics.score import Lines, Score

# Languages of the paper's two tasks (section 5.1) and their reverse directions. On newstest2014 in de and fr,
# sacremoses' tokeniser equals Moses' own, line by line; for other languages (Finnish, Catalan), it lacks rules that
# Moses has.
LANGUAGES = ("de", "en", "fr")

NEEDS = "the package sacremoses: pip install 't2t-lite[paper]'"

_LOW_QUOTES = str.maketrans({"„": '"', "‟": '"'})  # Moses' table of unicode punctuation has “ and ”, not these
_COMPOUND = re.compile(r"(\S)-(\S)")


def is_installed() -> bool:
    """Whether the extra t2t-lite[paper] is there; loads nothing."""
    return importlib.util.find_spec("sacremoses") is not None


class PaperBleu(Metric):
    """Tokenised BLEU, with compounds split where the language is German.

    Args:
        language: of the target side, one of LANGUAGES, perhaps with a region, as in "de-AT".

    Raises:
        UsageError: another language, or the extra t2t-lite[paper] is not installed.
    """

    kind = "bleu_paper"

    def __init__(self, language: str) -> None:
        given, language = language, base_language(language)
        if language not in LANGUAGES:
            raise UsageError(
                f"BLEU-paper is not defined for text in {given!r}, only for the languages of the paper's tasks: "
                f"{', '.join(LANGUAGES)}. For others there is bleu."
            )
        if not is_installed():
            raise UsageError(f"BLEU-paper needs {NEEDS}.")
        super().__init__(BLEU(tokenize="none", smooth_method="none", force=True))
        self._tokenize = _tokenizer(language)
        self._split = language == "de"
        self._name = f"BLEU-paper (tokenised{', compound-split' if self._split else ''})"
        self._signature = (
            f"case:mixed|lang:{language}|tok:moses|compounds:{'split' if self._split else 'whole'}"
            f"|quotes:reference-ascii|smooth:none|sacremoses:{version('sacremoses')}|sacrebleu:{version('sacrebleu')}"
        )

    def hypothesis(self, line: str) -> str:
        """Returns the tokens with spaces between."""
        tokens = self._tokenize(line)
        return _COMPOUND.sub(r"\1 ##AT##-##AT## \2", tokens) if self._split else tokens

    def reference(self, line: str) -> str:
        """Returns the tokens as for a translation, with every double quotation mark as '"'."""
        return self.hypothesis(line.translate(_LOW_QUOTES))

    def score(self, hypotheses: Lines, references: Lines, sources: Lines = (), others: Sequence[Lines] = ()) -> Score:
        """Returns the corpus score under a name and a signature of its own; errors as in Metric."""
        signature = f"nrefs:{1 + len(others)}|{self._signature}"
        found = super().score(hypotheses, references, sources, others)
        return dataclasses.replace(found, name=self._name, signature=signature)


@functools.cache
def _tokenizer(language: str) -> Callable[[str], str]:
    from sacremoses import MosesPunctNormalizer, MosesTokenizer  # type: ignore[import-untyped]  # half a second

    tokenize = MosesTokenizer(lang=language).tokenize
    to_ascii = MosesPunctNormalizer(lang=language).replace_unicode_punct
    return lambda line: str(tokenize(to_ascii(line), return_str=True))
