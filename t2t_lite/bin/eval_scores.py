"""Scores that t2t-lite-eval computes and prints."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from t2t_lite.metrics.evalb_report import Evaluation
    from t2t_lite.metrics.metric import Metric
    from t2t_lite.metrics.score import Score


def text_metrics(
    args: argparse.Namespace, metric: str, language: str, bleu_tokenize: str | None = None
) -> list[Metric]:
    """Returns the metrics asked for; what no flag says about BLEU, its case or its tokeniser, the problem does.

    Args:
        metric, bleu_tokenize: the problem's.
        language: of the target side.
    """
    from t2t_lite.languages import base_language
    from t2t_lite.metrics import bleu, paper_bleu

    metrics = []
    if args.metric in ("bleu", "all"):
        lowercase, tokenize = _case_and_tokenizer(args, metric, bleu_tokenize)
        metrics.append(bleu.bleu(lowercase=lowercase, tokenize=tokenize, language=language))
        note = "" if args.tokenize else bleu.tokenizer_note(metric, language, bleu_tokenize)
        if note:
            print(note, file=sys.stderr)
    if args.metric in ("chrf", "all"):
        metrics.append(bleu.chrf(lowercase=args.lowercase))
    if args.metric == "ter":
        metrics.append(bleu.ter(language))
    paper = metric == "bleu_paper" or base_language(args.language or "") in paper_bleu.LANGUAGES
    if args.metric == "bleu_paper" or (args.metric == "all" and paper):
        metrics.append(bleu.metric("bleu_paper", language))
    return metrics


def warn_of_references(
    args: argparse.Namespace, references: Iterable[str], metric: str, language: str, bleu_tokenize: str | None = None
) -> None:
    """Warns where BLEU or TER would take the references' sentences for single words; other arguments as above."""
    from t2t_lite.metrics import bleu

    if args.metric == "ter" and (note := bleu.ter_note(language, references)):
        print(note, file=sys.stderr)
    if args.metric in ("bleu", "all"):
        _, tokenize = _case_and_tokenizer(args, metric, bleu_tokenize)
        if warning := bleu.text_warning("bleu", language, tokenize, references, "the text of the references"):
            print(warning, file=sys.stderr)


def _case_and_tokenizer(args: argparse.Namespace, metric: str, bleu_tokenize: str | None) -> tuple[bool, str | None]:
    """Returns whether BLEU lowercases, and its tokeniser: the flags' or else the problem's."""
    from t2t_lite.metrics import bleu

    lowercase, tokenize = bleu.case_and_tokenizer(metric, bleu_tokenize)
    return args.lowercase or lowercase, args.tokenize or tokenize


def print_trees(args: argparse.Namespace, facts: dict[str, object], found: Evaluation) -> None:
    """Prints the scores of trees."""
    if args.columns:
        print("\n".join(found.columns()))
        return
    if args.json:
        facts = {**facts, "all": found.total.as_dict(), "short": found.short.as_dict()}
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
