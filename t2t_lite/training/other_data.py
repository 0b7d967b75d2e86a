"""Training that goes on with other data: the evaluations so far are of another dev set, and count no more."""

from __future__ import annotations

import os
from collections.abc import Callable

from t2t_lite.data.store import Store
from t2t_lite.runs.checkpoint_files import step_of
from t2t_lite.runs.report import note_other_data
from t2t_lite.runs.verify import read_record
from t2t_lite.schedules.base import Schedule


def forget_scores(
    output_dir: str | os.PathLike[str],
    newest: str,
    store: Store,
    schedule: Schedule,
    say: Callable[[str], None],
    *,
    writes: bool,
) -> None:
    """Lets the evaluations so far count no more if the checkpoint `newest` was trained on other data than the store's.

    Args:
        say: prints a line.
        writes: whether to note it in metrics.jsonl; of several workers, only the chief does.
    """
    record = read_record(newest)
    if record is None or record.get("data_sha256") in (None, store.checksum):
        return
    schedule.forget_losses()
    if writes:
        note_other_data(output_dir, step_of(newest))
    say("The data are others now: best weights, early stopping and plateaus go by the evaluations from here on only.")
