"""t2t-lite-query: translates a file or standard input with a model that TensorFlow Serving serves."""

import argparse
import contextlib
import itertools
import os
import sys
from collections.abc import Iterator
from typing import IO, Any

from t2t_lite.cli import common, output
from t2t_lite.cli.parser import ShowVersion
from t2t_lite.client.client import PROTOCOLS, ServerTranslator
from t2t_lite.data.input_texts import read_texts
from t2t_lite.data.sources import decode_lines
from t2t_lite.errors import T2TError
from t2t_lite.files import name_in_errors
from t2t_lite.text.labels import label_of
from t2t_lite.verbosity import said, say


def main(argv: list[str] | None = None) -> int:
    args = make_parser().parse(argv)
    return common.run(lambda: _run(args), args=args)


def make_parser() -> common.Parser:
    parser = common.Parser(
        prog="t2t-lite-query",
        description="Translates lines of text with a model that TensorFlow Serving serves: one line in, one line out, "
        "in the same order; blank lines are not sent and give empty ones.",
        version_flag=False,
    )
    seconds = common.above_zero("a number of seconds above 0")
    server = parser.add_argument_group("the server and its model")
    server.add_argument(
        "--server", metavar="HOST:PORT", required=True, help="such as localhost:8501; https://HOST:PORT for TLS"
    )
    server.add_argument("--model", metavar="NAME", required=True, help="the name that the server gives the model")
    server.add_argument(
        "--protocol", choices=tuple(PROTOCOLS), default="rest", help="default: rest; grpc needs t2t-lite[grpc]"
    )
    which = server.add_mutually_exclusive_group()
    which.add_argument(
        "--version",
        action=ShowVersion,
        nargs="?",
        type=int,
        metavar="N",
        help="of the model; default: the newest. Without N: print t2t-lite's version and stop",
    )
    which.add_argument("--label", metavar="LABEL", help="the version with this label, such as stable")
    server.add_argument(
        "--wait", type=seconds, metavar="SECONDS", help="first wait until the model is ready, for so long at most"
    )
    requests = parser.add_argument_group("requests")
    requests.add_argument(
        "--batch_size", type=common.positive, default=32, metavar="N", help="lines in each; default: 32"
    )
    requests.add_argument(
        "--concurrency", type=common.positive, default=4, metavar="N", help="how many at a time; default: 4"
    )
    requests.add_argument(
        "--timeout", type=seconds, default=60.0, metavar="SECONDS", help="time limit of each; default: 60"
    )
    text = parser.add_argument_group("text")
    text.add_argument("--input", metavar="FILE", help="text to translate, plain or compressed; default: standard input")
    text.add_argument("--output", metavar="FILE", help="where to write; default: standard output")
    common.add_language_flag(text)
    text.add_argument(
        "--nbest", type=common.positive, metavar="N", help="write the N best as lines of SCORE<tab>TEXT, N per input"
    )
    text.add_argument("--json", action="store_true", help="write a JSON object per input line, with scores")
    return parser


def _run(args: argparse.Namespace) -> int:
    lines = _input_lines(args.input)
    if args.output is not None:
        output.check_output("output", args.output, output.STANDARD_INPUT if args.input is None else args.input)
    if args.input is None and sys.stdin.isatty():  # a conversation: each line is answered before the next
        args.batch_size = args.concurrency = 1
    translator = ServerTranslator(
        args.server,
        args.model,
        args.protocol,
        version=args.version,
        label=args.label,
        batch_size=args.batch_size,
        concurrency=args.concurrency,
        timeout=args.timeout,
    )
    with translator:
        if args.wait is not None:
            translator.wait(args.wait)
        form = output.Form(args.json, scores=args.nbest is not None)
        label = f"{label_of(args.target_language)} " if args.target_language else ""
        sent = (f"{label}{line}" if line.strip() else line for line in lines)
        answers = translator.stream(sent, nbest=args.nbest or 1)
        _write(((line.removeprefix(label), found) for line, found in answers), args.output, form)
    return 0


def _input_lines(path: str | None) -> Iterator[str]:
    if path is not None:
        lines = read_texts(path)
        first = list(itertools.islice(lines, 1))  # errors in the file show before the server is asked
        return itertools.chain(first, lines)
    if sys.stdin.isatty():
        say("Type lines to translate; end with Ctrl-D.", error=True)
    return decode_lines(sys.stdin.buffer, "standard input")


def _write(answers: Iterator[tuple[str, Any]], path: str | None, form: output.Form) -> None:
    """Writes each line's translation as soon as all before it are written."""
    import tqdm

    first = list(itertools.islice(answers, 1))  # before opening the output: nothing is lost if the server is away
    hidden = said.quiet or not sys.stderr.isatty() or (path is None and sys.stdout.isatty())
    written = joined = 0
    with _open_output(path) as file, tqdm.tqdm(unit=" lines", disable=hidden, leave=False) as bar:
        try:
            for line, hypotheses in itertools.chain(first, answers):
                with name_in_errors(path or "standard output"):
                    file.write(form.format(line, hypotheses).encode("utf-8"))
                    file.flush()
                written += 1
                joined += form.joins(hypotheses)
                bar.update()
        except T2TError as error:
            raise type(error)(
                f"{error} Stopped at line {written + 1}; the translations of the lines before it are written."
            ) from error
    output.warn_of_joined(joined)


def _open_output(path: str | None) -> contextlib.AbstractContextManager[IO[bytes]]:
    if path is None:
        return contextlib.nullcontext(sys.stdout.buffer)
    os.makedirs(os.path.dirname(os.path.realpath(path)), exist_ok=True)
    return open(path, "wb")


if __name__ == "__main__":
    sys.exit(main())
