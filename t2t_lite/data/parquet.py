"""Parquet files of pairs, read by pyarrow as streams; a set in several files is found by its names."""

import contextlib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from t2t_lite.data.columns import Languages, find_sides
from t2t_lite.errors import DataError, UsageError
from t2t_lite.files import StrPath
from t2t_lite.text.pairs import arrow_column, read_text

SUFFIX = ".parquet"
_ROWS = 1000  # read at once
_PART = r"-(\d{5})-of-(\d{5})(?:-[0-9a-f]+)?\.parquet"  # after the name, as the Hugging Face hub has it


def read_rows(path: StrPath, languages: Languages) -> Iterator[tuple[int, tuple[str, str] | str]]:
    """Yields (number, pair, or what is wrong with the row); a few thousand rows are in memory at a time.

    Raises:
        DataError: no such file, a damaged one, or one without a column for each side.
        UsageError: pyarrow is not installed.
    """
    with _open(path) as file:
        names, number = find_columns(path, file, languages), 0
        for batch in file.iter_batches(_ROWS, columns=names):
            sides = [_values(arrow_column(batch, name)) for name in names]
            for pair in zip(*sides, strict=True):
                number += 1
                try:
                    yield number, (read_text(pair[0]), read_text(pair[1]))
                except ValueError as error:
                    yield number, str(error)


def read_names(path: StrPath) -> list[str]:
    """Returns the names of the columns of text, or of the fields of "translation"; raises as `read_rows`."""
    with _open(path) as file:
        return [name.removeprefix("translation.") for name in _text_columns(file)]


def find_columns(path: StrPath, file: Any, languages: Languages) -> list[str]:
    """Returns the columns of source and target, such as "translation.en" and "translation.de"."""
    columns = _text_columns(file)
    names = tuple(name.removeprefix("translation.") for name in columns)
    if (places := find_sides(names, languages)) is not None:
        return [columns[place] for place in places]
    there = ", ".join(f"{field.name} ({field.type})" for field in file.schema_arrow)
    source, target = languages
    raise DataError(
        f"{path} has no column of text for each of {source} and {target}, but {there[:300] or 'none at all'}. Expected "
        f"translation (struct<{source}: string, {target}: string>), {source} and {target}, or source and target. Name "
        "the languages or the columns so."
    )


def find_parts(folder: Path, name: str) -> list[list[tuple[Path, ...]]]:
    """Returns each set of files that a split called `name` may be, as parts: NAME-00000-of-00003.parquet ..., a folder.

    Raises:
        DataError: one of numbered files is missing.
    """
    found: list[list[tuple[Path, ...]]] = []
    numbered: dict[str, dict[int, Path]] = {}
    for path in sorted(folder.iterdir()):
        if match := re.fullmatch(re.escape(name) + _PART, path.name):
            numbered.setdefault(match[2], {})[int(match[1])] = path
        elif path.name in (name, name + SUFFIX) and path.is_dir() and (inside := sorted(path.glob(f"*{SUFFIX}"))):
            found.append([(path,) for path in inside])
    for count, paths in numbered.items():
        if missing := [number for number in range(int(count)) if number not in paths]:
            raise DataError(
                f"{folder} has {len(paths)} of the {int(count)} files {name}-*-of-{count}{SUFFIX}; the first that is "
                f"missing is {name}-{missing[0]:05}-of-{count}{SUFFIX}. Download it."
            )
        found.append([(path,) for path in paths.values()])
    return found


@contextlib.contextmanager
def _open(path: StrPath) -> Iterator[Any]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise UsageError(
            f"{path} is read with pyarrow, which is not installed. Install it: pip install 't2t-lite[parquet]'."
        ) from None
    try:
        # Without pre_buffer, which would keep the whole file.
        with parquet.ParquetFile(path, pre_buffer=False, page_checksum_verification=True) as file:
            yield file
    except FileNotFoundError:
        raise DataError(f"{path}: there is no such file.") from None
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        if isinstance(error, OSError) and error.errno:
            raise DataError(f"{path} cannot be read: {error.strerror}.") from error
        text = " ".join(str(error).split()).removesuffix(".")
        raise DataError(f"{path} is not a whole Parquet file ({text}). Copy or download it again.") from error


def _text_columns(file: Any) -> Sequence[str]:
    """The columns of text; the fields of a column "translation" if it is a struct."""
    from pyarrow import types

    def is_text(kind: Any) -> bool:  # polars writes views; pandas' categories are dictionaries
        if types.is_dictionary(kind):
            return is_text(kind.value_type)
        return types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)

    schema = file.schema_arrow
    place = schema.get_field_index("translation")
    fields, prefix = schema, ""
    if place >= 0 and types.is_struct(schema.field(place).type):
        fields, prefix = schema.field(place).type, "translation."
    return [prefix + field.name for field in fields if is_text(field.type)]


def _values(column: Any) -> Any:
    """The values of a column: text, and None; as Arrow has them where one is not UTF-8, which is slower to read."""
    try:
        return column.to_pylist()
    except UnicodeDecodeError:
        return column
