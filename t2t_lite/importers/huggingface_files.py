"""Files of a Hugging Face folder, read without running what is in them, in no more memory than they take on disk."""

from __future__ import annotations

import dataclasses
import json
import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from t2t_lite.errors import DataError, UsageError
from t2t_lite.importers.marian_folder import marian_models, read_bytes

_SETTINGS, _MODEL, _PICKLE = "config.json", "model.safetensors", "pytorch_model.bin"
_LONGEST_JSON = (
    1 << 24
)  # bytes; read, JSON may take 20 times as many, and a vocabulary of 250,000 pieces has 10 million
_LONGEST_HEADER = 1 << 24  # bytes; 400 for each tensor are many
_MOST_AXES = 8
_BFLOAT16 = "BF16"  # the upper half of a float32
_TYPES: dict[str, np.dtype[Any]] = {"F32": np.dtype("<f4"), "F16": np.dtype("<f2"), _BFLOAT16: np.dtype("<u2")}


@dataclasses.dataclass(frozen=True)
class Files:
    """What belongs to a model.

    model: the safetensors file.
    vocabularies, sentencepiece: files of source and target.
    settings, search: what config.json and generation_config.json hold; the first may hold the search, too.
    """

    model: Path
    vocabularies: tuple[Path, Path]
    sentencepiece: tuple[Path, Path]
    settings: dict[str, Any]
    search: dict[str, Any]


def is_huggingface(path: str | os.PathLike[str]) -> bool:
    """Whether a path is of a Hugging Face model, also one that is refused: a folder, or the file of weights in it."""
    path = Path(path)
    if not path.is_dir():
        return path.suffix == ".safetensors" or path.name == _PICKLE
    has_any = any((path / name).is_file() for name in (_SETTINGS, _PICKLE)) or any(path.glob("*.safetensors"))
    return has_any and not any([*marian_models(path), *path.glob("*.index")])


def note_choice(path: str | os.PathLike[str]) -> str:
    """Returns which model is imported of a folder with an .npz file and a Hugging Face model; "" for other folders."""
    path = Path(path)
    arrays = sorted(path.glob("*.npz")) if path.is_dir() else []
    if not arrays or not all((path / name).is_file() for name in (_SETTINGS, _MODEL)):
        return ""
    if found := marian_models(path):
        return (
            f"{found[0].name} of Marian is imported, which computes what was trained; for what transformers computes, "
            f"give --checkpoint={path / _MODEL}"
        )
    return f"{_MODEL} is imported; {arrays[0].name} is no model of Marian"


def find(path: str | os.PathLike[str]) -> Files:
    """Finds what belongs to a model; UsageError, DataError: something is missing or damaged.

    Args:
        path: a folder, or the file of weights in it.
    """
    path = Path(path)
    folder = path if path.is_dir() else path.parent
    model = path if path.suffix == ".safetensors" else folder / _MODEL
    if not model.is_file():
        if (folder / _PICKLE).is_file():
            raise UsageError(
                f"{folder} has its weights in {_PICKLE}, a pickle, which can run any code and is not read here. To "
                f'make {_MODEL} of one that you trust, run in that folder: python -c "from transformers import '
                "MarianMTModel; MarianMTModel.from_pretrained('.').save_pretrained('.')\""
            )
        raise UsageError(f"{folder} has no {_MODEL}. Weights in several files, or of TensorFlow or Rust, are not read.")
    separate = folder / "target_vocab.json"
    names = ("vocab.json", separate.name if separate.is_file() else "vocab.json", "source.spm", "target.spm")
    for name in (_SETTINGS, *names):
        if not (folder / name).is_file():
            raise UsageError(f"{folder} has no {name}, which belongs to a MarianMT model of Hugging Face.")
    settings, search = read_object(folder / _SETTINGS), folder / "generation_config.json"
    return Files(
        model,
        (folder / names[0], folder / names[1]),
        (folder / names[2], folder / names[3]),
        settings,
        read_object(search) if search.is_file() else settings,
    )


def read_object(path: Path) -> dict[str, Any]:
    """Returns the object that a JSON file holds; DataError if there is none."""
    data = read_bytes(path)
    if len(data) > _LONGEST_JSON:
        raise DataError(f"{path} is longer than {_LONGEST_JSON:,} bytes: it is no such file.")
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is no JSON, or it is damaged.") from error
    if not isinstance(found, dict):
        raise DataError(f"{path} holds no JSON object.")
    return found


class SafeTensors:
    """The tensors of a safetensors file, each read when it is asked for.

    The file: a number of 8 bytes, a JSON object of that many bytes, and the tensors, without a gap.

    Args:
        path: of the file.

    Raises:
        DataError: it is damaged, or no such file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with open(path, "rb") as file:
                size = os.fstat(file.fileno()).st_size
                self._start = 8 + int.from_bytes(file.read(8), "little")
                if not 8 < self._start <= min(size, _LONGEST_HEADER):
                    raise ValueError("its header is longer than it may be")
                entries = json.loads(file.read(self._start - 8))
            entries.pop("__metadata__", None)
            self._entries = {
                name: (entry["dtype"], tuple(entry["shape"]), *entry["data_offsets"]) for name, entry in entries.items()
            }
            place = 0
            for dtype, shape, begin, end in sorted(self._entries.values(), key=lambda entry: entry[2]):
                if len(shape) > _MOST_AXES:  # the product of many numbers takes long
                    raise ValueError(f"a tensor has {len(shape):,} axes")
                if any(type(number) is not int for number in (*shape, begin, end)) or min(shape, default=1) < 1:
                    raise ValueError("a shape or a place is no number")
                if dtype in _TYPES and end - begin != math.prod(shape) * _TYPES[dtype].itemsize:
                    raise ValueError("a tensor has another size than its shape")
                if begin != place or end <= begin:
                    raise ValueError("tensors overlap, or leave a gap")
                place = end
            if self._start + place != size:
                raise ValueError("it has another length than its header says")
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise DataError(f"{path} is no safetensors file, or it is damaged ({error}).") from error

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def shape(self, name: str) -> tuple[int, ...]:
        """Returns the shape of a tensor."""
        return self._entries[name][1]

    def halved(self, name: str) -> bool:
        """Whether a tensor has 16 bits for a number."""
        return self._entries[name][0] != "F32"

    def __getitem__(self, name: str) -> Any:
        """Returns a tensor as float32; DataError if it is of another type or has numbers that are not finite."""
        dtype, shape, begin, end = self._entries[name]
        if dtype not in _TYPES:
            raise DataError(f"{self.path}: {name} is of type {dtype}; weights are {', '.join(_TYPES)}.")
        with open(self.path, "rb") as file:
            file.seek(self._start + begin)
            found = np.frombuffer(file.read(end - begin), _TYPES[dtype])
        found = (found.astype(np.uint32) << 16).view(np.float32) if dtype == _BFLOAT16 else found.astype(np.float32)
        if not np.isfinite(found).all():
            raise DataError(f"{self.path}: {name} holds numbers that are not finite.")
        return found.reshape(shape)
