"""Whether a run may resume: what its folder holds, compared with what is asked for."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from t2t_lite.errors import DataError, UsageError
from t2t_lite.runs import default_weights
from t2t_lite.runs.checkpoint_files import AVERAGED, BEST, list_traces
from t2t_lite.runs.run_changes import check_same as check_same
from t2t_lite.runs.run_dir import RunSpec, has_checkpoint

if TYPE_CHECKING:
    from t2t_lite.runs.start_request import StartRequest


def _has_ended(run: Path) -> bool:
    """Whether a training run in this folder came to its end, and weights of it are there."""
    best = (run / default_weights.FILE).exists() and list_traces(run / BEST)
    return bool(best or list_traces(run / AVERAGED))


def check_ended(output_dir: str | os.PathLike[str], spec: RunSpec) -> None:
    """Raises DataError if a run has ended and has no checkpoint to resume from: it would start over."""
    run = Path(output_dir)
    if _has_ended(run) and not has_checkpoint(run) and not spec.make_problem().without_data:  # such as an imported run
        raise DataError(
            f"{run / 'checkpoints'} holds no checkpoint to resume from, and training from the beginning would "
            f"overwrite the weights that are in {run}. Put the checkpoints back from a copy; or start a run in another "
            f"folder from these weights: --output_dir=ANOTHER --warm_start_from={run} --vocabulary={run}."
        )


def check_begun(request: StartRequest) -> None:
    """Raises UsageError if a run that has no checkpoint yet would start from random weights, not from another's."""
    run = Path(str(request.output_dir))
    if request.warm_start_from is not None or has_checkpoint(run) or _has_ended(run):
        return
    from t2t_lite.runs.run_log import read_request

    before = read_request(run)
    if source := before.get("warm_start_from"):
        again = shlex.quote(f"--warm_start_from={source}") + " --with_optimizer" * bool(before.get("with_optimizer"))
        raise UsageError(
            f"The run in {run} has no checkpoint yet, and was to start from the weights of {source}. Give that again: "
            f"{again}"
        )
