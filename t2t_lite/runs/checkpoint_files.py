"""The files of checkpoints: written whole, listed, limited in number, set aside if damaged. Knows no tensors.

The checkpoint of step 30 is model-30.index and model-30.data-00000-of-00001. Both are written to a folder beside the
target, forced to the disk and renamed, the index last. They are removed index first. So an index means a whole
checkpoint, unless something else has damaged it.
"""

import contextlib
import glob
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

from t2t_lite.files import asides, file_lock, replace_file, staging_dir, sync

NAME = "model"
LAST_STEP = 10**15  # no training makes more updates
NEWEST, BEST, AVERAGED, EMA = "checkpoints", "best", "averaged", "ema"  # a run's folders of checkpoints

_FILE = re.compile(rf"{NAME}-(\d+)\.(index|data-\d+-of-\d+)")


def step_of(path: str) -> int:
    """The step in the name of a checkpoint."""
    return int(path.rpartition("-")[2])


def list_whole(folder: Path) -> list[str]:
    """Paths (without the files' endings) of the checkpoints in `folder`, oldest first."""
    return [path for path in list_traces(folder) if os.path.exists(f"{path}.index")]


def list_traces(folder: Path) -> list[str]:
    """Returns the paths of checkpoints with at least one file, oldest first: whole ones and remains of others."""
    names = os.listdir(folder) if folder.is_dir() else []
    steps = {int(found[1]) for name in names if (found := _FILE.fullmatch(name))}
    return [str(folder / f"{NAME}-{step}") for step in sorted(steps)]


def missing_file(path: str) -> str | None:
    """The name of a file that a checkpoint lacks, or None."""
    name = os.path.basename(path)
    if not os.path.exists(f"{path}.index"):
        return f"{name}.index"
    return None if glob.glob(f"{glob.escape(path)}.data-*-of-*") else f"{name}.data-00000-of-00001"


def put(folder: Path, step: int, write: Callable[[str], object], keep: int, every: int = 1) -> str:
    """Adds a checkpoint to `folder`, whole or not at all, then removes the oldest beyond `keep`; returns its path.

    Args:
        write: writes the files of a checkpoint, given its path.
        every: a checkpoint at another step, as after a signal, is kept besides until the next save, so that those to
            average do not depend on where a run was stopped. Earlier ones may be multiples of another `every`.
    """
    real = _real(folder)
    real.mkdir(parents=True, exist_ok=True)
    with file_lock(real):
        aside = staging_dir(real)
        aside.mkdir()
        try:
            write(str(aside / f"{NAME}-{step}"))
            for file in aside.iterdir():
                sync(file)
            sync(aside)
            _move(aside, folder)
        finally:
            if not _is_half_moved(aside):  # if so, the next start finishes it
                shutil.rmtree(aside, ignore_errors=True)
        # The new one is always kept, whatever its step: a killed run may have left a best one of a later step.
        new = str(folder / f"{NAME}-{step}")
        others = [path for path in list_whole(folder) if path != new]
        if others and step_of(others[-1]) % every:
            del others[-1]
        room = keep - 1 if step % every == 0 else keep
        kept = [*others[max(len(others) - room, 0) :], new]
        _write_state(folder, kept)  # before the removal, or it would name missing files
        for path in list_traces(folder):
            if path not in kept:
                for file in _files(path):
                    file.unlink(missing_ok=True)
    return new


def finish_moves(folder: Path) -> None:
    """Puts in place the index of a checkpoint where `put` was killed, or failed, between its two renames."""
    for aside in asides(_real(folder)):
        if _is_half_moved(aside):
            _move(aside, folder)


def quarantine(path: str) -> None:
    """Renames a checkpoint's files to ....damaged, so that they are no longer used."""
    for file in _files(path):
        with contextlib.suppress(FileNotFoundError):  # a running trainer may have removed it
            os.replace(file, f"{file}.damaged")


def _real(folder: Path) -> Path:
    """The folder that a link leads to, perhaps on another disk, where no file beside the link could be renamed to."""
    return Path(os.path.realpath(folder)) if folder.is_symlink() else folder


def _is_half_moved(aside: Path) -> bool:
    """Whether the index alone is left of a checkpoint."""
    return {file.suffix for file in aside.iterdir()} == {".index"}


def _move(aside: Path, folder: Path) -> None:
    for file in sorted(aside.iterdir()):  # data before index
        os.replace(file, folder / file.name)
    sync(folder)


def _files(path: str) -> list[Path]:
    """The files of one checkpoint, the index first."""
    folder, name = os.path.split(path)
    files = sorted(file for file in Path(folder).glob(f"{name}.*") if _FILE.fullmatch(file.name))
    return files[-1:] + files[:-1] if files and files[-1].suffix == ".index" else files


def _write_state(folder: Path, paths: list[str]) -> None:
    """Writes the file by which TensorFlow's own tools (tf.train.latest_checkpoint) find checkpoints."""
    names = [os.path.basename(path) for path in paths]
    lines = [f'model_checkpoint_path: "{names[-1]}"', *(f'all_model_checkpoint_paths: "{name}"' for name in names)]
    replace_file(folder / "checkpoint", "".join(f"{line}\n" for line in lines))
