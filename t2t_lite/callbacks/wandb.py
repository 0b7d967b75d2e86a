"""Losses, scores and settings of a run for Weights & Biases."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import keras

from t2t_lite import registry
from t2t_lite.errors import UsageError

_ID_FILE = "wandb_id"  # in the run's folder; with it, a resumed run continues the same curves


@registry.register_callback
class Wandb(keras.callbacks.Callback):
    """Weights & Biases: the project t2t-lite, or the run that the process has opened with wandb.init."""

    def __init__(self) -> None:
        super().__init__()
        if importlib.util.find_spec("wandb") is None:
            raise UsageError("The callback wandb needs the package wandb: pip install wandb.")

    def on_train_begin(self, logs: Any = None) -> None:
        """Opens or resumes the run; its settings are the recipe."""
        import wandb

        self._own = wandb.run is None
        if self._own:
            folder = Path(self.params["output_dir"])
            file = folder / _ID_FILE
            known = file.read_text(encoding="utf-8").strip() if file.exists() else None
            how: dict[str, Any] = {"project": "t2t-lite", "name": folder.name, "dir": str(folder)}
            run = wandb.init(**how, id=known, resume="allow", config=self.params["hparams"])
            file.write_text(run.id + "\n", encoding="utf-8")

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Sends a training line."""
        import wandb

        wandb.log(logs, step=batch)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Sends an evaluation."""
        import wandb

        wandb.log({name: value for name, value in logs.items() if name.startswith("dev_")}, step=logs["step"])

    def on_train_end(self, logs: Any = None) -> None:
        """Closes the run, if it has opened it."""
        import wandb

        if self._own:
            wandb.finish()
