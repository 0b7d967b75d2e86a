"""Checkpoints: weights, the optimizer's slots and the step, all by the weight's name, and the settings of the run.

Folders of a run:
    checkpoints/  the newest n: a run resumes from the last whole one
    best/         the best by dev score, weights only
    averaged/     the mean of the last few, weights only
    ema/          the moving average at the end of the run, weights only
"""

import json
import logging
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import tensorflow as tf

from t2t_lite.errors import DamagedError, DataError, TrainingError, UsageError, did_you_mean
from t2t_lite.files import StrPath, lacks_room
from t2t_lite.optimizers.base import Optimizer
from t2t_lite.remote.mirror import push
from t2t_lite.runs import checkpoint_files
from t2t_lite.runs.checkpoint_files import AVERAGED, BEST, EMA, NEWEST, step_of
from t2t_lite.runs.checkpoint_reader import GoneError, explain_unreadable, first_line, open_checkpoint, read_step
from t2t_lite.runs.default_weights import read_default
from t2t_lite.runs.run_dir import has_run
from t2t_lite.runs.saved_state import SavedState
from t2t_lite.schedules.base import Schedule

DIVERGED_ADVICE = (
    "A lower learning_rate_factor (learning_rate where the schedule is not noam), more warmup_steps or clip_norm=1 "
    "often help, in a new run or here with --reset_optimizer."
)

FORMAT = 1
RECORD = "run"  # the name of a checkpoint's record of its run, which begins with the format

_log = logging.getLogger("t2t_lite")


