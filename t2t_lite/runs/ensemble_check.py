"""Check whether runs can be an ensemble, by their vocabularies, languages and search; needs no TensorFlow."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from t2t_lite.data.vocabulary_files import load_pair
from t2t_lite.errors import UsageError
from t2t_lite.groups import DECODE
from t2t_lite.runs.run_dir import RunSpec


def check_members(folders: Sequence[str], specs: Sequence[RunSpec]) -> None:
    """Raises UsageError unless the runs in these folders, with these specs, can be an ensemble."""
    first = load_pair(folders[0])
    for folder, spec in zip(folders[1:], specs[1:], strict=True):
        for side, one, other in zip(("source", "target"), first, load_pair(folder), strict=True):
            if one.checksum != other.checksum:
                raise UsageError(
                    f"{folders[0]} and {folder} cannot be an ensemble: their {side} vocabularies differ, with the "
                    f"checksums {one.checksum[:12]}... and {other.checksum[:12]}..., so that a number stands for one "
                    f"piece here and for another there. Train a run with the other's: --vocabulary={folders[0]} of "
                    "t2t-lite-trainer."
                )
        does, does_too = _does(specs[0]), _does(spec)
        if does != does_too:
            raise UsageError(
                f"{folders[0]} and {folder} cannot be an ensemble: the one is from {does}, the other from {does_too}."
            )
        for name in spec.make_problem().codec.file_names:
            if _content(folders[0], name) != _content(folder, name):
                raise UsageError(
                    f"{folders[0]} and {folder} cannot be an ensemble: their {name} differ, with which outputs are "
                    "repaired."
                )


def notices(folders: Sequence[str], specs: Sequence[RunSpec], given: Iterable[str]) -> list[str]:
    """Returns warnings about likely mistakes: a run named twice, different problems, different search settings.

    Args:
        given: fields of decoding that the user has set.
    """
    found = []
    for one, other in itertools.combinations(folders, 2):
        if os.path.realpath(one) == os.path.realpath(other):
            found.append(f"{one} and {other} are the same run, which counts twice in the mean.")
    for folder, spec in zip(folders[1:], specs[1:], strict=True):
        if spec.problem != specs[0].problem:
            found.append(
                f"{folders[0]} was trained on {specs[0].problem}, {folder} on {spec.problem}; data and scores are "
                "those of the first."
            )
        differ = [
            f"{name}={getattr(specs[0].hparams, name)}, not {getattr(spec.hparams, name)}"
            for name in DECODE
            if name not in given and getattr(specs[0].hparams, name) != getattr(spec.hparams, name)
        ]
        if differ:
            found.append(f"The search is that of {folders[0]}, also where {folder} has another: {'; '.join(differ)}.")
    return found


def _content(folder: str, name: str) -> bytes | None:
    path = Path(folder) / name
    return path.read_bytes() if path.is_file() else None


def _does(spec: RunSpec) -> str:
    problem = spec.make_problem()
    trees = "" if problem.codec.is_text else " (trees)"
    return f"{problem.source_language!r} to {problem.target_language!r}{trees}"
