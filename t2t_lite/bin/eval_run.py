"""t2t-lite-eval of a run: its loss, and the scores of its beam-searched outputs."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from t2t_lite.bin import cli, eval_scores, eval_trees, run_scores
from t2t_lite.distributed.tensorflow_loading import load_tensorflow
from t2t_lite.errors import UsageError
from t2t_lite.metrics.check import check_metric
from t2t_lite.metrics.names import canonical
from t2t_lite.ops import threads

if TYPE_CHECKING:
    from t2t_lite.metrics.score import CorpusMetric
    from t2t_lite.problem import Problem


def score_run(args: argparse.Namespace) -> int:
    """Scores a run on its dev or test set; returns the exit status."""
    request = cli.open_request(args)
    problem = request.check()[0].make_problem()
    # Errors show before decoding, which takes minutes.
    trees = not problem.codec.is_text
    _check_kind(args, trees)
    metrics = [_own_metric(problem)] if trees else _metrics(args, problem)
    parameters = eval_trees.parameters(args, metrics[0])
    load_tensorflow()  # --help and files do not need it
    threads.set_inter_op_parallelism()
    from t2t_lite.data.overlap import overlap_line
    from t2t_lite.metrics.score import scored
    from t2t_lite.training.evaluate import Evaluator

    run = request.open_to_decode()
    store = run.store()
    split = args.split or ("test" if "test" in store.splits() else "dev")
    if line := overlap_line(split, store.in_train(split), len(store.split(split))):
        print(line, file=sys.stderr)
    found = Evaluator(run.model, store, run.translator, metrics[0])(split)
    facts = {"checkpoint": run.checkpoint, "split": split, "loss": found.loss, "perplexity": found.perplexity}
    if trees:
        from t2t_lite.metrics import bracketing

        facts["repaired"] = found.repaired
        trees_found = bracketing.evaluate(found.references, found.hypotheses, parameters)
        eval_trees.explain_faults(args, trees_found)
        run_scores.save_scores(request.folders, run, store, split, found, [trees_found.score()])
        eval_scores.print_trees(args, facts, trees_found)
        return 0
    eval_scores.warn_of_text(args, found.hypotheses, found.references, *_of_problem(problem))
    scores = [scored(metric, found.hypotheses, found.references, found.sources) for metric in metrics]
    run_scores.save_scores(request.folders, run, store, split, found, scores)
    eval_scores.print_scores(args, facts, scores)
    return 0


def _metrics(args: argparse.Namespace, problem: Problem) -> list[CorpusMetric]:
    """Returns the metrics that the flags ask for; with --metric=all, a metric of the problem's own comes first."""
    own = [_own_metric(problem)] if problem.has_own_metric and args.metric == "all" else []
    return [*own, *eval_scores.text_metrics(args, *_of_problem(problem))]


def _own_metric(problem: Problem) -> CorpusMetric:
    return check_metric(problem.make_metric(), f"The problem {problem.name!r}")


def _of_problem(problem: Problem) -> tuple[str, str, str | None, bool]:
    return canonical(problem.metric), problem.target_language, problem.bleu_tokenize, problem.bleu_effective_order


def _check_kind(args: argparse.Namespace, trees: bool) -> None:
    """Raises UsageError if the flags ask for text scores of a parser's run, or for F1 of a translator's run."""
    if args.metric == "evalb" and not trees:
        raise UsageError(f"--metric=evalb scores trees, and {args.output_dir} writes text; leave the flag out.")
    if trees and (args.metric not in ("all", "evalb") or args.lowercase or args.tokenize or args.effective_order):
        raise UsageError(f"{args.output_dir} writes trees: they are scored with --metric=evalb, not as text.")
