"""t2t-lite-import: makes a run from a model of tensor2tensor, OpenNMT-tf, Marian or Hugging Face's MarianMT."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import re
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from t2t_lite import registry
from t2t_lite.cli import common
from t2t_lite.distributed.tensorflow_loading import load_tensorflow
from t2t_lite.errors import DataError, UsageError, check_tensorflow_path
from t2t_lite.files import check_tensorflow_folder
from t2t_lite.groups import IN_SEARCH, DecodeGroup
from t2t_lite.remote.mirror import fetch_url, name_urls, open_folder, push
from t2t_lite.remote.store import Store, is_url
from t2t_lite.runs.open_request import OpenRequest
from t2t_lite.signals import Terminated
from t2t_lite.text.any_vocabulary import AnyVocabulary
from t2t_lite.verbosity import say

if TYPE_CHECKING:
    from t2t_lite.importers.compare_outputs import Comparison

_LONGEST = {  # the longest length of an output in each toolkit
    "tensor2tensor": "in tensor2tensor it depends on the batch",
    "OpenNMT-tf": "in OpenNMT-tf it is maximum_decoding_length, 250 unless given",
    "Marian": "in Marian the longest input of the batch counts",
    "MarianMT": "in transformers it is max_length, whatever the input",
}
# Defaults of the search, where they are not a recipe's.
_DEFAULTS = {
    "beam_size": "4, or that of the model's decoder.yml or generation_config.json",
    "length_penalty": "0.6, 0 for OpenNMT-tf, the own one of Marian and MarianMT",
    "length_penalty_form": "gnmt, power for Marian and MarianMT",
    "unknown_output": "true, false for Marian",
    "max_length_factor": "1, the own one of Marian, 3 if none is given; 0 for MarianMT with a max_length",
    "extra_length": "50, 0 for Marian, from the own max_length of MarianMT",
}
_OF_WEIGHTS = re.compile(r"\.(data-\d+-of-\d+|index|meta|npz|bin|safetensors)$")  # files that are large
# The flags that import.json keeps.
_GIVEN = ("average", "hparams_set", "hparams", "target_space_id", "sentencepiece", "languages", "with_optimizer")
_NOT_OF_MARIAN = {"average": 1, "hparams_set": None, "target_space_id": None, "with_optimizer": None}
_NOT_OF_HUGGING_FACE = {
    **_NOT_OF_MARIAN,
    **dict.fromkeys(("vocabulary", "target_vocabulary", "sentencepiece", "hparams")),
}


def main(argv: list[str] | None = None) -> int:
    parser = make_parser()
    args = parser.parse(argv)
    if (args.check is None) != (args.check_input is None):
        parser.error("--check=FILE, outputs of the other toolkit, goes with --check_input=FILE, their inputs")
    return common.run(lambda: _run(args), "interrupted; nothing was imported.", args=args)


def make_parser() -> common.Parser:
    parser = common.Parser(
        prog="t2t-lite-import",
        description="Makes a run of a Transformer that tensor2tensor, OpenNMT-tf or Marian trained, or of a MarianMT "
        "model of Hugging Face: its checkpoint, its settings and its vocabulary. All other commands then take it as "
        "any run, and compute what was computed there.",
    )
    parser.add_argument(
        "--checkpoint",
        metavar="DIR|PREFIX,...",
        required=True,
        help="the folder of the training (t2t-trainer's --output_dir, onmt-main's model_dir), whose newest checkpoint "
        "is taken, or its URL; or one checkpoint, such as DIR/model.ckpt-250000; several are averaged. Or an OPUS-MT "
        "release, unzipped, or an .npz file of Marian; or a folder of a MarianMT model of Hugging Face",
    )
    parser.add_argument("--average", type=common.positive, metavar="N", default=1, help="average a folder's N newest")
    parser.add_argument(
        "--vocabulary",
        metavar="FILE",
        help="vocab.PROBLEM.SIZE[.subwords] of t2t-datagen's --data_dir, subwords or tokens; or the word bytes; or "
        "what OpenNMT-tf's source_vocabulary names; or of Marian, if its folder has several",
    )
    parser.add_argument("--target_vocabulary", metavar="FILE", help="where each side has a vocabulary of its own")
    parser.add_argument(
        "--sentencepiece",
        metavar="FILE[,FILE]",
        help="the SentencePiece model (one for each vocabulary) whose pieces a vocabulary of OpenNMT-tf lists; without "
        "it lines are cut at white space, and have to be tokenized as for its training. For Marian, those of source "
        "and target, if they are not the folder's source.spm and target.spm",
    )
    parser.add_argument(
        "--hparams_set",
        metavar="NAME",
        help="tensor2tensor's, such as transformer_base, where no hparams.json or flags.txt is beside the checkpoint; "
        "or a model of OpenNMT-tf's catalog, such as TransformerBase: its --model_type",
    )
    parser.add_argument(
        "--hparams",
        metavar="NAME=VALUE,...",
        help="settings by this toolkit's names, such as num_heads=8; they override those found in files. "
        "source_end=true: OpenNMT-tf's data had source_sequence_controls with an end",
    )
    parser.add_argument(
        "--target_space_id",
        type=int,
        metavar="N",
        help="the number of the vector that tensor2tensor has for the target language; default: the one that was "
        "trained, if that can be seen, or 0",
    )
    parser.add_argument(
        "--with_optimizer",
        action="store_true",
        default=None,
        help="take tensor2tensor's optimizer over, too, so that training continues with it: t2t-lite-trainer "
        "--warm_start_from=RUN --with_optimizer",
    )
    parser.add_argument("--languages", metavar="SRC-TGT", help="such as en-de; for the model card and for scores")
    common.add_search_flags(parser, IN_SEARCH, _DEFAULTS)
    parser.add_argument("--check_input", metavar="FILE", help="lines that the toolkit has translated")
    parser.add_argument("--check", metavar="FILE", help="what it wrote for them: prints how many lines are equal")
    parser.add_argument("--output_dir", metavar="DIR", required=True, help="the run; a new folder, or its URL")
    common.add_json_flag(parser, "the run, its parameters, its import.json, and what --check has found")
    return parser


def _run(args: argparse.Namespace) -> int:
    # Before TensorFlow, so that mistakes show at once.
    from t2t_lite.importers import huggingface_files, marian_folder, vocabulary_kinds

    decoding = {name: getattr(args, name) for name in IN_SEARCH if getattr(args, name) is not None}
    problem = registry.problem("imported", languages=args.languages)
    check_input, check = _read_check(args)
    args.checkpoint = ",".join(map(_fetch, args.checkpoint.split(",")))
    args.output_dir = open_folder(args.output_dir)
    check_tensorflow_path(f"--checkpoint={args.checkpoint}", args.checkpoint)
    check_tensorflow_folder("output_dir", os.path.abspath(args.output_dir))
    files = tuple(filter(None, (args.vocabulary, args.target_vocabulary)))
    sentencepiece = [fetch_url(file) for file in args.sentencepiece.split(",")] if args.sentencepiece else []
    of_huggingface = huggingface_files.is_huggingface(args.checkpoint)
    of_marian = not of_huggingface and marian_folder.is_marian(args.checkpoint)
    if of_huggingface:
        _check_flags(args, "Hugging Face", _NOT_OF_HUGGING_FACE)
        of_mt = huggingface_files.find(args.checkpoint)
    elif of_marian:
        _check_flags(args, "Marian", _NOT_OF_MARIAN)
        of_model = marian_folder.find(args.checkpoint, files, sentencepiece)
    elif not files:
        raise UsageError(
            "--vocabulary=FILE is missing; only the folder of a model of Marian or Hugging Face shows which one it has."
        )
    else:
        loaded = [vocabulary_kinds.load(path) for path in files]
    load_tensorflow()
    from t2t_lite.importers import huggingface, import_report, marian, run_folder, t2t_slots, toolkits

    run_folder.check_folder(args.output_dir)
    vocabularies: tuple[AnyVocabulary, AnyVocabulary]
    if of_huggingface:
        imported, vocabularies = huggingface.read(of_mt)
        files = tuple(dict.fromkeys(map(str, of_mt.vocabularies)))
    elif of_marian:
        imported, vocabularies = marian.read(of_model, args.hparams)
        files = tuple(dict.fromkeys(map(str, of_model.vocabularies)))
    else:
        imported, vocabularies = toolkits.read(
            args.checkpoint.split(","),
            loaded,
            sentencepiece,
            with_optimizer=bool(args.with_optimizer),
            average=args.average,
            hparams_set=args.hparams_set,
            hparams=args.hparams,
            target_space_id=args.target_space_id,
        )
    found = run_folder.Import(
        imported,
        run_folder.recipe(imported, decoding, two_vocabularies=vocabularies[0] is not vocabularies[1]),
        vocabularies,
        files,
        problem.options(),
        {name: getattr(args, name) for name in (*_GIVEN, *IN_SEARCH) if getattr(args, name) is not None},
    )
    if args.with_optimizer:
        found = dataclasses.replace(found, slots=t2t_slots.read(imported))
    parameters = run_folder.write(args.output_dir, found)
    push(args.output_dir)
    if args.json:
        _print_json(args, parameters, (check_input, check))
        return 0
    choice = huggingface_files.note_choice(args.checkpoint)
    report = [*([("taken", choice)] if choice else []), *import_report.lines(found, parameters)]
    for name, text in [*report, ("run", args.output_dir)]:
        print(name_urls(f"{name + ':':<14} {text}"))
    if check:
        try:
            compared = _describe(*_compare(args.output_dir, check_input, check), imported.toolkit)
        except KeyboardInterrupt as stopped:
            print(f"error: interrupted; {args.output_dir} is imported, its check is not finished.", file=sys.stderr)
            return 143 if isinstance(stopped, Terminated) else 130
        print(f"{'check:':<14} {compared[0]} are equal to those of {args.check}", *compared[1:], sep=f"\n{'':<15}")
    _say_next(shlex.quote(name_urls(args.output_dir)))
    return 0


def _read_check(args: argparse.Namespace) -> tuple[list[str], list[str]]:
    """Returns the lines of --check_input and --check; DataError if they are not equally many."""
    from t2t_lite.data.sources import read_lines

    check_input, check = (list(read_lines(path)) if path else [] for path in (args.check_input, args.check))
    if len(check_input) != len(check):
        raise DataError(
            f"{args.check_input} has {len(check_input):,} lines but {args.check} has {len(check):,}; line N of one is "
            "the output for line N of the other."
        )
    return check_input, check


def _fetch(path: str) -> str:
    """Returns the path of a model on this machine; one in a store is downloaded, with the small files beside it."""
    if not is_url(path):
        return path
    store = Store(path)
    if not store.is_object and store.list():
        return fetch_url(path)
    folder, _, name = store.url.rpartition("/")

    def is_wanted(file: str) -> bool:
        return file == name or file.startswith(f"{name}.") or ("/" not in file and not _OF_WEIGHTS.search(file))

    return os.path.join(fetch_url(folder, is_wanted), name)


def _say_next(run: str) -> None:
    say(f"\nNext: t2t-lite-decoder --output_dir={run} --input=FILE")
    say(f"or:   t2t-lite-exporter --output_dir={run}   (for TensorFlow Serving, CTranslate2 and others)")


def _print_json(args: argparse.Namespace, parameters: int, check: tuple[list[str], list[str]]) -> None:
    from t2t_lite.runs.run_dir import IMPORT_FILE

    record = json.loads(Path(args.output_dir, IMPORT_FILE).read_text(encoding="utf-8"))
    found = {"check": dataclasses.asdict(_compare(args.output_dir, *check)[0])} if args.check else {}
    common.print_json({"run": name_urls(args.output_dir), "parameters": parameters, "import": record, **found})


def _check_flags(args: argparse.Namespace, origin: str, others: Mapping[str, object]) -> None:
    if given := [name for name, usual in others.items() if getattr(args, name) != usual]:
        raise UsageError(f"--{given[0]} is not for a model of {origin}, such as {args.checkpoint}. Leave it out.")


def _compare(output_dir: str, inputs: list[str], outputs: list[str]) -> tuple[Comparison, DecodeGroup]:
    """Returns how many outputs are equal, and the search."""
    from t2t_lite.importers.compare_outputs import compare
    from t2t_lite.ops import threads

    threads.set_inter_op_parallelism()
    run = OpenRequest(folders=(output_dir,)).open_to_decode()
    return compare(run.translator, inputs, outputs), run.translator.decode


def _describe(found: Comparison, decode: DecodeGroup, toolkit: str) -> list[str]:
    """Returns how many outputs are equal, and what is known about the others, as lines."""
    lines = [f"{found.equal:,} of {found.lines:,} outputs"]
    if found.first is None:
        return lines
    if found.at_limit:
        times = "" if decode.max_length_factor == 1 else f"--max_length_factor={decode.max_length_factor:g} times "
        lines.append(
            f"{found.at_limit:,} others reached the longest length, which is {times}the input's and "
            f"--extra_length={decode.extra_length} here; {_LONGEST[toolkit]}"
        )
    names = ("input", "there", "here")
    return lines + [f"{name:<5} {text}" for name, text in zip(names, found.first, strict=True)]


if __name__ == "__main__":
    sys.exit(main())
