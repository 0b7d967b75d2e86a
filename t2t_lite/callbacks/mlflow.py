"""Losses, scores and settings of a run for MLflow."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import keras

from t2t_lite import registry
from t2t_lite.errors import UsageError

_ID_FILE = "mlflow_id"  # in the run's folder; with it, a resumed run continues the same curves


@registry.register_callback
class Mlflow(keras.callbacks.Callback):
    """MLflow: the run that the process has opened, or one of its own; MLFLOW_TRACKING_URI says where."""

    def __init__(self) -> None:
        super().__init__()
        if importlib.util.find_spec("mlflow") is None:
            raise UsageError("The callback mlflow needs the package mlflow: pip install mlflow-skinny.")

    def on_train_begin(self, logs: Any = None) -> None:
        """Opens or resumes the run; its parameters are the recipe."""
        import mlflow

        self._own = mlflow.active_run() is None
        if self._own:
            folder = Path(self.params["output_dir"])
            file = folder / _ID_FILE
            known = file.read_text(encoding="utf-8").strip() if file.exists() else None
            run = mlflow.start_run(run_id=known, run_name=folder.name)
            file.write_text(run.info.run_id + "\n", encoding="utf-8")
            if known is None:
                mlflow.log_params(self.params["hparams"])

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Sends a training line."""
        import mlflow

        mlflow.log_metrics(logs, step=batch)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Sends an evaluation."""
        import mlflow

        scores = {name: value for name, value in logs.items() if name.startswith("dev_")}
        mlflow.log_metrics(scores, step=logs["step"])

    def on_train_end(self, logs: Any = None) -> None:
        """Closes the run, if it has opened it."""
        import mlflow

        if self._own:
            mlflow.end_run()
