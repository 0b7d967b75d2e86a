"""Console output of a training run: a bar on a terminal, a line of plain text per report if stderr is a file."""

import statistics
import sys
import time
from collections.abc import Hashable

import tqdm

from t2t_lite.progress import time_left
from t2t_lite.verbosity import said

# Without tqdm's steps per second, so that 80 columns hold the rest up to the tokens per second.
_BAR = "{percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt} [{elapsed}<{remaining}{postfix}]"
_MEASURED = 12  # updates before the first estimate of the whole time
_NEW = 0.3  # weight of the newest report in the rate that the time left is computed with


class Console:
    """Shows the progress of the updates from `first_step` to `train_steps`; nothing if `quiet`."""

    def __init__(self, first_step: int, train_steps: int, *, quiet: bool) -> None:
        self._train_steps, self._quiet = train_steps, quiet
        self._is_terminal = sys.stderr.isatty()
        self._bar = tqdm.tqdm(
            total=train_steps,
            initial=first_step - 1,
            bar_format=_BAR,
            dynamic_ncols=True,
            disable=quiet or said.quiet or not self._is_terminal,
            smoothing=0.05,
        )
        self._first_step, self._saving = first_step, 0.0
        self._evaluating = 0.0  # seconds of the evaluations to come
        self._reports, self._seconds_per_step = 0, 0.0
        self._shapes: set[Hashable] = set()
        self._times: list[float] = []
        self._since = time.perf_counter()

    def update(self, step: int, shape: Hashable = None) -> None:
        """Counts update `step`, of a batch of `shape`; None: it was left out. Measures shapes that have come before."""
        self._bar.update(1)
        now = time.perf_counter()
        if len(self._times) < _MEASURED and shape is not None and shape in self._shapes:
            self._times.append(now - self._since)
            steps, seconds = self._train_steps - step, statistics.median(self._times)
            if len(self._times) == _MEASURED and steps > 0:
                self.say(
                    f"time:     about {time_left(steps * seconds)} ({1 / seconds:,.2f} steps per second, measured up "
                    f"to step {step:,}; evaluations not included)"
                )
        self._shapes.add(shape)
        self._since = now

    def report(self, step: int, updates: int, seconds: float, text: str, more: str) -> None:
        """Shows a report of the last `updates`, which took `seconds`; a bar also shows `more`."""
        self._reports += 1
        # The first report includes the tracing of graphs.
        weight = _NEW if self._reports > 2 else 1.0
        self._seconds_per_step += weight * (seconds / updates - self._seconds_per_step)
        self._bar.set_postfix_str(f"{text}, {more}", refresh=False)
        if self._quiet or said.quiet or self._is_terminal:
            return
        # Checkpoints count with their share so far. Evaluations must not: one may come right after a restart.
        share = self._saving / (step - self._first_step + 1)
        steps = self._train_steps - step
        to_come = steps * (self._seconds_per_step + share) + self._evaluating
        left = f", about {time_left(to_come)}" if steps > 0 else ""
        print(f"step {step:,} of {self._train_steps:,}: {text}{left}", file=sys.stderr, flush=True)

    def add_paused(self, seconds: float, evaluations: int | None = None) -> None:
        """Records the seconds of a checkpoint, or of an evaluation that so many `evaluations` are to follow."""
        if evaluations is None:
            self._saving += seconds
        else:
            self._evaluating = seconds * evaluations  # the newest one knows best how long the others will take

    def leave_out(self, seconds: float) -> None:
        """Leaves `seconds` out of the time of the update that is counted next."""
        self._since += seconds

    def say(self, text: str) -> None:
        """Prints a line on standard output without breaking the bar."""
        if not (self._quiet or said.quiet):
            file = sys.stderr if said.reserved else sys.stdout
            tqdm.tqdm.write(text, file=file)
            file.flush()

    def warn(self, text: str) -> None:
        """Prints a line on standard error without breaking the bar."""
        if not self._quiet:
            tqdm.tqdm.write(text, file=sys.stderr)

    def close(self) -> None:
        """Ends the bar."""
        self._bar.close()
