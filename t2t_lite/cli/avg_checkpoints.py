"""t2t-lite-avg-checkpoints: averages the weights of a run's last checkpoints (section 6.1)."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import shlex
import sys
from typing import TYPE_CHECKING

from t2t_lite.cli import common
from t2t_lite.distributed.tensorflow_loading import load_tensorflow
from t2t_lite.errors import DamagedError, UsageError
from t2t_lite.remote.mirror import name_urls, push
from t2t_lite.runs.run_dir import check_run_folder
from t2t_lite.verbosity import say

if TYPE_CHECKING:
    from t2t_lite.runs.open_request import OpenRequest
    from t2t_lite.runs.open_run import OpenRun


def main(argv: list[str] | None = None) -> int:
    args = make_parser().parse(argv)
    return common.run(lambda: _run(args), args=args)


def make_parser() -> common.Parser:
    parser = common.Parser(
        prog="t2t-lite-avg-checkpoints",
        description="Writes the mean of a run's last checkpoints to OUTPUT_DIR/averaged, and makes it what the other "
        "commands take by default.",
    )
    parser.add_argument("--output_dir", metavar="DIR", required=True, help="what t2t-lite-trainer wrote, or its URL")
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--last", type=common.positive, metavar="N", help="how many; default: the recipe's average_checkpoints"
    )
    which.add_argument(
        "--steps", type=_steps, metavar="N,N,...", help="the checkpoints of these steps instead of the last ones"
    )
    common.add_code_flags(parser)
    return parser


def _steps(text: str) -> list[str]:
    steps = [step.strip() for step in text.split(",")]
    if not all(step.isdecimal() for step in steps) or len(set(steps)) < len(steps):
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of different steps, such as 1000,1100,1200")
    return steps


def _run(args: argparse.Namespace) -> int:
    request = common.open_request(args)
    if len(request.folders) > 1:
        raise UsageError(f"--output_dir={args.output_dir} is an ensemble. Give one of its runs.")
    [spec] = request.check()
    [args.output_dir] = request.folders
    check_run_folder(args.output_dir)
    load_tensorflow()
    from t2t_lite.runs.checkpoint import find, list_checkpoints
    from t2t_lite.runs.checkpoint_files import AVERAGED, BEST, EMA, step_of
    from t2t_lite.runs.default_weights import write_default

    if args.steps:
        paths = [find(args.output_dir, step) for step in sorted(args.steps, key=int)]
    else:
        find(args.output_dir, "newest")  # raises an error if there is none
        number = args.last or spec.hparams.run.num_averaged
        paths = list_checkpoints(args.output_dir)[-number:]
        if args.last and len(paths) < args.last:
            raise UsageError(
                f"--last={args.last}, but {args.output_dir} has {len(paths)} checkpoint{'s' * (len(paths) > 1)}. Give "
                f"--last={len(paths)}, or train on with --hparams=keep_checkpoints={args.last}."
            )
    run = _open_whole(request, paths)
    paths = run.checkpoints.average(paths)
    path = run.checkpoints.save_weights(AVERAGED, step_of(paths[-1]))
    print(name_urls(f"{path}: the mean of {len(paths)} checkpoints:"))
    for averaged in paths:
        print(name_urls(f"  {averaged}"))
    best, ema = (next(iter(list_checkpoints(args.output_dir, kind)), None) for kind in (BEST, EMA))
    write_default(args.output_dir, AVERAGED, path, best, {}, ema)
    push(args.output_dir)
    say(
        "The mean has not been scored on dev. The other commands take it from now on, unless given --checkpoint, until "
        "the trainer finds a new best one."
    )
    choice = " [--checkpoint=best]" if best else ""
    say(f"\nNext: t2t-lite-eval --output_dir={shlex.quote(name_urls(args.output_dir))} --split=dev{choice}")
    return 0


def _open_whole(request: OpenRequest, paths: list[str]) -> OpenRun:
    """Opens the run with the newest readable checkpoint of `paths`; `average` reports the damaged ones."""
    from t2t_lite.runs.checkpoint_files import step_of

    requests = [dataclasses.replace(request, checkpoint=str(step_of(path))) for path in paths]
    for newer in reversed(requests[1:]):
        with contextlib.suppress(DamagedError):
            return newer.open().members[0]
    return requests[0].open().members[0]


if __name__ == "__main__":
    sys.exit(main())
