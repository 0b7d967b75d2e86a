"""Shortlist of a search (Devlin, 2017; Junczys-Dowmunt et al., 2018): the pieces that a line's output may have.

The file shortlist.npz of a run holds NumPy arrays: for each source piece the target pieces that stand for it, those
that any output may have, and the checksums of both vocabularies.
"""

from __future__ import annotations

import dataclasses
import hashlib
import io
import zipfile
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from t2t_lite.errors import DamagedError, DataError, check_format
from t2t_lite.files import replace_file
from t2t_lite.ids import EOS, PAD
from t2t_lite.text.any_vocabulary import AnyVocabulary

NAME, FORMAT = "shortlist.npz", 1
NOTHING = -1  # fills up the rows of candidates
_ARRAYS = {"format": "i", "of_piece": "i", "always": "i", "vocabularies": "U"}
_REMEDY = "Make it again: t2t-lite-shortlist --output_dir=RUN."


@dataclasses.dataclass(frozen=True)
class Shortlist:
    """The pieces that outputs may have.

    Attributes:
        of_piece: int32 [source pieces, N], the target pieces that stand for each source piece, padded with 0.
        always: int32 [M], those that any output may have.
        checksum: SHA-256 of the file.
    """

    of_piece: np.ndarray
    always: np.ndarray
    checksum: str = ""

    def candidates(self, rows: Iterable[Sequence[int]], fewest: int) -> np.ndarray:
        """Returns the pieces that the output of each row of source pieces may have.

        They are those of its own pieces, those of any output, the end symbol and the padding, whose probability counts.

        Args:
            fewest: how many columns are needed.

        Returns:
            int32 [rows, columns], ascending, filled up with -1.
        """
        always = [PAD, EOS, *self.always.tolist()]
        found = [np.union1d(always, self.of_piece[list(row)]) for row in rows]
        array = np.full((len(found), max(fewest, *map(len, found))), NOTHING, np.int32)
        for row, pieces in zip(array, found, strict=True):
            row[: len(pieces)] = pieces
        return array

    def write(self, folder: Path, source: AnyVocabulary, target: AnyVocabulary) -> Path:
        """Writes the file of a run with these vocabularies, whole or not at all; returns its path."""
        arrays = {"of_piece": self.of_piece.astype("<i4"), "always": self.always.astype("<i4")}
        content = io.BytesIO()
        checksums = np.array([source.checksum, target.checksum])
        np.savez_compressed(content, format=np.array(FORMAT), vocabularies=checksums, **arrays)  # type: ignore[arg-type]
        replace_file(folder / NAME, content.getvalue())
        return folder / NAME

    @classmethod
    def read(cls, folder: Path, source: AnyVocabulary, target: AnyVocabulary) -> Shortlist:
        """Reads the file of a run with these vocabularies.

        Raises:
            DataError: there is none, or it is of other vocabularies.
            DamagedError: it is not what was written.
        """
        path = folder / NAME
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            raise DataError(f"{folder} has no {NAME}. Make it: t2t-lite-shortlist --output_dir=RUN.") from None
        try:
            with np.load(io.BytesIO(content), allow_pickle=False) as file:
                arrays = {name: file[name] for name in _ARRAYS}
            if odd := [name for name, kind in _ARRAYS.items() if arrays[name].dtype.kind != kind]:
                raise ValueError(f"{odd[0]} has numbers of another kind")
            check_format(path, arrays["format"].tolist(), FORMAT, _REMEDY)
            if arrays["vocabularies"].tolist() != [source.checksum, target.checksum]:
                raise DataError(f"{path} is of other vocabularies than those of the run. {_REMEDY}")
            found = cls(arrays["of_piece"], arrays["always"], hashlib.sha256(content).hexdigest())
            pieces = np.append(found.of_piece, found.always)
            if found.of_piece.shape[:1] != (source.size,) or pieces.min() < 0 or pieces.max() >= target.size:
                raise ValueError("it has pieces that the vocabularies do not have")
        except DataError:
            raise
        except (ValueError, KeyError, EOFError, OSError, MemoryError, zipfile.BadZipFile, zlib.error) as error:
            raise DamagedError(f"{path} is damaged ({error}). {_REMEDY}") from error
        return found


def copies(source: AnyVocabulary, target: AnyVocabulary) -> np.ndarray:
    """Returns for each source piece the target piece of the same text, for names and numbers; 0 if there is none."""
    if source is target:
        return np.arange(source.size, dtype=np.int32)
    ids = {piece: i for i, piece in enumerate(target.pieces(range(target.size)))}
    return np.array([ids.get(piece, PAD) for piece in source.pieces(range(source.size))], np.int32)
