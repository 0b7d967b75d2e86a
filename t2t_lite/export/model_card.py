"""model_card.json: what an open run or ensemble is, its training data and its scores."""

from __future__ import annotations

import importlib.metadata
import inspect
import math
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from t2t_lite import config
from t2t_lite.errors import DataError, UsageError
from t2t_lite.groups import DECODE
from t2t_lite.ops.int8 import int8_matrices
from t2t_lite.problem import Problem
from t2t_lite.runs.metrics_log import read_comparable
from t2t_lite.runs.open_run import OpenEnsemble, OpenRun
from t2t_lite.runs.ranking import SCORES
from t2t_lite.runs.record import read_record
from t2t_lite.runs.run_dir import IMPORT_FILE, STARTED_FROM_FILE
from t2t_lite.runs.scores_file import describe_weights, scores_of
from t2t_lite.runs.started_from import read_import
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
_IMPORTS = {"imported": IMPORT_FILE, "fine_tuned_from": STARTED_FROM_FILE}  # entries of a card
_BATCHING = (
    "A text has the same output alone and in a batch, but for rounding: in float32 scores differ in the 6th digit; "
    "bfloat16, float16 and int8 round between the layers, which moves scores by up to about 0.02, and now and then an "
    "output."
)


def make_card(run: OpenRun | OpenEnsemble) -> dict[str, Any]:
    """Returns the model card of an open run or ensemble, JSON-ready, with the scores of what was opened."""
    return _of_ensemble(run) if isinstance(run, OpenEnsemble) else _of_run(run)


def _of_run(run: OpenRun) -> dict[str, Any]:
    translator, problem, checkpoint = run.translator, run.spec.make_problem(), Path(run.checkpoint)
    int8 = int8_matrices(translator.model).values()
    shapes = [kernel.shape for kernel in int8] + [tuple(weight.shape) for weight in translator.model.weights]
    languages: dict[str, Any] = {name: getattr(problem, name) for name in ("source_language", "target_language")}
    if labels := translator.source_vocabulary.labels:
        languages["labels"] = list(labels)
    scores, splits = _scores(run, problem), _splits(run)
    imports = {entry: read_import(run.output_dir, file) for entry, file in _IMPORTS.items()}
    outputs = translator.outputs
    trees = {} if outputs.is_text else {"trees": {**outputs.describe(), problem.metric: _signature(problem)}}
    return {
        "made_by": f"t2t-lite {local_version()}",
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "problem": {
            "name": problem.name,
            "description": (inspect.getdoc(problem) or "").partition("\n")[0],
            **languages,
        },
        "model": run.spec.model,
        "parameters": sum(map(math.prod, shapes)),
        "hparams_set": run.spec.hparams_set,
        "hparams": config.to_dict(run.spec.hparams) | ({"precision": "int8"} if int8 else {}),
        "checkpoint": f"{checkpoint.parent.name}/{checkpoint.name}",
        "step": run.step,
        "scores": scores,
        **({} if scores else {"scores_note": _NO_DATA if problem.without_data else _NOT_SCORED}),
        **{entry: found for entry, found in imports.items() if found},
        "training_data": {
            "options": without_folders(problem.all_options()),
            "pairs": {split: facts["pairs"] for split, facts in splits.items()},
            "in_train": {split: facts["in_train"] for split, facts in splits.items() if "in_train" in facts},
        },
        "vocabularies": {
            side: {"pieces": vocabulary.size, "sha256": vocabulary.checksum}
            for side, vocabulary in (("source", translator.source_vocabulary), ("target", translator.target_vocabulary))
        },
        **trees,
        "versions": {
            "python": ".".join(map(str, sys.version_info[:3])),
            "tensorflow": tf.__version__,
            "keras": keras.__version__,
            **{name: importlib.metadata.version(name) for name in ("tensorflow-text", "sentencepiece")},
        },
        "batching": _BATCHING,
        "licence": _licence(**imports),
    }


def _licence(imported: Mapping[str, Any] | None, fine_tuned_from: Mapping[str, Any] | None) -> str:
    """What is known of a model's licence."""
    found = (imported or fine_tuned_from or {}).get("licence")
    if not found:
        return _LICENCE
    where = "in the file LICENSE" if found.get("file") else "as its card named it"
    licence = f"{found.get('name') or 'of its own'}, {where}"
    if imported:
        return f"This model was imported. The licence that it came with, {licence}, is that of this model, too."
    return (
        f"This model was fine-tuned from an imported one. The licence that that one came with, {licence}, is that of "
        "this model, too; the terms of the data that it was fine-tuned on may add to it."
    )


