"""Opens a trained run for decoding and scoring: its model with the weights of a checkpoint, its vocabularies."""

from __future__ import annotations

import dataclasses
import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from t2t_lite import config
from t2t_lite.data.store import Store, open_store
from t2t_lite.decode.translate import Translator
from t2t_lite.ops.int8 import quantize
from t2t_lite.text.tag_table import load_table
from t2t_lite.text.vocabulary import Vocabulary, load_pair
from t2t_lite.train.checkpoint import Checkpoints, find
from t2t_lite.train.evaluate import Evaluator
from t2t_lite.train.run_changes import make_record
from t2t_lite.train.run_data import check_vocabulary
from t2t_lite.train.run_dir import RunSpec, read_run
from t2t_lite.train.verify import verify_opened

_log = logging.getLogger("t2t_lite")


@dataclasses.dataclass(frozen=True)
class OpenRun:
    """A run with weights: `checkpoint` is their path and `step` the update they are of."""

    output_dir: Path
    spec: RunSpec
    model: Any
    checkpoints: Checkpoints
    vocabularies: tuple[Vocabulary, Vocabulary]
    translator: Translator
    checkpoint: str
    step: int

    def store(self) -> Store:
        """The prepared data of the run; DataError if it is gone, or was prepared again with another vocabulary."""
        store = open_store(self.spec.data_folder(self.output_dir) / self.spec.problem)
        check_vocabulary(self.output_dir, store)
        return store


@dataclasses.dataclass(frozen=True)
class RunScores:
    """What `evaluate_run` found; loss in nats per target token, perplexity per piece, how many trees were repaired.

    decoding: the search's settings, as `Translator.settings`.
    """

    checkpoint: str
    split: str
    loss: float
    perplexity: float
    hypotheses: Sequence[str]
    references: Sequence[str]
    repaired: int
    decoding: Mapping[str, Any]


def open_run(
    output_dir: str | os.PathLike[str],
    *,
    checkpoint: str | None = None,
    usr_dir: str | None = None,
    precision: str | None = None,
    **decoding: Any,
) -> OpenRun:
    """Builds a run's model and loads a checkpoint into it.

    Args:
        checkpoint: see `checkpoint.find`.
        usr_dir: the user's own code, which a run that was trained with such needs.
        precision: instead of the run's. "int8" is float32 with matrices of int8; see `quantize`.
        decoding: hparams to use instead of the run's, such as beam_size; None leaves the run's.
    """
    spec = read_run(output_dir, usr_dir)
    path = find(output_dir, checkpoint)
    if unverified := verify_opened(output_dir, spec, path):
        _log.info(unverified)
    decoding["precision"] = "float32" if precision == "int8" else precision
    hparams = config.replace(spec.hparams, **{name: value for name, value in decoding.items() if value is not None})
    record = make_record(spec)
    spec = dataclasses.replace(spec, hparams=hparams)
    source, target = vocabularies = load_pair(output_dir)
    model = spec.make_model(source.size, target.size, source is target)
    checkpoints = Checkpoints(output_dir, model, record=record)
    step = checkpoints.load_weights(path)
    if precision == "int8":
        quantize(model)
    trees = load_table(output_dir) if spec.make_problem().target_kind == "tree" else None
    translator = Translator.from_hparams(model, source, target, hparams, trees=trees)
    return OpenRun(Path(output_dir), spec, model, checkpoints, vocabularies, translator, path, step)


def evaluate_run(
    output_dir: str | os.PathLike[str],
    *,
    split: str | None = None,
    checkpoint: str | None = None,
    usr_dir: str | None = None,
    **decoding: Any,
) -> RunScores:
    """Scores a run on a split of its own data (None: test, or dev where there is no test set); else as `open_run`."""
    run = open_run(output_dir, checkpoint=checkpoint, usr_dir=usr_dir, **decoding)
    store = run.store()
    split = split or ("test" if "test" in store.splits() else "dev")
    problem = run.spec.make_problem()
    scores = Evaluator(run.model, store, run.translator, problem.metric, problem.evalb, problem.bleu_tokenize)(split)
    return RunScores(
        run.checkpoint,
        split,
        scores.loss,
        scores.perplexity,
        scores.hypotheses,
        scores.references,
        scores.repaired,
        run.translator.settings,
    )
