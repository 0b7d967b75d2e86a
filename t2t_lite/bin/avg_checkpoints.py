"""t2t-lite-avg-checkpoints: averages the weights of a run's last checkpoints (section 6.1)."""

from __future__ import annotations

import argparse
import sys

from t2t_lite.bin import cli


def main(argv: list[str] | None = None) -> int:
    """Runs the command; returns its exit status."""
    args = _parser().parse(argv)
    return cli.run(lambda: _run(args))


def _parser() -> cli.Parser:
    parser = cli.Parser(
        prog="t2t-lite-avg-checkpoints",
        description="Writes the mean of a run's last checkpoints to OUTPUT_DIR/averaged, where the other commands look "
        "first.",
    )
    parser.add_argument("--output_dir", metavar="DIR", required=True, help="what t2t-lite-trainer wrote")
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--last", type=cli.positive, metavar="N", help="how many; default: the recipe's average_checkpoints"
    )
    which.add_argument(
        "--steps", type=_steps, metavar="N,N,...", help="the checkpoints of these steps instead of the last ones"
    )
    parser.add_argument("--usr_dir", metavar="DIR", help="your own code, if it has moved since training")
    return parser


def _steps(text: str) -> list[str]:
    steps = [step.strip() for step in text.split(",")]
    if not all(step.isdecimal() for step in steps) or len(set(steps)) < len(steps):
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of different steps, such as 1000,1100,1200")
    return steps


def _run(args: argparse.Namespace) -> int:
    cli.check_run(args)
    cli.load_tensorflow()
    from t2t_lite.train.checkpoint import AVERAGED, find, list_checkpoints
    from t2t_lite.train.open_run import open_run
    from t2t_lite.train.recipe import number_to_average
    from t2t_lite.train.run_dir import read_run

    if args.steps:
        paths = [find(args.output_dir, step) for step in sorted(args.steps, key=int)]
    else:
        find(args.output_dir, "newest")  # an error where there is none
        number = args.last or number_to_average(read_run(args.output_dir, args.usr_dir).hparams)
        paths = list_checkpoints(args.output_dir)[-number:]
    last_step = paths[-1].rpartition("-")[2]
    run = open_run(args.output_dir, checkpoint=last_step, usr_dir=args.usr_dir)
    paths = run.checkpoints.average(paths)
    path = run.checkpoints.save_weights(AVERAGED, int(last_step))
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
