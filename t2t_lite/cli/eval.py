"""t2t-lite-eval: scores a run's translations, or any file of translations against its references."""

import argparse
import sys

from t2t_lite.cli import common, eval_files, eval_run, eval_scores
from t2t_lite.cli.eval_scores import ScoreRequest
from t2t_lite.groups import DECODE, IN_SEARCH
from t2t_lite.languages import TOKENIZERS
from t2t_lite.metrics.names import OF_SACREBLEU, canonical

# The flags of each kind of score; check_flags refuses all others.
_OF_MODEL = ("output_dir", "checkpoint", "precision", "usr_dir", "trust_run")
_OF_RUN = (*_OF_MODEL, "split", *DECODE)
_OF_TESTSET = (*_OF_MODEL, "testset", "target_language", *DECODE)
_OF_PAIRS = (
    *_OF_MODEL,
    "score",
    "sources",
    "targets",
    "target_language",
    "word_scores",
    "json",
    *(name for name in DECODE if name not in IN_SEARCH),
)
_OF_SCORES = ("metric", "lowercase", "tokenize", "effective_order", "json", "format")
_OF_FILES = ("hypotheses", "references", "baseline", "paired_ar", "sgm", "language", "usr_dir")
_OF_TREES = ("metric", "prm", "count_unlabelled", "columns", "json", "format")
_OF_ALL = ("quiet", "verbose")
_OF_MORE = "; trees are scored with --metric=evalb, given pairs with --score"


def main(argv: list[str] | None = None) -> int:
    parser = make_parser()
    args = parser.parse(argv)
    check_flags(parser, args)
    return common.run(lambda: _run(args), args=args)


def make_parser() -> common.Parser:
    parser = common.Parser(
        prog="t2t-lite-eval",
        description="Scores a run (loss, perplexity, BLEU and chrF of its beam-searched text, or F1 of its trees), or "
        "a file of translations, or two files and whether they differ, or a file of parse trees. Each score is printed "
        "with a signature that says how it was computed.",
    )
    _add_run_flags(parser)
    _add_file_flags(parser)
    _add_tree_flags(parser)
    _add_pair_flags(parser)
    _add_score_flags(parser)
    return parser


def _add_run_flags(parser: argparse.ArgumentParser) -> None:
    run = parser.add_argument_group("a run")
    common.add_run_flags(run, required=False)
    run.add_argument("--split", choices=("dev", "test"), help="default: test, or dev where there is no test set")
    run.add_argument(
        "--testset",
        metavar="NAME",
        help="score a test set of sacreBLEU, such as wmt14/full, and not the run's own data; it is downloaded to "
        "~/.sacrebleu, or the folder that the environment variable SACREBLEU names, if it is not there",
    )
    run.add_argument("--precision", choices=common.PRECISIONS, help=common.PRECISION_HELP)
    common.add_search_flags(run, DECODE)


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
        help="compare with --baseline by approximate randomisation instead: the trials of sacreBLEU's "
        "--paired-ar, but those that differ exactly as much as the translations are counted, too",
    )
    files.add_argument(
        "--sgm",
        action="store_true",
        help="the references are in WMT's SGML; translations too, found by document and segment, or lines in order",
    )
    files.add_argument(
        "--language",
        metavar="CODE",
        help="language of the files: BLEU has the tokeniser that sacreBLEU chooses for it (zh, ja-mecab, ko-mecab, or "
        "13a), and TER counts characters of Chinese and kanji of Japanese; de, en and fr add BLEU-paper to the scores",
    )


