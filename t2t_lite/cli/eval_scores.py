"""Scores that t2t-lite-eval computes and prints, of text and of trees."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from t2t_lite.metrics.evalb_parameters import Parameters, read_parameters
from t2t_lite.metrics.names import BLEU
from t2t_lite.metrics.score import check_metric

if TYPE_CHECKING:
    from t2t_lite.metrics.evalb_report import Evaluation
    from t2t_lite.metrics.score import CorpusMetric, Score


# The metrics that --lowercase, --tokenize and the like are about; others are registered by the user.
COUNTED = (*BLEU, "chrf", "chrf2", "accuracy", "ter")


def text_metrics(
    args: argparse.Namespace,
    metric: str,
    language: str,
    bleu_tokenize: str | None = None,
    effective_order: bool = False,
) -> list[CorpusMetric]:
    """Returns the metrics asked for; what no flag says about BLEU, its case or its options, the problem does.

    Args:
        metric, bleu_tokenize, effective_order: the problem's.
        language: of the target side.
    """
    from t2t_lite.languages import base_language
    from t2t_lite.metrics import accuracy, bleu, names, paper_bleu
    from t2t_lite.metrics.reference_warnings import tokenizer_note

    wanted = metric if args.metric == "all" else args.metric  # besides BLEU and chrF
    metrics: list[CorpusMetric] = []
    if wanted not in COUNTED:  # one of the user's own
        metrics.append(check_metric(names.metric(wanted, language), f"--metric={wanted}"))
    if args.metric in ("bleu", "all"):
        lowercase, tokenize = _case_and_tokenizer(args, metric, bleu_tokenize)
        order = args.effective_order or effective_order
        metrics.append(bleu.bleu(lowercase=lowercase, tokenize=tokenize, language=language, effective_order=order))
        note = "" if args.tokenize else tokenizer_note(metric, language, bleu_tokenize)
        if note:
            print(note, file=sys.stderr)
    if args.metric in ("chrf", "all"):
        metrics.append(bleu.chrf(lowercase=args.lowercase))
    if wanted == "chrf2":
        metrics.append(bleu.chrf(lowercase=args.lowercase, word_order=2))
    if wanted == "accuracy":
        metrics.append(accuracy.SequenceAccuracy(lowercase=args.lowercase))
    if args.metric == "ter":
        metrics.append(bleu.ter(language))
    paper = metric == "bleu_paper" or base_language(args.language or "") in paper_bleu.LANGUAGES
    if args.metric == "all" and metric != "bleu_paper" and paper and not paper_bleu.is_installed():
        print(f"BLEU-paper is left out; it needs {paper_bleu.NEEDS}.", file=sys.stderr)
    elif args.metric == "bleu_paper" or (args.metric == "all" and paper):
        metrics.append(paper_bleu.PaperBleu(language))
    return metrics


def warn_of_text(
    args: argparse.Namespace,
    hypotheses: Sequence[str],
    references: Sequence[str],
    metric: str,
    language: str,
    bleu_tokenize: str | None = None,
    effective_order: bool = False,
) -> None:
    """Warns, once each, of text that the metrics asked for say little about; other arguments as above.

    That is text without spaces, of very short lines, tokenised, or prepared for another tool.
    """
    from t2t_lite.metrics.reference_warnings import reference_warnings, ter_note, tokenised_warning
    from t2t_lite.text.prepared_text import PreparedText, prepared_warnings

    names = "the references", "the translations"
    prepared = {name: PreparedText(lines) for name, lines in zip(names, (references, hypotheses), strict=True)}
    _, tokenize = _case_and_tokenizer(args, metric, bleu_tokenize)
    found = prepared_warnings(prepared, tokenised=tokenize == "none")
    if args.metric == "ter":
        found.append(ter_note(language, references))
    if args.metric == "bleu_paper":
        found += reference_warnings("bleu_paper", language, None, references, "the text of the references")
    if args.metric in ("bleu", "all"):
        order = args.effective_order or effective_order
        if not found:  # one warning about how the text was prepared
            texts = {"the text of the references": references, "the text of the translations": hypotheses}
            tokenised = [tokenised_warning("bleu", tokenize, lines, name) for name, lines in texts.items()]
            found += list(filter(None, tokenised))[:1]
        about = (references, "the text of the references")
        found += reference_warnings("bleu", language, tokenize, *about, effective_order=order)
    for warning in filter(None, found):
        print(warning, file=sys.stderr)


def _case_and_tokenizer(args: argparse.Namespace, metric: str, bleu_tokenize: str | None) -> tuple[bool, str | None]:
    """Returns whether BLEU lowercases, and its tokeniser: the flags' or else the problem's."""
    from t2t_lite.metrics import names

    lowercase, tokenize = names.case_and_tokenizer(metric, bleu_tokenize)
    return args.lowercase or lowercase, args.tokenize or tokenize


def print_trees(args: argparse.Namespace, facts: dict[str, object], found: Evaluation) -> None:
    """Prints the scores of trees."""
    if args.columns:
        print("\n".join(found.columns()))
        return
    if args.json:
        facts = {**facts, "all": dataclasses.asdict(found.total), "short": dataclasses.asdict(found.short)}
    print_scores(args, facts, [found.score()])


def print_scores(args: argparse.Namespace, facts: Mapping[str, object], scores: Sequence[Score]) -> None:
    """Prints `facts` as NAME = VALUE and each score as a line, or all as one JSON object."""
    if args.json:
        print_json(facts, [score.as_dict() for score in scores])
        return
    for name, value in facts.items():
        print(f"{name} = {value:.4f}" if isinstance(value, float) else f"{name} = {value}")
    for score in scores:
        print(score.format())


def print_json(facts: Mapping[str, object], scores: Sequence[Mapping[str, Any]]) -> None:
    """Prints one JSON object: `facts`, and the scores in a list."""
    print(json.dumps({**facts, "scores": scores}))


_SHOWN = 10  # sentences in error that are listed for a run without --columns


def add_tree_flags(parser: argparse.ArgumentParser) -> None:
    """Adds the flags of --metric=evalb."""
    group = parser.add_argument_group(
        "--metric=evalb: files of trees in brackets, plain or compressed, one a line or each over several lines"
    )
    group.add_argument("--gold", metavar="FILE", help="the right trees")
    group.add_argument("--test", metavar="FILE", help="the trees to score; tree N is of the sentence of gold tree N")
    group.add_argument(
        "--prm",
        metavar="FILE",
        help="EVALB's parameters; default: those of COLLINS.prm, with quotation marks as in new.prm, or a run's own",
    )
    group.add_argument(
        "--count_unlabelled",
        action="store_true",
        default=None,
        help="count brackets without a label, such as the outer one of ( (S ...) ), as phrases: EVALB does, and its F1 "
        "is higher for it where both files have them; default: they are left out",
    )
    group.add_argument(
        "--columns", action="store_true", default=None, help="print what EVALB prints: every sentence, and a summary"
    )


def tree_parameters(args: argparse.Namespace, metric: CorpusMetric | None = None) -> Parameters:
    """Returns the parameters that the flags ask for; without --prm, those of a run's metric or of COLLINS.prm."""
    from t2t_lite.data.sources import read_lines
    from t2t_lite.metrics.bracketing import Bracketing

    given = None if args.prm is None else read_parameters(read_lines(args.prm), args.prm)
    found = given or (metric.parameters if isinstance(metric, Bracketing) else Parameters())
    return dataclasses.replace(found, unlabelled=found.unlabelled or bool(args.count_unlabelled))


def list_faults(found: Evaluation, *, shown: int | None = None) -> None:
    """Lists the sentences in error on standard error, in EVALB's words; at most `shown` of them."""
    faults = found.faults()
    for fault in faults[:shown]:
        print(fault, file=sys.stderr)
    if shown is not None and len(faults) > shown:
        print(f"... and {len(faults) - shown:,} more (--metric=evalb --columns shows them all).", file=sys.stderr)


def explain_faults(args: argparse.Namespace, found: Evaluation) -> None:
    """Prints which sentences the score of a run leaves out, and why."""
    list_faults(found, shown=None if args.columns else _SHOWN)
    total = found.total
    if total.errors:
        print(
            f"{total.errors:,} of {total.sentences:,} sentences are in error and not in the score, which is of the "
            f"other {total.valid:,}: EVALB leaves words out by their tags ({' '.join(found.parameters.delete_label)}), "
            "and here the model's tree and the gold tree do not lose the same words. If these are not your treebank's "
            "tags of punctuation, train with its own parameters (--prm=FILE).",
            file=sys.stderr,
        )
