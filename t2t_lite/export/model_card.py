"""model_card.json: what a model is, its training data and its scores."""

from __future__ import annotations

import importlib.metadata
import inspect
import math
import os
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

import keras
import tensorflow as tf

from t2t_lite import config
from t2t_lite.config import HParams
from t2t_lite.decoding.translate import Translator
from t2t_lite.errors import UsageError
from t2t_lite.ops.int8 import int8_matrices
from t2t_lite.problem import Problem
from t2t_lite.text.codec import Outputs
from t2t_lite.version import local_version

_LICENCE = (
    "t2t-lite is licensed under Apache-2.0; it lays no claim to models made with it. What may be done with this model "
    "depends on the terms of its training data, which t2t-lite does not know."
)

_NOT_SCORED = (
    "not scored: the run has no score of these weights with this search and precision; t2t-lite-eval makes one before "
    "the export, with the same flags"
)
_NO_DATA = (
    "not scored: the problem has no data of its own; t2t-lite-eval --hypotheses=FILE --references=FILE scores outputs"
)

_BATCHING = (
    "A text has the same output alone and in a batch, but for rounding: in float32 scores differ in the 6th digit; "
    "bfloat16 and int8 round between the layers, which moves scores by up to about 0.02, and now and then an output."
)


def model_card(
    translator: Translator,
    problem: Problem,
    hparams: HParams,
    *,
    model: str,
    hparams_set: str,
    checkpoint: str,
    step: int,
    scores: Sequence[Mapping[str, Any]],
    pairs: Mapping[str, int],
    in_train: Mapping[str, Mapping[str, int]],
    imported: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Returns the card, JSON-ready.

    Args:
        hparams: those the model runs with, decoding included.
        model, hparams_set: their registered names.
        checkpoint, step: which weights of the run.
        scores: of exactly these weights, each with its split, metric, value and signature (None: not known); empty
            where there are none.
        pairs: sentence pairs by split; empty where the data that the run was trained on are not there.
        in_train: how many pairs and sources of a split are also in train, by split, as far as is known.
        imported: the origin of a model that was imported, JSON-ready.
    """
    int8 = int8_matrices(translator.model).values()
    shapes = [kernel.shape for kernel in int8] + [tuple(weight.shape) for weight in translator.model.weights]
    languages = {"source_language": problem.source_language, "target_language": problem.target_language}
    return {
        "made_by": f"t2t-lite {local_version()}",
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "problem": {"name": problem.name, "description": _first_line(problem), **languages},
        "model": model,
        "parameters": sum(map(math.prod, shapes)),
        "hparams_set": hparams_set,
        "hparams": config.to_dict(hparams) | ({"precision": "int8"} if int8 else {}),
        "checkpoint": checkpoint,
        "step": step,
        "scores": list(scores),
        **({} if scores else {"scores_note": _NO_DATA if problem.without_data else _NOT_SCORED}),
        **({"imported": dict(imported)} if imported else {}),
        "training_data": {
            "options": _without_folders(problem.all_options()),
            "pairs": dict(pairs),
            "in_train": dict(in_train),
        },
        "vocabularies": {
            side: {"pieces": vocabulary.size, "sha256": vocabulary.checksum}
            for side, vocabulary in (("source", translator.source_vocabulary), ("target", translator.target_vocabulary))
        },
        **({} if translator.outputs.is_text else {"trees": _trees(translator.outputs, problem)}),
        "versions": {
            "python": ".".join(map(str, sys.version_info[:3])),
            "tensorflow": tf.__version__,
            "keras": keras.__version__,
            **{name: importlib.metadata.version(name) for name in ("tensorflow-text", "sentencepiece")},
        },
        "batching": _BATCHING,
        "licence": _LICENCE,
    }


def _trees(outputs: Outputs, problem: Problem) -> dict[str, str | None]:
    return {**outputs.describe(), problem.metric: signature_of(problem)}


def signature_of(problem: Problem) -> str | None:
    """How the problem's metric is computed; None: not known here, where something that it needs is not installed."""
    try:
        return problem.make_metric().signature
    except (UsageError, ImportError, OSError, RuntimeError):
        return None


def _first_line(problem: Problem) -> str:
    return (inspect.getdoc(problem) or "").partition("\n")[0]


def _without_folders(options: Mapping[str, Any]) -> dict[str, Any]:
    """Returns options with the paths of folders cut to their names: paths of a machine are private.

    An option may name several folders, with a comma between them (see `data.corpora`).
    """
    return {
        name: _names(value) if isinstance(value, str) and os.path.isabs(value.removeprefix(",,")) else value
        for name, value in options.items()
    }


def _names(folders: str) -> str:
    """The names of several folders, or of a single one with two commas before it, whose name may hold commas."""
    parts = [folders] if folders.startswith(",,") else folders.split(",")
    return ",".join(map(os.path.basename, parts))
