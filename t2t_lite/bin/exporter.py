"""t2t-lite-exporter: writes a run as a SavedModel for TensorFlow Serving, text in and text out, or for CTranslate2."""

from __future__ import annotations

import argparse
import dataclasses
import importlib.util
import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from t2t_lite.bin import cli
from t2t_lite.distributed.tensorflow_loading import load_tensorflow, quiet
from t2t_lite.errors import UsageError, did_you_mean
from t2t_lite.export.export_folder import DEFAULT_SIGNATURES, SIGNATURES, versions
from t2t_lite.files import check_tensorflow_folder

if TYPE_CHECKING:
    from t2t_lite.runs.open_run import OpenEnsemble, OpenRun


# For each format: the folder in OUTPUT_DIR, a file that each of its versions holds, and its precisions.
FORMATS = {
    "saved_model": ("export", "saved_model.pb", cli.PRECISIONS),
    "ctranslate2": ("export_ctranslate2", "model.bin", ("float32", "int8")),
}

_OTHER_SEARCH = (
    "not scored: CTranslate2 searches, and rounds to int8, in its own way; t2t-lite-eval --hypotheses=FILE "
    "--references=FILE scores what it writes"
)


def main(argv: list[str] | None = None) -> int:
    """Runs the command; returns its exit status."""
    args = make_parser().parse(argv)
    return cli.run(lambda: _run(args), "interrupted; nothing was exported.")


def make_parser() -> cli.Parser:
    parser = cli.Parser(
        prog="t2t-lite-exporter",
        description="Writes a run's weights, vocabularies and beam search as EXPORT_DIR/N, a SavedModel that stock "
        "TensorFlow Serving serves; N is the next free number. Or as a model for CTranslate2, a fast engine for CPUs.",
    )
    cli.add_run_flags(parser)
    parser.add_argument("--format", choices=tuple(FORMATS), default="saved_model")
    parser.add_argument(
        "--export_dir",
        metavar="DIR",
        help="the folder of versions; default: OUTPUT_DIR/export, for CTranslate2 OUTPUT_DIR/export_ctranslate2; an "
        "ensemble has no default",
    )
    parser.add_argument(
        "--precision",
        choices=cli.PRECISIONS,
        help=f"{cli.PRECISION_HELP}, for CTranslate2 float32",
    )
    cli.add_search_flags(parser, "beam_size", "length_penalty", "extra_length", "max_source_length")
    parser.add_argument(
        "--signatures",
        metavar="NAME,...",
        help="besides serving_default, some of nbest, score, tokens, attention; default: nbest,score. attention "
        "answers few bytes with megabytes of varying shape: for your own use, not for the public",
    )
    parser.add_argument(
        "--warmup_batch_size",
        type=cli.positive,
        metavar="N",
        help="sentences of the largest warm-up request, at most the server's max_batch_size; default: 8",
    )
    return parser


def _run(args: argparse.Namespace) -> int:
    interrupts = cli.Interrupts()
    # Before TensorFlow and the model, so that mistakes show at once.
    request = cli.open_request(args)
    if len(request.folders) > 1:
        _check_ensemble(args)
    base = args.export_dir or os.path.join(args.output_dir, FORMATS[args.format][0])
    _check_format(args, base)
    request.check()
    check_tensorflow_folder("export_dir", base)
    load_tensorflow()
    from t2t_lite.export.run_card import make_card

    if args.format == "ctranslate2":
        request = dataclasses.replace(request, precision="float32")
    run = request.open()
    card = make_card(run)
    if args.format == "ctranslate2":
        card |= {"scores": [], "scores_note": _OTHER_SEARCH}
    interrupts.check()
    with quiet():
        version = _write(run, args, base, card)
    _report(version, args.format, card)
    if args.precision == "int8" and args.format == "saved_model":
        _warn_of_processors()
    return 0


