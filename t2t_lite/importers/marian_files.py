"""Files that Marian writes, read without running what is in them, and in no more memory than they take on disk."""

from __future__ import annotations

import math
import os
import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from t2t_lite.errors import DataError

_LONGEST_YAML = 1 << 16  # bytes; a settings file of Marian has 5,000
_DEEPEST = 8  # brackets in each other; the time that a parser takes grows with their square
_PACKED = 16  # numpy.savez_compressed shrinks weights by a tenth; a file that unpacks to this many times itself is none
_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
_DAMAGED = (OSError, ValueError, TypeError, KeyError, EOFError, RuntimeError, MemoryError, SyntaxError)
_DAMAGED_ZIP = (*_DAMAGED, zipfile.BadZipFile, zlib.error, tokenize.TokenError)  # the last is of an array's header


class Arrays:
    """The arrays of an .npz file, each read when it is asked for.

    Args:
        path: of the file.

    Raises:
        DataError: it is missing, damaged, or no such file.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = path
        try:
            self._zip = zipfile.ZipFile(path)
        except FileNotFoundError:
            raise DataError(f"{path}: there is no such file.") from None
        except _DAMAGED_ZIP as error:
            raise DataError(f"{path} is no .npz file, or it is damaged ({error}).") from error
        members = self._zip.infolist()
        self._members = {member.filename.removesuffix(".npy"): member for member in members}
        if len(self._members) < len(members):
            raise DataError(f"{path} is damaged: it holds two arrays of one name.")
        if any(member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) for member in members):
            raise DataError(f"{path} is no .npz file: it is compressed in another way than NumPy does.")
        size = os.path.getsize(path)
        if (unpacked := sum(member.file_size for member in members)) > _PACKED * size:
            raise DataError(f"{path} is no file of weights: its {size:,} bytes unpack to {unpacked:,}.")

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __getitem__(self, name: str) -> Any:
        """Returns an array; DataError if it is damaged, empty or of another type than float32 or int8."""
        member = self._members[name]
        try:
            with self._zip.open(member) as file:
                shape, by_columns, dtype = _HEADERS[np.lib.format.read_magic(file)](file)
                if dtype not in (np.float32, np.int8):
                    raise DataError(f"{self.path}: {name} is of type {dtype}; Marian's weights are float32.")
                size = member.file_size - file.tell()
                if min(shape, default=1) < 1 or math.prod(shape) * dtype.itemsize != size:
                    raise DataError(f"{self.path} is damaged: {name} does not hold the shape {shape} that it names.")
                data = file.read(size)  # no more: read() would unpack all, also where the file says less
        except DataError:
            raise
        except _DAMAGED_ZIP as error:
            raise DataError(f"{self.path} is damaged: {name} cannot be read ({error}).") from error
        return np.frombuffer(data, dtype).reshape(shape, order="F" if by_columns else "C")


def read_yaml(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Reads a settings file of Marian; DataError if it is damaged."""
    try:
        with open(path, "rb") as file:
            return parse_yaml(file.read(_LONGEST_YAML + 1), os.fspath(path))
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror}).") from error


def parse_yaml(data: bytes, name: str) -> dict[str, Any]:
    """Returns the settings of a YAML document: texts as they stand, lists and mappings of texts.

    Args:
        name: of the document, for messages.

    Raises:
        DataError: it is no YAML, no mapping, longer than settings are, or has aliases, which may stand for any size.
    """
    import yaml

    if len(data) > _LONGEST_YAML:
        raise DataError(f"{name} holds no settings of Marian: it is longer than {_LONGEST_YAML:,} bytes.")
    try:
        text = data.decode()
        depth = 0
        for token in yaml.scan(text, yaml.BaseLoader):
            if isinstance(token, yaml.AliasToken):
                raise DataError(
                    f"{name} has aliases (*NAME), which Marian does not write. Write out what they stand for."
                )
            depth += isinstance(token, (yaml.FlowSequenceStartToken, yaml.FlowMappingStartToken))
            depth -= isinstance(token, (yaml.FlowSequenceEndToken, yaml.FlowMappingEndToken))
            if depth > _DEEPEST:
                raise DataError(f"{name} is no YAML document of settings: it has {depth} open brackets in each other.")
        found = yaml.load(text, yaml.BaseLoader)  # gives nothing but texts, lists and mappings
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        reason = str(error).partition("\n")[0]
        raise DataError(f"{name} is no YAML document, or it is damaged: {reason}.") from error
    if not isinstance(found, dict):
        raise DataError(f"{name} holds no settings of Marian, which are lines NAME: VALUE.")
    return found


def inside(folder: str | os.PathLike[str], name: str, said_by: str) -> Path:
    """Returns the path of a file of the folder that a settings file names; DataError if it is not in the folder.

    A name may be a path on the machine of the training: only its last part counts.
    """
    path = Path(folder, os.path.basename(name))
    if not path.is_file():
        raise DataError(f"{said_by} names the file {name}, and {folder} has no {path.name!r}. Copy it there.")
    return path
