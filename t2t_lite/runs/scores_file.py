"""test.scores.json and dev.scores.json: the newest scores of a split, with the weights they belong to.

{"format", "split", "scores": [{"name", "value", "signature", "detail"}, ...], "loss", "perplexity", "dev_loss",
"weights": {"path", "step", "checksum"}, "decoding": {...}, "data_sha256", "in_train": {"pairs", "sources"},
"hypotheses", "date", "version"}

loss and perplexity are those of the split. dev_loss is that of the same weights in the same precision, or null if it is
not known. The weights' path is relative to the run's folder. data_sha256 is the checksum of the prepared data. in_train
is how many pairs and sources of the split are also in train. hypotheses names the file with the scored
translations; null: no file has them.
"""

import contextlib
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from t2t_lite.errors import DamagedError
from t2t_lite.files import StrPath, read_json, replace_file, sha256_of
from t2t_lite.runs.checkpoint_files import BEST, NEWEST, step_of
from t2t_lite.runs.metrics_log import read_metrics
from t2t_lite.runs.record import read_record
from t2t_lite.runs.run_log import utc
from t2t_lite.text.line_breaks import breaks_as_spaces
from t2t_lite.version import local_version

FORMAT = 1
SPLITS = ("test", "dev")


def write_scores(
    output_dir: StrPath,
    split: str,
    checkpoint: str,
    hypotheses: Sequence[str],
    loss: float,
    scores: Sequence[Mapping[str, Any]],
    decoding: Mapping[str, Any],
    data: str,
    in_train: Mapping[str, int] | None,
) -> Path:
    """Writes SPLIT.scores.json in place of the one before, and returns its path.

    Args:
        checkpoint: path of the weights.
        loss: of the split, in nats per target token.
        scores: as `Score.as_dict` makes them.
        decoding: as `Translator.settings`.
        data: checksum of the prepared data.
        in_train: as `Store.in_train`.
    """
    folder, weights = Path(output_dir), describe_weights(checkpoint)
    text = "".join(f"{breaks_as_spaces(line)}\n" for line in hypotheses)
    file = folder / f"{split}.hyp.txt"
    record = {
        "format": FORMAT,
        "split": split,
        "scores": list(scores),
        "loss": loss,
        "perplexity": math.exp(min(loss, 700.0)),
        "dev_loss": loss if split == "dev" else _dev_loss(folder, checkpoint, decoding["precision"], data),
        "weights": weights,
        "decoding": dict(decoding),
        "data_sha256": data,
        "in_train": in_train,
        "hypotheses": file.name if file.is_file() and file.read_bytes() == text.encode("utf-8") else None,
        "date": utc(),
        "version": local_version(),
    }
    path = scores_path(folder, split)
    replace_file(path, json.dumps(record, indent=2, ensure_ascii=False) + "\n")
    return path


def read_scores(output_dir: StrPath, split: str) -> dict[str, Any] | None:
    """Returns what `write_scores` wrote; None where there is no such file, or it is damaged."""
    with contextlib.suppress(OSError, DamagedError):
        return read_json(scores_path(output_dir, split), FORMAT, {"weights": dict, "decoding": dict, "scores": list})
    return None


def scores_of(
    output_dir: StrPath, checkpoint: str, decoding: Mapping[str, Any], data: str | None
) -> list[dict[str, Any]]:
    """Returns the scores in the run's files that belong to exactly these weights, this decoding and these data."""
    weights = describe_weights(checkpoint)
    records = [read_scores(output_dir, split) for split in SPLITS]
    return [
        {
            "split": record["split"],
            "metric": score["name"],
            "value": score["value"],
            "signature": score["signature"],
            "weights": weights["path"],
        }
        for record in records
        if record is not None
        and (record["weights"], record["decoding"], record["data_sha256"]) == (weights, dict(decoding), data)
        for score in record["scores"]
    ]


def summary(record: Mapping[str, Any]) -> str:
    """Returns a record in words: "averaged/model-120 (BLEU 23.40, 2026-11-23T09:41:18Z)"."""
    scores = ", ".join(f"{score['name']} {score['value']:.2f}" for score in record["scores"])
    return f"{record['weights'].get('path')} ({scores}, {record.get('date')})"


def scores_path(output_dir: StrPath, split: str) -> Path:
    """Returns the path of the scores of a split."""
    return Path(output_dir) / f"{split}.scores.json"


def describe_weights(checkpoint: str) -> dict[str, Any]:
    """Path in the run's folder, step, and checksum of a checkpoint's index, which holds a checksum of each tensor."""
    path = Path(checkpoint)
    digest = sha256_of(f"{checkpoint}.index")
    name = f"{path.parent.name}/{path.name}"
    return {"path": name, "step": step_of(path.name), "checksum": f"sha256:{digest}"}


def _dev_loss(folder: Path, checkpoint: str, precision: str, data: str) -> float | None:
    """The weights' loss on dev, from dev.scores.json or from the evaluation after their update."""
    scored, weights = read_scores(folder, "dev"), describe_weights(checkpoint)
    if scored is not None and (scored["weights"], scored["decoding"]["precision"], scored["data_sha256"]) == (
        weights,
        precision,
        data,
    ):
        return scored["loss"]
    if weights["path"].partition("/")[0] not in (BEST, NEWEST):  # a mean has other weights than its step
        return None
    record = read_record(checkpoint)
    if record["hparams"].get("precision") != precision or record["data_sha256"] != data:
        return None
    losses = [
        line["dev_loss"] for line in read_metrics(folder) if line["step"] == weights["step"] and "dev_loss" in line
    ]
    return losses[-1] if losses else None
