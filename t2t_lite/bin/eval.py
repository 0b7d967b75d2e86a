"""t2t-lite-eval: scores a run's translations, or any file of translations against its references."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from t2t_lite.bin import cli
from t2t_lite.errors import DataError

if TYPE_CHECKING:
    from t2t_lite.metrics.bleu import Score

_RUN_FLAGS = ("split", "checkpoint", "beam_size", "length_penalty", "usr_dir")


def main(argv: list[str] | None = None) -> int:
    """Runs the command; returns its exit status."""
    parser = _parser()
    args = parser.parse(argv)
    _check_flags(parser, args)
    return cli.run(lambda: _score_files(args) if args.output_dir is None else _score_run(args))


def _parser() -> cli.Parser:
    parser = cli.Parser(
        prog="t2t-lite-eval",
        description="Scores a run (loss, perplexity, BLEU and chrF of its beam-searched text), or a file of "
        "translations. Each score is printed with its sacreBLEU signature.",
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
    files = parser.add_argument_group("files, plain or .gz, one sentence a line")
    files.add_argument("--hypotheses", metavar="FILE", help="translations to score")
    files.add_argument("--references", metavar="FILE", help="line N is the reference of line N")
    scores = parser.add_argument_group("scores")
    scores.add_argument("--metric", choices=("bleu", "chrf", "all"), default="all", help="default: all, that is both")
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
    """Ends the program with status 2 unless the flags ask for a run or for files, and not for both."""
    files = args.hypotheses is not None or args.references is not None
    if files == (args.output_dir is not None):
        parser.error("give --output_dir=RUN, or --hypotheses=FILE and --references=FILE")
    if files and (args.hypotheses is None or args.references is None):
        parser.error(f"scoring files needs --{'references' if args.references is None else 'hypotheses'}=FILE too")
    for flag in _RUN_FLAGS:
        if files and getattr(args, flag) is not None:
            parser.error(f"--{flag} goes with --output_dir, not with files")


def _score_files(args: argparse.Namespace) -> int:
    from t2t_lite.data.sources import read_lines

    hypotheses, references = list(read_lines(args.hypotheses)), list(read_lines(args.references))
    if len(hypotheses) != len(references):
        raise DataError(
            f"{args.hypotheses} has {len(hypotheses):,} lines but {args.references} has {len(references):,}; "
            "line N of one is scored against line N of the other."
        )
    if not hypotheses:
        raise DataError(f"{args.hypotheses} and {args.references} are empty; there is nothing to score.")
    _print(args, {}, _scores(args, hypotheses, references, "bleu"))
    return 0


def _score_run(args: argparse.Namespace) -> int:
    cli.check_run(args)
    cli.load_tensorflow()  # not for --help, nor for files
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
    _print(args, facts, _scores(args, found.hypotheses, found.references, found.metric))
    return 0


def _scores(args: argparse.Namespace, hypotheses: Sequence[str], references: Sequence[str], metric: str) -> list[Score]:
    """Returns the scores asked for; where no flag says how to compute BLEU, the problem's `metric` does."""
    from t2t_lite.metrics import bleu

    scores = []
    if args.metric in ("bleu", "all"):
        if args.lowercase or args.tokenize or metric == "chrf":
            tokenize = args.tokenize or "13a"
            scores.append(bleu.bleu(hypotheses, references, lowercase=args.lowercase, tokenize=tokenize))
        else:
            scores.append(bleu.score(metric, hypotheses, references))
    if args.metric in ("chrf", "all"):
        scores.append(bleu.chrf(hypotheses, references, lowercase=args.lowercase))
    return scores


def _print(args: argparse.Namespace, facts: dict[str, object], scores: list[Score]) -> None:
    if args.json:
        print(json.dumps(facts | {"scores": [dataclasses.asdict(s) for s in scores]}))
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
