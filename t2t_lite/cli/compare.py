"""t2t-lite-compare: the paper's Table 2 for several hparams sets, trained on one problem under one budget."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from t2t_lite.cli import common, flags, output
from t2t_lite.compare.sets import CompareRequest, Entry, read_entries
from t2t_lite.distributed.tensorflow_loading import load_tensorflow
from t2t_lite.errors import UsageError
from t2t_lite.files import check_tensorflow_folder
from t2t_lite.ops import threads
from t2t_lite.remote.store import is_url
from t2t_lite.runs.lock import only_process
from t2t_lite.verbosity import say

_ENDINGS = {"txt": "text", "md": "markdown", "csv": "csv", "tex": "latex"}  # of the files of the table

if TYPE_CHECKING:
    from t2t_lite.compare.runs import Run, Runs


def main(argv: list[str] | None = None) -> int:
    parser = make_parser()
    args = parser.parse(argv)
    return common.run(lambda: _run(args), interrupted="interrupted; the same command continues.", args=args)


def make_parser() -> common.Parser:
    parser = common.Parser(
        prog="t2t-lite-compare",
        description="Trains several hparams sets on one problem under one budget, and prints their scores, "
        "whether these differ from the first one's, parameters, training FLOPs, speed and memory. The same command "
        "continues with what is not done.",
        epilog="Example: t2t-lite-compare --problem=toy_ende --sets=tiny,rnn_tiny,tiny*4 --train_flops=2e13 "
        "--output_dir=runs/compared",
    )
    parser.add_argument(
        "--sets",
        type=_entries,
        required=True,
        metavar="NAME,NAME+FIELD=VALUE,NAME*N,...",
        help="hparams sets; +FIELD=VALUE changes one of them; NAME*N is an ensemble of N runs with seeds of their own; "
        "the others are compared with the first",
    )
    parser.add_argument("--output_dir", metavar="DIR", required=True, help="a folder for the runs and the tables")
    budget = parser.add_mutually_exclusive_group()
    budget.add_argument(
        "--train_flops",
        type=common.above_zero("a number of FLOPs, such as 2e15", 1e30),
        metavar="N",
        help="FLOPs of each training on real tokens, such as 2e15; default: each set's own train_steps",
    )
    budget.add_argument(
        "--train_minutes",
        type=common.above_zero("a number of minutes above 0, such as 30 or 0.5", 1e9),
        metavar="M",
        help="train each set for M minutes of this machine: its speed is measured first, and decides the number of "
        "updates; evaluations, compilation and checkpoints do not count",
    )
    budget.add_argument("--train_steps", type=common.positive, metavar="N", help="updates of each training instead")
    parser.add_argument("--hparams", action="append", metavar="NAME=VALUE,...", help="changes to all of the sets")
    parser.add_argument("--seed", type=common.positive, default=1, metavar="N", help="of the first run of each set")
    parser.add_argument(
        "--seeds",
        type=common.positive,
        default=1,
        metavar="N",
        help="runs of each set: their mean and spread are shown",
    )
    common.add_table_flags(parser, "the table")
    flags.add_problem_flags(parser, required=False)
    return parser


def _entries(text: str) -> list[Entry]:
    try:
        return read_entries(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def compare_request(args: argparse.Namespace) -> CompareRequest:
    return CompareRequest(
        output_dir=args.output_dir,
        entries=tuple(args.sets),
        data=flags.data_request(args),
        changes=tuple(args.hparams or ()),
        **{name: getattr(args, name) for name in ("train_flops", "train_minutes", "train_steps", "seed", "seeds")},
    )


def _run(args: argparse.Namespace) -> int:
    if is_url(args.output_dir):
        raise UsageError(f"--output_dir={args.output_dir}: runs are compared in a folder of this machine. Give one.")
    request = compare_request(args)
    _check(request)
    folder = Path(request.output_dir)
    folder.mkdir(parents=True, exist_ok=True)
    with only_process(folder / ".compare.lock", "t2t-lite-compare"):
        load_tensorflow()
        from t2t_lite.compare.runs import Runs

        threads.set_inter_op_parallelism()  # as t2t-lite-decoder, whose speed the table shows
        runs = Runs(request)
        runs.plan(request.entries)
        trained = []
        for entry in request.entries:
            common.interrupts.check()
            trained.append(runs.train_entry(entry))
        _write(request, runs, trained, args.table_format, args.json)
    return 0


def _write(
    request: CompareRequest, runs: Runs, trained: Sequence[Sequence[Sequence[Run]]], form: str, as_json: bool
) -> None:
    """Measures what was trained, and writes and prints the tables."""
    from t2t_lite.compare.picture import Point, svg
    from t2t_lite.compare.table import make_table, measure

    rows = [
        measure(entry.name, groups, runs.budget(entry), request.data.usr_dir)
        for entry, groups in zip(request.entries, trained, strict=True)
    ]
    rows = [row.against(rows[0]) for row in rows]
    folder, table = Path(request.output_dir), make_table(rows, f"{request.data.problem}, {rows[0].split} set")
    points = [Point(row.name, row.mean, row.train_flops) for row in rows]
    files = {
        "json": json.dumps([row.as_dict() for row in rows], indent=2) + "\n",
        "svg": svg(points, rows[0].scores[0].name),
        **{ending: table.format(form) for ending, form in _ENDINGS.items()},
    }
    for ending, content in files.items():
        output.write_file(str(folder / f"table.{ending}"), content.encode())
    if as_json:
        common.print_json({"title": table.title, "rows": [row.as_dict() for row in rows], "notes": table.notes})
    elif form == "text":
        print(f"\n{files['txt']}")
    else:
        print(files[next(ending for ending, name in _ENDINGS.items() if name == form)], end="")
    say(f"table = {folder / 'table.json'}, .csv, .md and .tex\npicture = {folder / 'table.svg'}")


def _check(request: CompareRequest) -> None:
    """Raises UsageError, before any long work, if the problem, its score, its test or one of the sets is invalid."""
    from t2t_lite.metrics.score import check_metric
    from t2t_lite.metrics.significance import random_seed
    from t2t_lite.optimizers.choices import check_choices

    problem = request.data.make_problem()
    check_metric(problem.make_metric(), f"The problem {problem.name!r}")
    if len(request.entries) > 1:
        random_seed()
    for entry in request.entries:
        check_choices(request.recipe(entry).hparams, load_tensorflow)
    check_tensorflow_folder("output_dir", request.output_dir)


if __name__ == "__main__":
    sys.exit(main())
