"""t2t-lite-decoder: translates a file, standard input or a split of the data with a trained run."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from t2t_lite.bin import cli
from t2t_lite.errors import UsageError

if TYPE_CHECKING:
    from t2t_lite.decode.translate import Hypothesis
    from t2t_lite.train.open_run import OpenRun


def main(argv: list[str] | None = None) -> int:
    """Runs the command; returns its exit status."""
    args = _parser().parse(argv)
    return cli.run(lambda: _run(args))


def _parser() -> cli.Parser:
    parser = cli.Parser(
        prog="t2t-lite-decoder",
        description="Translates lines of text: one line in, one line out, in the same order; empty lines stay empty.",
    )
    cli.add_run_flags(parser)
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--input", metavar="FILE", help="text to translate, plain or .gz; default: standard input")
    what.add_argument("--split", choices=("dev", "test"), help="translate a split of the run's own data")
    parser.add_argument("--output", metavar="FILE", help="where to write; default: standard output")
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
    return parser


def _run(args: argparse.Namespace) -> int:
    # Before TensorFlow and the model: what is wrong shows at once.
    cli.check_run(args)
    if args.output is not None:
        if os.path.isdir(args.output):
            raise UsageError(f"--output={args.output} is a folder, not a file.")
        cli.check_folder("output", os.path.dirname(args.output) or ".")
    lines = None if args.split else _input_lines(args.input)
    cli.load_tensorflow()
    from t2t_lite.train.open_run import open_run

    run = open_run(
        args.output_dir,
        checkpoint=args.checkpoint,
        usr_dir=args.usr_dir,
        beam_size=args.beam_size,
        length_penalty=args.length_penalty,
        extra_length=args.extra_length,
        max_source_length=args.max_source_length,
        decode_batch_tokens=args.decode_batch_tokens,
    )
    nbest = args.nbest or 1
    if nbest > run.translator.beam_size:
        raise UsageError(f"--nbest={nbest} must be at most the beam size, {run.translator.beam_size}; see --beam_size.")
    if lines is None:
        lines = _split_lines(run, args.split)
    results = run.translator.translate(lines, nbest=nbest, progress=cli.progress_bar(len(lines), " lines"))
    _write(args, lines, results)
    return 0


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
    rows = []
    for line, hypotheses in zip(lines, results, strict=True):
        if args.json:
            outputs = [{"text": h.text, "score": round(h.score, 4)} for h in hypotheses]
            rows.append(json.dumps({"input": line, "outputs": outputs}, ensure_ascii=False))
        elif args.nbest:
            rows.extend(f"{h.score:.4f}\t{h.text}" for h in hypotheses)
        else:
            rows.append(hypotheses[0].text)
    data = "".join(row + "\n" for row in rows).encode("utf-8")
    if args.output is None:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
        return
    path = os.path.realpath(args.output)
    if os.path.exists(path) and not os.path.isfile(path):  # such as /dev/null, which must not be replaced
        with open(path, "wb") as file:
            file.write(data)
        return
    aside = f"{path}.{os.getpid()}.partial"
    with open(aside, "wb") as file:
        file.write(data)
    os.replace(aside, path)


def entry() -> None:
    """The console script."""
    sys.exit(main())


if __name__ == "__main__":
    entry()
