"""t2t-lite-eval of files: translations against references and baselines, and trees against trees."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from t2t_lite.bin import eval_scores, eval_trees
from t2t_lite.errors import DataError

if TYPE_CHECKING:
    from t2t_lite.metrics.metric import Metric


def score_trees(args: argparse.Namespace) -> int:
    """Scores --test against --gold; returns the exit status."""
    from t2t_lite.data.sources import read_lines
    from t2t_lite.metrics import bracketing
    from t2t_lite.text.trees import check_words, tree_lines

    gold, test = (tree_lines(list(read_lines(path)), path) for path in (args.gold, args.test))
    check_words(gold, args.gold)
    found = bracketing.evaluate(gold, test, eval_trees.parameters(args))
    found.check_errors()
    eval_trees.list_faults(found)
    eval_scores.print_trees(args, {}, found)
    return 0


def score_files(args: argparse.Namespace) -> int:
    """Scores --hypotheses against --references, compared with each --baseline; returns the exit status."""
    asked = ("bleu", args.language or "")
    metrics = eval_scores.text_metrics(args, *asked)
    hypotheses, references, baselines = _read_files(args)
    eval_scores.warn_of_text(args, hypotheses, references[0], *asked)
    if baselines:
        _compare(args, metrics, hypotheses, references, baselines)
    else:
        eval_scores.print_scores(args, {}, [metric.score(hypotheses, *references) for metric in metrics])
    return 0


def _compare(
    args: argparse.Namespace,
    metrics: list[Metric],
    hypotheses: list[str],
    references: list[list[str]],
    baselines: list[list[str]],
) -> None:
    from t2t_lite.metrics import significance

    test = significance.paired_randomisation if args.paired_ar else significance.paired_bootstrap
    records = []
    for metric in metrics:
        found = [test(metric, hypotheses, baseline, *references) for baseline in baselines]
        if args.json:
            record = found[0].as_dict()
            if len(found) > 1:
                pairs = zip(args.baseline, found, strict=True)
                record["paired"] = [{"file": path, **one.as_dict()["paired"]} for path, one in pairs]
            records.append(record)
            continue
        print(found[0].score.format())
        for path, one in zip(args.baseline, found, strict=True):
            print(one.format_baseline(path if len(found) > 1 else ""))
    if args.json:
        eval_scores.print_json({}, records)


def _read_files(args: argparse.Namespace) -> tuple[list[str], list[list[str]], list[list[str]]]:
    """Returns the lines of the translations, of each reference and of each baseline; all have the same length."""
    from t2t_lite.data import sgm
    from t2t_lite.data.sources import read_lines

    paths = [*args.references, args.hypotheses, *(args.baseline or [])]
    files = [list(read_lines(path, sgml=True)) for path in paths]
    first = paths[0]
    if args.sgm:
        references = sgm.parse(files[0], first)
        files[0] = list(references.values())
        for i in range(1, len(files)):
            if sgm.is_sgm(files[i]):
                files[i] = sgm.in_order(sgm.parse(files[i], paths[i]), references, paths[i], first)
    for path, lines in zip(paths, files, strict=True):
        if not args.sgm and sgm.is_sgm(lines):
            raise DataError(f"{path} is not plain text but SGML; --sgm reads it where the references are SGML too.")
        if len(lines) != len(files[0]):
            raise DataError(
                f"{path} has {len(lines):,} lines but {first} has {len(files[0]):,}; "
                "line N of one is scored against line N of the other."
            )
    if not files[0]:
        raise DataError(f"{args.hypotheses} and {first} are empty; there is nothing to score.")
    count = len(args.references)
    return files[count], files[:count], files[count + 1 :]
