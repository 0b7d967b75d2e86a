"""t2t-lite-eval of a run: its loss, the scores of its beam-searched outputs, and log-probabilities of given ones."""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from t2t_lite.cli import eval_scores
from t2t_lite.cli.eval_scores import Defaults, ScoreRequest
from t2t_lite.distributed.tensorflow_loading import load_tensorflow
from t2t_lite.errors import DataError, UsageError
from t2t_lite.metrics.names import canonical
from t2t_lite.metrics.score import check_metric
from t2t_lite.ops import threads
from t2t_lite.progress import Progress
from t2t_lite.remote.mirror import name_urls, push
from t2t_lite.remote.store import StoreError
from t2t_lite.runs.open_request import OpenRequest
from t2t_lite.text.labels import find_label, target_of
from t2t_lite.verbosity import say

if TYPE_CHECKING:
    from t2t_lite.data.store import Store
    from t2t_lite.metrics.score import Score
    from t2t_lite.runs.open_run import OpenEnsemble, OpenRun
    from t2t_lite.training.evaluate import Scores


def score_run(request: ScoreRequest, runs: OpenRequest) -> None:
    """Scores `runs` on its dev or test set."""
    problem = runs.check()[0].make_problem()
    # Errors show before decoding, which takes minutes.
    trees = not problem.codec.is_text
    _check_kind(request, trees, ",".join(runs.folders))
    own = [check_metric(problem.make_metric(), f"The problem {problem.name!r}")]
    defaults = Defaults(
        canonical(problem.metric), problem.target_language, problem.bleu_tokenize, problem.bleu_effective_order
    )
    several = problem.labels if len(problem.labels) > 1 else ()
    metrics = own if trees or ((problem.has_own_metric or several) and request.metric == "all") else []
    metrics = metrics if trees else [*metrics, *eval_scores.text_metrics(request, defaults)]
    parameters = eval_scores.tree_parameters(request, metrics[0])
    load_tensorflow()  # --help and files do not need it
    threads.set_inter_op_parallelism()
    from t2t_lite.data.overlap import overlap_line
    from t2t_lite.metrics.per_language import split_by_language
    from t2t_lite.metrics.score import score_lines
    from t2t_lite.training.evaluate import Evaluator

    run = runs.open_to_decode()
    store = run.store()
    split = request.split or ("test" if "test" in store.splits() else "dev")
    if line := overlap_line(split, store.in_train(split), len(store.split(split))):
        print(line, file=sys.stderr)
    found = Evaluator(run.model, store, run.translator, metrics[0])(split)
    facts = {
        "checkpoint": name_urls(run.checkpoint),
        "split": split,
        "loss": found.loss,
        "perplexity": found.perplexity,
    }
    if trees:
        from t2t_lite.metrics import bracketing

        facts["repaired"] = found.repaired
        trees_found = bracketing.evaluate(found.references, found.hypotheses, parameters)
        eval_scores.explain_faults(request, trees_found)
        _save_scores(runs.folders, run, store, split, found, [trees_found.score()])
        eval_scores.print_trees(request, facts, trees_found)
        return
    eval_scores.warn_of_text(request, found.hypotheses, found.references, defaults)
    scores = [score_lines(metric, found.hypotheses, found.references, found.sources) for metric in metrics]
    _save_scores(runs.folders, run, store, split, found, scores)
    texts = (found.hypotheses, found.references, found.sources)
    of_languages = {
        language: [score_lines(one, *lines) for one in eval_scores.text_metrics(request, defaults.of(language))]
        for language, lines in split_by_language(*texts, functools.partial(target_of, labels=several)).items()
    }
    eval_scores.print_scores(request, facts, scores, of_languages)


def score_testset(request: ScoreRequest, runs: OpenRequest, name: str) -> None:
    """Translates a test set of sacreBLEU and scores it; needs no prepared data."""
    from t2t_lite.data.testsets import read_testset

    problem = runs.check()[0].make_problem()
    if not problem.codec.is_text:
        raise UsageError(f"--testset={name} is of text, and {','.join(runs.folders)} writes trees. Leave it out.")
    _check_kind(request, False, ",".join(runs.folders))
    source, target = problem.source_language, request.target_language or problem.target_language
    if request.target_language and problem.labels:
        find_label(request.target_language, problem.labels)
    if "+" in target:
        raise UsageError(f"--testset={name}: this model writes {target}; name one with --target_language=CODE.")
    if "+" in source:
        raise UsageError(
            f"--testset={name}: this model reads {source}, and its problem does not say which of them. Translate the "
            f"source with t2t-lite-decoder: sacrebleu -t {name} -l SOURCE-{target} --echo src."
        )
    testset = read_testset(name, source, target)
    defaults = Defaults(canonical(problem.metric), target, problem.bleu_tokenize, problem.bleu_effective_order)
    own = problem.has_own_metric and request.metric == "all" and len(testset.references) == 1
    metrics = [check_metric(problem.make_metric(), f"The problem {problem.name!r}")] if own else []
    metrics += eval_scores.text_metrics(request, defaults)
    load_tensorflow()
    threads.set_inter_op_parallelism()
    run = runs.open_to_decode()
    translator = run.translator.with_language(request.target_language)
    with Progress(len(testset.sources), " lines", f"translating {name}") as bar:
        hypotheses = [best.text for best, *_ in translator.translate(testset.sources, progress=bar)]
    eval_scores.warn_of_text(request, hypotheses, testset.references[0], defaults)
    scores = [eval_scores.score_text(metric, hypotheses, testset.references, testset.sources) for metric in metrics]
    facts = {"checkpoint": name_urls(run.checkpoint), "testset": name, "lines": len(hypotheses)}
    eval_scores.print_scores(request, facts, scores)