def _scores(run: OpenRun, problem: Problem) -> list[dict[str, Any]]:
    """Returns the scores in the run's files that belong to exactly the exported weights and search.

    If there is no dev score among them, the training's evaluation after the weights' last update counts, where the
    recipe had the same search then; the checkpoint has a record of it. A mean has no such evaluation.
    """
    settings = run.translator.settings
    found = scores_of(run.output_dir, run.checkpoint, settings, run.spec.data_sha256)
    weights, has_dev = describe_weights(run.checkpoint)["path"], any(score["split"] == "dev" for score in found)
    if settings["precision"] == "int8" or weights.startswith(("averaged/", "ema/")) or has_dev:
        return found
    record = read_record(run.checkpoint)
    if record["data_sha256"] != run.spec.data_sha256:
        return found
    trained = config.from_dict(type(run.spec.hparams), record["hparams"])
    if any(getattr(trained, name) != getattr(run.spec.hparams, name) for name in settings):
        return found
    lines = trained.eval_lines
    return found + [
        {
            "split": "dev",
            "metric": "score" if name == "dev_score" else problem.metric,
            "value": value,
            "signature": _signature(problem),
            "weights": weights,
            **({"lines": lines} if lines else {}),
        }
        for row in read_comparable(run.output_dir)
        if row["step"] == run.step
        for name, value in row.items()
        if name.startswith(SCORES)
    ]


def _signature(problem: Problem) -> str | None:
    """How the problem's metric is computed; None where something that it needs is not installed."""
    try:
        return problem.make_metric().signature
    except (UsageError, ImportError, OSError, RuntimeError):
        return None


def _splits(run: OpenRun) -> dict[str, dict[str, Any]]:
    """The splits in the manifest of the data that the run was trained on; empty where these data are not there."""
    try:
        store = run.store()
    except (DataError, OSError):  # a run can be exported without its data, or with a folder that cannot be read
        return {}
    splits: dict[str, dict[str, Any]] = store.manifest["splits"]
    return splits if run.spec.data_sha256 == store.checksum else {}


def without_folders(options: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a problem's options with folders cut to their names, because paths of a machine are private.

    An option may name several folders, with commas between, or one after two commas (see `data.corpora`).
    """
    return {
        name: _names(value) if isinstance(value, str) and os.path.isabs(value.removeprefix(",,")) else value
        for name, value in options.items()
    }


def _names(folders: str) -> str:
    parts = [folders] if folders.startswith(",,") else folders.split(",")
    return ",".join(map(os.path.basename, parts))


_SHARED = ("made_by", "date", "problem", "vocabularies", "trees", "versions", "batching", "licence")
_OWN = ("model", "parameters", "hparams_set", "hparams", "checkpoint", "step", "scores", "training_data", *_IMPORTS)


def _of_ensemble(ensemble: OpenEnsemble) -> dict[str, Any]:
    """Returns an ensemble's card; "members" has the facts of each member alone, by the prefix of its weights.

    The rest is what the members share and how the ensemble searches.
    """
    cards = [_of_run(member) for member in ensemble.members]
    names = [member.output_dir.resolve().name for member in ensemble.members]  # the path to it stays private
    first = cards[ensemble.members.index(ensemble.first)]
    precisions = sorted({card["hparams"]["precision"] for card in cards})
    return {
        **{name: first[name] for name in _SHARED if name in first},
        "model": "ensemble",
        "parameters": sum(card["parameters"] for card in cards),
        "hparams_set": ", ".join(card["hparams_set"] for card in cards),
        "hparams": {name: first["hparams"][name] for name in DECODE} | {"precision": ", ".join(precisions)},
        "checkpoint": ", ".join(f"{name}/{card['checkpoint']}" for name, card in zip(names, cards, strict=True)),
        "scores": [],
        "scores_note": "not scored: t2t-lite-eval prints an ensemble's scores and keeps them in no file; those of a "
        "member are of that member alone",
        "members": {
            prefix.rstrip("/"): {"run": name, **{key: card[key] for key in _OWN if key in card}}
            for prefix, name, card in zip(ensemble.model.members(), names, cards, strict=True)
        },
    }
