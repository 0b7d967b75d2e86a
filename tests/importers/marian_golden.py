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
NAMES = ("toy", "relu_tied", "gelu_untied", "tied_source", "labels", "bpe", "bytes", "prenorm")


@dataclasses.dataclass(frozen=True)
class Output:
    """An output of Marian: line number, pieces, log-probability of each and of </s>, score."""

    line: int
    pieces: list[str]
    log_probs: list[float]
    score: float


def lines(name: str, file: str = "test.txt") -> list[str]:
    return Path(GOLDEN, name, file).read_bytes().decode().removesuffix("\n").split("\n")


def outputs(name: str, file: str = "test.nbest") -> list[Output]:
    found = []
    for row in lines(name, file):
        line, pieces, words, _, score = (field.strip() for field in row.split("|||"))
        found.append(Output(int(line), pieces.split(), [float(word) for word in words.split()[1:]], float(score)))
    return found


def read(folder: Path) -> tuple[Imported, tuple[Any, Any]]:
    return marian.read(marian_folder.find(folder))


def errors(imported: Imported, vocabularies: tuple[Any, Any], name: str, kind: str = "test") -> np.ndarray:
    """Differences of our log-probabilities from Marian's, for each piece of its outputs.

    Of a pre-norm model only first pieces count: for later ones Marian's decoder computes something else.
    """
    found = outputs(name, f"{kind}.nbest")
    sources = [lines(name, f"{kind}.txt")[output.line] for output in found]
    first_only = imported.description.norm == "pre"
    wanted = [output.log_probs[: 1 if first_only else None] for output in found]
    ours = log_probs(imported, vocabularies, sources, [output.pieces for output in found])
    return np.concatenate([row[: len(theirs)] - theirs for row, theirs in zip(ours, wanted, strict=True)])


def log_probs(
    imported: Imported, vocabularies: tuple[Any, Any], texts: list[str], targets: list[list[str]]
) -> list[np.ndarray]:
    """Our log-probability of each piece of each target, and of </s>."""
    source, target = vocabularies

    def padded(rows: list[list[int]]) -> np.ndarray:
        longest = max(map(len, rows)) + 1
        return np.array([[*row, 1] + [0] * (longest - len(row) - 1) for row in rows], np.int32)

    sources = padded([source.encode(source.line(text)) for text in texts])
    ids = padded([[target.ids.get(piece, UNK) for piece in pieces] for pieces in targets])
    model = t2t_model.build(imported, run_folder.recipe(imported, {}))
    logits = np.array(model({"source": sources, "target": ids}), np.float64)
    logits -= logits.max(-1, keepdims=True)
    found = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    ours = np.take_along_axis(found, ids[..., None], -1)[..., 0]
    return [row[: len(pieces) + 1] for row, pieces in zip(ours, targets, strict=True)]


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
