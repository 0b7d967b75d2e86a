"""Opens a trained run for decoding and scoring: its model with the weights of a checkpoint, its vocabularies."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from t2t_lite import config
from t2t_lite.data.store import Store
from t2t_lite.data.vocabulary_files import load_pair
from t2t_lite.decoding.translate import Translator
from t2t_lite.distributed.devices import on_gpus
from t2t_lite.errors import DamagedError
from t2t_lite.files import StrPath
from t2t_lite.groups import DECODE
from t2t_lite.models.ensemble import Ensemble
from t2t_lite.ops.int8 import quantize
from t2t_lite.runs.checkpoint import Checkpoints, find
from t2t_lite.runs.ensemble_check import check_members, notices
from t2t_lite.runs.record import make_record, read_record
from t2t_lite.runs.resume import check_checkpoint
from t2t_lite.runs.run_data import check_files, open_run_data
from t2t_lite.runs.run_dir import RunSpec, make_model, read_run
from t2t_lite.runs.scores_file import describe_weights
from t2t_lite.text.any_vocabulary import AnyVocabulary
from t2t_lite.text.shortlist import Shortlist

_log = logging.getLogger("t2t_lite")


@dataclasses.dataclass(frozen=True)
class OpenRun:
    """A run with weights: `checkpoint` is their path and `step` the update they belong to."""

    output_dir: Path
    spec: RunSpec
    model: Any
    checkpoints: Checkpoints
    vocabularies: tuple[AnyVocabulary, AnyVocabulary]
    translator: Translator
    checkpoint: str
    step: int

    @property
    def members(self) -> tuple[OpenRun, ...]:
        """The run itself: it is no ensemble."""
        return (self,)

    def store(self) -> Store:
        """The prepared data of the run; as `open_run_data`."""
        return open_run_data(self.spec, self.output_dir)


@dataclasses.dataclass(frozen=True)
class OpenEnsemble:
    """Runs that decode and score as one model, with the data and the search of the first that was named.

    members: in the order of their weights' checksums, so that the last bits of scores depend on no other order.
    """

    first: OpenRun
    members: tuple[OpenRun, ...]
    model: Ensemble
    translator: Translator

    @property
    def spec(self) -> RunSpec:
        """The spec of the first run."""
        return self.first.spec

    @property
    def checkpoint(self) -> str:
        """The paths of the members' weights."""
        return ", ".join(member.checkpoint for member in self.members)

    def store(self) -> Store:
        """The prepared data of the first run, as `OpenRun.store`."""
        return self.first.store()


def open_run(
    output_dir: StrPath,
    *,
    checkpoint: str | None = None,
    usr_dir: str | None = None,
    precision: str | None = None,
    **decoding: Any,
) -> OpenRun:
    """Builds a run's model and loads a checkpoint into it.

    Args:
        checkpoint: see `checkpoint.find`.
        usr_dir: the user's own code; needed if the run was trained with such code.
        precision: used instead of the run's. "int8" is float32 with matrices of int8; see `quantize`.
        decoding: hparams to use instead of the run's, such as beam_size; None leaves the run's.
    """
    spec = read_run(output_dir, usr_dir)
    path = find(output_dir, checkpoint)
    check_files(output_dir, spec.files)
    try:
        check_checkpoint(read_record(path), spec, path, training=False)
        record = make_record(spec)
        decoding["precision"] = "float32" if precision == "int8" else precision
        changes = {name: value for name, value in decoding.items() if value is not None}
        spec = dataclasses.replace(spec, hparams=config.replace(spec.hparams, **changes))
        source, target = vocabularies = load_pair(output_dir)
        sizes = source.size, target.size, source is target
        model = make_model(spec.model, spec.hparams, *sizes, restored=True)
        checkpoints = Checkpoints(output_dir, model, record=record)
        step = checkpoints.load_weights(path)
    except DamagedError as error:
        advice = "Choose another with --checkpoint; the trainer resumes from the one before it by itself."
        raise DamagedError(f"{error} {advice}") from error
    if precision == "int8":
        quantize(model)
    outputs = spec.make_problem().codec.outputs(output_dir, target)
    translator = Translator(model, source, target, spec.hparams.decode, outputs=outputs, jit=on_gpus())
    return OpenRun(Path(output_dir), spec, model, checkpoints, vocabularies, translator, path, step)


def open_runs(output_dirs: Sequence[str], **options: Any) -> OpenRun | OpenEnsemble:
    """Opens a run, or several as an ensemble, which takes search settings that `options` leave out from the first.

    Args:
        options: those of `open_run`.
    """
    if len(output_dirs) == 1:
        return open_run(output_dirs[0], **options)
    specs = [read_run(folder, options.get("usr_dir")) for folder in output_dirs]
    check_members(output_dirs, specs)
    for notice in notices(output_dirs, specs, [name for name in DECODE if options.get(name) is not None]):
        _log.info(notice)
    first = open_run(output_dirs[0], **options)
    search = {name: getattr(first.spec.hparams, name) for name in DECODE}
    runs = [first, *(open_run(folder, **{**options, **search}) for folder in output_dirs[1:])]
    runs.sort(key=lambda run: str(describe_weights(run.checkpoint)["checksum"]))
    model, own = Ensemble([run.model for run in runs]), first.translator
    how: dict[str, Any] = {"outputs": own.outputs, "jit": own.search_graph.jit}
    translator = Translator(model, *first.vocabularies, first.spec.hparams.decode, **how)
    return OpenEnsemble(first, tuple(runs), model, translator)


def read_shortlist(run: OpenRun | OpenEnsemble) -> Shortlist:
    """Returns the shortlist of a run, or of the first one of an ensemble; raises as `Shortlist.read`."""
    first = run.first if isinstance(run, OpenEnsemble) else run
    return Shortlist.read(first.output_dir, *first.vocabularies)
