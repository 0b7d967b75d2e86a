"""Reports of a training run: metrics.jsonl, TensorBoard and the console."""

import contextlib
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from t2t_lite.files import StrPath, name_in_errors, replace_file, sync_open
from t2t_lite.models.base import Cost
from t2t_lite.runs.callbacks import Callbacks
from t2t_lite.runs.checkpoint_files import LAST_STEP
from t2t_lite.runs.console import Console
from t2t_lite.runs.goodput import Goodput
from t2t_lite.runs.run_log import read_starts
from t2t_lite.runs.tensorboard import Board
from t2t_lite.runs.utilisation import pair_lengths

METRICS_FILE = "metrics.jsonl"
BOARD_FOLDER = "tensorboard"
SKIPPED = "skipped_batches"
_OTHER_SCORES = "other_scores"


class Report:
    """Gathers updates and writes one line per report.

    A training line of metrics.jsonl:
        step: number of the last update.
        loss: mean over the updates since the line before, in nats per target token, label smoothing included.
            With R-Drop it is the mean of the two passes' cross entropies, without the divergence.
        learning_rate: of the last update.
        loss_scale: of the next update; only in float16.
        source_tokens, target_tokens: real tokens (end symbols included) since the line before.
        padded_tokens: places in both sides' arrays, real tokens and padding, since the line before.
        tokens_per_second: real target tokens per second since the line before; evaluation, saving and XLA's
            compilations left out.
        input_seconds: how long the training waited for batches since the line before.
        grad_norm: mean global norm of the gradient before clipping.
        flops: of the model on real tokens (runs/utilisation.py), of the run's own updates up to this one.
        flops_per_second: the same since the line before, of the same time.
        utilisation: flops_per_second as a share of the devices' speed in matrix products.
        trained_seconds: of the updates that count, of the run so far (runs/goodput.py).
        goodput: the same as a share of the time since the run began.
    An evaluation line has step, dev_loss (nats per target token, without label smoothing), dev_perplexity, dev_accuracy
    (share of target tokens that are the most probable) and the dev_... scores. The line of a skipped batch has step and
    skipped_batches, how many there were so far; that of an update which float16's gradients overflowed has step and the
    lower loss_scale. A line with other_scores says that scores from this step on do
    not compare with those before, as the run has other data or scores dev in another way.

    Args:
        output_dir: the run's folder; lines are appended.
        first_step: lines of this step and later are from a killed run. They are removed, and will be written again.
        train_steps: for the estimate of the time left.
        cost: the model's.
        flops: of the steps before `first_step`.
        device_flops_per_second: the speed that utilisation is a share of.
        hparams: the recipe, for TensorBoard.
        quiet: show nothing.
        callbacks: are told of each line.

    Attributes:
        console: where other lines are printed.
        goodput: of the run so far.
    """

    def __init__(
        self,
        output_dir: StrPath,
        first_step: int,
        train_steps: int,
        *,
        cost: Cost,
        flops: int,
        device_flops_per_second: float,
        hparams: Mapping[str, Any] | None = None,
        quiet: bool = False,
        callbacks: Callbacks | None = None,
    ) -> None:
        self._callbacks = callbacks
        self._cost, self._flops, self._device_speed = cost, flops, device_flops_per_second
        self._path = Path(output_dir) / METRICS_FILE
        _forget_after(self._path, first_step - 1)
        self.goodput = Goodput(read_starts(output_dir), read_metrics(output_dir), first_step)
        self._board = Board(Path(output_dir) / BOARD_FOLDER, hparams or {})
        self.console = Console(first_step, train_steps, quiet=quiet)
        self._clear()

    def add(
        self,
        step: int,
        batch: Mapping[str, np.ndarray],
        loss: float,
        grad_norm: float,
        learning_rate: float,
        *,
        loss_scale: float = 0.0,
        timed: bool = True,
    ) -> None:
        """Records one update; `loss_scale`: 0 if there is none; `timed`: its time was not left out."""
        self._step, self._learning_rate, self._loss_scale = step, learning_rate, loss_scale
        self._timed += timed
        self._losses.append(loss)
        self._norms.append(grad_norm)
        lengths = dict(zip(("source", "target"), pair_lengths(batch), strict=True))
        for side, of_side in lengths.items():
            self._tokens[side] += int(of_side.sum())
            self._padded += batch[side].size
        self._flops += self._cost.training_flops(lengths["source"], lengths["target"])
        self.console.update(step, (batch["source"].shape, batch["target"].shape))

    def skip(self, step: int, skipped: int) -> None:
        """Records that the update of `step` was not applied; `skipped` counts such updates."""
        self._write({"step": step, SKIPPED: skipped})
        self.console.update(step)

    def overflow(self, step: int, loss_scale: float) -> None:
        """Records that the update of `step` was left out, and lowered the loss scale to `loss_scale`."""
        self._write({"step": step, "loss_scale": loss_scale})
        self.console.say(
            f"step {step}: a gradient was too large for float16. The update is left out; the loss scale is "
            f"{loss_scale:,g} now."
        )
        self.console.update(step)

    def write(self) -> None:
        """Writes a training line for the updates since the last one."""
        if not self._losses:
            return
        seconds = time.perf_counter() - self._since - self._paused
        if self._timed:  # else there is no other time to show
            seconds = (seconds - self._left_out) * len(self._losses) / self._timed
        seconds = max(seconds, 1e-9)
        speed = (self._flops - self._flops_before) / seconds
        self.goodput.add(seconds)
        values = {
            "step": self._step,
            "loss": float(np.mean(self._losses)),
            "learning_rate": self._learning_rate,
            **({"loss_scale": self._loss_scale} if self._loss_scale else {}),
            "source_tokens": self._tokens["source"],
            "target_tokens": self._tokens["target"],
            "padded_tokens": self._padded,
            "tokens_per_second": round(self._tokens["target"] / seconds, 1),
            "input_seconds": round(self._waited, 4),
            "grad_norm": float(np.mean(self._norms)),
            "flops": self._flops,
            "flops_per_second": round(speed),
            "utilisation": round(speed / self._device_speed, 4),
            **self.goodput.as_metrics(),
        }
        self._write(values)
        self.console.report(
            self._step,
            len(self._losses),
            seconds,
            f"loss {values['loss']:.3f}, lr {self._learning_rate:.2e}, {values['tokens_per_second']:,.0f} tok/s",
            f"{self._padded / seconds:,.0f} padded/s, {values['utilisation']:.0%} utilisation",
        )
        if self._callbacks:
            self._callbacks.report(values)
        self._clear()

    def write_scores(
        self, step: int, scores: Mapping[str, float], samples: Sequence[tuple[str, str, str]] = ()
    ) -> None:
        """Writes an evaluation line, and (source, translation, reference) of some lines of dev for TensorBoard."""
        self._write({"step": step, **scores})
        if samples:
            self._board.samples(step, samples)
        if self._callbacks:
            self._callbacks.evaluated(step, scores)

    @contextlib.contextmanager
    def pause(self, evaluations: int | None = None) -> Iterator[None]:
        """Context whose time does not count as training; `evaluations`: how many follow this one; None: a save."""
        start = time.perf_counter()
        try:
            yield
        finally:
            seconds = time.perf_counter() - start
            self._paused += seconds
            self.console.add_paused(seconds, evaluations)

    def close(self) -> None:
        """Ends the progress bar and the event file."""
        self.console.close()
        self._board.close()

    def leave_out(self, seconds: float) -> None:
        """Leaves `seconds` out of the next line's speed and of the time left, as they will not come again."""
        self._left_out += seconds
        self.console.leave_out(seconds)

    def add_waited(self, seconds: float) -> None:
        """Records how long the training waited for a batch."""
        self._waited += seconds

    def _clear(self) -> None:
        self._losses: list[float] = []
        self._norms: list[float] = []
        self._tokens = {"source": 0, "target": 0}
        self._padded = 0
        self._flops_before = self._flops
        self._since, self._paused, self._waited = time.perf_counter(), 0.0, 0.0
        self._left_out, self._timed = 0.0, 0

    def _write(self, values: Mapping[str, float]) -> None:
        with name_in_errors(self._path), open(self._path, "a", encoding="utf-8") as file:
            file.write(json.dumps(values) + "\n")
            file.flush()
            # Early stopping counts these scores: they must not lag behind the checkpoint.
            sync_open(file.fileno(), self._path)
        self._board.scalars(values)


