"""`t2t_lite.train`: trains as t2t-lite-trainer does."""

import dataclasses
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from t2t_lite.api.load import LoadedRun
from t2t_lite.errors import UsageError, did_you_mean

_PATHS = "data_dir usr_dir vocabulary hparams_file warm_start_from source_dir extra_dir raw_dir".split()
_ARGUMENTS = "output_dir data recipe problem options hparams_set overrides callbacks".split()  # fields with other names


def train(
    problem: str,
    hparams: str,
    output_dir: str | os.PathLike[str],
    *,
    overrides: Mapping[str, Any] | None = None,
    problem_options: Mapping[str, Any] | None = None,
    trust_run: bool = False,
    callbacks: Sequence[Any] = (),
    **settings: Any,
) -> LoadedRun:
    """Trains as t2t-lite-trainer does, or resumes a run; shows progress, and returns the run.

    Args:
        problem: a registered name, such as "toy_ende".
        hparams: a registered set's name, such as "tiny".
        output_dir: the run's folder, or its URL in a store.
        overrides: hparams of the set to change, such as {"train_steps": 2000}.
        problem_options: options of a problem of your own; those of this package's problems are settings, too.
        trust_run: import the code in the folder that the run names.
        callbacks: are told of losses and scores: objects of keras.callbacks.Callback, functions of (step, logs), or
            registered names; see docs/callbacks.md.
        settings: other flags of t2t-lite-trainer by name, such as source_dir="corpus", devices=2, prepare_again=True.

    Raises:
        UsageError, DataError, TrainingError: the errors that the command prints.
        KeyboardInterrupt: Ctrl-C, after a checkpoint was saved; the same call resumes the run.
    """
    from t2t_lite.remote.mirror import open_folder
    from t2t_lite.runs.data_request import FLAG_OPTIONS, DataRequest
    from t2t_lite.runs.open_run import open_run
    from t2t_lite.runs.recipe_request import RecipeRequest
    from t2t_lite.runs.run_dir import read_code_folder
    from t2t_lite.runs.start_request import StartRequest
    from t2t_lite.training.start import plan_start, train

    if isinstance(callbacks, str | Mapping) or not isinstance(callbacks, Iterable):
        raise UsageError(f"callbacks={callbacks!r} is not a list. Write callbacks=[...].")
    callbacks, output_dir = [*callbacks], os.path.expanduser(output_dir)
    if trust_run and (code := read_code_folder(open_folder(output_dir))):
        settings["usr_dir"] = code
    parts: dict[type, dict[str, Any]] = {DataRequest: {}, RecipeRequest: {}, StartRequest: {}}
    taken = {field.name: cls for cls in parts for field in dataclasses.fields(cls) if field.name not in _ARGUMENTS}
    options, changes = dict(problem_options or {}), dict(overrides or {})
    if (steps := settings.pop("train_steps", None)) is not None:
        changes["train_steps"] = steps
    if settings.get("accumulate") == "auto":
        del settings["accumulate"]
    for name, value in settings.items():
        if name not in taken and name not in FLAG_OPTIONS:
            raise UsageError(f"train takes no setting {name!r}.{did_you_mean(name, [*taken, *FLAG_OPTIONS])}")
        if value is None:
            continue
        where = parts[taken[name]] if name in taken else options
        value = os.fspath(value) if isinstance(value, os.PathLike) else value
        where[name] = os.path.expanduser(value) if name in _PATHS else value
    data = DataRequest(problem=problem, options=options, **parts[DataRequest])
    recipe = RecipeRequest(hparams_set=hparams, overrides=changes, **parts[RecipeRequest])
    names = tuple(each for each in callbacks if isinstance(each, str))
    request = StartRequest(output_dir=output_dir, data=data, recipe=recipe, callbacks=names, **parts[StartRequest])
    objects = [each for each in callbacks if not isinstance(each, str)]
    if (result := train(plan_start(request), objects)) is not None:
        print(result.text())
    return LoadedRun(open_run(open_folder(output_dir), usr_dir=data.usr_dir))