class Checkpoints:
    """Saves and restores one model.

    Args:
        output_dir: the run's folder.
        model: Keras model; its weights are found by their paths, so an object's place in a tree does not matter.
        optimizer: None where only weights are wanted.
        schedule: the run's, if it may have something to remember.
        keep: how many of the newest are kept.
        every: steps between two of them; checkpoints of other steps do not count.
        record: what each checkpoint records about its run, in JSON (record.py).
        writes: whether to save at all; of several workers, only the chief does.
    """

    def __init__(
        self,
        output_dir: StrPath,
        model: Any,
        optimizer: Optimizer | None = None,
        keep: int = 1,
        every: int = 1,
        record: Mapping[str, Any] = MappingProxyType({}),
        writes: bool = True,
        schedule: Schedule | None = None,
    ) -> None:
        from t2t_lite.models.base import weights_by_path  # loads Keras; a list of checkpoints does without

        self._folder, self._writes, self._record = Path(output_dir), writes, record
        self._keep, self._every = keep, every
        self._variables = {path: weight.value for path, weight in weights_by_path(model).items()}
        self._floating = {name: v for name, v in self._variables.items() if v.dtype.is_floating}
        self._step = tf.Variable(0, dtype=tf.int64, trainable=False)
        self._weights = {"weights": self._variables}
        self._training = SavedState([w.path for w in model.trainable_weights], optimizer, schedule)
        self._whole = self._weights | self._training.parts

    def save(self, step: int) -> str:
        """Saves weights, slots and step among the newest; returns the checkpoint's path."""
        self._training.gather()
        return self._save(self._whole, NEWEST, step, self._keep, self._every)

    def save_weights(self, kind: str, step: int) -> str:
        """Saves the weights as BEST, AVERAGED or EMA, in place of the one before."""
        return self._save(self._weights, kind, step, keep=1, every=1)

    def _save(self, state: Mapping[str, Mapping[str, tf.Variable]], kind: str, step: int, keep: int, every: int) -> str:
        path = str(self._folder / kind / f"{checkpoint_files.NAME}-{step}")
        if not self._writes:
            return path
        if broken := self.not_finite():
            raise TrainingError(
                f"Step {step}: {len(broken)} weights, such as {broken[0]}, hold numbers that are not finite: the run "
                f"has diverged. They are not saved; it resumes from the newest checkpoint. {DIVERGED_ADVICE}"
            )
        self._step.assign(step)
        parts: dict[str, Any] = {part: dict(group) for part, group in state.items()}
        with tf.device("/CPU:0"):
            parts[RECORD] = tf.Variable(json.dumps({"format": FORMAT, **self._record}), trainable=False)
        checkpoint = tf.train.Checkpoint(step=self._step, **parts)
        try:
            put = checkpoint_files.put(self._folder / kind, step, checkpoint.write, keep, every)
        except (tf.errors.OpError, OSError) as error:
            advice = "make room and run" if lacks_room(error) else "run"
            raise DataError(
                f"The checkpoint of step {step} could not be written to {self._folder / kind}: {first_line(error)}. "
                f"The ones before it are whole; {advice} the same command again."
            ) from error
        self.publish()
        return put

    def publish(self) -> None:
        """Uploads what has changed in the run's folder, if that is a working copy; raises TrainingError as `push`."""
        push(self._folder, at_the_end=False)

    def has_no_best(self) -> bool:
        """Whether no best weights are kept so far."""
        return not list_checkpoints(self._folder, BEST)

    def not_finite(self) -> list[str]:
        """Returns the names of the weights in which a number is NaN or infinite."""
        return [name for name, variable in self._floating.items() if not tf.reduce_all(tf.math.is_finite(variable))]

    def resume(self) -> int:
        """Restores the newest whole checkpoint; returns its step, or 0 where there never was one.

        A damaged one is reported in a warning and set aside, and the one before it is taken.

        Raises:
            DataError: none of them is whole, or they are of another model.
        """
        folder = self._folder / NEWEST
        checkpoint_files.finish_moves(folder)
        damaged: list[tuple[str, Exception]] = []
        for path in reversed(checkpoint_files.list_traces(folder)):
            try:
                step = self.load_training(path)
            except (DamagedError, GoneError) as error:
                damaged.append((path, error))
                continue
            for bad, reason in damaged:
                _log.warning(
                    "%s Resuming from %s; the files of %s stay as ....damaged.",
                    reason,
                    os.path.basename(path),
                    os.path.basename(bad),
                )
                checkpoint_files.quarantine(bad)
            return step
        if damaged:
            raise DataError(
                f"None of the checkpoints in {folder} is whole, so this run cannot resume:\n"
                + "\n".join(f"  {reason}" for _, reason in damaged)
                + "\nPut back a copy of one, or start again with another --output_dir."
            )
        return 0

    def load_training(self, path: str) -> int:
        """Restores weights, slots and what a schedule remembers from `path`; returns the step they were saved at."""
        self._training.clear()
        step = self._read(path, self._whole)
        self._training.restore(step)
        return step

    def load_weights(self, path: str) -> int:
        """Restores only the weights from `path` (see `find`); returns the step they were saved at."""
        return self._read(path, self._weights)

    def try_weights(self, path: str, otherwise: str) -> bool:
        """Restores only the weights from `path`; where it is damaged or gone, warns of what is done `otherwise`."""
        try:
            self._read(path, self._weights)
        except GoneError as error:
            _log.warning("%s It is left out: %s.", error, otherwise)
            return False
        except DamagedError as error:
            _log.warning("%s It is left out, and its files stay as ....damaged: %s.", error, otherwise)
            checkpoint_files.quarantine(path)
            return False
        return True

    def average(self, paths: Sequence[str]) -> list[str]:
        """Sets the weights to the mean over `paths` (section 6.1); those that are no floats, to the last one's.

        Returns:
            The paths that were read; see `try_weights`.

        Raises:
            DataError: none could be read, or one is of another model.
        """
        sums = {name: np.zeros(v.shape, np.float64) for name, v in self._floating.items()}
        read: list[str] = []
        for path in paths:
            if not self.try_weights(path, "the mean is of the others"):
                continue
            read.append(path)
            for name, variable in self._floating.items():
                sums[name] += variable.numpy()
        if not read:
            raise DataError(f"None of the {len(paths)} checkpoints that were to be averaged can be read.")
        for name, variable in self._floating.items():
            variable.assign((sums[name] / len(read)).astype(variable.dtype.as_numpy_dtype))
        return read

    @property
    def has_ema(self) -> bool:
        """Whether there is a moving average of at least one update."""
        return bool(self._training.averages())

    def take_ema(self) -> None:
        """Sets the trainable weights to their moving average."""
        for name, average in self._training.averages().items():
            self._variables[name].assign(average.numpy())

    def _read(self, path: str, state: Mapping[str, Mapping[str, tf.Variable]]) -> int:
        """Restores `state` from `path`; returns its step."""
        with explain_unreadable(path):
            reader = open_checkpoint(path)
            shapes = reader.get_variable_to_shape_map()
            wanted = {
                variable_key(part, name): variable
                for part, group in state.items()
                for name, variable in group.items()
                if part not in self._training.may_lack or variable_key(part, name) in shapes
            }
            self._training.check_parts(state, {key.partition("/")[0] for key in shapes}, path)
            _check_shapes(path, {key: list(variable.shape) for key, variable in wanted.items()}, shapes)
            for key, variable in wanted.items():
                value = reader.get_tensor(key)
                if np.asarray(value).dtype.kind not in ("fV" if variable.dtype.is_floating else "iub"):
                    raise ValueError(f"{key} holds no numbers of its kind")
                variable.assign(value)
            step = read_step(reader, variable_key("step"))
        if broken := self.not_finite():
            raise DamagedError(
                f"The checkpoint {path} holds numbers that are not finite, in {broken[0]} for one: its training had "
                "diverged."
            )
        return step


