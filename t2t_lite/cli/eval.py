"""t2t-lite-eval: scores a run's translations, or any file of translations against its references."""

from __future__ import annotations

import argparse
import sys

from t2t_lite.cli import common, eval_files, eval_run, eval_scores
from t2t_lite.languages import TOKENIZERS
from t2t_lite.metrics.names import OF_SACREBLEU, canonical

_RUN_FLAGS = ("split", "checkpoint", "precision", *common.DECODE_FIELDS, "trust_run")
_FILE_FLAGS = ("baseline", "paired_ar", "sgm", "language")
_TREE_FLAGS = ("gold", "test", "prm", "count_unlabelled", "columns")
_PAIR_FLAGS = ("sources", "targets")
_SCORE_SWITCHES = ("lowercase", "effective_order")


def make_parser() -> common.Parser:
    """Returns the command's parser."""
    parser = common.Parser(
        prog="t2t-lite-eval",
        description="Scores a run (loss, perplexity, BLEU and chrF of its beam-searched text, or F1 of its trees), or "
        "a file of translations, or two files and whether they differ, or a file of parse trees. Each score is printed "
        "with a signature that says how it was computed.",
    )
    _add_run_flags(parser)
    _add_file_flags(parser)
    eval_scores.add_tree_flags(parser)
    _add_pair_flags(parser)
    _add_score_flags(parser)
    return parser


def _add_run_flags(parser: argparse.ArgumentParser) -> None:
    run = parser.add_argument_group("a run")
    run.add_argument("--output_dir", metavar="DIR", help=common.RUNS_HELP)
    run.add_argument("--split", choices=("dev", "test"), help="default: test, or dev where there is no test set")
    run.add_argument(
        "--checkpoint", type=common.checkpoint, metavar="best|averaged|newest|N", help="default: as t2t-lite-decoder"
    )
    run.add_argument("--precision", choices=common.PRECISIONS, help=common.PRECISION_HELP)
    common.add_search_flags(run, *common.DECODE_FIELDS)
    common.add_code_flags(run)


def _add_file_flags(parser: argparse.ArgumentParser) -> None:
    files = parser.add_argument_group("files, plain or compressed, one sentence a line")
    files.add_argument("--hypotheses", metavar="FILE", help="translations to score")
    files.add_argument(
        "--references",
        action="append",
        metavar="FILE",
        help="line N is the reference of line N; again for each further reference",
    )
    files.add_argument(
        "--baseline",
        action="append",
        metavar="FILE",
        help="other translations of the same text: is the difference significant (paired bootstrap)? Again for each "
        "further one",
    )
    files.add_argument(
        "--paired_ar",
        action="store_true",
        default=None,
        help="compare with --baseline by approximate randomisation instead: the trials of sacreBLEU's "
        "--paired-ar, but those that differ exactly as much as the translations are counted, too",
    )
    files.add_argument(
        "--sgm",
        action="store_true",
        default=None,
        help="the references are in WMT's SGML; translations too, found by document and segment, or lines in order",
    )
    files.add_argument(
        "--language",
        metavar="CODE",
        help="language of the files: BLEU has the tokeniser that sacreBLEU chooses for it (zh, ja-mecab, ko-mecab, or "
        "13a), and TER counts characters of Chinese and kanji of Japanese; de, en and fr add BLEU-paper to the scores",
    )


def _add_pair_flags(parser: argparse.ArgumentParser) -> None:
    pairs = parser.add_argument_group("--score: log-probabilities of given translations")
    pairs.add_argument(
        "--score",
        action="store_true",
        help="with --output_dir: print LOG-PROBABILITY<tab>TOKENS<tab>PERPLEXITY of each pair, one a line",
    )
    pairs.add_argument(
        "--sources",
        metavar="FILE",
        help="plain or compressed, one sentence a line; also of files that a metric of your own scores",
    )
    pairs.add_argument(
        "--targets",
        metavar="FILE",
        help="line N is a translation of line N; of a parser: trees in brackets (a line or several each) or linearised",
    )


def _add_score_flags(parser: argparse.ArgumentParser) -> None:
    scores = parser.add_argument_group("scores")
    scores.add_argument(
        "--metric",
        type=_metric,
        metavar="NAME",
        default="all",
        help="bleu, bleu_paper, chrf, chrf2, accuracy, ter, evalb, all, or one of your own (--usr_dir). bleu_paper: as "
        "the paper's authors computed BLEU (Moses tokens, German compounds split), not comparable with sacreBLEU's; "
        "chrf2: chrF++, with words and pairs of words; accuracy: share of outputs that are entirely right; ter: "
        "translation edit rate, without case, lower is better; evalb: labelled bracketing F1 of parse trees; default: "
        "all, that is BLEU and chrF, bleu_paper where --language or the run's problem asks for it, and the metric of "
        "the run's problem",
    )
    scores.add_argument("--lowercase", action="store_true", help="compare without case")
    scores.add_argument(
        "--tokenize",
        choices=TOKENIZERS,
        help="BLEU's tokeniser; default: 13a, or as --language or a run's problem asks for; none: split at spaces, for "
        "text that is tokenised already",
    )
    scores.add_argument(
        "--effective_order",
        action="store_true",
        help="BLEU leaves out the orders of n-grams that no output is long enough for (sacreBLEU's eff:yes); default: "
        "as a run's problem asks for",
    )
    scores.add_argument(
        "--json", action="store_true", help="print one JSON object instead of lines; of --score one a line"
    )


