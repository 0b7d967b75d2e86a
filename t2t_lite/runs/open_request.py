"""OpenRequest: which trained runs are opened, with which of their weights, in which precision, with which search."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from t2t_lite import config
from t2t_lite.errors import check_tensorflow_path
from t2t_lite.runs.ensemble_check import check_members
from t2t_lite.runs.named_weights import check_no_weights
from t2t_lite.runs.run_dir import RunSpec, read_run

if TYPE_CHECKING:
    from t2t_lite.runs.open_run import OpenEnsemble, OpenRun


@dataclasses.dataclass(frozen=True, kw_only=True)
class OpenRequest:
    """A run, or several as an ensemble, to decode with.

    Attributes:
        folders: the runs' folders.
        checkpoint: "best", "averaged", "ema", "newest" or a step; None: as the trainer chose.
        usr_dir: the folder of the user's own code; needed if a run was trained with such code.
        precision: "float32", "bfloat16", "float16" or "int8" (float32 with matrices of int8); None: the run's.
        search: fields of the group "decode" instead of the run's.
    """

    folders: tuple[str, ...]
    checkpoint: str | None = None
    usr_dir: str | None = None
    precision: str | None = None
    search: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def check(self) -> list[RunSpec]:
        """Returns the settings of the runs, or raises UsageError or DataError; loads no TensorFlow."""
        for folder in self.folders:
            check_tensorflow_path(f"--output_dir={folder}", folder)
            check_no_weights(folder)
        specs = [read_run(folder, self.usr_dir) for folder in self.folders]
        if len(specs) > 1:
            check_members(self.folders, specs)
        config.replace(specs[0].hparams, **self.search).check_asked(self.search)
        return specs

    def open(self) -> OpenRun | OpenEnsemble:
        """Builds the models and loads their weights; raises as `open_runs`."""
        from t2t_lite.runs.open_run import open_runs

        how = {"checkpoint": self.checkpoint, "usr_dir": self.usr_dir, "precision": self.precision}
        return open_runs(self.folders, **how, **self.search)

    def open_to_run(self) -> OpenRun | OpenEnsemble:
        """Opens the runs for use on this machine, not for an export; UsageError for int8 on a GPU."""
        from t2t_lite.ops.int8 import adapt_to_processor
        from t2t_lite.ops.int8_product import check_machine

        if self.precision != "int8":
            return self.open()
        check_machine()
        run = self.open()
        for member in run.members:
            adapt_to_processor(member.model)
        return run

    def open_to_decode(self) -> OpenRun | OpenEnsemble:
        """Opens the runs for the fastest decoding that this machine has; UsageError for int8 on a GPU."""
        from t2t_lite.ops.prepacked import is_supported

        run = self.open_to_run()
        run.translator.prepack = all(is_supported(member.model.compute_dtype) for member in run.members)
        return run