def _check_shapes(path: str, here: Mapping[str, list[int]], there: Mapping[str, list[int]]) -> None:
    """Raises DataError if a variable is missing or of another shape, or if the checkpoint has more weights.

    Args:
        here, there: shapes by key; those that are wanted, and those of all variables in the checkpoint.
    """
    for key in [*here, *sorted(key for key in there if key.startswith("weights/"))]:
        if here.get(key) != there.get(key):
            # Of PART/NAME/...: TensorFlow writes .. for a dot of the name, and .S for a slash.
            name = re.sub(r"\.([.S])", lambda found: "/" if found[1] == "S" else ".", key.split("/")[1])
            raise DataError(
                f"The checkpoint {path} is of another model: {name} has shape {there.get(key, 'none')} there and "
                f"{here.get(key, 'none')} here."
            )


def variable_key(*names: str) -> str:
    """The name that tf.train.Checkpoint gives a variable."""
    return "/".join(name.replace(".", "..").replace("/", ".S") for name in names) + "/.ATTRIBUTES/VARIABLE_VALUE"


def list_checkpoints(output_dir: StrPath, kind: str = NEWEST) -> list[str]:
    """Paths of the checkpoints of one kind, oldest first."""
    return checkpoint_files.list_whole(Path(output_dir) / kind)


def find(output_dir: StrPath, which: str | None = None) -> str:
    """Returns the path of a run's checkpoint.

    Args:
        which: "best", "averaged", "ema", "newest" or a step; None: what the trainer chose on dev, or the best where it
            is newer (default_weights.py); else the averaged one, else the newest.

    Raises:
        UsageError: no such checkpoint; the message names the existing ones.
        DataError: no checkpoint at all, or a damaged record of the trainer's choice.
    """
    kinds = {"averaged": AVERAGED, "best": BEST, "ema": EMA, "newest": NEWEST}
    by_name = {name: paths[-1] for name, kind in kinds.items() if (paths := list_checkpoints(output_dir, kind))}
    by_name |= {str(step_of(path)): path for path in list_checkpoints(output_dir)}
    if not by_name:
        missing = f"{output_dir} holds no checkpoint; train first: t2t-lite-trainer --output_dir={output_dir}"
        raise DataError(missing if has_run(output_dir) else f"There is no run or checkpoint at {output_dir}.")
    if which is None:
        chosen = read_default(output_dir, *(by_name.get(kind) for kind in ("averaged", "best", "ema")))
        return by_name[chosen] if chosen in by_name else next(iter(by_name.values()))
    if which not in by_name:
        raise UsageError(
            f"There is no checkpoint {which!r} in {output_dir}.{did_you_mean(which, by_name)} "
            f"There are: {', '.join(by_name)}."
        )
    return by_name[which]
