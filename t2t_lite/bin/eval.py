"""t2t-lite-eval: scores a run's translations, or any file of translations against its references."""

from __future__ import annotations

import sys

from t2t_lite.bin import cli, eval_files, eval_flags, eval_pairs, eval_run
from t2t_lite.bin.eval_flags import make_parser


def main(argv: list[str] | None = None) -> int:
    """Runs the command; returns its exit status."""
    parser = make_parser()
    args = parser.parse(argv)
    eval_flags.check_flags(parser, args)
    if args.score:
        return cli.run(lambda: eval_pairs.score_pairs(args))
    if args.output_dir is not None:
        return cli.run(lambda: eval_run.score_run(args))
    return cli.run(lambda: eval_files.score_trees(args) if args.metric == "evalb" else eval_files.score_files(args))


if __name__ == "__main__":
    sys.exit(main())
