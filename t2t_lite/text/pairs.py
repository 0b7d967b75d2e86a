"""Pairs of texts in the tables and data sets of other libraries; imports none of these."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from t2t_lite.errors import DataError, UsageError, did_you_mean


def pairs_of(rows: Any, source: str = "source", target: str = "target") -> Iterator[tuple[str, str]]:
    """Yields the pairs of a table, a data set or any iterable, for the `samples` of a problem; rows in their order.

    Args:
        rows: a DataFrame of pandas or polars, a Table or Dataset of Arrow, a tf.data.Dataset (not batched), or an
            iterable of pairs (source, target) or of mappings, such as a Dataset of Hugging Face.
        source: name of the column or key of the sources; "translation.en" is the field "en" of "translation". Rows that
            are pairs have no names.
        target: the same of the targets.

    Yields:
        (source, target); bytes are read as UTF-8. An `AlignedPair` stays one.

    Raises:
        UsageError: there is no such column, or `rows` cannot be iterated over.
        DataError: a value is missing (None, NaN) or no text; the message names its row, counted from 1.
    """
    names = source, target
    for number, row in enumerate(_rows(rows, names), start=1):
        if isinstance(row, Mapping):
            row = tuple(_field(row, name) for name in names)
        if not isinstance(row, tuple | list) or len(row) != 2:
            raise DataError(f"Row {number:,} is {row!r:.200}; expected (source, target) or a mapping with {names}.")
        if all(type(value) is str for value in row):
            yield row  # type: ignore[misc]  # an AlignedPair, too
            continue
        texts = []
        for name, value in zip(names, row, strict=True):
            try:
                texts.append(read_text(value))
            except ValueError as error:
                raise DataError(f"Row {number:,}, {name!r}: {error}.") from None
        yield texts[0], texts[1]


def read_text(value: Any) -> str:
    """Returns the text of a value of another library, or raises ValueError with a clause on what is wrong with it."""
    try:
        value = value.as_py() if hasattr(value, "as_py") else value  # of Arrow
        if isinstance(value, bytes):
            return value.decode()
    except UnicodeDecodeError:
        raise ValueError("its bytes are not UTF-8") from None
    if isinstance(value, str):
        return str(value)  # NumPy has a class of its own
    if value is None or type(value).__name__ in ("NAType", "NaTType") or (isinstance(value, float) and value != value):
        raise ValueError(f"the value is missing ({value}); leave such rows out")
    batched = "; take the elements out of their batches (.unbatch())" if hasattr(value, "shape") else ""
    raise ValueError(f"the value is {value!r:.60}, of the type {type(value).__name__}; expected a text{batched}")


def arrow_names(schema: Any) -> list[str]:
    """Returns the names of an Arrow schema's columns; a struct's fields follow it, such as "translation.en"."""
    names = []
    for column in schema:
        names.append(column.name)
        if str(column.type).startswith("struct<"):
            names += [f"{column.name}.{field.name}" for field in column.type]
    return names


def arrow_column(batch: Any, name: str) -> Any:
    """Returns the column of an Arrow batch that `arrow_names` calls `name`."""
    if name in batch.schema.names:
        return batch.column(name)
    outer, _, inner = name.partition(".")
    column = batch.column(outer)
    fields = zip((field.name for field in column.type), column.flatten(), strict=True)  # null where the struct is
    return dict(fields)[inner]


def _rows(rows: Any, names: Sequence[str]) -> Iterable[Any]:
    if hasattr(rows, "to_batches"):  # Arrow
        _check_columns(names, arrow_names(rows.schema))
        columns = ([arrow_column(batch, name) for name in names] for batch in rows.to_batches())
        return (row for pair in columns for row in zip(*pair, strict=True))
    if hasattr(rows, "element_spec"):  # tf.data
        return rows.as_numpy_iterator()  # type: ignore[no-any-return]
    if hasattr(rows, "columns") and hasattr(rows, "dtypes"):  # pandas, polars
        _check_columns(names, list(rows.columns))
        return zip(*(rows[name] for name in names), strict=True)
    if isinstance(rows, Iterable) and not isinstance(rows, str | bytes | Mapping):
        return rows
    raise UsageError(
        f"pairs_of takes a table, a data set or an iterable of pairs, not {rows!r:.80} of the type "
        f"{type(rows).__name__}."
    )


def _check_columns(names: Sequence[str], there: Sequence[Any]) -> None:
    for name in names:
        if name not in there:
            raise _no_column(name, there)


def _no_column(name: str, there: Iterable[Any]) -> UsageError:
    known = [str(column) for column in there]
    return UsageError(
        f"There is no column {name!r}, only {', '.join(known)}. Name the columns: pairs_of(table, source=..., "
        f"target=...).{did_you_mean(name, known)}"
    )


def _field(row: Mapping[str, Any], name: str) -> Any:
    """Returns a field of a mapping, or of a mapping in it, as of "translation.en"."""
    if name in row:
        return row[name]
    outer, _, inner = name.partition(".")
    if inner and outer in row and (row[outer] is None or isinstance(row[outer], Mapping)):
        return row[outer] and _field(row[outer], inner)
    raise _no_column(name, row)
