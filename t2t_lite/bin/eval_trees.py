"""Scores of parse trees for t2t-lite-eval: EVALB's parameters, and messages about sentences in error."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from typing import TYPE_CHECKING

from t2t_lite.metrics.evalb_parameters import Parameters, read_parameters

if TYPE_CHECKING:
    from t2t_lite.metrics.evalb_report import Evaluation
    from t2t_lite.metrics.score import CorpusMetric

_SHOWN = 10  # sentences in error that are listed for a run without --columns


def add_flags(parser: argparse.ArgumentParser) -> None:
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


def parameters(args: argparse.Namespace, metric: CorpusMetric | None = None) -> Parameters:
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
