"""The speed of a training on this machine, by which t2t-lite-compare turns minutes into updates."""

import dataclasses
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from t2t_lite.data.plan import Plan
from t2t_lite.distributed.devices import on_gpus
from t2t_lite.errors import TrainingError
from t2t_lite.runs.metrics_log import read_metrics
from t2t_lite.runs.start_request import StartRequest

_SECONDS = 20.0  # of updates that are measured
_FOLDER = ".speed-"  # how the name of its folder begins; a run, SET-SEED, may be called speed-1
_PAUSE = 0.5  # seconds between two looks at metrics.jsonl
_STEPS = 1_000_000  # more than are made
# Nothing but updates. The output of the training is not used, so neither are these fields.
_ALONE = {"train_steps": _STEPS, "eval_every": _STEPS, "save_every": 0, "save_minutes": 0}


class Speed:
    """FLOPs per second of the lines of a metrics.jsonl, without the first updates of each shape of the plan's batches.

    Those may include compilation. `flops`, `seconds`: of the lines that count.
    """

    def __init__(self, plan: Plan) -> None:
        self.flops, self.seconds = 0.0, 0.0
        self._plan, self._seen = plan, set[tuple[int, ...]]()
        self._step, self._flops_before = 0, 0.0

    def add(self, lines: Sequence[Mapping[str, Any]]) -> None:
        """Reads the lines that report on later updates than those read so far."""
        for line in lines:
            if line["step"] <= self._step or "flops" not in line:
                continue
            batches = map(self._plan.batch, range(self._step + 1, line["step"] + 1))
            shapes = {(len(batch.rows), batch.source_length, batch.target_length) for batch in batches}
            if shapes <= self._seen and line["flops_per_second"] > 0:
                flops = line["flops"] - self._flops_before
                self.flops, self.seconds = self.flops + flops, self.seconds + flops / line["flops_per_second"]
            self._seen |= shapes
            self._step, self._flops_before = line["step"], line["flops"]


def measure(request: StartRequest, plan: Plan, folder: Path, variant: str) -> float:
    """Returns FLOPs per second, on real tokens, of the updates of a run that is begun for this alone.

    Args:
        request, plan: the start of such a run, and its batches.
        folder: the run has a temporary folder in it; one that a killed command left is removed.
        variant: the set with its changes, for messages.
    """
    # A GPU continues while a line is written, which the lines leave out: there several updates share one.
    alone = {**_ALONE, "log_every": 10 if on_gpus() else 1}
    recipe = dataclasses.replace(request.recipe, overrides={**request.recipe.overrides, **alone})
    folder.mkdir(parents=True, exist_ok=True)
    for stale in folder.glob(f"{_FOLDER}*"):
        shutil.rmtree(stale, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=_FOLDER, dir=folder, ignore_cleanup_errors=True) as own:
        start = dataclasses.replace(request, recipe=recipe, output_dir=f"{own}/run")
        command = [sys.executable, "-m", "t2t_lite.cli.compare_training", json.dumps(start.as_dict())]
        with open(f"{own}/output.txt", "wb") as file:
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=file, stderr=file)
        try:
            return _rate(process, Speed(plan), Path(own), variant)
        finally:
            process.kill()  # nothing of it is needed
            process.communicate()


def _rate(process: subprocess.Popen[bytes], speed: Speed, folder: Path, variant: str) -> float:
    while speed.seconds < _SECONDS:
        if (code := process.poll()) is not None:
            said = (folder / "output.txt").read_text("utf-8", errors="replace").strip().split("\n")
            raise TrainingError(
                f"The training of {variant} that was to show its speed has ended with status {code}. Its last lines:\n"
                + "\n".join(said[-5:])
            )
        time.sleep(_PAUSE)
        speed.add(read_metrics(folder / "run"))
    return speed.flops / speed.seconds
