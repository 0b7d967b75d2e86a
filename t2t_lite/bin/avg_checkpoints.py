"""t2t-lite-avg-checkpoints: averages the weights of a run's last checkpoints (section 6.1)."""

from __future__ import annotations

import argparse
import sys

from t2t_lite.bin import cli
from t2t_lite.errors import UsageError


def main(argv: list[str] | None = None) -> int:
    """Runs the command; returns its exit status."""
    args = _parser().parse_args(argv)
    return cli.run(lambda: _run(args))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="t2t-lite-avg-checkpoints",
        description="Writes the mean of a run's last checkpoints to OUTPUT_DIR/averaged, where the other commands look "
        "first.",
    )
    parser.add_argument("--output_dir", metavar="DIR", required=True, help="what t2t-lite-trainer wrote")
    parser.add_argument("--last", type=int, metavar="N", help="how many; default: the recipe's average_checkpoints")
    parser.add_argument("--steps", metavar="N,N,...", help="these checkpoints instead of the last ones")
    parser.add_argument("--usr_dir", metavar="DIR", help="your own code, if it has moved since training")
    return parser


def _run(args: argparse.Namespace) -> int:
    if args.last is not None and args.last < 1:
        raise UsageError(f"--last={args.last} must be at least 1.")
    cli.load_tensorflow()
    from t2t_lite.train.checkpoint import AVERAGED, find, list_checkpoints
    from t2t_lite.train.open_run import open_run
    from t2t_lite.train.trainer import number_to_average

    run = open_run(args.output_dir, checkpoint="newest", usr_dir=args.usr_dir)
    if args.steps:
        paths = [find(args.output_dir, step.strip()) for step in args.steps.split(",")]
    else:
        paths = list_checkpoints(args.output_dir)[-(args.last or number_to_average(run.spec.hparams)) :]
    run.checkpoints.average(paths)
    path = run.checkpoints.save_weights(AVERAGED, run.step)
    print(f"{path}: the mean of {len(paths)} checkpoints:")
    for averaged in paths:
        print(f"  {averaged}")
    print(f"\nNext: t2t-lite-eval --output_dir={args.output_dir}")
    return 0


def entry() -> None:
    """The console script."""
    sys.exit(main())


if __name__ == "__main__":
    entry()