def _forget_after(path: Path, step: int) -> None:
    """Drops the lines of steps after `step`, and a last line that was cut off in the middle."""
    if not path.exists():
        return
    kept = [line for line in read_metrics(path.parent) if line["step"] <= step or _OTHER_SCORES in line]
    _replace(path, kept)


def _replace(path: Path, lines: Iterable[Mapping[str, Any]]) -> None:
    replace_file(path, "".join(json.dumps(line) + "\n" for line in lines))


def note_other_scores(output_dir: StrPath, step: int) -> None:
    """Notes in metrics.jsonl that scores after `step` do not compare with those before."""
    _replace(Path(output_dir) / METRICS_FILE, [*read_metrics(output_dir), {"step": step, _OTHER_SCORES: 1}])


def read_comparable(output_dir: StrPath) -> list[dict[str, Any]]:
    """The lines of metrics.jsonl since scores last became others; all if they never did."""
    lines = read_metrics(output_dir)
    changes = [i for i, line in enumerate(lines) if _OTHER_SCORES in line]
    return lines[changes[-1] :] if changes else lines


def flops_before(output_dir: StrPath, first_step: int, planned: Callable[[int, int], int], others: int = 0) -> int:
    """FLOPs of a run's updates before `first_step`: those in its last line, and of the steps since.

    Args:
        planned: FLOPs, on the run's data, of the first N steps without the first M.
        others: how many of the steps another run made; used where this one has no line yet.
    """
    lines = [line for line in read_metrics(output_dir) if type(line.get("flops")) is int and line["step"] < first_step]
    step, flops = (lines[-1]["step"], lines[-1]["flops"]) if lines else (others, 0)
    return flops + planned(first_step - 1, step)


def read_metrics(output_dir: StrPath) -> list[dict[str, Any]]:
    """The lines of metrics.jsonl; leaves out damaged ones, such as a line that was cut off in the middle."""
    path = Path(output_dir) / METRICS_FILE
    lines = []
    for text in path.read_text(encoding="utf-8", errors="replace").split("\n") if path.exists() else ():
        with contextlib.suppress(ValueError, RecursionError):
            line = json.loads(text)
            if (
                isinstance(line, dict)
                and type(line.get("step")) is int
                and 0 <= line["step"] <= LAST_STEP
                and all(type(value) in (int, float) for value in line.values())
            ):
                lines.append(line)
    return lines
