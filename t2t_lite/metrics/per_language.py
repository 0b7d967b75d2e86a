"""PerLanguage: the mean of the scores of each target language, for a problem with several."""

from collections.abc import Callable, Mapping

from t2t_lite.errors import DataError
from t2t_lite.metrics.score import CorpusMetric, Lines, Score

Rows = tuple[list[str], list[str], list[str]]  # hypotheses, references, sources


class PerLanguage(CorpusMetric):
    """Scores the lines of each language by its own metric; the value is the mean, in which each language counts alike.

    Args:
        metrics: by language.
        target_of: returns the language that a source is translated into; "": none, as of a blank source.
    """

    def __init__(self, metrics: Mapping[str, CorpusMetric], target_of: Callable[[str], str]) -> None:
        self._metrics, self._target_of = metrics, target_of

    @property
    def kind(self) -> str:  # type: ignore[override]
        return next(iter(self._metrics.values())).kind

    @property
    def signature(self) -> str:  # type: ignore[override]
        """The signatures of the languages, each once."""
        members = dict.fromkeys(metric.signature for metric in self._metrics.values())
        return f"mean:{'+'.join(self._metrics)}|{' '.join(members)}"

    def score(self, hypotheses: Lines, references: Lines, sources: Lines) -> Score:
        rows = split_by_language(hypotheses, references, sources, self._target_of)
        found = {name: metric.score(*rows[name]) for name, metric in self._metrics.items() if name in rows}
        if not found:
            raise DataError(f"No source names one of the languages {', '.join(self._metrics)}.")
        detail = ", ".join(f"{language} {score.value:.2f}" for language, score in found.items())
        value = sum(score.value for score in found.values()) / len(found)
        return Score(next(iter(found.values())).name, value, self.signature, f"({detail})")


def split_by_language(
    hypotheses: Lines, references: Lines, sources: Lines, target_of: Callable[[str], str]
) -> dict[str, Rows]:
    """Returns the lines of each language, in the order in which they occur; a blank source has none."""
    rows: dict[str, Rows] = {}
    for row in zip(hypotheses, references, sources, strict=True):
        if language := target_of(row[2]):
            for lines, text in zip(rows.setdefault(language, ([], [], [])), row, strict=True):
                lines.append(text)
    return rows
