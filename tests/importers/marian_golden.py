"""Folders of models that Marian trained (tests/golden/marian.py), and what it found for lines."""

from __future__ import annotations

import dataclasses
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from t2t_lite.cli import importer
from t2t_lite.export.marian_layout import KEY
from t2t_lite.ids import UNK
from t2t_lite.importers import marian, marian_folder, run_folder, t2t_model
from t2t_lite.importers.imported import Imported

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "marian"
NAMES = ("toy", "relu_tied", "gelu_untied", "tied_source", "labels", "prenorm")


@dataclasses.dataclass(frozen=True)
class Output:
    """An output of Marian: line number, pieces, log-probability of each and of </s>, score."""

    line: int
    pieces: list[str]
    log_probs: list[float]
    score: float


def lines(name: str) -> list[str]:
    return Path(GOLDEN, name, "test.txt").read_text("utf-8").splitlines()


def outputs(name: str) -> list[Output]:
    found = []
    for row in Path(GOLDEN, name, "test.nbest").read_text("utf-8").splitlines():
        line, pieces, words, _, score = (field.strip() for field in row.split("|||"))
        found.append(Output(int(line), pieces.split(), [float(word) for word in words.split()[1:]], float(score)))
    return found


def read(folder: Path) -> tuple[Imported, tuple[Any, Any]]:
    return marian.read(marian_folder.find(folder))


def errors(imported: Imported, vocabularies: tuple[Any, Any], name: str) -> np.ndarray:
    """Differences of our log-probabilities from Marian's, for each piece of its outputs.

    Of a pre-norm model only first pieces count: for later ones Marian's decoder computes something else.
    """
    source, target = vocabularies
    texts, found = lines(name), outputs(name)

    def padded(rows: list[list[int]]) -> np.ndarray:
        longest = max(map(len, rows)) + 1
        return np.array([[*row, 1] + [0] * (longest - len(row) - 1) for row in rows], np.int32)

    sources = padded([source.encode(source.line(texts[output.line])) for output in found])
    targets = padded([[target.ids.get(piece, UNK) for piece in output.pieces] for output in found])
    model = t2t_model.build(imported, run_folder.recipe(imported, {}))
    logits = np.array(model({"source": sources, "target": targets}), np.float64)
    logits -= logits.max(-1, keepdims=True)
    log_probs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    ours = np.take_along_axis(log_probs, targets[..., None], -1)[..., 0]
    first_only = imported.description.norm == "pre"
    pairs = zip(ours, (output.log_probs[: 1 if first_only else None] for output in found), strict=True)
    return np.concatenate([row[: len(wanted)] - wanted for row, wanted in pairs])


def changed(folder: Path, name: str, change: Callable[[dict[str, Any]], None]) -> Path:
    """Writes the folder of a golden model after a change to its arrays."""
    shutil.copytree(GOLDEN / name, folder)
    with np.load(folder / "opus.npz") as file:
        arrays = {key: file[key] for key in file}
    change(arrays)
    np.savez(folder / "opus.npz", **arrays)
    return folder


def set_setting(name: str, value: str) -> Callable[[dict[str, Any]], None]:
    """A change of a setting in the model's file; one that is not there is added."""

    def change(arrays: dict[str, Any]) -> None:
        text = arrays[KEY].tobytes().rstrip(b"\0").decode()
        text = re.sub(rf"(?m)^{name}:.*\n( .*\n)*", "", f"{text}\n")
        arrays[KEY] = np.frombuffer(f"{text}{name}: {value}\0".encode(), np.int8)

    return change


def refused(folder: Path, capsys: pytest.CaptureFixture[str], *flags: str) -> str:
    """Returns the message with which an import ends."""
    run = folder.parent / "run"
    assert importer.main([f"--checkpoint={folder}", f"--output_dir={run}", *flags]) in (1, 2)
    assert not run.exists()
    message = capsys.readouterr().err
    assert message.startswith("error: ")
    assert "Traceback" not in message
    assert len(message) < 1000 + len(str(folder))
    return message
