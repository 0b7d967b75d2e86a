"""Check whether runs can be an ensemble, by their vocabularies, languages and search; needs no TensorFlow."""

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
    first, first_pair = _describe(specs[0]), load_pair(folders[0])
    for folder, spec in zip(folders[1:], specs[1:], strict=True):
        pairs = zip(("source", "target"), first_pair, load_pair(folder), strict=True)
        sides = [side for side, one, other in pairs if one.checksum != other.checksum]
        files = [n for n in spec.make_problem().codec.file_names if _content(folders[0], n) != _content(folder, n)]
        if sides:
            why = f"their {sides[0]} vocabularies differ. Train a run with the other's: --vocabulary={folders[0]}"
        elif first != (other := _describe(spec)):
            why = f"the one is from {first}, the other from {other}"
        elif files:
            why = f"their {files[0]} differ, with which outputs are repaired"
        else:
            continue
        raise UsageError(f"{folders[0]} and {folder} cannot be an ensemble: {why}.")


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


def _describe(spec: RunSpec) -> str:
    problem = spec.make_problem()
    trees = "" if problem.codec.is_text else " (trees)"
    return f"{problem.source_language!r} to {problem.target_language!r}{trees}"
