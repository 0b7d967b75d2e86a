"""The flags of t2t-lite-trainer that say what a run starts from."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import TYPE_CHECKING

from t2t_lite.bin import cli
from t2t_lite.distributed.tensorflow_loading import load_tensorflow
from t2t_lite.errors import DataError, UsageError, check_tensorflow_path

if TYPE_CHECKING:
    from t2t_lite.config import HParams
    from t2t_lite.runs.run_dir import RunSpec


def add_start_flags(parser: cli.Parser) -> None:
    group = parser.add_argument_group("the start of a run")
    start = group.add_mutually_exclusive_group()
    start.add_argument(
        "--warm_start_from",
        metavar="RUN",
        help="a new run starts from the weights of another, or of RUN/best, RUN/averaged or RUN/checkpoints/model-N",
    )
    start.add_argument(
        "--reset_optimizer",
        action="store_true",
        help="go on with the optimizer's moments at zero, and with other settings of optimizer and schedule if they "
        "are given; weights, step and learning-rate schedule stay",
    )
    group.add_argument(
        "--with_optimizer",
        action="store_true",
        help="with --warm_start_from: take the optimizer's slots and the step of its newest checkpoint, too, so that "
        "its training goes on; train_steps counts its updates as well",
    )


def check_flags(parser: cli.Parser, args: argparse.Namespace) -> None:
    """Ends the program with status 2 if --with_optimizer is given without --warm_start_from."""
    if args.with_optimizer and args.warm_start_from is None:
        parser.error("--with_optimizer goes with --warm_start_from=RUN, whose step and slots are taken, too")


def _has_ended(run: Path) -> bool:
    """Whether a training in this folder came to its end, and weights of it are there."""
    from t2t_lite.runs import default_weights
    from t2t_lite.runs.checkpoint_files import AVERAGED, BEST, list_traces

    best = (run / default_weights.FILE).exists() and list_traces(run / BEST)
    return bool(best or list_traces(run / AVERAGED))


def check_ended(args: argparse.Namespace, spec: RunSpec) -> None:
    """Raises DataError if a run has ended and has no checkpoint to go on from: it would start over."""
    from t2t_lite.runs.run_dir import has_checkpoint

    run = Path(args.output_dir)
    if _has_ended(run) and not has_checkpoint(run) and not spec.make_problem().without_data:  # such as an imported run
        raise DataError(
            f"{run / 'checkpoints'} holds no checkpoint to go on from, and a training from the beginning would "
            f"overwrite the weights that are in {run}. Put the checkpoints back from a copy; or start a run in another "
            f"folder from these weights: --output_dir=ANOTHER --warm_start_from={run} --vocabulary={run}."
        )


def check_begun(args: argparse.Namespace) -> None:
    """Raises UsageError if a run that has no checkpoint yet would start from random weights, not from another's."""
    from t2t_lite.runs.run_dir import has_checkpoint

    if args.warm_start_from is not None or has_checkpoint(args.output_dir) or _has_ended(Path(args.output_dir)):
        return
    load_tensorflow()
    from t2t_lite.runs.run_log import read_starts

    command = str((read_starts(args.output_dir) or [{}])[-1].get("command"))
    if re.search(r" '?--warm_start_from", command):  # quoted where the path has a space or a ~
        raise UsageError(
            f"The run in {args.output_dir} has no checkpoint yet, and was to start from the weights of another. Give "
            f"the whole command again: {command}"
        )


def check_start(args: argparse.Namespace, model: str, hparams: HParams) -> None:
    """Raises T2TError, before anything is written, if a run without a checkpoint cannot start from what is given."""
    from t2t_lite.runs.run_dir import has_checkpoint

    if args.output_dir is not None and has_checkpoint(args.output_dir):
        return
    if args.reset_optimizer:
        raise UsageError(
            f"{args.output_dir or 'A new run'} has no checkpoint whose optimizer --reset_optimizer could reset. Leave "
            "the flag out."
        )
    if args.warm_start_from is None:
        return
    check_tensorflow_path(f"--warm_start_from={args.warm_start_from}", args.warm_start_from)
    load_tensorflow()
    from t2t_lite.training.recipe import intervals_of
    from t2t_lite.training.warm_start import check_source, check_steps

    check_source(args.warm_start_from, model, hparams, args.with_optimizer)
    if args.with_optimizer:
        check_steps(args.warm_start_from, intervals_of(hparams).train_steps)
