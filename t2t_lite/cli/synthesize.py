"""t2t-lite-synthesize: makes a corpus of the lines of a file and their translations by a run or an ensemble."""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from t2t_lite.cli import common, flags, line_source
from t2t_lite.cli.decode import DecodeRequest, decode
from t2t_lite.data.cleaning import find_fault
from t2t_lite.errors import UsageError
from t2t_lite.files import check_folder, sha256_of
from t2t_lite.groups import DECODE
from t2t_lite.verbosity import say

if TYPE_CHECKING:
    from t2t_lite.decoding.line_translator import Hypothesis

TAG = "<BT>"


class Pairs(NamedTuple):
    """How a pair is written: an object with two languages as its keys; a pair that is left out is no line.

    languages: of the lines and of the outputs.
    tag: what each output begins with; "": nothing.
    min_log_prob: the lowest mean log-probability of an output's pieces.
    max_ratio: the most times that one side has the words of the other.
    """

    languages: tuple[str, str]
    tag: str
    min_log_prob: float | None
    max_ratio: float | None

    def joins(self, hypotheses: Iterable[Hypothesis]) -> bool:
        """Whether a line break is written as a space: never, as JSON has a place for it."""
        return False

    def format(self, line: str, hypotheses: Sequence[Hypothesis]) -> str:
        """Returns the pair of an input line and its output; "" where it is left out, as are blank ones."""
        best, (of_line, of_output) = hypotheses[0], self.languages
        if not line.strip() or not best.text.strip():
            return ""
        if self.min_log_prob is not None and best.quality and best.quality.mean_log_prob < self.min_log_prob:
            return ""
        if self.max_ratio and find_fault((line, best.text), 0, self.max_ratio, self.languages, ("ratio",)):
            return ""
        return json.dumps({of_line: line, of_output: f"{self.tag} {best.text}".lstrip()}, ensure_ascii=False) + "\n"


def main(argv: list[str] | None = None) -> int:
    """Runs the command; returns its exit status."""
    parser = make_parser()
    args = parser.parse(argv)
    flags.check_sampler_flags(parser)
    if not line_source.is_file(args.input):
        parser.error(f"--input={args.input} is no file; what comes in a pipe cannot be read again")
    return common.run(lambda: _run(args), again="run the same command with --resume", args=args)


def make_parser() -> common.Parser:
    parser = common.Parser(
        prog="t2t-lite-synthesize",
        description="Makes training pairs of lines and their translations, for back-translation, distillation and "
        "self-training: a folder for --source_dir of t2t-lite-trainer, which may be mixed with others: A:1,B:2.",
    )
    common.add_run_flags(parser)
    parser.add_argument("--input", metavar="FILE", required=True, help="text to translate, plain, compressed or .jsonl")
    parser.add_argument(
        "--corpus",
        metavar="DIR",
        required=True,
        help="where to write train.jsonl, and synthesis.json, which says how it was made; of --shard=I/N in DIR/I-of-N",
    )
    parser.add_argument("--resume", action="store_true", help="continue what a stopped command has left in --corpus")
    parser.add_argument("--shard", metavar="I/N", help="translate the I-th of N equal parts of --input, for N machines")
    parser.add_argument(
        "--tag",
        nargs="?",
        const=TAG,
        default="",
        help=f"begin each output with a tag, by default {TAG}: the sources of back-translation (Caswell et al., 2019)",
    )
    parser.add_argument(
        "--min_log_prob",
        type=_log_prob,
        metavar="X",
        help="leave out pairs whose output has a lower mean log-probability of its pieces, such as -1.5",
    )
    parser.add_argument(
        "--max_ratio",
        type=common.above_zero("a number above 0"),
        metavar="R",
        help="leave out pairs of which one side has more than R times the words of the other",
    )
    common.add_language_flag(parser)
    parser.add_argument("--precision", choices=common.PRECISIONS, help=common.PRECISION_HELP)
    common.add_search_flags(parser, DECODE)
    flags.add_sampler_flags(parser)
    return parser


def _log_prob(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not -math.inf < number <= 0:
        raise argparse.ArgumentTypeError(f"{text} is not a mean log-probability, which is at most 0, such as -1.5")
    return number


def _run(args: argparse.Namespace) -> int:
    from t2t_lite.data.synthetic import PAIRS, write_provenance

    check_folder("corpus", args.corpus)
    shard = line_source.parse_shard(args.shard or "1/1")
    folder = Path(args.corpus, *([f"{shard[0]}-of-{shard[1]}"] if args.shard else []))
    runs = common.open_request(args)
    problem = runs.check()[0].make_problem()
    if not problem.codec.is_text:
        raise UsageError(f"{args.output_dir} writes trees; t2t-lite-synthesize makes pairs of texts.")
    languages = problem.source_language, args.target_language or problem.target_language
    if "+" in "".join(languages):
        raise UsageError(
            f"{args.output_dir} translates {languages[0]} into {languages[1]}, and a corpus has one pair of languages. "
            "Name the one to write with --target_language=CODE; a model that reads several has no such choice, so pair "
            "what t2t-lite-decoder writes."
        )
    pairs = Pairs(languages, args.tag, args.min_log_prob, args.max_ratio)
    request = DecodeRequest(
        runs=runs,
        input=args.input,
        shard=shard,
        output=str(folder / PAIRS),
        resume=args.resume,
        target_language=args.target_language,
        sampler=args.sampler,
        sampler_options=flags.read_options("--sampler_options", args.sampler_options or []),
        seed=args.seed or 1,
        quality=args.min_log_prob is not None,
        pairs=pairs,
    )
    made = decode(request, common.interrupts.check)
    first, end = line_source.shard_range(line_source.count_lines(args.input), shard)
    read = {"name": Path(args.input).name, "sha256": sha256_of(args.input), "lines": end - first}
    number = write_provenance(folder, {"input": read, "languages": languages, **made})
    say(f"{folder / PAIRS}: {number:,} pairs of {end - first:,} lines.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
