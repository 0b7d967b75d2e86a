"""t2t-lite-exporter: writes a run for TensorFlow Serving, CTranslate2, Marian or transformers."""

import argparse
import shlex
import sys
from pathlib import Path
from typing import Any

from t2t_lite.cli import common, flags
from t2t_lite.export.export_folder import SIGNATURES
from t2t_lite.export.request import FORMATS, ExportRequest, export_runs
from t2t_lite.groups import OF_OUTPUTS
from t2t_lite.remote.mirror import name_urls
from t2t_lite.remote.store import is_url
from t2t_lite.verbosity import say

_PROCESSORS = (
    "int8: x86 processors with VNNI instructions (Intel since 2019, AMD since 2022) multiply integers; others expand "
    "them to float32 when they load the export, and take about as long as with an export in float32."
)
_USE = {
    "ctranslate2": "README.txt has the Python that translates with it",
    "marian": "README.md has the line that translates with it",
    "huggingface": "README.md has the Python that translates with it; the folder can be uploaded to the Hub as it is",
}


# Flags of t2t-lite-decoder for what no export has.
_NOT_EXPORTED = (
    *("constraints", "replace_unk", "decode", "mbr_samples", "mbr_utility", *flags.SAMPLER_FLAGS),
    *("quality", "dropout_passes", "shortlist"),
)


def main(argv: list[str] | None = None) -> int:
    """Runs the command; returns its exit status."""
    parser = make_parser()
    parser.elsewhere |= {
        f"--{name}": f"No export has it; t2t-lite-decoder --output_dir=RUN --{name} does." for name in _NOT_EXPORTED
    }
    parser.elsewhere |= {
        f"--{name}": f"It is given to t2t-lite-decoder --saved_model=DIR; here, --signatures={name} is asked for."
        for name in ("prefix", "alignments", "nbest", "word_scores")
    }
    args = parser.parse(argv)
    return common.run(lambda: _run(args), "interrupted; nothing was exported.", args=args)


def make_parser() -> common.Parser:
    parser = common.Parser(
        prog="t2t-lite-exporter",
        description="Writes a run's weights, vocabularies and beam search as EXPORT_DIR/N, a SavedModel that stock "
        "TensorFlow Serving serves; N is the next free number. Or as a model for CTranslate2, a fast "
        "engine for CPUs; for Marian; or as a MarianMT model for transformers of Hugging Face.",
    )
    common.add_run_flags(parser)
    parser.add_argument("--format", choices=tuple(FORMATS), default="saved_model")
    parser.add_argument(
        "--export_dir",
        metavar="DIR",
        help="the folder of versions, or its URL; default: OUTPUT_DIR/export, for other formats "
        "OUTPUT_DIR/export_FORMAT; an ensemble has no default",
    )
    parser.add_argument(
        "--precision",
        choices=common.PRECISIONS,
        help=f"{common.PRECISION_HELP}, for other formats float32",
    )
    common.add_search_flags(parser, OF_OUTPUTS)
    flags.add_banned_words_flag(parser)
    parser.add_argument(
        "--signatures",
        metavar="NAME,...",
        help=f"besides serving_default, some of {', '.join(SIGNATURES[1:])}; default: nbest,score. "
        "attention answers few bytes with megabytes of varying shape: for your own use, not for the public",
    )
    parser.add_argument(
        "--warmup_batch_size",
        type=common.positive,
        metavar="N",
        help="sentences of the largest warm-up request, at most the server's max_batch_size; default: 8",
    )
    common.add_json_flag(parser, "the folder that was written, its size and its model card")
    return parser


def _run(args: argparse.Namespace) -> int:
    signatures = None
    if args.signatures is not None:
        signatures = tuple(filter(None, (name.strip() for name in args.signatures.split(","))))
    names = ("format", "export_dir", "warmup_batch_size")
    request = ExportRequest(
        runs=common.open_request(args),
        signatures=signatures,
        banned_words=flags.read_banned_words(args.banned_words),
        **{name: getattr(args, name) for name in names},
    )
    version, card = export_runs(request, common.interrupts.check)
    if args.json:
        facts = {"export": name_urls(str(version)), "format": args.format, "bytes": _size(version), "model_card": card}
        common.print_json(facts)
    else:
        _report(version, args.format, card)
    if args.precision == "int8" and args.format == "saved_model":
        say(_PROCESSORS)
    return 0


def _size(version: Path) -> int:
    """The bytes of all files of an export."""
    return sum(path.stat().st_size for path in version.rglob("*") if path.is_file())


def _report(version: Path, name: str, card: dict[str, Any]) -> None:
    shown = name_urls(str(version))
    print(f"{shown}: {_size(version) / 1e6:.1f} MB, {card['parameters']:,} parameters of {card['checkpoint']}")
    scores = [f"{score['metric']} {score['value']:.2f} on {score['split']}" for score in card["scores"]]
    print(f"scores: {', '.join(scores) or card['scores_note']}")
    if name != "saved_model":
        say(f"\nNext: {shown}/{_USE[name]}")
        return
    base, whole = (shlex.quote(name_urls(str(path))) for path in (version.parent, version.parent.resolve()))
    name = card["problem"]["name"]
    say(f"\nNext: t2t-lite-decoder --saved_model={base}   (reads lines, writes translations; needs no server)")
    if is_url(base):  # a server needs the store's credentials, and its own way to the store
        return
    say(
        f"or:   docker run -p 127.0.0.1:8501:8501 -v {whole}:/models/{name} -e MODEL_NAME={name} "
        f"tensorflow/serving:2.20.0\n      t2t-lite-query --server=localhost:8501 --model={name}"
    )


if __name__ == "__main__":
    sys.exit(main())
