"""t2t-lite-insights: shows what a trained run attends to, as a page to look at or a picture for a paper."""

import argparse
import os
import sys

from t2t_lite.cli import common, output
from t2t_lite.errors import DataError, UsageError
from t2t_lite.groups import OF_BEAM_SEARCH
from t2t_lite.insights.page import KINDS
from t2t_lite.insights.request import STYLES, AttentionRequest, draw

_MAX_SENTENCES = 20  # each adds up to a few MB


def main(argv: list[str] | None = None) -> int:
    parser = make_parser()
    args = parser.parse(argv)
    _check_flags(parser, args)
    return common.run(lambda: _run(args), args=args)


def make_parser() -> common.Parser:
    parser = common.Parser(
        prog="t2t-lite-insights",
        description="Translates a sentence with a run and shows the attention weights of each layer and head: as one "
        "HTML page without anything beside it, or as a picture (PNG, SVG or PDF).",
    )
    common.add_run_flags(parser, help="what t2t-lite-trainer wrote")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--sentence", metavar="TEXT", help="what to translate")
    what.add_argument("--input", metavar="FILE", help=f"a file of at most {_MAX_SENTENCES} sentences, one a line")
    parser.add_argument("--target", metavar="TEXT", help="show this translation of --sentence, not the model's own")
    common.add_search_flags(parser, OF_BEAM_SEARCH)
    parser.add_argument("--page", metavar="FILE.html", help="default: attention.html, unless another file is asked for")
    parser.add_argument("--picture", metavar="FILE", help="a picture of --sentence: .png, .svg or .pdf")
    parser.add_argument("--tree", metavar="FILE.svg", help="of a parser: the tree of --sentence, as a picture")
    parser.add_argument(
        "--heads", metavar="FILE.tsv", help="entropy of each head's weights, in nats, and how far it looks, in pieces"
    )
    shown = parser.add_argument_group("what the picture shows, and what the page shows first")
    shown.add_argument(
        "--attention",
        choices=KINDS,
        help="memory: the decoder's over the source; default: memory, or what the model has of the others",
    )
    shown.add_argument("--layer", type=_one_or_all, metavar="N|all", help="counted from 1; default: the last")
    shown.add_argument("--head", type=_one_or_all, metavar="N|all", default=0, help="counted from 1; default: all")
    shown.add_argument("--style", choices=STYLES, default="lines", help="lines or heat maps; default: lines")
    common.add_json_flag(parser, "the files that were written, with their sizes")
    return parser


def _one_or_all(text: str) -> int:
    return 0 if text == "all" else common.positive(text)


def _check_flags(parser: common.Parser, args: argparse.Namespace) -> None:
    if args.input is not None:
        parser.refuse(("target", "picture", "tree"), "goes with --sentence, not with --input")
    if args.tree is not None and (args.target is not None or not args.tree.endswith(".svg")):
        parser.error("--tree=FILE.svg must end in .svg, and does not go with --target")
    if args.picture is not None and os.path.splitext(args.picture)[1] not in (".png", ".svg", ".pdf"):
        parser.error(f"--picture={args.picture} must end in .png, .svg or .pdf")


def _run(args: argparse.Namespace) -> int:
    runs = common.open_request(args)
    if len(runs.folders) > 1:
        raise UsageError(
            f"--output_dir={args.output_dir} is an ensemble: the attention of several models has no mean to show. Give "
            "one of its runs."
        )
    files = {name: path for name in ("page", "picture", "heads", "tree") if (path := getattr(args, name)) is not None}
    files = files or {"page": "attention.html"}
    for name, path in files.items():
        output.check_output(name, path, args.input)
    request = AttentionRequest(
        runs=runs,
        sentences=tuple(_sentences(args.input) if args.input is not None else [args.sentence]),
        files=files,
        **{name: getattr(args, name) for name in ("target", "attention", "layer", "head", "style")},
    )
    written = {}
    for name, data in draw(request):
        output.write_file(files[name], data)
        written[name] = {"path": files[name], "bytes": len(data)}
        if not args.json:
            print(f"{name} = {files[name]}" + (f"\nbytes = {len(data):,}" if name == "page" else ""))
    if args.json:
        common.print_json({"files": written})
    return 0


def _sentences(path: str) -> list[str]:
    from t2t_lite.data.sources import read_lines

    texts = [line for line in read_lines(path) if line.strip()]
    if not texts:
        raise DataError(f"{path} has no sentence in it.")
    if len(texts) > _MAX_SENTENCES:
        raise DataError(f"{path} has {len(texts):,} sentences; a page shows at most {_MAX_SENTENCES}.")
    return texts


if __name__ == "__main__":
    sys.exit(main())
