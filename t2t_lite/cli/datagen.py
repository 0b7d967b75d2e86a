"""t2t-lite-datagen: prepares a problem's vocabulary and token store, and describes its batches."""

import argparse
import os
import sys
from typing import Any

from t2t_lite.cli import common, flags
from t2t_lite.errors import UsageError
from t2t_lite.files import check_folder
from t2t_lite.progress import Progress
from t2t_lite.remote.mirror import fetch, name_urls, open_folder, push
from t2t_lite.remote.store import is_url


def main(argv: list[str] | None = None) -> int:
    parser = make_parser()
    args = parser.parse(argv)
    if (args.hparams_set or args.hparams or args.hparams_file) and not args.describe:
        parser.error(
            "--hparams_file, --hparams_set and --hparams are for --describe; the data is the same for all of them"
        )
    return common.run(lambda: _run(args), args=args)


def make_parser() -> common.Parser:
    parser = common.Parser(
        prog="t2t-lite-datagen",
        description="Prepares a problem's data: trains the vocabulary, encodes the text. t2t-lite-trainer does this "
        "by itself; alone it is of use on another machine, or to look at the figures.",
    )
    flags.add_problem_flags(parser)
    parser.add_argument(
        "--num_workers", type=int, metavar="N", help="processes that encode; default: one per CPU, 16 at most"
    )
    parser.add_argument("--force", action="store_true", help="prepare again what is there, changed or not")
    parser.add_argument("--verify", action="store_true", help="compare all files with the manifest's checksums")
    parser.add_argument("--describe", action="store_true", help="print what the batches of an hparams set would hold")
    flags.add_recipe_flags(parser, "of --describe: ")
    return parser


def _run(args: argparse.Namespace) -> int:
    request, recipe_request = flags.data_request(args), flags.recipe_request(args)
    problem = request.make_problem()
    recipe = recipe_request.make(problem.default_hparams)  # a mistake shows before the long work
    from t2t_lite.data import vocabulary_files  # loads NumPy and SentencePiece, which --help does not need
    from t2t_lite.data.prepare import prepare
    from t2t_lite.data.store import copy_from

    reads = is_url(args.data_dir) and not (args.force or args.prepare_again)
    if reads and (there := copy_from(f"{args.data_dir}/{problem.name}")):
        data_dir = str(there.parent)
    else:
        data_dir = open_folder(args.data_dir, lambda name: False, keep=True)
        check_folder("data_dir", data_dir)
        fetch(os.path.join(data_dir, problem.name))

    vocabularies = None if args.vocabulary is None else vocabulary_files.load_given(args.vocabulary)
    with Progress(None, " pairs", "preparing the data") as bar:
        store = prepare(
            problem,
            data_dir,
            vocabularies=vocabularies,
            num_workers=args.num_workers,
            force=args.force,
            again=args.prepare_again,
            progress=bar.reach,
        )
    if args.verify:
        store.verify()
    push(data_dir)
    print(name_urls(f"{problem.name}: {store.folder}"))
    source, target = store.source_vocabulary, store.target_vocabulary
    shared = f"vocabulary: {source.size:,} pieces, shared"
    print(shared if source is target else f"vocabularies: {source.size:,} and {target.size:,} pieces")
    for name in store.splits():
        _print_split(name, store.manifest["splits"][name], "pairs" if problem.codec.is_text else "trees")
    try:
        warnings = problem.metric_warnings(store.text("dev")[1])
    except UsageError as error:  # the metric cannot be computed here; another machine may train
        warnings = [f"warning: {error}"]
    for warning in warnings:
        print(warning, file=sys.stderr)
    if args.describe:
        from t2t_lite.data.pipeline import make_plan

        named = ", ".join(filter(None, [recipe.hparams_set, args.hparams_file, *(args.hparams or [])]))
        plan = make_plan(store.split("train"), recipe.hparams.batch, recipe.hparams.seed)
        print(f"batches of {named}:\n{plan.statistics().format(recipe.hparams.max_length)}")
    return 0


def _print_split(name: str, facts: dict[str, Any], kind: str) -> None:
    from t2t_lite.data.overlap import overlap_line

    dropped = {"with an empty side": facts["dropped"], **facts.get("left_out", {})}
    listed = ", ".join(f"{count:,} {what}" for what, count in dropped.items() if count)
    left_out = f" ({listed} left out)" if listed else ""
    ids = " + ".join(f"{facts[side]['ids']:,}" for side in ("source", "target"))
    unknown = [facts[side]["unknown"] for side in ("source", "target")]
    of_them = f" ({unknown[0]:,} + {unknown[1]:,} unknown)" if any(unknown) else ""
    print(f"{name}: {facts['pairs']:,} {kind}{left_out}, {ids} pieces{of_them}")
    if "overlapping" in facts:
        print(f"  --drop_overlap left out {facts['overlapping']:,} {kind} that are also in dev or test")
    if line := overlap_line(name, facts.get("in_train"), facts["pairs"]):
        print(f"  {line}")
    if "cleaned" in facts:
        print(f"  cleaning left out {sum(facts['cleaned'].values()):,} pairs{_counts(facts['cleaned'])}")
    for what, counts in facts.get("unusual", {}).items():
        markup = what == "markup"
        print(f"  pairs that are markup: {counts:,}" if markup else f"  {what}s with white space{_counts(counts)}")


def _counts(counts: dict[str, int]) -> str:
    """Returns the counts that are not zero, after a colon."""
    found = ", ".join(f"{name} {count:,}" for name, count in counts.items() if count)
    return f": {found}" if found else ""


if __name__ == "__main__":
    sys.exit(main())
