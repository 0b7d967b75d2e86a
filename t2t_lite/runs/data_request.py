"""DataRequest: which problem, with which options and vocabulary, and where its data are."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from t2t_lite import registry
from t2t_lite.errors import UsageError
from t2t_lite.option_values import problem_options
from t2t_lite.problem import VOCABULARY_OPTIONS, Problem

# Options of the built-in problems that the commands have as flags of their own.
FLAG_OPTIONS = (
    *("source_dir extra_dir exchanges phrases prm languages raw_dir vocab_size vocab_type".split()),
    *("shared_vocab metric clean clean_max_words clean_max_ratio bleu_tokenize bleu_effective_order".split()),
    *("dev_lines drop_overlap line_breaks keep_whole byte_fallback alignments sequence_weights".split()),
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class DataRequest:
    """A problem and its data, as asked for.

    Attributes:
        problem: a registered name; None: that of the run that is resumed.
        options: the problem's, by name; text is read as the type of the constructor's parameter.
        data_dir: the folder of the prepared data; None: in the run's folder.
        usr_dir: the folder of the user's own code.
        vocabulary: a run or a file whose vocabulary is taken; None: one is trained on the text.
        prepare_again: whether data that have changed are prepared again.
        num_workers: processes that encode text; None: one per CPU, 16 at most.
    """

    problem: str | None = None
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    data_dir: str | None = None
    usr_dir: str | None = None
    vocabulary: str | None = None
    prepare_again: bool = False
    num_workers: int | None = None

    def check_vocabulary(self) -> None:
        """Raises UsageError if options say how to train a vocabulary although one is given."""
        trained = [name for name in VOCABULARY_OPTIONS if name in self.options]
        if self.vocabulary is not None and trained:
            raise UsageError(
                f"{trained[0]}={self.options[trained[0]]} is about a vocabulary that is trained, but --vocabulary="
                f"{self.vocabulary} is taken as it is. Leave one of the two out."
            )

    def make_problem(self) -> Problem:
        """Imports the user's own code and builds the problem; UsageError where that cannot be done."""
        registry.load_plugins(self.usr_dir)
        if self.problem is None:
            raise UsageError("Give --problem=NAME; t2t-lite-trainer --registry_help lists them.")
        self.check_vocabulary()
        options = problem_options(self.problem, self.options)
        for name, parameter in registry.options_of(registry.PROBLEMS.get(self.problem))[0].items():
            if parameter.default is parameter.empty and name not in (*FLAG_OPTIONS, *options):
                raise UsageError(f"The problem {self.problem!r} needs --problem_options={name}=VALUE.")
        return registry.problem(self.problem, **options)
