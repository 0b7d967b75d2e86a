"""Imports a small model of each of tensor2tensor's hparams sets; reports which are equal and which are refused.

Usage: python -m tests.importers.all_sets FOLDER

tests/golden/tensor2tensor_all_sets.py says how FOLDER is made.
"""

import collections
import re
import sys
from pathlib import Path

import numpy as np

from t2t_lite.errors import DataError, UsageError
from t2t_lite.importers import t2t_model, t2t_precision, tensor2tensor

CLOSE, SPACE = 2e-5, 5


def outcome(folder: Path) -> str:
    """The outcome for one set, as text."""
    try:
        try:
            imported = tensor2tensor.read([folder], target_space_id=SPACE)
        except UsageError:  # the model has no target space
            imported = tensor2tensor.read([folder])
    except DataError as error:
        return re.sub(r"=\S+ \(only .*", "", f"refused: {error}")
    with np.load(folder / "golden.npz") as golden:
        logits = np.array(t2t_model.build(imported)({side: golden[side] for side in ("source", "target")}))
        difference = np.abs(logits - golden["logits"])[golden["target"] != 0].max()
    if difference <= CLOSE:
        return f"logits equal to {CLOSE:g}"
    return f"logits differ by {difference:.2g}; precision: {t2t_precision.describe(imported.hparams)}"


def main() -> None:
    """Prints the outcomes, the most frequent first, each with its sets."""
    found = collections.defaultdict(list)
    for folder in sorted(Path(sys.argv[1]).iterdir()):
        found[outcome(folder)].append(folder.name)
    for what, names in sorted(found.items(), key=lambda item: -len(item[1])):
        print(f"{len(names):4} {what}\n       {' '.join(names)}")


if __name__ == "__main__":
    main()
