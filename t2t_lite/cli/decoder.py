"""t2t-lite-decoder: translates a file, standard input or a split of the data with a trained run or an export of it."""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import itertools
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from t2t_lite.cli import common, flags, line_source, output
from t2t_lite.cli.partial_output import PartialOutput, Stream
from t2t_lite.distributed.tensorflow_loading import load_tensorflow, quiet
from t2t_lite.errors import DataError, UsageError
from t2t_lite.ops import threads
from t2t_lite.progress import Progress

if TYPE_CHECKING:
    from t2t_lite.decoding.sampling import Sampling
    from t2t_lite.decoding.translate import Hypothesis, LineTranslator
    from t2t_lite.export.exported import ExportedTranslator
    from t2t_lite.runs.open_request import OpenRequest

_SEARCH = ("precision", *(name for name in common.DECODE_FIELDS if name != "decode_batch_tokens"))
# The flags for what is fixed in an exported model.
_RUN_FLAGS = ("checkpoint", "usr_dir", "trust_run", "split", *_SEARCH, *flags.SAMPLER_FLAGS)


def main(argv: list[str] | None = None) -> int:
    """Runs the command; returns its exit status."""
    parser = make_parser()
    args = parser.parse(argv)
    _check_flags(parser, args)
    again = "run the same command with --resume" if _can_resume(args) else "run the same command again"
    return common.run(lambda: _run(args), again=again)


def make_parser() -> common.Parser:
    parser = common.Parser(
        prog="t2t-lite-decoder",
        description="Translates lines of text: one line in, one line out, in the same order; empty lines stay empty. "
        f"Output is written as it is done, in blocks of {line_source.BLOCK:,} lines, fewer where lines come slowly.",
    )
    common.add_run_flags(parser, required=False)
    parser.add_argument(
        "--saved_model", metavar="DIR", help="what t2t-lite-exporter wrote, instead of a run: a version, or all of them"
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--input", metavar="FILE", help="text to translate, plain, compressed or .jsonl; default: standard input"
    )
    what.add_argument("--split", choices=("dev", "test"), help="translate a split of the run's own data")
    parser.add_argument(
        "--output", metavar="FILE", help="where to write; FILE.partial until it is whole; default: standard output"
    )
    parser.add_argument(
        "--resume", action="store_true", help="continue what a stopped command has left in OUTPUT.partial"
    )
    parser.add_argument(
        "--shard",
        metavar="I/N",
        help="translate the I-th of N equal parts of --input, for N machines; cat of the N outputs is the whole",
    )
    parser.add_argument("--precision", choices=common.PRECISIONS, help=common.PRECISION_HELP)
    common.add_search_flags(parser, *common.DECODE_FIELDS)
    parser.add_argument(
        "--nbest",
        type=common.positive,
        metavar="N",
        help="write the N best, or N samples, as lines of SCORE<tab>TEXT, N per input",
    )
    parser.add_argument("--json", action="store_true", help="write a JSON object per input line, with scores")
    parser.add_argument(
        "--pretty", action="store_true", help="of trees: each on many lines, indented, a blank line after it"
    )
    flags.add_sampler_flags(parser)
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
    flags.check_sampler_flags(parser, args)
    if args.resume and args.output is None:
        parser.error("--resume needs --output=FILE: standard output keeps nothing")
    for flag in ("resume", "shard"):
        if getattr(args, flag) and not _can_read_again(args):
            parser.error(f"--{flag} needs --input=FILE: what comes in a pipe cannot be read again")
    if args.shard and args.split:
        parser.error("--shard goes with --input, not with --split")


def _can_read_again(args: argparse.Namespace) -> bool:
    """Whether the input is a file or a split, and not a pipe."""
    return args.split is not None or line_source.is_file(args.input)


def _can_resume(args: argparse.Namespace) -> bool:
    """Whether a stopped command leaves an output that --resume continues."""
    return line_source.is_file(args.output) and _can_read_again(args)