def _check_ensemble(args: argparse.Namespace) -> None:
    if args.format == "ctranslate2":
        raise UsageError("CTranslate2 runs one model, not an ensemble; export it with --format=saved_model.")
    if args.export_dir is None:
        raise UsageError("An ensemble belongs to none of its runs' folders: say where it goes, with --export_dir=DIR.")


def _check_format(args: argparse.Namespace, base: str) -> None:
    name, precision = args.format, args.precision
    precisions = FORMATS[name][2]
    _signatures(args.signatures)
    for flag in ("signatures", "warmup_batch_size"):
        if name != "saved_model" and getattr(args, flag) is not None:
            raise UsageError(f"--{flag} is for TensorFlow Serving; --format={name} has no signatures.")
    if precision not in (None, *precisions):
        raise UsageError(f"--format={name} has --precision={' or '.join(precisions)}, not {precision}.")
    if name == "ctranslate2" and importlib.util.find_spec(name) is None:
        raise UsageError("--format=ctranslate2 needs the package ctranslate2: pip install 't2t-lite[ctranslate2]'.")
    for other in FORMATS.keys() - {name}:
        # A program that takes the newest version would find one that it cannot read.
        if any((version / FORMATS[other][1]).exists() for version in versions(base).values()):
            raise UsageError(f"{base} has versions with --format={other}; give another --export_dir.")


def _signatures(text: str | None) -> tuple[str, ...]:
    """Returns the signatures that --signatures asks for, serving_default first."""
    if text is None:
        return DEFAULT_SIGNATURES
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in SIGNATURES:
            known = ", ".join(SIGNATURES)
            raise UsageError(f"--signatures: there is no {name!r}, only {known}.{did_you_mean(name, SIGNATURES)}")
    return tuple(dict.fromkeys(("serving_default", *names)))


def _write(run: OpenRun | OpenEnsemble, args: argparse.Namespace, base: str, card: dict[str, Any]) -> Path:
    if args.format == "ctranslate2":
        from t2t_lite.export import ctranslate2_export

        return ctranslate2_export.export_ctranslate2(run.translator, base, card, precision=args.precision or "float32")
    from t2t_lite.export.export import export
    from t2t_lite.export.saved_model import ServedModel
    from t2t_lite.export.warmup import BATCH_SIZE

    served = ServedModel(run.translator, _signatures(args.signatures))
    return export(served, base, card, args.warmup_batch_size or BATCH_SIZE)


def _warn_of_processors() -> None:
    """Says where an export of 8-bit integers runs."""
    from t2t_lite.ops.int8_product import unable

    why = unable()
    print(
        "warning: int8 runs only on x86 processors with VNNI instructions (Intel since 2019, AMD since 2022). On "
        "others TensorFlow Serving does not load this export, and ends if it starts with it. "
        + (f"On this machine it does not run: {why}" if why else "This machine can run it."),
        file=sys.stderr,
    )


def _report(version: Path, name: str, card: dict[str, Any]) -> None:
    megabytes = sum(path.stat().st_size for path in version.rglob("*") if path.is_file()) / 1e6
    print(f"{version}: {megabytes:.1f} MB, {card['parameters']:,} parameters of {card['checkpoint']}")
    scores = [f"{score['metric']} {score['value']:.2f} on {score['split']}" for score in card["scores"]]
    print(f"scores: {', '.join(scores) or card['scores_note']}")
    if name == "ctranslate2":
        print(f"\nNext: {version / 'README.txt'} has the Python that translates with it")
        return
    base, whole = (shlex.quote(str(path)) for path in (version.parent, version.parent.resolve()))
    name = card["problem"]["name"]
    print(f"\nNext: t2t-lite-decoder --saved_model={base}   (reads lines, writes translations; needs no server)")
    print(
        f"or:   docker run -p 127.0.0.1:8501:8501 -v {whole}:/models/{name} -e MODEL_NAME={name} "
        f"tensorflow/serving:2.20.0\n      t2t-lite-query --server=localhost:8501 --model={name}"
    )


if __name__ == "__main__":
    sys.exit(main())
