"""Flags of several commands, and the requests that they make: a problem and its data, a recipe, a sampler."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from t2t_lite.cli import common
from t2t_lite.config import read_overrides
from t2t_lite.data.input_texts import read_texts
from t2t_lite.errors import DataError, UsageError
from t2t_lite.groups import MOST_HYPOTHESES, OF_BEAM_SEARCH
from t2t_lite.runs.data_request import FLAG_OPTIONS, DataRequest
from t2t_lite.runs.recipe_request import RecipeRequest

if TYPE_CHECKING:
    from t2t_lite.data.pipelines import Beam


def add_problem_flags(parser: argparse.ArgumentParser, *, required: bool = True) -> None:
    """Adds the flags that name a problem and its data."""
    group = parser.add_argument_group("the problem and its data")
    group.add_argument("--problem", metavar="NAME", required=required, help="a registered problem, such as toy_ende")
    of_run = "" if required else "; default: OUTPUT_DIR/data"
    group.add_argument(
        "--data_dir", metavar="DIR", required=required, help=f"the prepared data's folder, or its URL{of_run}"
    )
    group.add_argument("--usr_dir", metavar="DIR", help="a folder of your own problems, hparams sets and models")
    group.add_argument(
        "--problem_options",
        action="append",
        default=[],
        metavar="NAME=VALUE,...",
        help="options of the problem, as its constructor names them; may be given again",
    )
    _add_file_flags(group)
    _add_flags_of_parsing(group)
    group.add_argument("--vocab_size", type=int, metavar="N", help="pieces in the vocabulary")
    group.add_argument(
        "--vocabulary",
        metavar="RUN|FILE",
        help="the vocabulary of another run, a SentencePiece model, FILE.model, or a subword vocabulary of "
        "tensor2tensor, FILE.subwords, instead of one that is trained on the text",
    )
    group.add_argument(
        "--prepare_again",
        action="store_true",
        help="prepare the data again if their files, the problem's code or settings have changed since; a run that has "
        "checkpoints then resumes with the new data",
    )
    group.add_argument(
        "--vocab_type", metavar="bpe|unigram|char", help="text2text, wmt14_*: kind of vocabulary; default: bpe"
    )
    group.add_argument(
        "--separate_vocabularies",
        dest="shared_vocab",
        action="store_false",
        default=None,
        help="text2text: one vocabulary for each side instead of one for both",
    )
    _add_text_flags(group)
    _add_score_and_cleaning_flags(group)


def _add_text_flags(group: argparse._ArgumentGroup) -> None:
    """Adds the flags for messages of software; docs/software_messages.md describes them."""
    group.add_argument(
        "--line_breaks",
        metavar="space|symbol",
        help="text2text: what a line break in a cell becomes: a space, or a symbol that outputs give back; default: "
        "space",
    )
    group.add_argument(
        "--symbols",
        "--keep_whole",
        dest="keep_whole",
        metavar="FILE|LIST",
        help="text2text: texts that are never cut, such as %%s,<b>,&amp;: a list, or a file with one on each line",
    )
    group.add_argument(
        "--byte_fallback",
        action="store_true",
        default=None,
        help="text2text: rare and unknown characters, such as emoji, are written in bytes, and are not unknown",
    )


def _add_flags_of_parsing(group: argparse._ArgumentGroup) -> None:
    """Adds the flags for options of treebanks; docs/parsing.md describes them."""
    group.add_argument(
        "--exchanges",
        type=common.positive,
        metavar="N",
        help="treebank: also train on N copies of each tree, with words exchanged for others of the same tag",
    )
    group.add_argument(
        "--phrases", action="store_true", default=None, help="treebank: also train on each phrase as a sentence"
    )
    group.add_argument("--prm", metavar="FILE", help="treebank: EVALB's parameters; default: COLLINS.prm's")
    group.add_argument("--extra_dir", metavar="DIR", help="wsj_parsing_semi: a folder of further training trees")


def _add_score_and_cleaning_flags(group: argparse._ArgumentGroup) -> None:
    """Adds the flags of the dev score and of cleaning."""
    group.add_argument(
        "--metric",
        metavar="NAME",
        help="text2text: dev score: bleu, bleu_lc, bleu_tok_lc, chrf, chrf2 (chrF++), bleu_paper, accuracy (share of "
        "outputs that are entirely right) or one of your own (--usr_dir); default: bleu",
    )
    group.add_argument(
        "--bleu_tokenize",
        metavar="NAME",
        help="text2text: BLEU's tokeniser: 13a, zh, ja-mecab, ko-mecab, char, flores200, intl or none; default: as "
        "sacreBLEU chooses by the target language",
    )
    group.add_argument(
        "--bleu_effective_order",
        action="store_true",
        default=None,
        help="text2text: BLEU leaves out the orders of n-grams that no output is long enough for (sacreBLEU's eff:yes)",
    )
    group.add_argument(
        "--clean",
        nargs="?",
        const=True,
        metavar="REASON,REASON",
        help="text2text, wmt14_*: leave out training pairs with control characters (control), of XML (markup), over "
        "250 words (length), of unlike lengths (ratio, above 9), with equal sides (copy) or seen before (duplicate); "
        "default: for all of these reasons; damaged rows of tables, too",
    )
    group.add_argument("--clean_max_words", type=common.positive, metavar="N", help="of --clean; default: 250")
    group.add_argument("--clean_max_ratio", type=float, metavar="R", help="of --clean; default: 9")
    group.add_argument(
        "--drop_overlap",
        action="store_true",
        default=None,
        help="leave out training pairs that are also in dev or test, source and target",
    )


def _add_file_flags(group: argparse._ArgumentGroup) -> None:
    """Adds the flags that say which files are read."""
    group.add_argument(
        "--source_dir",
        metavar="DIR",
        help="text2text: the folder, or its URL, with train.en, train.de, dev.en, ... or train.tsv, .csv, .jsonl, "
        ".json, plain or compressed; several with weights as A,B:2; treebank: with train.trees, dev.trees, ...; "
        "wsj_parsing: with the Penn Treebank's sections 02 to 23",
    )
    group.add_argument(
        "--languages",
        metavar="SRC-TGT,...",
        help="text2text: how the files' names end: en-de, en-pt-BR; several pairs, such as en-de,en-fr: sources begin "
        "with the label of the target language",
    )
    group.add_argument(
        "--dev_lines",
        type=common.positive,
        metavar="N",
        help="text2text: where there is no dev set, hold N training pairs out as one",
    )
    group.add_argument(
        "--alignments",
        metavar="ENDING",
        help="text2text: the training text has alignments for guided_alignment, links i-j of words on each line, in "
        "files with this ending: align for train.align",
    )
    group.add_argument(
        "--sequence_weights",
        metavar="ENDING",
        help="text2text: the training pairs have weights, a number on each line, in files with this ending: weight for "
        "train.weight",
    )
    group.add_argument("--raw_dir", metavar="DIR", help="wmt14_ende, wmt14_enfr: your files, instead of TFDS")


def data_request(args: argparse.Namespace) -> DataRequest:
    """Returns what the flags of `add_problem_flags` ask for."""
    options = read_options("--problem_options", args.problem_options)
    for name in FLAG_OPTIONS:
        if (value := getattr(args, name)) is None:
            continue
        if name in options:
            raise UsageError(f"--{name} and --problem_options={name}=... say the same option twice. Leave one out.")
        options[name] = value
    return DataRequest(
        problem=args.problem,
        options=options,
        data_dir=args.data_dir,
        usr_dir=args.usr_dir,
        vocabulary=args.vocabulary,
        prepare_again=args.prepare_again,
        num_workers=getattr(args, "num_workers", None),
    )


def read_options(flag: str, texts: Iterable[str]) -> dict[str, Any]:
    """Splits the values of a flag, each "name=value,...", into values by name.

    A comma is part of the value unless a name and an equals sign follow it.

    Raises:
        UsageError: another form, or a name that is given twice.
    """
    values: dict[str, Any] = {}
    for item in (item for text in texts for item in re.split(r",(?=\s*\w+\s*=)", text)):
        name, equals, value = (part.strip() for part in item.partition("="))
        if not equals or not name:
            raise UsageError(f"{flag}={item} is not of the form name=value.")
        if name in values:
            raise UsageError(f"{flag}: {name} is given twice: {values[name]} and {value}.")
        values[name] = value
    return values


def add_recipe_flags(parser: argparse.ArgumentParser, of: str = "") -> None:
    """Adds the flags; their help starts with `of`."""
    parser.add_argument("--hparams_set", metavar="NAME", help=f"{of}the recipe; default: the problem's own")
    parser.add_argument(
        "--hparams_file",
        metavar="FILE",
        help=f"{of}changes to the recipe in JSON: {{NAME: VALUE, ...}}, or a run's hparams.json, whose hparams set and "
        "model then are the defaults",
    )
    parser.add_argument(
        "--hparams",
        action="append",
        metavar="NAME=VALUE,...",
        help=f"{of}changes to the recipe (after those of --hparams_file), such as dropout=0.2; may be given again",
    )


def recipe_request(args: argparse.Namespace) -> RecipeRequest:
    """Returns what the flags of `add_recipe_flags`, --model and --train_steps ask for.

    Raises:
        UsageError: --hparams is not of the form name=value, or names a field twice.
    """
    overrides = read_overrides(",".join(args.hparams or []))
    if (steps := getattr(args, "train_steps", None)) is not None:
        overrides["train_steps"] = steps
    model = getattr(args, "model", None)
    return RecipeRequest(hparams_set=args.hparams_set, hparams_file=args.hparams_file, model=model, overrides=overrides)


def add_banned_words_flag(parser: common.Parser) -> None:
    parser.add_argument(
        "--banned_words",
        metavar="FILE",
        help="what no output writes: a word or phrase on each line, in the case in which it is banned",
    )


def read_banned_words(path: str | None) -> tuple[str, ...]:
    """Returns the words of a file, without blank lines; DataError if it has none or cannot be read."""
    if path is None:
        return ()
    if words := tuple(filter(str.strip, read_texts(path))):
        return words
    raise DataError(f"--banned_words={path} has no words. Write one on each line, or leave out the flag.")


def add_runner_flags(parser: common.Parser, what: str) -> None:
    """Adds the flags; `what` says what the local runner is."""
    parser.add_argument(
        "--runner",
        choices=("local", "beam"),
        default="local",
        help=f"what {what}, or a pipeline of Apache Beam, whose workers may be on many",
    )
    parser.add_argument(
        "--beam_options",
        action="append",
        metavar="NAME=VALUE,...",
        help="of --runner=beam: options of Beam's pipeline, such as runner=FlinkRunner or direct_num_workers=4; may be "
        "given again",
    )


def check_runner_flags(parser: common.Parser) -> None:
    """Ends the program with status 2 if there are options of a runner that is not asked for."""
    if parser.given.get("--runner") != "beam":
        parser.refuse(["beam_options"], "goes with --runner=beam")


def beam(args: argparse.Namespace) -> Beam | None:
    """Returns what the flags of `add_runner_flags` ask for, None for the local runner; raises as `Beam.check`."""
    from t2t_lite.data.pipelines import Beam

    if args.runner == "local":
        return None
    asked = Beam(read_options("--beam_options", args.beam_options or []))
    asked.check()
    return asked


SAMPLER_FLAGS = ("sampler", "sampler_options", "seed")


def add_sampler_flags(parser: common.Parser) -> None:
    group = parser.add_argument_group("sampling, instead of beam search")
    group.add_argument("--sampler", metavar="NAME", help="random, top_k, nucleus or one of your own")
    group.add_argument(
        "--sampler_options",
        metavar="NAME=VALUE,...",
        action="append",
        help="temperature (1) of all; top_k (10) of top_k; top_p (0.9) of nucleus",
    )
    group.add_argument("--seed", type=common.positive, metavar="N", help="another seed draws other outputs; default: 1")


def check_sampler_flags(parser: common.Parser) -> None:
    """Ends the program with status 2 if flags of a search and of sampling are mixed."""
    if not {"--sampler", "--mbr_samples"} & parser.given.keys():
        parser.refuse(SAMPLER_FLAGS[1:], "goes with --sampler=NAME")
        return
    parser.refuse(OF_BEAM_SEARCH, "is of beam search, and does not go with --sampler (--nbest=N draws N samples)")
    if (nbest := parser.given.get("--nbest", 1)) > MOST_HYPOTHESES:
        parser.error(f"--nbest={nbest}: a sampler draws at most {MOST_HYPOTHESES:,} outputs of each line")