def _run(args: argparse.Namespace) -> int:
    # Before TensorFlow and the model, so that mistakes show at once.
    shard = line_source.parse_shard(args.shard or "1/1")
    request = None if args.saved_model else common.open_request(args)
    if request is not None:
        request.check()
    flags.check_sampler(args)
    if args.saved_model is not None:
        _check_export(args.saved_model)
    if args.output is not None:
        text = output.STANDARD_INPUT if args.input is None else args.input
        output.check_output("output", args.output, None if args.split else text)
    interrupts = common.Interrupts()
    first, end, live, at_hand = 0, 0, None, sys.maxsize  # lines
    if line_source.is_file(args.input):
        first, end = line_source.shard_range(line_source.count_lines(args.input), shard)
        at_hand = end - first
    elif not args.split:
        live = line_source.LiveLines(line_source.lines_of(args.input))
        at_hand = live.waiting()
    load_tensorflow()
    from t2t_lite.decoding.translate import FEW

    threads.set_inter_op_parallelism(at_most=at_hand // FEW)
    sampling = flags.sampling(args)  # before the run is opened, which takes long
    translator, identity, search, split_lines = _open(args, request, sampling)
    nbest = args.nbest or 1
    if nbest > translator.beam_size:
        raise UsageError(
            f"--nbest={nbest} must be at most the beam size, {translator.beam_size}; it is --beam_size of "
            f"{'this command' if args.saved_model is None else 't2t-lite-exporter'}."
        )
    with _output(args, identity, search) as out:
        if live is not None:
            if args.input is None and sys.stdin.isatty():
                print("Type lines to translate; end with Ctrl-D.", file=sys.stderr)
            _translate(args, translator, live.blocks(), out, None, interrupts)
            return 0
        lines = iter(split_lines) if args.split else itertools.islice(line_source.lines_of(args.input), first, end)
        if isinstance(out, PartialOutput):
            out.skip_done(lines)
        total = len(split_lines) if args.split else end - first
        _translate(args, translator, line_source.file_blocks(lines), out, total, interrupts)
    return 0


def _translate(
    args: argparse.Namespace,
    translator: LineTranslator,
    blocks: Iterable[Sequence[str]],
    out: PartialOutput | Stream,
    total: int | None,
    interrupts: common.Interrupts,
) -> None:
    """Writes the translations of each block when they are done; if stopped, prints how many lines are done."""
    show = Progress(total - out.done, " lines") if total else None

    joined = 0

    def batch_is_done(number: int, weight: float) -> None:
        interrupts.check()
        if show is not None:
            show(number, weight)

    try:
        for lines, results in translator.translate_blocks(blocks, nbest=args.nbest or 1, progress=batch_is_done):
            out.write(lines, _rows(args, lines, results))
            joined += 0 if args.json else sum(map(output.has_breaks, results))
    except BaseException:
        if isinstance(out, PartialOutput):
            whole = f" of {total:,}" if total is not None else ""
            advice = " The same command with --resume continues." if _can_resume(args) else ""
            print(f"{out.done:,}{whole} lines are translated, in {out.partial}.{advice}", file=sys.stderr)
        raise
    out.finish()
    output.say_joined(joined)


def _output(args: argparse.Namespace, identity: str, search: dict[str, Any]) -> PartialOutput | Stream:
    """Returns the output stream; with --resume, that of a stopped command."""
    if not line_source.is_file(args.output):  # standard output, or a device such as /dev/null
        return Stream(args.output)
    left = PartialOutput.left(args.output)
    if args.resume and left is None:
        print(f"There is no {args.output}.partial: translating from the first line.", file=sys.stderr)
    elif args.resume:
        print(f"Resuming after {left:,} lines.", file=sys.stderr)
    elif left:
        advice = " (--resume would continue)" if _can_resume(args) else ""
        print(f"{args.output}.partial, which holds {left:,} translated lines, is begun again{advice}.", file=sys.stderr)
    names = (*_RUN_FLAGS, "nbest", "json", "pretty", "shard")
    settings = {name: getattr(args, name) for name in names if name not in ("checkpoint", "usr_dir", "trust_run")}
    return PartialOutput(args.output, {"model": identity, **settings, **search}, resume=args.resume)


def _open(
    args: argparse.Namespace, request: OpenRequest | None, sampling: Sampling | None
) -> tuple[LineTranslator, str, dict[str, Any], list[str]]:
    """Returns the translator, the checksums that identify its weights, its search, and the lines of --split."""
    if request is None:
        exported = _open_export(args)
        search = {name: exported.card["hparams"].get(name) for name in _SEARCH}
        return exported, _content(exported.folder / "variables" / "variables.index"), search, []
    if args.sampler is not None:
        request = dataclasses.replace(request, search={**request.search, "beam_size": args.nbest or 1})
    run = request.open_to_decode()
    run.translator.sampling = sampling
    lines = run.store().text(args.split)[0] if args.split else []
    identity = ",".join(_content(Path(f"{member.checkpoint}.index")) for member in run.members)
    precision = args.precision or ",".join(member.model.compute_dtype for member in run.members)
    return run.translator, identity, {**run.translator.settings, "precision": precision}, lines


def _content(index: Path) -> str:
    """Returns the checksum of a checkpoint's index, which holds the checksums of its weights."""
    return hashlib.sha256(index.read_bytes()).hexdigest()


def _check_export(folder: str) -> None:
    from t2t_lite.export.export_folder import find_version, read_card

    read_card(find_version(folder))


def _open_export(args: argparse.Namespace) -> ExportedTranslator:
    from t2t_lite.export.exported import ExportedTranslator

    with quiet():
        return ExportedTranslator(args.saved_model, args.decode_batch_tokens)


def _rows(args: argparse.Namespace, lines: Sequence[str], results: Sequence[Sequence[Hypothesis]]) -> bytes:
    """Returns what is written for a block."""
    if args.pretty:
        rows = [_pretty(hypotheses[0].text) for hypotheses in results]
    else:
        rows = [output.rows(line, hypotheses, args) for line, hypotheses in zip(lines, results, strict=True)]
    return "".join(rows).encode("utf-8")


def _pretty(text: str) -> str:
    from t2t_lite.text.trees.tree import parse

    try:
        return f"{parse(text).pretty() if text else ''}\n\n"
    except DataError:
        raise UsageError(f"--pretty is for trees; this model writes text, such as {text[:80]!r}.") from None


if __name__ == "__main__":
    sys.exit(main())
