"""Model card of an open run or ensemble."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from t2t_lite import config
from t2t_lite.errors import DamagedError, DataError
from t2t_lite.files import read_json

if TYPE_CHECKING:
    from t2t_lite.problem import Problem
    from t2t_lite.runs.open_run import OpenEnsemble, OpenRun


def make_card(run: OpenRun | OpenEnsemble) -> dict[str, Any]:
    """Returns the model card of an open run or ensemble, with the scores of what was opened."""
    from t2t_lite.runs.open_run import OpenEnsemble

    return _of_ensemble(run) if isinstance(run, OpenEnsemble) else _of_run(run)


def _of_run(run: OpenRun) -> dict[str, Any]:
    from t2t_lite.export.model_card import model_card

    problem = run.spec.make_problem()
    path = Path(run.checkpoint)
    splits = _splits(run)
    return model_card(
        run.translator,
        problem,
        run.spec.hparams,
        model=run.spec.model,
        hparams_set=run.spec.hparams_set,
        checkpoint=f"{path.parent.name}/{path.name}",
        step=run.step,
        scores=_scores(run, problem),
        pairs={split: facts["pairs"] for split, facts in splits.items()},
        in_train={split: facts["in_train"] for split, facts in splits.items() if "in_train" in facts},
        imported=_origin(run.output_dir),
    )


def _origin(folder: Path) -> dict[str, Any] | None:
    """What a model card says of where an imported run comes from; None if no import.json says it.

    Paths of a machine are private: of each checkpoint it has the name only, with the SHA-256 of each of its files.

    Raises:
        DataError: import.json has another format.
    """
    from t2t_lite.runs.run_dir import FORMAT, IMPORT_FILE

    try:
        record = read_json(folder / IMPORT_FILE, FORMAT, _checkpoints)
    except (OSError, DamagedError):  # absent, or damaged, which hinders no command
        return None
    return {"toolkit": record.get("toolkit"), "checkpoints": _checkpoints(record)}


def _checkpoints(record: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"name": os.path.basename(checkpoint["path"]), "sha256": dict(checkpoint["sha256"])}
        for checkpoint in record["checkpoints"]
    ]


def _scores(run: OpenRun, problem: Problem) -> list[dict[str, Any]]:
    """Returns the scores in the run's files that belong to exactly the exported weights and search.

    If there is no dev score among them, the training's evaluation after the weights' last update counts, where the
    recipe had the same search then; the checkpoint has a record of it. A mean of checkpoints has no such evaluation.
    """
    from t2t_lite.export.model_card import signature_of
    from t2t_lite.runs.metrics_log import read_comparable
    from t2t_lite.runs.ranking import SCORES
    from t2t_lite.runs.record import read_record
    from t2t_lite.runs.scores_file import describe_weights, scores_of

    settings = run.translator.settings
    found = scores_of(run.output_dir, run.checkpoint, settings, run.spec.data_sha256)
    weights, has_dev = describe_weights(run.checkpoint)["path"], any(score["split"] == "dev" for score in found)
    if settings["precision"] == "int8" or weights.startswith("averaged/") or has_dev:
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
            "signature": signature_of(problem),
            "weights": weights,
            **({"lines": lines} if lines else {}),
        }
        for row in read_comparable(run.output_dir)
        if row["step"] == run.step
        for name, value in row.items()
        if name.startswith(SCORES)
    ]


def _splits(run: OpenRun) -> dict[str, dict[str, Any]]:
    """What the manifest of the data that the run was trained on says about the splits; empty where it is not there."""
    try:
        store = run.store()
    except (DataError, OSError):  # a run can be exported without its data, or with a folder that cannot be read
        return {}
    if run.spec.data_sha256 != store.checksum:  # prepared again since, and the run was not trained on them
        return {}
    splits: dict[str, dict[str, Any]] = store.manifest["splits"]
    return splits


_SHARED = ("made_by", "date", "problem", "vocabularies", "trees", "versions", "batching", "licence")
_OWN = ("model", "parameters", "hparams_set", "hparams", "checkpoint", "step", "scores", "training_data", "imported")


def _of_ensemble(ensemble: OpenEnsemble) -> dict[str, Any]:
    """Returns an ensemble's card; "members" has the facts of each member alone, by the prefix of its weights.

    The rest is what the members share and how the ensemble searches. hparams are those of the search, and the
    precision, or the members' precisions if they differ.
    """
    from t2t_lite.runs.ensemble_check import DECODING

    cards = [_of_run(member) for member in ensemble.members]
    names = [member.output_dir.resolve().name for member in ensemble.members]  # the path to it stays private
    first = cards[ensemble.members.index(ensemble.first)]
    precisions = sorted({card["hparams"]["precision"] for card in cards})
    return {
        **{name: first[name] for name in _SHARED if name in first},
        "model": "ensemble",
        "parameters": sum(card["parameters"] for card in cards),
        "hparams_set": ", ".join(card["hparams_set"] for card in cards),
        "hparams": {name: first["hparams"][name] for name in DECODING} | {"precision": ", ".join(precisions)},
        "checkpoint": ", ".join(f"{name}/{card['checkpoint']}" for name, card in zip(names, cards, strict=True)),
        "scores": [],
        "scores_note": "not scored: t2t-lite-eval prints an ensemble's scores and keeps them in no file; those of a "
        "member are of that member alone",
        "members": {
            prefix.rstrip("/"): {"run": name, **{key: card[key] for key in _OWN if key in card}}
            for prefix, name, card in zip(ensemble.model.members(), names, cards, strict=True)
        },
    }