def _metric(text: str) -> str:
    name = canonical(text)
    if name in OF_SACREBLEU[1:]:
        tokens = " --tokenize=none" if name == "bleu_tok_lc" else ""
        raise argparse.ArgumentTypeError(f"{name} is --metric=bleu --lowercase{tokens} here")
    return name


def check_flags(parser: argparse.ArgumentParser, args: argparse.Namespace) -> None:
    """Ends the program with status 2 unless the flags ask for one of: a run, files, trees, given pairs."""
    if args.score:
        _check_pair_flags(parser, args)
        return
    if args.targets is not None:
        parser.error("--targets goes with --score")
    own = args.metric not in (*eval_scores.COUNTED, "evalb", "all")
    if args.sources is not None and not (own and args.hypotheses is not None):
        parser.error("--sources goes with --score, or with files and a metric of your own (--metric=NAME)")
    if args.metric == "evalb":
        _check_tree_flags(parser, args)
        return
    for flag in _TREE_FLAGS:
        if getattr(args, flag) is not None:
            parser.error(f"--{flag} goes with --metric=evalb")
    files = args.hypotheses is not None or args.references is not None
    if files == (args.output_dir is not None):
        parser.error("give --output_dir=RUN, or --hypotheses=FILE and --references=FILE")
    if files and (args.hypotheses is None or args.references is None):
        parser.error(f"scoring files needs --{'references' if args.references is None else 'hypotheses'}=FILE too")
    for flag in _FILE_FLAGS if args.output_dir is not None else _RUN_FLAGS:
        if getattr(args, flag) is not None:
            parser.error(f"--{flag} goes with {'--output_dir, not with files' if files else 'files, not with a run'}")
    if args.paired_ar and args.baseline is None:
        parser.error("--paired_ar compares with other translations; give --baseline=FILE")
    if args.metric == "bleu_paper":
        if files and args.language is None:
            parser.error("--metric=bleu_paper needs the files' language, such as --language=de")
        if args.lowercase or args.tokenize or args.effective_order:
            parser.error(
                "BLEU-paper is cased and has Moses' tokeniser and all orders; leave out --lowercase, --tokenize and "
                "--effective_order"
            )
    elif (args.tokenize or args.effective_order) and args.metric not in ("all", "bleu"):
        flag = "--tokenize" if args.tokenize else "--effective_order"
        parser.error(f"{flag} is BLEU's, not for --metric={args.metric}")
    elif own and args.lowercase:
        parser.error(f"--lowercase is not for --metric={args.metric}")
    elif args.language is not None and not own and args.metric not in ("all", "bleu", "ter"):
        parser.error(f"--language is for BLEU and TER, not for --metric={args.metric}")


def _check_pair_flags(parser: argparse.ArgumentParser, args: argparse.Namespace) -> None:
    if args.output_dir is None or args.sources is None or args.targets is None:
        parser.error("--score needs --output_dir=RUN, --sources=FILE and --targets=FILE")
    of_search = [name for name in common.DECODE_FIELDS if name not in ("max_source_length", "decode_batch_tokens")]
    others = (["hypotheses", "references", "tokenize", "split", *of_search], _FILE_FLAGS, _TREE_FLAGS)
    given = [flag for flags in others for flag in flags if getattr(args, flag) is not None]
    given += (
        ["lowercase"] * args.lowercase
        + ["effective_order"] * args.effective_order
        + ["metric"] * (args.metric != "all")
    )
    if given:
        parser.error(f"--{given[0]} does not go with --score: a log-probability is of the text as it is given")


def _check_tree_flags(parser: argparse.ArgumentParser, args: argparse.Namespace) -> None:
    run = args.output_dir is not None
    if not run and (args.gold is None or args.test is None):
        parser.error("--metric=evalb needs two files of trees: give --gold=FILE and --test=FILE; or --output_dir=RUN")
    of_files = ("usr_dir", *_RUN_FLAGS)
    others = ("hypotheses", "references", "tokenize", *_FILE_FLAGS, *(("gold", "test") if run else of_files))
    for flag in (*others, *(name for name in _SCORE_SWITCHES if getattr(args, name))):
        if getattr(args, flag) is not None:
            parser.error(f"--{flag} does not go with --metric=evalb of {'a run' if run else 'two files of trees'}")
    if args.columns and args.json:
        parser.error("give --columns or --json, not both")


def main(argv: list[str] | None = None) -> int:
    """Runs the command; returns its exit status."""
    parser = make_parser()
    args = parser.parse(argv)
    check_flags(parser, args)
    if args.score:
        return common.run(lambda: eval_run.score_pairs(args))
    if args.output_dir is not None:
        return common.run(lambda: eval_run.score_run(args))
    return common.run(lambda: eval_files.score_trees(args) if args.metric == "evalb" else eval_files.score_files(args))


if __name__ == "__main__":
    sys.exit(main())
