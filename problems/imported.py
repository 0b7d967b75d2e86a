"""imported: the problem of a model that t2t-lite-import has read, which brings no data."""

from t2t_lite.data.corpora import format_languages, parse_languages
from t2t_lite.problem import Problem
from t2t_lite.registry import register_problem


@register_problem
class Imported(Problem):
    """A model that t2t-lite-import has read: it translates, but has no data to train on or to be scored on.

    Args:
        languages: source and target, such as "en-de"; for scores and for what the model is called.
    """

    default_hparams = "t2t_import"
    without_data = (
        "A model that was imported has no data of its own. Translate a file: t2t-lite-decoder --input=FILE. Score the "
        "output: t2t-lite-eval --hypotheses=FILE --references=FILE. Train on in a new run, with data of your own: "
        "t2t-lite-trainer --problem=text2text --warm_start_from=RUN --vocabulary=RUN --hparams_file=RUN/hparams.json."
    )

    def __init__(self, languages: str | None = None) -> None:
        self._languages = None if languages is None else parse_languages(languages, "")
        if self._languages is not None:
            self.source_language, self.target_language = self._languages

    def splits(self) -> tuple[str, ...]:
        return ()

    def options(self) -> dict[str, str]:
        return {} if self._languages is None else {"languages": format_languages(self._languages)}