def _add_tree_flags(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group(
        "--metric=evalb: files of trees in brackets, plain or compressed, one a line or each over several lines"
    )
    group.add_argument("--gold", metavar="FILE", help="the right trees")
    group.add_argument("--test", metavar="FILE", help="the trees to score; tree N is of the sentence of gold tree N")
    group.add_argument(
        "--prm",
        metavar="FILE",
        help="EVALB's parameters; default: those of COLLINS.prm, with quotation marks as in new.prm, or a run's own",
    )
    group.add_argument(
        "--count_unlabelled",
        action="store_true",
        help="count brackets without a label, such as the outer one of ( (S ...) ), as phrases: EVALB does, and its F1 "
        "is higher for it where both files have them; default: they are left out",
    )
    group.add_argument("--columns", action="store_true", help="print what EVALB prints: every sentence, and a summary")


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
    pairs.add_argument(
        "--word_scores",
        action="store_true",
        help="with --json: also the log-probabilities of pieces and words, which add up to that of the target",
    )
    common.add_language_flag(pairs)


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
    common.add_table_flags(scores, "the scores (of --score: one object a line)")


def _metric(text: str) -> str:
    name = canonical(text)
    if name in OF_SACREBLEU[1:]:
        tokens = " --tokenize=none" if name == "bleu_tok_lc" else ""
        raise argparse.ArgumentTypeError(f"{name} is --metric=bleu --lowercase{tokens} here")
    return name


def check_flags(parser: common.Parser, args: argparse.Namespace) -> None:
    """Ends the program with status 2 unless the flags ask for one of: a run, files, trees, given pairs."""
    given, trees, own = parser.given, args.metric == "evalb", args.metric not in (*eval_scores.COUNTED, "evalb", "all")
    if args.score:
        if args.output_dir is None or args.sources is None or args.targets is None:
            parser.error("--score needs --output_dir=RUN, --sources=FILE and --targets=FILE")
        if not args.json:
            parser.refuse(["word_scores"], "goes with --json, which has a place for them")
        known, what = _OF_PAIRS, "--score: a log-probability is of the text as it is given"
    elif args.testset is not None:
        if args.output_dir is None:
            parser.error(
                "--testset goes with --output_dir=RUN, whose problem says the languages; a file of translations is "
                f"scored by: sacrebleu -t {args.testset} -l en-de -i FILE"
            )
        known, what = (*_OF_SCORES, *_OF_TESTSET), "--testset"
    elif trees:
        if args.output_dir is None and (args.gold is None or args.test is None):
            parser.error("--metric=evalb needs --gold=FILE and --test=FILE, two files of trees; or --output_dir=RUN")
        known, what = (*_OF_TREES, *_OF_RUN), "--metric=evalb of a run"
        if args.output_dir is None:
            known, what = (*_OF_TREES, "gold", "test"), "--metric=evalb of two files of trees"
    elif args.output_dir is not None:
        known, what = (*_OF_SCORES, *_OF_RUN), f"--output_dir, the scores of a run{_OF_MORE}"
    elif args.hypotheses is not None and args.references is not None:
        known, what = (*_OF_SCORES, *_OF_FILES), f"scores of files{_OF_MORE}"
        known = (*known, "sources") if own else known
    else:
        parser.error("give --output_dir=RUN, or --hypotheses=FILE and --references=FILE")
    parser.refuse((flag[2:] for flag in given if flag[2:] not in (*known, *_OF_ALL)), f"does not go with {what}")
    if args.columns and args.json:
        parser.error("give --columns or --json, not both")
    if args.columns:
        parser.refuse(["format"], "does not go with --columns")
    if args.paired_ar and args.baseline is None:
        parser.error("--paired_ar compares with other translations; give --baseline=FILE")
    if args.metric == "bleu_paper" and args.output_dir is None and args.language is None:
        parser.error("--metric=bleu_paper needs the files' language, such as --language=de")
    if args.metric not in ("all", "bleu"):
        parser.refuse(("tokenize", "effective_order"), f"is for BLEU, not for --metric={args.metric}")
    if own or args.metric == "bleu_paper":
        parser.refuse(["lowercase"], f"is not for --metric={args.metric}")
    if args.metric in ("chrf", "chrf2", "accuracy"):
        parser.refuse(["language"], f"is for BLEU and TER, not for --metric={args.metric}")


def score_request(args: argparse.Namespace) -> ScoreRequest:
    names = {*_OF_SCORES, *_OF_TREES} - {"format"}
    names |= {
        "split",
        "testset",
        "paired_ar",
        "sources",
        "target_language",
        "usr_dir",
        "sgm",
        "language",
        "word_scores",
    }
    names.add("table_format")
    return ScoreRequest(
        runs=None if args.output_dir is None else common.open_request(args),
        pairs=(args.sources, args.targets) if args.score else None,
        hypotheses=args.hypotheses or "",
        references=tuple(args.references or ()),
        baselines=tuple(args.baseline or ()),
        trees=(args.gold, args.test) if args.gold else None,
        **{name: getattr(args, name) for name in names},
    )


def _run(args: argparse.Namespace) -> int:
    request = score_request(args)
    if request.runs is not None and request.pairs is not None:
        eval_run.score_pairs(request, request.runs, request.pairs)
    elif request.runs is not None and request.testset is not None:
        eval_run.score_testset(request, request.runs, request.testset)
    elif request.runs is not None:
        eval_run.score_run(request, request.runs)
    elif request.trees is not None:
        eval_files.score_trees(request, request.trees)
    else:
        eval_files.score_files(request)
    return 0


if __name__ == "__main__":
    sys.exit(main())
