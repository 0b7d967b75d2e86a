"""t2t-lite-datagen: prepares a problem's vocabulary and token store."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Callable, Iterator

from t2t_lite.bin import cli


def main(argv: list[str] | None = None) -> int:
    """Runs the command; returns its exit status."""
    args = _parser().parse_args(argv)
    return cli.run(lambda: _run(args))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
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
    from t2t_lite.data.prepare import prepare  # NumPy and SentencePiece: not for --help

    with _progress() as progress:
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


@contextlib.contextmanager
def _progress() -> Iterator[Callable[[int, str], None] | None]:
    """Gives a function that shows (pairs, label) as a bar; None where nobody watches."""
    if not sys.stderr.isatty():
        yield None
        return
    import tqdm

    with tqdm.tqdm(unit=" pairs", unit_scale=True, leave=False) as bar:

        def show(done: int, label: str) -> None:
            if label != bar.desc or done < bar.n:  # the next stage
                bar.reset()
                bar.set_description_str(label)
            bar.update(done - bar.n)

        yield show


def entry() -> None:
    """The console script."""
    sys.exit(main())


if __name__ == "__main__":
    entry()
