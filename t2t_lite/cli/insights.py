"""t2t-lite-insights: shows what a trained run attends to, as a page to look at or a picture for a paper."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING, Any

from t2t_lite.cli import common, output
from t2t_lite.distributed.tensorflow_loading import load_tensorflow
from t2t_lite.errors import DataError, UsageError

if TYPE_CHECKING:
    from t2t_lite.insights.sentence import Sentence
    from t2t_lite.runs.open_run import OpenRun

_KINDS = ("memory", "encoder", "decoder")
_STYLES = ("lines", "maps")
_FILES = ("page", "picture", "tree", "heads")  # flags that name the output files
_MAX_SENTENCES = 20  # each adds up to a few MB


def main(argv: list[str] | None = None) -> int:
    """Runs the command; returns its exit status."""
    parser = make_parser()
    args = parser.parse(argv)
    _check_flags(parser, args)
    return common.run(lambda: _run(args))


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
    common.add_search_flags(parser, "beam_size", "length_penalty")
    parser.add_argument("--page", metavar="FILE.html", help="default: attention.html, unless another file is asked for")
    parser.add_argument("--picture", metavar="FILE", help="a picture of --sentence: .png, .svg or .pdf")
    parser.add_argument("--tree", metavar="FILE.svg", help="of a parser: the tree of --sentence, as a picture")
    parser.add_argument(
        "--heads", metavar="FILE.tsv", help="entropy of each head's weights, in nats, and how far it looks, in pieces"
    )
    shown = parser.add_argument_group("what the picture shows, and what the page shows first")
    shown.add_argument(
        "--attention",
        choices=_KINDS,
        help="memory: the decoder's over the source; default: memory, or what the model has of the others",
    )
    shown.add_argument("--layer", type=_one_or_all, metavar="N|all", help="counted from 1; default: the last")
    shown.add_argument("--head", type=_one_or_all, metavar="N|all", default=0, help="counted from 1; default: all")
    shown.add_argument("--style", choices=_STYLES, default="lines", help="lines or heat maps; default: lines")
    return parser


def _one_or_all(text: str) -> int:
    return 0 if text == "all" else common.positive(text)


def _check_flags(parser: argparse.ArgumentParser, args: argparse.Namespace) -> None:
    for flag in ("target", "picture", "tree"):
        if args.input is not None and getattr(args, flag) is not None:
            parser.error(f"--{flag} goes with --sentence, not with --input")
    if args.tree is not None and (args.target is not None or not args.tree.endswith(".svg")):
        parser.error("--tree=FILE.svg must end in .svg, and does not go with --target")
    if all(getattr(args, flag) is None for flag in _FILES):
        args.page = "attention.html"
    if args.picture is not None and os.path.splitext(args.picture)[1] not in (".png", ".svg", ".pdf"):
        parser.error(f"--picture={args.picture} must end in .png, .svg or .pdf")


def _run(args: argparse.Namespace) -> int:
    # Before TensorFlow and the model, so that mistakes show at once.
    request = common.open_request(args)
    if len(request.folders) > 1:
        raise UsageError(
            f"--output_dir={args.output_dir} is an ensemble: the attention of several models has no mean to show. Give "
            "one of its runs."
        )
    request.check()
    for flag in _FILES:
        if getattr(args, flag) is not None:
            output.check_output(flag, getattr(args, flag), args.input)
    if args.picture is not None:
        from t2t_lite.insights.picture import check_matplotlib

        check_matplotlib()
    texts = _texts(args)
    load_tensorflow()
    from t2t_lite.insights.sentence import attend

    [run] = request.open().members
    if args.tree is not None and run.translator.outputs.is_text:
        raise UsageError(f"--tree: {args.output_dir} writes text, not trees.")
    sentences = attend(run.translator, texts, args.target)
    _choose_attention(args, type(run.model).__name__, sentences[0])
    _check_shown(args, *sentences[0].maps()[args.attention].shape[:2])
    if args.page is not None:
        _write_page(args, run, sentences)
    if args.picture is not None:
        from t2t_lite.insights.picture import attention_figure, attention_picture

        shown = {"layer": args.layer, "head": args.head, "style": args.style}
        figure = attention_figure(sentences[0], args.attention, **shown)
        output.write_file(args.picture, attention_picture(figure, os.path.splitext(args.picture)[1][1:]))
        print(f"picture = {args.picture}")
    if args.heads is not None:
        from t2t_lite.insights.heads import heads, table

        output.write_file(args.heads, table(heads(sentences)).encode("utf-8"))
        print(f"heads = {args.heads}")
    if args.tree is not None:
        from t2t_lite.insights.tree_picture import tree_svg
        from t2t_lite.text.trees.tree import parse

        output.write_file(args.tree, tree_svg(parse(sentences[0].translations[0].text)).encode("utf-8"))
        print(f"tree = {args.tree}")
    return 0


def _texts(args: argparse.Namespace) -> list[str]:
    for flag in ("sentence", "target"):
        text = getattr(args, flag)
        if text is not None and not text.strip():
            raise UsageError(f"--{flag} is blank; give one with words in it.")
        try:
            (text or "").encode("utf-8")
        except UnicodeEncodeError:
            raise UsageError(f"--{flag} is not valid UTF-8.") from None
    if args.input is None:
        return [args.sentence]
    from t2t_lite.data.sources import read_lines

    texts = [line for line in read_lines(args.input) if line.strip()]
    if not texts:
        raise DataError(f"{args.input} has no sentence in it.")
    if len(texts) > _MAX_SENTENCES:
        raise DataError(f"{args.input} has {len(texts):,} sentences; a page shows at most {_MAX_SENTENCES}.")
    return texts


def _choose_attention(args: argparse.Namespace, model: str, sentence: Sentence) -> None:
    """Sets the default kind of attention; raises UsageError for one that the model does not have."""
    there = list(sentence.maps())
    args.attention = args.attention or there[0]
    if args.attention not in there:
        raise UsageError(
            f"--attention={args.attention}: a {model} has attention of the kind {' and '.join(there)} only."
        )


def _check_shown(args: argparse.Namespace, num_layers: int, num_heads: int) -> None:
    """Sets the default layer; raises UsageError for a layer or head that the model does not have."""
    if args.layer is None:
        args.layer = num_layers
    for flag, number in (("layer", num_layers), ("head", num_heads)):
        if getattr(args, flag) > number:
            raise UsageError(f"--{flag}={getattr(args, flag)}: the model has {number} {flag}s, counted from 1.")


def _write_page(args: argparse.Namespace, run: OpenRun, sentences: list[Sentence]) -> None:
    from t2t_lite.insights.page import attention_page

    show: dict[str, Any] = {"attention": args.attention, "view": args.style if args.layer else "layers"}
    if args.layer:
        show["layer"] = args.layer
    if args.head:
        show["heads"] = [args.head]
    title = f"{run.spec.problem} · {run.spec.hparams_set} · {os.path.basename(run.checkpoint)} · step {run.step:,}"
    data = attention_page(title, sentences, show).encode("utf-8")
    output.write_file(args.page, data)
    print(f"page = {args.page}\nbytes = {len(data):,}")


if __name__ == "__main__":
    sys.exit(main())
