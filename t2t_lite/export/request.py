"""ExportRequest: which runs are exported, in which format and where to; `export_runs` does it."""

from __future__ import annotations

import dataclasses
import importlib.util
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from t2t_lite import config
from t2t_lite.distributed.tensorflow_loading import load_tensorflow, quiet
from t2t_lite.errors import UsageError, did_you_mean
from t2t_lite.export.export_folder import DEFAULT_SIGNATURES, SIGNATURES, versions
from t2t_lite.files import check_tensorflow_folder
from t2t_lite.remote.mirror import has, open_folder, push
from t2t_lite.text.trees.codec import InOrderCodec

if TYPE_CHECKING:
    from t2t_lite.runs.open_request import OpenRequest
    from t2t_lite.runs.open_run import OpenEnsemble, OpenRun

_OTHER_SEARCH = (
    "not scored: CTranslate2 searches, and rounds to int8, in its own way; t2t-lite-eval --hypotheses=FILE "
    "--references=FILE scores what it writes"
)
_OWN_SEARCH = "these weights, with the search of t2t-lite; {} searches in its own way"


class Format(NamedTuple):
    """A format of exports: its folder in a run's, a file that each of its versions holds, and its precisions."""

    folder: str
    mark: str
    precisions: tuple[str, ...]


FORMATS = {
    "saved_model": Format("export", "saved_model.pb", ("float32", "bfloat16", "float16", "int8")),
    "ctranslate2": Format("export_ctranslate2", "model.bin", ("float32", "int8")),
    "marian": Format("export_marian", "model.npz", ("float32",)),
    "huggingface": Format("export_huggingface", "model.safetensors", ("float32",)),
}


class Export(NamedTuple):
    """What was exported: the folder of the new version, and its model card."""

    version: Path
    card: dict[str, Any]


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExportRequest:
    """An export, as asked for.

    Attributes:
        runs: a run, or several as an ensemble, with weights, precision and search.
        format: one of FORMATS.
        export_dir: the folder of versions; None: in the run's folder.
        signatures: those of a SavedModel besides serving_default; None: the usual ones.
        warmup_batch_size: sentences of the largest warm-up request; None: 8.
        banned_words: what no output writes.
    """

    runs: OpenRequest
    format: str = "saved_model"
    export_dir: str | None = None
    signatures: tuple[str, ...] | None = None
    warmup_batch_size: int | None = None
    banned_words: tuple[str, ...] = ()

    @property
    def base(self) -> str:
        """The folder of versions; of a URL, its working copy."""
        if self.export_dir:
            return open_folder(self.export_dir)
        return os.path.join(self.runs.folders[0], FORMATS[self.format].folder)

    def check(self) -> None:
        """Raises T2TError, before TensorFlow is loaded, if this cannot be exported."""
        from t2t_lite.export.expressible import ENGINES, check_recipe, check_search

        name, precision = self.format, self.runs.precision
        if len(self.runs.folders) > 1 and name != "saved_model":
            engine = {"ctranslate2": "CTranslate2", **ENGINES}[name]
            raise UsageError(f"{engine} runs one model, not an ensemble; export it with --format=saved_model.")
        if len(self.runs.folders) > 1 and self.export_dir is None:
            raise UsageError(
                "An ensemble belongs to none of its runs' folders: say where it goes, with --export_dir=DIR."
            )
        for signature in self.signatures or ():
            if signature not in SIGNATURES:
                advice = did_you_mean(signature, SIGNATURES)
                raise UsageError(f"--signatures: there is no {signature!r}, only {', '.join(SIGNATURES)}.{advice}")
        for flag in ("signatures", "warmup_batch_size"):
            if name != "saved_model" and getattr(self, flag) is not None:
                raise UsageError(f"--{flag} is for TensorFlow Serving; --format={name} has no signatures.")
        if precision not in (None, *FORMATS[name].precisions):
            choices = " or ".join(FORMATS[name].precisions)
            raise UsageError(f"--format={name} has --precision={choices}, not {precision}.")
        if name == "ctranslate2" and importlib.util.find_spec(name) is None:
            raise UsageError("--format=ctranslate2 needs the package ctranslate2: pip install 't2t-lite[ctranslate2]'.")
        for other in FORMATS.keys() - {name}:
            # A program that takes the newest version would find one that it cannot read.
            if any(has(version / FORMATS[other].mark) for version in versions(self.base).values()):
                raise UsageError(f"{self.base} has versions with --format={other}; give another --export_dir.")
        specs = self.runs.check()
        if isinstance(specs[0].make_problem().codec, InOrderCodec):
            raise UsageError(
                "An export reads trees in brackets, and this parser writes them with linearization=in_order. Use the "
                "run, with t2t-lite-decoder or t2t_lite.load."
            )
        if name != "saved_model":
            decode = config.replace(specs[0].hparams, **self.runs.search).decode
            check_search(name, decode, self.banned_words)
        if name in ENGINES:
            check_recipe(name, specs[0].model, specs[0].hparams)
        check_tensorflow_folder("export_dir", self.base)


def export_runs(request: ExportRequest, interrupt: Callable[[], None] = lambda: None) -> Export:
    """Writes a new version.

    Args:
        request: checked here, too.
        interrupt: called before the version is written; raises what should end the export.

    Raises:
        T2TError: as `ExportRequest.check`, or the runs cannot be opened.
    """
    request.check()
    load_tensorflow()
    from t2t_lite.export.expressible import ENGINES
    from t2t_lite.export.model_card import make_card

    other = request.format != "saved_model"
    run = (dataclasses.replace(request.runs, precision="float32") if other else request.runs).open()
    card = make_card(run)
    if request.format == "ctranslate2":
        card |= {"scores": [], "scores_note": _OTHER_SEARCH}
    elif other and card["scores"]:
        card["scores_note"] = _OWN_SEARCH.format(ENGINES[request.format])
    interrupt()
    with quiet():
        version = _write(run, request, card)
    push(version)
    return Export(version, card)


def _write(run: OpenRun | OpenEnsemble, request: ExportRequest, card: dict[str, Any]) -> Path:
    from t2t_lite.export.origin import Origin, read_origin
    from t2t_lite.runs.run_dir import LICENCE_FILE

    origin = read_origin(run.members[0].output_dir) if len(run.members) == 1 else Origin()
    licence = origin.files.get(LICENCE_FILE)
    if request.format == "ctranslate2":
        from t2t_lite.export.ctranslate2_export import export_ctranslate2

        precision = request.runs.precision or "float32"
        return export_ctranslate2(run.translator, request.base, card, precision=precision, licence=licence)
    if request.format == "marian":
        from t2t_lite.export.marian_export import export_marian

        return export_marian(run.translator, request.base, card, origin)
    if request.format == "huggingface":
        from t2t_lite.export.huggingface_export import export_huggingface

        return export_huggingface(run.translator, request.base, card, origin)
    from t2t_lite.export.export import export
    from t2t_lite.export.saved_model import ServedModel
    from t2t_lite.export.warmup import BATCH_SIZE

    if request.banned_words:
        run.translator.ban(request.banned_words)
        card = {**card, "banned_words": [*request.banned_words]}
    asked = DEFAULT_SIGNATURES if request.signatures is None else ("serving_default", *request.signatures)
    served = ServedModel(run.translator, tuple(dict.fromkeys(asked)))
    return export(served, request.base, card, request.warmup_batch_size or BATCH_SIZE, licence)
