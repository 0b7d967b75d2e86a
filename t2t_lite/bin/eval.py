"""t2t-lite-eval: scores a run's translations, or any file of translations against its references."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from t2t_lite import threads
from t2t_lite.bin import cli
from t2t_lite.errors import DataError, UsageError

if TYPE_CHECKING:
    from t2t_lite.metrics.evalb_parameters import Parameters
    from t2t_lite.metrics.metric import Metric, Score
    from t2t_lite.metrics.significance import Comparison

_RUN_FLAGS = ("split", "checkpoint", "beam_size", "length_penalty", "usr_dir")
_FILE_FLAGS = ("baseline", "sgm", "language")
_TREE_FLAGS = ("gold", "test", "prm", "columns")


def main(argv: list[str] | None = None) -> int:
    """Runs the command; returns its exit status."""
    parser = _parser()
    args = parser.parse(argv)
    _check_flags(parser, args)
    if args.output_dir is not None:
        return cli.run(lambda: _score_run(args))
    return cli.run(lambda: _score_trees(args) if args.metric == "evalb" else _score_files(args))


def _parser() -> cli.Parser:
    parser = cli.Parser(
        prog="t2t-lite-eval",
        description="Scores a run (loss, perplexity, BLEU and chrF of its beam-searched text, or F1 of its trees), or "
        "a file of translations, or two files and whether they differ, or a file of parse trees. Each score is printed "
        "with a signature that says how it was computed.",
    )
    run = parser.add_argument_group("a run")
    run.add_argument("--output_dir", metavar="DIR", help="what t2t-lite-trainer wrote")
    run.add_argument("--split", choices=("dev", "test"), help="default: test, or dev where there is no test set")
    run.add_argument(
        "--checkpoint", type=_checkpoint, metavar="best|averaged|newest|N", help="default: averaged if there is one"
    )
    run.add_argument("--beam_size", type=cli.positive, metavar="N", help="default: the run's; 1 is greedy")
    run.add_argument("--length_penalty", type=float, metavar="ALPHA", help="default: the run's")
    run.add_argument("--usr_dir", metavar="DIR", help="your own code, if it has moved since training")
    files = parser.add_argument_group("files, plain or compressed, one sentence a line")
    files.add_argument("--hypotheses", metavar="FILE", help="translations to score")
    files.add_argument("--references", metavar="FILE", help="line N is the reference of line N")
    files.add_argument(
        "--baseline", metavar="FILE", help="other translations of the same text: is the difference significant?"
    )
    files.add_argument(
        "--sgm",
        action="store_true",
        default=None,
        help="the references are in WMT's SGML; translations too, found by document and segment, or lines in order",
    )
    files.add_argument("--language", metavar="de|en|fr", help="what the files are in; adds BLEU-paper to the scores")
    trees = parser.add_argument_group(
        "--metric=evalb: files of trees in brackets, plain or compressed, one tree a line"
    )
    trees.add_argument("--gold", metavar="FILE", help="the right trees")
    trees.add_argument("--test", metavar="FILE", help="the trees to score; line N is of the sentence of line N")
    trees.add_argument("--prm", metavar="FILE", help="EVALB's parameters; default: those of COLLINS.prm")
    trees.add_argument(
        "--columns", action="store_true", default=None, help="print what EVALB prints: every sentence, and a summary"
    )
    scores = parser.add_argument_group("scores")
    scores.add_argument(
        "--metric",
        choices=("bleu", "bleu_paper", "chrf", "evalb", "all"),
        default="all",
        help="bleu_paper: as the paper's authors computed BLEU (Moses tokens, German compounds split), not comparable "
        "with sacreBLEU's; evalb: labelled bracketing F1 of parse trees; default: all, that is BLEU and chrF, and "
        "bleu_paper where --language or the run's problem asks for it",
    )
    scores.add_argument("--lowercase", action="store_true", help="compare without case")
    scores.add_argument(
        "--tokenize",
        choices=("13a", "intl", "none", "char"),
        help="BLEU's tokeniser; default: 13a, or for a run what its problem's metric asks for; none: split at spaces, "
        "for text that is tokenised already",
    )
    scores.add_argument("--json", action="store_true", help="print one JSON object instead of lines")
    return parser


def _checkpoint(text: str) -> str:
    if text in ("best", "averaged", "newest") or text.isdecimal():
        return text
    raise argparse.ArgumentTypeError(f"{text!r} is neither best, averaged, newest nor a step such as 1000")


def _check_flags(parser: argparse.ArgumentParser, args: argparse.Namespace) -> None:
    """Ends the program with status 2 unless the flags ask for a run, for files or for trees, and for one of them."""
    if args.metric == "evalb":
        _check_tree_flags(parser, args)
        return
    for flag in _TREE_FLAGS:
        if getattr(args, flag) is not None:
            parser.error(f"--{flag} goes with --metric=evalb")
    files = args.hypotheses is not None or args.references is not None
    if files == (args.output_dir is not None):
        parser.error("give --output_dir=RUN, or --hypotheses=FILE and --references=FILE")
    if files and (args.hypotheses is None or args.references is None):
        parser.error(f"scoring files needs --{'references' if args.references is None else 'hypotheses'}=FILE too")
    for flag in _FILE_FLAGS if args.output_dir is not None else _RUN_FLAGS:
        if getattr(args, flag) is not None:
            parser.error(f"--{flag} goes with {'--output_dir, not with files' if files else 'files, not with a run'}")
    if args.metric == "bleu_paper":
        if files and args.language is None:
            parser.error("--metric=bleu_paper needs the files' language, such as --language=de")
        if args.lowercase or args.tokenize:
            parser.error("BLEU-paper is cased and has Moses' tokeniser; leave out --lowercase and --tokenize")
    elif args.language is not None and args.metric != "all":
        parser.error(f"--language is for BLEU-paper, not for --metric={args.metric}")


def _check_tree_flags(parser: argparse.ArgumentParser, args: argparse.Namespace) -> None:
    run = args.output_dir is not None
    if not run and (args.gold is None or args.test is None):
        parser.error("--metric=evalb needs two files of trees: give --gold=FILE and --test=FILE; or --output_dir=RUN")
    others = ("hypotheses", "references", "tokenize", *_FILE_FLAGS, *(("gold", "test") if run else _RUN_FLAGS))
    for flag in (*others, *(["lowercase"] if args.lowercase else [])):
        if getattr(args, flag) is not None:
            parser.error(f"--{flag} does not go with --metric=evalb of {'a run' if run else 'two files of trees'}")
    if args.columns and args.json:
        parser.error("give --columns or --json, not both")


def _score_trees(args: argparse.Namespace) -> int:
    from t2t_lite.data.sources import read_lines

    gold, test = (list(read_lines(path)) for path in (args.gold, args.test))
    return _print_trees(args, {}, gold, test, _parameters(args))


def _parameters(args: argparse.Namespace) -> Parameters | None:
    from t2t_lite.data.sources import read_lines
    from t2t_lite.metrics import evalb_parameters

    return None if args.prm is None else evalb_parameters.read_parameters(read_lines(args.prm), args.prm)


def _print_trees(
    args: argparse.Namespace,
    facts: dict[str, object],
    gold: Sequence[str],
    test: Sequence[str],
    parameters: Parameters | None,
) -> int:
    from t2t_lite.metrics import bracketing

    found = bracketing.evaluate(gold, test, parameters)
    found.check_errors()
    for fault in found.faults():
        print(fault, file=sys.stderr)
    if args.columns:
        print("\n".join(found.columns()))
        return 0
    if args.json:
        facts = {**facts, "all": found.total.as_dict(), "short": found.short.as_dict()}
    _print(args, facts, [found.score()])
    return 0


def _score_files(args: argparse.Namespace) -> int:
    metrics = _metrics(args, "bleu", args.language or "")
    references, hypotheses, *baseline = _read_files(args)
    if not baseline:
        _print(args, {}, [metric.score(hypotheses, references) for metric in metrics])
        return 0
    from t2t_lite.metrics.significance import paired_bootstrap

    _print(args, {}, [paired_bootstrap(metric, hypotheses, baseline[0], references) for metric in metrics])
    return 0


def _read_files(args: argparse.Namespace) -> list[list[str]]:
    """Returns the lines of the references, the translations and, if it is given, the baseline: as many of each."""
    from t2t_lite.data import sgm
    from t2t_lite.data.sources import read_lines

    paths = [path for path in (args.references, args.hypotheses, args.baseline) if path is not None]
    files = [list(read_lines(path)) for path in paths]
    if args.sgm:
        references = sgm.parse(files[0], args.references)
        files[0] = list(references.values())
        for i in range(1, len(files)):
            if sgm.is_sgm(files[i]):
                files[i] = sgm.in_order(sgm.parse(files[i], paths[i]), references, paths[i], args.references)
    for path, lines in zip(paths, files, strict=True):
        if not args.sgm and sgm.is_sgm(lines):
            raise DataError(f"{path} is not plain text but SGML; --sgm reads it where the references are SGML too.")
        if len(lines) != len(files[0]):
            raise DataError(
                f"{path} has {len(lines):,} lines but {args.references} has {len(files[0]):,}; "
                "line N of one is scored against line N of the other."
            )
    if not files[0]:
        raise DataError(f"{args.hypotheses} and {args.references} are empty; there is nothing to score.")
    return files


def _score_run(args: argparse.Namespace) -> int:
    from t2t_lite.train.run_dir import read_run

    problem = read_run(args.output_dir, args.usr_dir).make_problem()
    # Faults show before the minutes of decoding.
    trees = problem.metric == "evalb"
    _check_kind(args, trees)
    parameters = _parameters(args)
    metrics = [] if trees else _metrics(args, problem.metric, problem.target_language)
    cli.load_tensorflow()  # not for --help, nor for files
    threads.one_per_operation()
    from t2t_lite.train.open_run import evaluate_run

    found = evaluate_run(
        args.output_dir,
        usr_dir=args.usr_dir,
        split=args.split,
        checkpoint=args.checkpoint,
        beam_size=args.beam_size,
        length_penalty=args.length_penalty,
    )
    facts = {"checkpoint": found.checkpoint, "split": found.split, "loss": found.loss, "perplexity": found.perplexity}
    if trees:
        facts["repaired"] = found.repaired
        return _print_trees(args, facts, found.references, found.hypotheses, parameters)
    _print(args, facts, [metric.score(found.hypotheses, found.references) for metric in metrics])
    return 0


def _check_kind(args: argparse.Namespace, trees: bool) -> None:
    """Raises UsageError if the flags ask for scores of text of a parser's run, or for F1 of a translator's."""
    if args.metric == "evalb" and not trees:
        raise UsageError(f"--metric=evalb scores trees, and {args.output_dir} writes text; leave the flag out.")
    if trees and (args.metric not in ("all", "evalb") or args.lowercase or args.tokenize):
        raise UsageError(f"{args.output_dir} writes trees: they are scored with --metric=evalb, not as text.")


def _metrics(args: argparse.Namespace, metric: str, language: str) -> list[Metric]:
    """Returns the metrics asked for; where no flag says how to compute BLEU, the problem's `metric` does."""
    from t2t_lite.metrics import bleu

    metrics = []
    if args.metric in ("bleu", "all"):
        if args.lowercase or args.tokenize or metric in ("chrf", "bleu_paper"):
            metrics.append(bleu.bleu(lowercase=args.lowercase, tokenize=args.tokenize or "13a"))
        else:
            metrics.append(bleu.metric(metric))
    if args.metric in ("chrf", "all"):
        metrics.append(bleu.chrf(lowercase=args.lowercase))
    if args.metric == "bleu_paper" or (args.metric == "all" and (args.language is not None or metric == "bleu_paper")):
        metrics.append(bleu.metric("bleu_paper", language))
    return metrics


def _print(args: argparse.Namespace, facts: dict[str, object], scores: Sequence[Score | Comparison]) -> None:
    if args.json:
        print(json.dumps(facts | {"scores": [score.as_dict() for score in scores]}))
        return
    for name, value in facts.items():
        print(f"{name} = {value:.4f}" if isinstance(value, float) else f"{name} = {value}")
    for score in scores:
        print(score.format())


def entry() -> None:
    """The console script."""
    sys.exit(main())


if __name__ == "__main__":
    entry()
