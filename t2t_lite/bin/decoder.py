"""t2t-lite-decoder: translates a file, standard input or a split of the data with a trained run or an export of it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from t2t_lite import threads
from t2t_lite.bin import cli, output, progress
from t2t_lite.errors import DataError, UsageError

if TYPE_CHECKING:
    from t2t_lite.decode.translate import Hypothesis, LineTranslator
    from t2t_lite.train.open_run import OpenRun

# What is fixed in an exported model.
_RUN_FLAGS = (
    *("checkpoint", "usr_dir", "split", "precision"),
    *("beam_size", "length_penalty", "extra_length", "max_source_length"),
)


def main(argv: list[str] | None = None) -> int:
    """Runs the command; returns its exit status."""
    parser = _parser()
    args = parser.parse(argv)
    _check_flags(parser, args)
    return cli.run(lambda: _run(args))


def _parser() -> cli.Parser:
    parser = cli.Parser(
        prog="t2t-lite-decoder",
        description="Translates lines of text: one line in, one line out, in the same order; empty lines stay empty.",
    )
    cli.add_run_flags(parser, required=False)
    parser.add_argument(
        "--saved_model", metavar="DIR", help="what t2t-lite-exporter wrote, instead of a run: a version, or all of them"
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--input", metavar="FILE", help="text to translate, plain or .gz; default: standard input")
    what.add_argument("--split", choices=("dev", "test"), help="translate a split of the run's own data")
    parser.add_argument("--output", metavar="FILE", help="where to write; default: standard output")
    parser.add_argument("--precision", choices=cli.PRECISIONS, help=cli.PRECISION_HELP)
    parser.add_argument("--beam_size", type=cli.positive, metavar="N", help="default: the recipe's; 1 is greedy")
    parser.add_argument("--length_penalty", type=float, metavar="ALPHA", help="default: the recipe's")
    parser.add_argument("--extra_length", type=int, metavar="N", help="outputs may be longer than inputs by this")
    parser.add_argument(
        "--max_source_length", type=cli.positive, metavar="N", help="longer inputs are cut; default: the recipe's"
    )
    parser.add_argument("--decode_batch_tokens", type=cli.positive, metavar="N", help="source tokens decoded at once")
    parser.add_argument(
        "--nbest", type=cli.positive, metavar="N", help="write the N best as lines of SCORE<tab>TEXT, N per input"
    )
    parser.add_argument("--json", action="store_true", help="write a JSON object per input line, with scores")
    parser.add_argument(
        "--pretty", action="store_true", help="of trees: each on many lines, indented, a blank line after it"
    )
    return parser


def _check_flags(parser: argparse.ArgumentParser, args: argparse.Namespace) -> None:
    """Ends the program with status 2 unless the flags name a run or an exported model, and not both."""
    if (args.output_dir is None) == (args.saved_model is None):
        parser.error("give --output_dir=RUN or --saved_model=DIR")
    if args.pretty and (args.json or args.nbest is not None):
        parser.error("--pretty shows the best tree of each line, and does not go with --json or --nbest")
    for flag in _RUN_FLAGS:
        if args.saved_model is not None and getattr(args, flag) is not None:
            parser.error(f"--{flag} goes with --output_dir: an exported model has its decoding built in, and no data")


def _run(args: argparse.Namespace) -> int:
    # Before TensorFlow and the model: what is wrong shows at once.
    if args.saved_model is None:
        cli.check_run(args)
    else:
        _check_export(args.saved_model)
    if args.output is not None:
        output.check_output("output", args.output)
    lines = [] if args.split else _input_lines(args.input)
    cli.load_tensorflow()
    from t2t_lite.decode.translate import FEW

    threads.one_per_operation(at_most=None if args.split else len(lines) // FEW)
    if args.saved_model is None:
        run = _open_run(args)
        translator: LineTranslator = run.translator
        if args.split:
            lines = _split_lines(run, args.split)
    else:
        translator = _open_export(args)
    nbest = args.nbest or 1
    if nbest > translator.beam_size:
        raise UsageError(
            f"--nbest={nbest} must be at most the beam size, {translator.beam_size}; it is --beam_size of "
            f"{'this command' if args.saved_model is None else 't2t-lite-exporter'}."
        )
    results = translator.translate(lines, nbest=nbest, progress=progress.progress_bar(len(lines), " lines"))
    _write(args, lines, results)
    return 0


def _open_run(args: argparse.Namespace) -> OpenRun:
    from t2t_lite.decode.int8_product import check_machine
    from t2t_lite.decode.kept import keep
    from t2t_lite.train.open_run import open_run

    if args.precision == "int8":
        check_machine()
    run = open_run(
        args.output_dir,
        checkpoint=args.checkpoint,
        usr_dir=args.usr_dir,
        precision=args.precision,
        beam_size=args.beam_size,
        length_penalty=args.length_penalty,
        extra_length=args.extra_length,
        max_source_length=args.max_source_length,
        decode_batch_tokens=args.decode_batch_tokens,
    )
    if args.precision != "int8":
        keep(run.model)
    return run


def _check_export(folder: str) -> None:
    from t2t_lite.decode.export_folder import find_version, read_card

    read_card(find_version(folder))


def _open_export(args: argparse.Namespace) -> LineTranslator:
    from t2t_lite.decode.exported import ExportedTranslator

    with cli.quiet():
        return ExportedTranslator(args.saved_model, args.decode_batch_tokens)


def _input_lines(path: str | None) -> list[str]:
    from t2t_lite.data.sources import decode_lines, read_lines

    if path is not None:
        return list(read_lines(path))
    if sys.stdin.isatty():
        print("Type lines to translate; end with Ctrl-D.", file=sys.stderr)
    return list(decode_lines(sys.stdin.buffer, "standard input"))


def _split_lines(run: OpenRun, split: str) -> list[str]:
    return run.store().text(split)[0]


def _write(args: argparse.Namespace, lines: Sequence[str], results: Sequence[Sequence[Hypothesis]]) -> None:
    if args.pretty:
        rows = [_pretty(hypotheses[0].text) for hypotheses in results]
    else:
        rows = [output.rows(line, hypotheses, args) for line, hypotheses in zip(lines, results, strict=True)]
    data = "".join(rows).encode("utf-8")
    if args.output is None:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    else:
        output.write_file(args.output, data)


def _pretty(text: str) -> str:
    from t2t_lite.text.trees import parse

    try:
        return f"{parse(text).pretty() if text else ''}\n\n"
    except DataError:
        raise UsageError(f"--pretty is for trees; this model writes text, such as {text[:80]!r}.") from None


def entry() -> None:
    """The console script."""
    sys.exit(main())


if __name__ == "__main__":
    entry()
