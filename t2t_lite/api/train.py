"""`t2t_lite.train`: trains as t2t-lite-trainer does."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from t2t_lite.api.load import LoadedRun


def train(
    problem: str,
    hparams: str,
    output_dir: str | os.PathLike[str],
    *,
    overrides: Mapping[str, Any] | None = None,
    **flags: Any,
) -> LoadedRun:
    """Trains as t2t-lite-trainer does, or goes on with a run; shows progress, and returns the run.

    Args:
        problem: a registered name, such as "toy_ende".
        hparams: a registered set's name, such as "tiny".
        output_dir: the run's folder.
        overrides: hparams of the set to change, such as {"train_steps": 2000}.
        flags: other flags of t2t-lite-trainer by name, without the dashes; True for one that takes no value.

    Raises:
        UsageError, DataError, TrainingError: the errors that the command prints.
        KeyboardInterrupt: Ctrl-C, after a checkpoint was saved; the same call goes on.
    """
    from t2t_lite.bin import trainer

    output_dir = os.path.expanduser(output_dir)
    if flags.get("usr_dir"):
        flags["usr_dir"] = os.path.expanduser(flags["usr_dir"])
    argv = [f"--problem={problem}", f"--hparams_set={hparams}", f"--output_dir={output_dir}"]
    if overrides:
        argv.append("--hparams=" + ",".join(f"{name}={value}" for name, value in overrides.items()))
    if "shared_vocab" in flags:  # as a problem's constructor has it
        flags["separate_vocabularies"] = flags.pop("shared_vocab") is False
    parser = trainer.make_parser()
    parser.raises = True
    for name, value in flags.items():
        parser.check_flag(f"--{name}")
        if value is not None and value is not False:
            argv.append(f"--{name}" if value is True else f"--{name}={value}")
    if trainer.train(argv):
        raise KeyboardInterrupt
    from t2t_lite.runs.open_run import open_run
    from t2t_lite.runs.run_dir import recorded_code

    code = recorded_code(output_dir) if flags.get("trust_run") else flags.get("usr_dir")
    return LoadedRun(open_run(output_dir, usr_dir=code))
