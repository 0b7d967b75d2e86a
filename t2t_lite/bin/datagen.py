"""t2t-lite-datagen: prepares a problem's vocabulary and token store."""

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
        prog="t2t-lite-datagen",
        description="Prepares a problem's data: trains the vocabulary, encodes the text. t2t-lite-trainer does this "
        "by itself; alone it is of use on another machine, or to look at the figures.",
    )
    cli.add_problem_flags(parser)
    parser.add_argument("--num_workers", type=int, metavar="N", help="processes that encode; default: one per CPU")
    parser.add_argument("--force", action="store_true", help="prepare again what is there already")
    parser.add_argument("--verify", action="store_true", help="compare all files with the manifest's checksums")
    return parser


def _run(args: argparse.Namespace) -> int:
    problem = cli.problem_from(args)
    cli.check_folder("data_dir", args.data_dir)
    from t2t_lite.data.prepare import prepare  # NumPy and SentencePiece: not for --help

    with cli.preparation_bar() as progress:
        store = prepare(problem, args.data_dir, num_workers=args.num_workers, force=args.force, progress=progress)
    if args.verify:
        store.verify()
    print(f"{problem.name}: {store.folder}")
    sizes = [store.source_vocabulary.size, store.target_vocabulary.size]
    shared = store.source_vocabulary is store.target_vocabulary
    print(
        f"vocabulary: {sizes[0]:,} pieces, shared" if shared else f"vocabularies: {sizes[0]:,} and {sizes[1]:,} pieces"
    )
    for name in store.splits():
        facts = store.manifest["splits"][name]
        dropped = f" ({facts['dropped']:,} with an empty side left out)" if facts["dropped"] else ""
        ids = " + ".join(f"{facts[side]['ids']:,}" for side in ("source", "target"))
        print(f"{name}: {facts['pairs']:,} pairs{dropped}, {ids} pieces")
    return 0


def entry() -> None:
    """The console script."""
    sys.exit(main())


if __name__ == "__main__":
    entry()
