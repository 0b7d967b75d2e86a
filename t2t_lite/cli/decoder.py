"""t2t-lite-decoder: translates a file, standard input or a split of the data with a trained run or an export of it."""

import argparse
import sys

from t2t_lite.cli import common, flags, line_source
from t2t_lite.cli.decode import DecodeRequest, decode
from t2t_lite.cli.huge_pages import restart_with_huge_pages
from t2t_lite.groups import DECODE, MOST_HYPOTHESES, OF_OUTPUTS

# The flags for what is fixed in an exported model.
_RUN_FLAGS = (
    *("checkpoint", "usr_dir", "trust_run", "split", "precision", *OF_OUTPUTS, *flags.SAMPLER_FLAGS, "decode"),
    *("constraints", "banned_words", "replace_unk", "shortlist", "quality"),
)
# The flags that do not go with --shortlist.
_NO_SHORTLIST = (
    *("sampler", "mbr_samples", "prefix", "constraints", "banned_words"),
    *("word_scores", "quality"),  # of the probabilities among all pieces, which do not add up to the output's score
)


def main(argv: list[str] | None = None) -> int:
    """Runs the command; returns its exit status."""
    parser = make_parser()
    args = parser.parse(argv)
    _check_flags(parser)
    resumes = DecodeRequest(input=args.input, split=args.split, output=args.output).can_resume
    again = "run the same command with --resume" if resumes else "run the same command again"
    return common.run(lambda: _run(args), again=again, args=args)


def _run(args: argparse.Namespace) -> int:
    request = decode_request(args)
    if beam := flags.beam(args):
        from t2t_lite.cli.decode_beam import decode_on

        decode_on(beam, request)
        return 0
    restart_with_huge_pages()
    decode(request, common.interrupts.check)
    return 0


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
        "--input",
        metavar="FILE",
        help="text to translate, plain, compressed or .jsonl; with --runner=beam also a pattern, such as 'news-*.en'; "
        "default: standard input",
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
    flags.add_runner_flags(parser, "translates: this process")
    parser.add_argument(
        "--split_sentences",
        action="store_true",
        help="translate each sentence of a line by itself, so that no paragraph is cut at --max_source_length",
    )
    common.add_language_flag(parser)
    parser.add_argument("--precision", choices=common.PRECISIONS, help=common.PRECISION_HELP)
    common.add_search_flags(parser, DECODE)
    parser.add_argument(
        "--nbest",
        type=common.positive,
        metavar="N",
        help="write the N best, or N samples, as lines of SCORE<tab>TEXT, N per input",
    )
    parser.add_argument(
        "--alignments",
        choices=("hard", "soft"),
        help="write each output's alignment over pieces after ' ||| ': links i-j of source and target (Pharaoh), or "
        "all weights, as Marian does; with --json as values",
    )
    _add_word_flags(parser)
    parser.add_argument(
        "--word_scores",
        action="store_true",
        help="with --json: also the log-probabilities of each output's pieces and words, which add up to its own",
    )
    parser.add_argument(
        "--quality",
        action="store_true",
        help="with --json: also how sure the model is of each output: mean log-probability and entropy of its pieces",
    )
    parser.add_argument(
        "--dropout_passes",
        type=common.positive,
        metavar="N",
        help="with --quality: mean and variance of the mean log-probability in N passes with dropout, too; 30 is usual",
    )
    _add_mbr_flags(parser)
    parser.add_argument("--json", action="store_true", help="write a JSON object per input line, with scores")
    parser.add_argument(
        "--pretty", action="store_true", help="of trees: each on many lines, indented, a blank line after it"
    )
    flags.add_sampler_flags(parser)
    return parser


def _add_word_flags(parser: common.Parser) -> None:
    parser.add_argument(
        "--prefix",
        metavar="FILE",
        help="what outputs begin with: one text for each input line, in the same order; an empty one: anything",
    )
    parser.add_argument(
        "--constraints",
        metavar="FILE",
        help="what outputs must have: words or phrases for each input line, in the same order, with tabs between them",
    )
    flags.add_banned_words_flag(parser)
    parser.add_argument(
        "--replace_unk",
        action="store_true",
        help="write, in the place of a word with an unknown piece, the word of the source that has the most attention",
    )

    parser.add_argument(
        "--shortlist",
        action="store_true",
        help="choose among the pieces that shortlist.npz of the run has for a line, which takes less time; make it "
        "with t2t-lite-shortlist",
    )


def _add_mbr_flags(parser: common.Parser) -> None:
    parser.add_argument(
        "--decode",
        choices=("mbr",),
        help="mbr: write, of the beam's outputs or of --mbr_samples, the one that is most like all of them (minimum "
        "Bayes risk); its score is the mean of --mbr_utility",
    )
    parser.add_argument(
        "--mbr_samples",
        type=common.positive,
        metavar="N",
        help="of --decode=mbr: choose among N samples; of --sampler=random, if no other is given",
    )
    parser.add_argument(
        "--mbr_utility", metavar="NAME", help="of --decode=mbr: chrf, bleu or another metric; default: chrf"
    )


