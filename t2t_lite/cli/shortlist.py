"""t2t-lite-shortlist: makes the shortlist of a run, with which its searches take less time."""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path

from t2t_lite.cli import common
from t2t_lite.data.vocabulary_files import load_pair
from t2t_lite.errors import UsageError
from t2t_lite.progress import Progress
from t2t_lite.remote.mirror import name_urls, push
from t2t_lite.verbosity import say

_MOST_PAIRS = 100_000


def main(argv: list[str] | None = None) -> int:
    args = make_parser().parse(argv)
    return common.run(lambda: _run(args), args=args)


def make_parser() -> common.Parser:
    parser = common.Parser(
        prog="t2t-lite-shortlist",
        description="Writes to OUTPUT_DIR/shortlist.npz which target pieces stand for each source piece in the run's "
        "training data. With --shortlist, t2t-lite-decoder chooses among those of a line alone, which takes less time.",
    )
    parser.add_argument("--output_dir", metavar="DIR", required=True, help="what t2t-lite-trainer wrote, or its URL")
    parser.add_argument(
        "--best",
        type=common.positive,
        default=50,
        metavar="N",
        help="the likeliest target pieces of each source piece, by IBM Model 1; default: 50",
    )
    parser.add_argument(
        "--first",
        type=common.positive,
        default=100,
        metavar="N",
        help="the most frequent target pieces, which any output may have; default: 100",
    )
    parser.add_argument(
        "--pairs",
        type=common.positive,
        default=_MOST_PAIRS,
        metavar="N",
        help=f"of the training data, evenly spaced, at most so many are read; default: {_MOST_PAIRS:,}",
    )
    common.add_code_flags(parser)
    return parser


def _run(args: argparse.Namespace) -> int:
    request = common.open_request(args)
    if len(request.folders) > 1:
        raise UsageError(f"--output_dir={args.output_dir} is an ensemble, which takes that of its first run. Give one.")
    [spec], [folder] = request.check(), request.folders
    from t2t_lite.data.shortlist import ITERATIONS, choose_pairs, make_shortlist
    from t2t_lite.runs.run_data import open_run_data

    if not spec.make_problem().codec.is_text:
        raise UsageError(f"{folder} is a parser, whose searches take no shortlist.")
    store = open_run_data(spec, folder)
    number = len(store.split("train"))
    pairs = choose_pairs(number, args.pairs)
    with Progress(len(pairs) * (1 + ITERATIONS), " pairs", "IBM Model 1") as show:
        shortlist = make_shortlist(store, pairs, best=args.best, first=args.first, progress=show)
    path = shortlist.write(Path(folder), *load_pair(folder))
    push(folder)
    each = (shortlist.of_piece > 0).sum(1).mean()
    read = f"{len(pairs):,}" if len(pairs) == number else f"{len(pairs):,} of {number:,}"
    print(f"{name_urls(str(path))}: {each:.1f} pieces for a source piece on average, from {read} training pairs.")
    run = shlex.quote(name_urls(str(folder)))
    say(f"\nNext: t2t-lite-decoder --output_dir={run} --shortlist --input=FILE")
    return 0


if __name__ == "__main__":
    sys.exit(main())
