"""kept_numbers: a metric of one's own that sees the sources, in one file.

    t2t-lite-eval --usr_dir=examples/my_metric --metric=kept_numbers \\
        --hypotheses=ours.de --references=test.de --sources=test.en --baseline=theirs.de
    t2t-lite-trainer --usr_dir=examples/my_metric --metric=kept_numbers --problem=text2text ...
"""

import re
from collections import Counter
from collections.abc import Sequence

from t2t_lite import registry
from t2t_lite.metrics.score import CorpusMetric, Score


@registry.register_metric
class KeptNumbers(CorpusMetric):
    """Share of a source's numbers that its translation has, too, as a mean over lines; 100 for a line without any."""

    signature = "kept-numbers|version:1"

    def __init__(self, language: str) -> None:
        pass  # numbers are the same in all languages

    def score(self, hypotheses: Sequence[str], references: Sequence[str], sources: Sequence[str]) -> Score:
        segments = [_kept(source, output) for source, output in zip(sources, hypotheses, strict=True)]
        return Score("kept-numbers", sum(segments) / len(segments), self.signature, "", segments)


def _kept(source: str, output: str) -> float:
    """Returns the share in percent; 1,200 and 1.200 are the same number."""
    wanted, found = (
        Counter(re.sub(r"[.,]", "", number) for number in re.findall(r"\d[\d.,]*", line)) for line in (source, output)
    )
    return 100 * (wanted & found).total() / wanted.total() if wanted else 100.0