def _check_flags(parser: common.Parser) -> None:
    """Ends the program with status 2 unless the flags name a run or an exported model, and go together."""
    given = parser.given
    if ("--output_dir" in given) == ("--saved_model" in given):
        parser.error("give --output_dir=RUN or --saved_model=DIR")
    if "--pretty" in given:
        parser.refuse(
            ("json", "nbest", "alignments"), "does not go with --pretty, which shows the best tree of each line"
        )
        parser.refuse(["split_sentences"], "does not go with --pretty, which is for trees")
    if "--json" not in given:
        parser.refuse(["word_scores", "quality"], "goes with --json, which has a place for it")
    if "--quality" not in given:
        parser.refuse(["dropout_passes"], "goes with --quality")
    if given.get("--dropout_passes") == 1:
        parser.error("--dropout_passes=1 has no variance; give at least 2")
    if "--split_sentences" in given:
        parser.refuse(["prefix", "constraints"], "does not go with --split_sentences: each sentence would need its own")
        parser.refuse(["alignments"], "does not go with --split_sentences: a joined output has no alignment of its own")
        parser.refuse(["word_scores", "quality"], "does not go with --split_sentences: it is of whole lines")
    if "--saved_model" in given:
        parser.refuse(_RUN_FLAGS, "goes with --output_dir: an exported model has its decoding built in, and no data")
    flags.check_sampler_flags(parser)
    if {"--sampler", "--mbr_samples"} & given.keys():
        parser.refuse(["constraints"], "is of beam search, and does not go with --sampler or --mbr_samples")
    if "--shortlist" in given:
        parser.refuse(_NO_SHORTLIST, "does not go with --shortlist")
    flags.check_runner_flags(parser)
    _check_mbr_flags(parser)
    if given.get("--runner") == "beam":
        _check_beam_flags(parser)
    if "--output" not in given:
        parser.refuse(["resume"], "needs --output=FILE: standard output keeps nothing")
    if "--split" in given:
        parser.refuse(["shard"], "goes with --input, not with --split")
        parser.refuse(["target_language"], "goes with --input: the lines of a split have their labels")
    elif not line_source.is_file(given.get("--input")):
        parser.refuse(("resume", "shard"), "needs --input=FILE: what comes in a pipe cannot be read again")


def _check_beam_flags(parser: common.Parser) -> None:
    parser.refuse(["resume"], "does not go with --runner=beam, which always continues with the parts that are done")
    parser.refuse(
        ["shard", "split", "prefix", "constraints"],
        "does not go with --runner=beam, which translates all lines of --input",
    )
    if "--input" not in parser.given or not line_source.is_file(parser.given.get("--output")):
        parser.error("--runner=beam needs --input=FILE or a pattern, and --output=FILE")


def _check_mbr_flags(parser: common.Parser) -> None:
    given = parser.given
    if "--decode" not in given:
        parser.refuse(("mbr_samples", "mbr_utility"), "goes with --decode=mbr")
        return
    parser.refuse(["pretty"], "is of trees, and does not go with --decode=mbr")
    if given.get("--coverage_penalty"):
        parser.refuse(["coverage_penalty"], "does not go with --decode=mbr: both rank the beam's outputs")
    if "--mbr_samples" not in given:
        parser.refuse(["sampler"], "with --decode=mbr needs --mbr_samples=N, the number of samples")
        return
    if not given.get("--nbest", 1) <= given["--mbr_samples"] <= MOST_HYPOTHESES:
        parser.error(
            f"--mbr_samples={given['--mbr_samples']}: from 1, or --nbest, to {MOST_HYPOTHESES:,} samples are drawn"
        )


def decode_request(args: argparse.Namespace) -> DecodeRequest:
    """Returns what the flags ask for."""
    form = "split_sentences target_language nbest json pretty alignments prefix word_scores quality mbr_samples"
    form += " constraints replace_unk shortlist dropout_passes"
    names = ["saved_model", "input", "split", "output", "resume", *form.split()]
    return DecodeRequest(
        runs=None if args.saved_model else common.open_request(args),
        batch_tokens=args.decode_batch_tokens,
        shard=line_source.parse_shard(args.shard or "1/1"),
        banned_words=flags.read_banned_words(args.banned_words),
        sampler_options=flags.read_options("--sampler_options", args.sampler_options or []),
        seed=args.seed or 1,
        mbr_utility=(args.mbr_utility or "chrf") if args.decode else None,
        sampler=args.sampler or ("random" if args.mbr_samples else None),
        **{name: getattr(args, name) for name in names},
    )


if __name__ == "__main__":
    sys.exit(main())
