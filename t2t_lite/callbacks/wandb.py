"""Losses, scores and settings of a run for Weights & Biases."""

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from t2t_lite import registry
from t2t_lite.callbacks.base import Tracker


@registry.register_callback
class Wandb(Tracker):
    """Weights & Biases: the project t2t-lite, or the run that the process has opened with wandb.init."""

    package: ClassVar[str] = "wandb"
    install: ClassVar[str] = "wandb"

    def is_open(self) -> bool:
        import wandb

        return wandb.run is not None

    def open(self, folder: Path, known: str | None) -> str:
        import wandb

        how = {"id": known, "resume": "allow", "config": self.params["hparams"]}  # its settings are the recipe
        return str(wandb.init(project="t2t-lite", name=folder.name, dir=str(folder), **how).id)

    def send(self, values: Mapping[str, float], step: int) -> None:
        import wandb

        wandb.log(dict(values), step=step)

    def close(self) -> None:
        import wandb

        wandb.finish()
