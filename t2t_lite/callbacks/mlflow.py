"""Losses, scores and settings of a run for MLflow."""

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from t2t_lite import registry
from t2t_lite.callbacks.base import Tracker


@registry.register_callback
class Mlflow(Tracker):
    """MLflow: the run that the process has opened, or one of its own; MLFLOW_TRACKING_URI says where."""

    package: ClassVar[str] = "mlflow"
    install: ClassVar[str] = "mlflow-skinny"

    def is_open(self) -> bool:
        import mlflow

        return mlflow.active_run() is not None

    def open(self, folder: Path, known: str | None) -> str:
        import mlflow

        run = mlflow.start_run(run_id=known, run_name=folder.name)
        if known is None:
            mlflow.log_params(self.params["hparams"])  # the recipe
        return str(run.info.run_id)

    def send(self, values: Mapping[str, float], step: int) -> None:
        import mlflow

        mlflow.log_metrics(dict(values), step=step)

    def close(self) -> None:
        import mlflow

        mlflow.end_run()
