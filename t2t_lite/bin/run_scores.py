"""Scores of a run that t2t-lite-eval keeps in the run's folder."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from t2t_lite.data.store import Store
    from t2t_lite.metrics.score import Score
    from t2t_lite.runs.open_run import OpenEnsemble, OpenRun
    from t2t_lite.training.evaluate import Scores


def save_scores(
    folders: Sequence[str],
    run: OpenRun | OpenEnsemble,
    store: Store,
    split: str,
    found: Scores,
    scores: Sequence[Score],
) -> None:
    """Writes the scores into the run's folder and prints which ones they replace; an ensemble's are not kept."""
    from t2t_lite.runs import scores_file

    if len(folders) > 1:
        print("These scores are of an ensemble; they are kept in no run's folder.", file=sys.stderr)
        return
    [output_dir] = folders
    old = scores_file.read_scores(output_dir, split)
    try:
        new = [score.as_dict() for score in scores]
        path = scores_file.write_scores(
            output_dir,
            split,
            run.checkpoint,
            found.hypotheses,
            found.loss,
            new,
            run.translator.settings,
            store.checksum,
            store.in_train(split),
        )
    except OSError as error:  # the run may be somebody else's
        print(f"The scores are not kept in {output_dir}: {error.strerror or error}.", file=sys.stderr)
        return
    replaced = f", in place of those of {scores_file.summary(old)}" if old else ""
    print(f"{path} holds these scores now{replaced}.", file=sys.stderr)
