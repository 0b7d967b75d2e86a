"""ScoreRequest, and the scores of text and of trees that t2t-lite-eval computes and prints."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from t2t_lite.errors import UsageError
from t2t_lite.metrics.evalb_parameters import Parameters, read_parameters
from t2t_lite.metrics.names import BLEU
from t2t_lite.metrics.score import CorpusMetric, Lines, Score, check_metric
from t2t_lite.table_formats import Table

if TYPE_CHECKING:
    from t2t_lite.metrics.evalb_report import Evaluation
    from t2t_lite.runs.open_request import OpenRequest


# The metrics that --lowercase, --tokenize and the like are about; others are registered by the user.
COUNTED = (*BLEU, "chrf", "chrf2", "accuracy", "ter")
_SHOWN = 10  # sentences in error that are listed for a run without --columns


@dataclasses.dataclass(frozen=True, kw_only=True)
class ScoreRequest:
    """Scores, as asked for: of a run, of given pairs, of files of translations, or (metric="evalb") of trees.

    Attributes:
        runs: a run, or several as an ensemble; `split` of its data, None: test, or else dev.
        testset: what `runs` translates instead: a test set of sacreBLEU.
        pairs: files of sources and targets, whose log-probabilities `runs` computes.
        target_language: whose label is put before each of these sources, or of those of `testset`.
        word_scores: print those of pieces and words, too.
        hypotheses, references, baselines: files of translations, of their references, and of others to compare with, by
            a bootstrap or (paired_ar) by randomisation.
        sources: a file, for a metric of the user's own, whose code is in `usr_dir`.
        sgm: these files are in WMT's SGML.
        language: of these files.
        trees: files of gold trees and of trees to score.
        metric: a name in METRICS, "ter", "evalb", or "all" of those that suit the text.
        lowercase, tokenize, effective_order: as in `bleu.bleu`; without them as the run's problem asks for.
        prm, count_unlabelled: EVALB's parameters; None: those of the run.
        json, columns, table_format: print JSON, or what EVALB prints, or a table in this format.
    """

    runs: OpenRequest | None = None
    split: str | None = None
    testset: str | None = None
    pairs: tuple[str, str] | None = None
    word_scores: bool = False
    target_language: str | None = None
    hypotheses: str = ""
    references: Sequence[str] = ()
    baselines: Sequence[str] = ()
    paired_ar: bool = False
    sources: str | None = None
    usr_dir: str | None = None
    sgm: bool = False
    language: str | None = None
    trees: tuple[str, str] | None = None
    metric: str = "all"
    lowercase: bool = False
    tokenize: str | None = None
    effective_order: bool = False
    prm: str | None = None
    count_unlabelled: bool = False
    json: bool = False
    columns: bool = False
    table_format: str = "text"


class Defaults(NamedTuple):
    """What a problem, or files of a language, say of their scores."""

    metric: str
    language: str
    bleu_tokenize: str | None = None
    effective_order: bool = False

    def of(self, language: str) -> Defaults:
        """The same of one of several languages."""
        return self._replace(language=language)


def text_metrics(request: ScoreRequest, defaults: Defaults) -> list[CorpusMetric]:
    from t2t_lite.languages import base_language
    from t2t_lite.metrics import accuracy, bleu, names, paper_bleu
    from t2t_lite.metrics.reference_warnings import tokenizer_note

    metric, language = defaults.metric, defaults.language
    wanted = metric if request.metric == "all" else request.metric  # besides BLEU and chrF
    metrics: list[CorpusMetric] = []
    if wanted not in COUNTED:  # one of the user's own
        metrics.append(check_metric(names.metric(wanted, language), f"--metric={wanted}"))
    if request.metric in ("bleu", "all"):
        lowercase, tokenize = _case_and_tokenizer(request, defaults)
        order = request.effective_order or defaults.effective_order
        metrics.append(bleu.bleu(lowercase=lowercase, tokenize=tokenize, language=language, effective_order=order))
        if not request.tokenize and (note := tokenizer_note(metric, language, defaults.bleu_tokenize)):
            print(note, file=sys.stderr)
    if request.metric in ("chrf", "all"):
        metrics.append(bleu.chrf(lowercase=request.lowercase))
    if wanted == "chrf2":
        metrics.append(bleu.chrf(lowercase=request.lowercase, word_order=2))
    if wanted == "accuracy":
        metrics.append(accuracy.SequenceAccuracy(lowercase=request.lowercase))
    if request.metric == "ter":
        metrics.append(bleu.ter(language))
    paper = metric == "bleu_paper" or base_language(request.language or "") in paper_bleu.LANGUAGES
    if request.metric == "all" and metric != "bleu_paper" and paper and not paper_bleu.is_installed():
        print(f"BLEU-paper is left out; it needs {paper_bleu.NEEDS}.", file=sys.stderr)
    elif request.metric == "bleu_paper" or (request.metric == "all" and paper):
        metrics.append(paper_bleu.PaperBleu(language))
    return metrics


def score_text(metric: CorpusMetric, hypotheses: Lines, references: Sequence[Lines], sources: Lines) -> Score:
    """Returns the score of lines against one or several references of each; UsageError if the metric takes only one."""
    from t2t_lite.metrics.metric import Metric
    from t2t_lite.metrics.score import score_lines

    first, *others = references
    if isinstance(metric, Metric):
        return metric.score(hypotheses, first, sources, others)
    if others or not sources:
        raise UsageError(
            f"{type(metric).__name__} is a metric of your own: it takes one --references=FILE and --sources=FILE."
        )
    return score_lines(metric, hypotheses, first, sources)


def warn_of_text(request: ScoreRequest, hypotheses: Lines, references: Lines, defaults: Defaults) -> None:
    """Warns, once each, of text that the metrics asked for say little about.

    That is text without spaces, of very short lines, tokenised, or prepared for another tool.
    """
    from t2t_lite.metrics.reference_warnings import reference_warnings, ter_note, tokenised_warning
    from t2t_lite.text.prepared_text import PreparedText, prepared_warnings

    names = "the references", "the translations"
    prepared = {name: PreparedText(lines) for name, lines in zip(names, (references, hypotheses), strict=True)}
    (_, tokenize), language = _case_and_tokenizer(request, defaults), defaults.language
    found = prepared_warnings(prepared, tokenised=tokenize == "none")
    if request.metric == "ter":
        found.append(ter_note(language, references))
    if request.metric == "bleu_paper":
        found += reference_warnings("bleu_paper", language, None, references, "the text of the references")
    if request.metric in ("bleu", "all"):
        order = request.effective_order or defaults.effective_order
        if not found:  # one warning about how the text was prepared
            texts = {"the text of the references": references, "the text of the translations": hypotheses}
            tokenised = [tokenised_warning("bleu", tokenize, lines, name) for name, lines in texts.items()]
            found += list(filter(None, tokenised))[:1]
        about = (references, "the text of the references")
        found += reference_warnings("bleu", language, tokenize, *about, effective_order=order)
    for warning in filter(None, found):
        print(warning, file=sys.stderr)


def _case_and_tokenizer(request: ScoreRequest, defaults: Defaults) -> tuple[bool, str | None]:
    from t2t_lite.metrics import names

    lowercase, tokenize = names.case_and_tokenizer(defaults.metric, defaults.bleu_tokenize)
    return request.lowercase or lowercase, request.tokenize or tokenize


def print_trees(request: ScoreRequest, facts: dict[str, object], found: Evaluation) -> None:
    if request.columns:
        print("\n".join(found.columns()))
        return
    if request.json:
        facts = {**facts, "all": dataclasses.asdict(found.total), "short": dataclasses.asdict(found.short)}
    print_scores(request, facts, [found.score()])


def print_scores(
    request: ScoreRequest,
    facts: Mapping[str, object],
    scores: Sequence[Score],
    of_languages: Mapping[str, Sequence[Score]] = MappingProxyType({}),
) -> None:
    """Prints `facts` as NAME = VALUE and each score as a line, then those of languages; or all as JSON or a table."""
    if request.json:
        languages = {language: [score.as_dict() for score in found] for language, found in of_languages.items()}
        facts = {**facts, **({"languages": languages} if languages else {})}
        print_json(facts, [score.as_dict() for score in scores])
        return
    if request.table_format != "text":
        lines = [("", score, None) for score in scores]
        lines += [(language, score, None) for language, found in of_languages.items() for score in found]
        print_table(request, facts, "language" if of_languages else "", lines)
        return
    for line in _lines_of(facts):
        print(line)
    for score in scores:
        print(score.format())
    for language, found in of_languages.items():
        for score in found:
            print(f"{language}: {score.format()}")


def _lines_of(facts: Mapping[str, object]) -> list[str]:
    return [
        f"{name} = {value:.4f}" if isinstance(value, float) else f"{name} = {value}" for name, value in facts.items()
    ]


def print_table(
    request: ScoreRequest, facts: Mapping[str, object], of: str, lines: Sequence[tuple[str, Score, float | None]]
) -> None:
    """Prints scores as a table.

    Args:
        of: the title of the first column, such as "language"; "": there is none.
        lines: each has its cell of the first column, a score, and its p-value; None: it was not tested.
    """
    tested, first = any(p is not None for _, _, p in lines), [of] if of else []
    head, rows, values = [*first, "metric", "score", *(["p"] if tested else [])], [], []
    for name, score, p in lines:
        marked = "" if p is None else f"{p:.4f}{'*' if p < 0.05 else ''}"
        cells = [score.name, f"{score.value:.2f}", *([marked] if tested else [])]
        rows.append([name, *cells] if of else cells)
        exact = [score.name, score.value, *([p] if tested else []), score.signature, *facts.values()]
        values.append([name, *exact] if of else exact)
    notes = _lines_of(facts)
    notes += dict.fromkeys(f"{score.name}|{score.signature}" for _, score, _ in lines)
    if tested:
        test = "approximate randomisation" if request.paired_ar else "bootstrap"
        notes.append(f"p: paired {test} against {request.hypotheses}; * below 0.05")
    names = [*first, "metric", "score", *(["p_value"] if tested else []), "signature", *facts]
    print(Table("Scores", head, rows, names, values, notes).format(request.table_format), end="")


def print_json(facts: Mapping[str, object], scores: Sequence[Mapping[str, Any]]) -> None:
    """Prints one JSON object: `facts`, and the scores in a list."""
    print(json.dumps({**facts, "scores": scores}))


def tree_parameters(request: ScoreRequest, metric: CorpusMetric | None = None) -> Parameters:
    """Returns the parameters that the flags ask for; without --prm, those of a run's metric or of COLLINS.prm."""
    from t2t_lite.data.sources import read_lines
    from t2t_lite.metrics.bracketing import Bracketing

    given = None if request.prm is None else read_parameters(read_lines(request.prm), request.prm)
    found = given or (metric.parameters if isinstance(metric, Bracketing) else Parameters())
    return dataclasses.replace(found, unlabelled=found.unlabelled or request.count_unlabelled)


def list_faults(found: Evaluation, *, shown: int | None = None) -> None:
    """Lists the sentences in error on standard error, in EVALB's words; at most `shown` of them."""
    faults = found.faults()
    for fault in faults[:shown]:
        print(fault, file=sys.stderr)
    if shown is not None and len(faults) > shown:
        print(f"... and {len(faults) - shown:,} more (--metric=evalb --columns shows them all).", file=sys.stderr)


def explain_faults(request: ScoreRequest, found: Evaluation) -> None:
    """Prints which sentences the score of a run leaves out, and why."""
    list_faults(found, shown=None if request.columns else _SHOWN)
    total = found.total
    if total.errors:
        print(
            f"{total.errors:,} of {total.sentences:,} sentences are in error and not in the score, which is of the "
            f"other {total.valid:,}: EVALB leaves words out by their tags ({' '.join(found.parameters.delete_label)}), "
            "and here the model's tree and the gold tree do not lose the same words. If these are not your treebank's "
            "tags of punctuation, train with its own parameters (--prm=FILE).",
            file=sys.stderr,
        )
