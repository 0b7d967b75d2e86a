"""Base class of callbacks that send losses, scores and settings of a run to a service, as one run there."""

import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import keras

from t2t_lite.errors import UsageError


class Tracker(keras.callbacks.Callback):
    """Callback that sends a run to a service: to the run that the process has opened there, or to one of its own.

    Attributes:
        package: that it imports; the run's id is kept in PACKAGE_id in the run's folder, so that a resumed run
            continues the same curves.
        install: what pip installs it as.
    """

    package: ClassVar[str]
    install: ClassVar[str]

    def __init__(self) -> None:
        super().__init__()
        if importlib.util.find_spec(self.package) is None:
            raise UsageError(
                f"The callback {self.package} needs the package {self.package}: pip install {self.install}."
            )

    def is_open(self) -> bool:
        """Whether the process has opened a run."""
        raise NotImplementedError

    def open(self, folder: Path, known: str | None) -> str:
        """Opens a run named after `folder`, the one with the id `known` if there is one; returns its id."""
        raise NotImplementedError

    def send(self, values: Mapping[str, float], step: int) -> None:
        """Sends losses or scores."""
        raise NotImplementedError

    def close(self) -> None:
        """Closes the run that `open` opened."""
        raise NotImplementedError

    def on_train_begin(self, logs: Any = None) -> None:
        """Opens or resumes the run, unless there is one."""
        self._own = not self.is_open()
        if self._own:
            folder = Path(self.params["output_dir"])
            file = folder / f"{self.package}_id"
            known = file.read_text(encoding="utf-8").strip() if file.exists() else None
            file.write_text(self.open(folder, known) + "\n", encoding="utf-8")

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.send(logs, batch)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self.send({name: value for name, value in logs.items() if name.startswith("dev_")}, logs["step"])

    def on_train_end(self, logs: Any = None) -> None:
        """Closes the run, if it has opened it."""
        if self._own:
            self.close()