def _check_kind(request: ScoreRequest, trees: bool, name: str) -> None:
    """Raises UsageError if text scores are asked for of a parser's run, or F1 of a translator's run."""
    if request.metric == "evalb" and not trees:
        raise UsageError(f"--metric=evalb scores trees, and {name} writes text; leave the flag out.")
    of_text = request.metric not in ("all", "evalb") or request.lowercase or request.tokenize or request.effective_order
    if trees and of_text:
        raise UsageError(f"{name} writes trees: they are scored with --metric=evalb, not as text.")


def score_pairs(request: ScoreRequest, runs: OpenRequest, pairs: tuple[str, str]) -> None:
    """Prints a line per pair of two files, and a summary on standard error."""
    from t2t_lite.data.sources import read_lines
    from t2t_lite.text.trees.tree import tree_lines

    specs = runs.check()
    sources, targets = (list(read_lines(path)) for path in pairs)
    if not specs[0].make_problem().codec.is_text:
        targets = list(tree_lines(targets, pairs[1]))
    if len(sources) != len(targets):
        raise DataError(
            f"{pairs[0]} has {len(sources):,} lines but {pairs[1]} has {len(targets):,}; "
            "line N of one is the translation of line N of the other."
        )
    load_tensorflow()
    threads.set_inter_op_parallelism()
    from t2t_lite.decoding.score import PairScore, score

    run = runs.open_to_decode()
    translator = run.translator.with_language(request.target_language)
    scores = score(translator, sources, targets, progress=Progress(len(sources), " pairs"), words=request.word_scores)
    for one in scores:
        if request.json:
            perplexity = one.perplexity if one.tokens else None  # JSON has no NaN
            row = {"log_prob": one.log_prob, "tokens": one.tokens, "perplexity": perplexity}
            print(json.dumps(row | (one.words.as_dict() if one.words else {}), ensure_ascii=False))
        else:
            print(f"{one.log_prob:.4f}\t{one.tokens}\t{one.perplexity:.4f}")
    sys.stdout.flush()
    blank = sum(one.tokens == 0 for one in scores)
    total = PairScore(sum(one.log_prob for one in scores), sum(one.tokens for one in scores))
    say(
        f"{name_urls(run.checkpoint)}: {len(scores):,} pairs"
        + (f", {blank:,} of them with an empty source, which have no tokens" if blank else "")
        + f"; log-probability {total.log_prob:.4f} of {total.tokens:,} tokens, perplexity {total.perplexity:.4f}",
        error=True,
    )


def _save_scores(
    folders: Sequence[str],
    run: OpenRun | OpenEnsemble,
    store: Store,
    split: str,
    found: Scores,
    scores: Sequence[Score],
) -> None:
    """Writes the scores into the run's folder and prints which ones they replace; an ensemble's are not kept."""
    from t2t_lite.runs import scores_file

    if len(folders) > 1:
        say("These scores are of an ensemble; they are kept in no run's folder.", error=True)
        return
    [output_dir] = folders
    old = scores_file.read_scores(output_dir, split)
    try:
        new = [score.as_dict() for score in scores]
        path = scores_file.write_scores(
            output_dir,
            split,
            run.checkpoint,
            found.hypotheses,
            found.loss,
            new,
            run.translator.settings,
            store.checksum,
            store.in_train(split),
        )
        push(output_dir)
    except (OSError, StoreError) as error:  # the run may be somebody else's
        reason = getattr(error, "strerror", None) or str(error).removesuffix(".")
        print(f"The scores are not kept in {name_urls(output_dir)}: {reason}.", file=sys.stderr)
        return
    replaced = f", in place of those of {scores_file.summary(old)}" if old else ""
    say(f"{name_urls(str(path))} holds these scores now{replaced}.", error=True)
