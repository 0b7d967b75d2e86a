"""Opening of a run or an ensemble whose weights are final, to decode with it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from t2t_lite.runs.open_run import OpenEnsemble, OpenRun


def open_to_decode(folders: Sequence[str], *, precision: str | None = None, **options: Any) -> OpenRun | OpenEnsemble:
    """Opens runs as `open_runs` does, for the fastest decoding that this machine has.

    Raises:
        UsageError: this machine has no operation for int8. Else as `open_runs`.
    """
    from t2t_lite.ops.int8_product import check_machine
    from t2t_lite.ops.prepacked import is_supported
    from t2t_lite.runs.open_run import open_runs

    if precision == "int8":
        check_machine()
    run = open_runs(folders, precision=precision, **options)
    run.translator.prepack = all(is_supported(member.model.compute_dtype) for member in run.members)
    return run
