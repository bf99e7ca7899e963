"""Read records as rows of numbers: the columns that a model learns from, as one table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from operator import itemgetter
from typing import Any

import numpy as np
from scipy import sparse

from everlearn.core.arrays import Mat
from everlearn.errors import UsageError
from everlearn.io.batches import BadRecord, Chunk, LineRows
from everlearn.io.numbers import number_of, why_no_number
from everlearn.stream.layout import Layout


def number_rows(
    chunk: Chunk, layout: Layout, allow_missing: bool
) -> tuple[Any, dict[int, BadRecord]]:
    """A table of the columns that the model learns from, and what is wrong with bad records."""
    columns = layout.columns or ()
    if isinstance(chunk.rows, np.ndarray):
        return _without_bad_numbers(
            np.asarray(chunk.rows, np.float64), columns, allow_missing, chunk
        )
    if sparse.issparse(chunk.rows):
        return _without_bad_numbers(chunk.rows.toarray(), columns, allow_missing, chunk)
    good = [i for i in range(len(chunk)) if i not in chunk.bad]
    rows = [chunk.rows[i] for i in good]
    fields = _fields_to_take(rows, chunk.names, columns)
    table = np.zeros((len(chunk), len(columns)))
    whole = _try_table(rows, fields) if chunk.decimal == "." else None
    faults = dict(chunk.bad)
    if whole is not None and whole.shape == (len(good), len(columns)):
        table[good] = whole
    else:  # some record does not fit: find out which, and why
        for i, row in zip(good, rows, strict=True):
            try:
                table[i] = numbers_of_row(row, fields, columns, chunk.decimal)
            except ValueError as error:
                faults[i] = BadRecord.of(str(error), row)
    return _without_bad_numbers(table, columns, allow_missing, replace(chunk, bad=faults))


def _fields_to_take(
    rows: Sequence[Any], names: tuple[str, ...] | None, columns: Sequence[str]
) -> list[Any] | None:
    """Keys or positions of the columns in each row; None if a row is exactly the columns."""
    if names is not None:
        positions = positions_of(columns, names)
        return None if positions == list(range(len(names))) else positions
    return list(columns) if any(isinstance(row, dict) for row in rows) else None


def positions_of(columns: Sequence[str], names: tuple[str, ...]) -> list[int]:
    """Positions of the columns in a table whose columns have these names."""
    if lacking := [name for name in columns if name not in names]:
        raise UsageError(
            f"the columns {lacking} of the model are missing, got the columns {list(names)}"
        )
    return [names.index(name) for name in columns]


def _try_table(rows: list[Any], fields: list[Any] | None) -> Mat | None:
    """All rows converted at once; None if one of them does not fit."""
    try:
        if fields is not None:
            # With one field, itemgetter gives the value itself instead of a tuple.
            take = itemgetter(*fields) if len(fields) > 1 else lambda row: (row[fields[0]],)
            rows = [*map(take, rows)]
        return np.array(rows, dtype=np.float64)
    except (IndexError, KeyError, TypeError, ValueError):
        return None


def csv_table(chunk: Chunk, columns: Sequence[str]) -> tuple[list[str], Mat] | None:
    """The lines of CSV rows and a table of their columns, parsed in bulk.

    None if a line needs care: quotes, another number of fields, or a field that is no number.
    Lines parsed in bulk give the same numbers, to the bit, as lines parsed one by one.
    """
    lines, names = chunk.rows, chunk.names
    if not isinstance(lines, LineRows) or not lines.delimiter or names is None:
        return None
    texts = lines.texts()
    if not texts or {text.count(lines.delimiter) for text in texts} != {len(names) - 1}:
        return None
    positions = positions_of(columns, names)
    numbers = texts
    if chunk.decimal == ",":
        whole = "\n".join(texts)
        if "." in whole:  # marks of thousands, or a number with a decimal point, which is bad
            return None
        numbers = whole.replace(",", ".").split("\n")
    try:
        table = np.loadtxt(
            numbers, delimiter=lines.delimiter, comments=None, usecols=positions, ndmin=2
        )
    except ValueError:
        return None
    return (texts, table) if len(table) == len(texts) else None


def numbers_of_row(
    row: Any, fields: list[Any] | None, columns: Sequence[str], decimal: str = "."
) -> list[float]:
    """The columns of one row, or a ValueError that says what is wrong with it."""
    if isinstance(row, (dict, list)) and not row:
        raise ValueError("the record is empty")
    if isinstance(row, dict):
        lacking = [name for name in columns if name not in row]
        if lacking:
            raise ValueError(f"the field {lacking[0]!r} is missing")
        row = [row[name] for name in columns]
    elif fields is not None and isinstance(fields[0], int):
        row = [row[k] for k in fields]
    if not isinstance(row, (list, tuple)):
        raise ValueError(f"expected a list of numbers or an object of fields, got {row!r:.40}")
    if len(row) != len(columns):
        raise ValueError(f"expected {len(columns)} numbers, got {len(row)}")
    out = []
    for name, value in zip(columns, row, strict=True):
        try:
            out.append(number_of(value, decimal))
        except (TypeError, ValueError) as error:
            raise ValueError(f"{name!r} is {why_no_number(value, decimal)}") from error
    return out


def _without_bad_numbers(
    table: Any, columns: Sequence[str], allow_missing: bool, chunk: Chunk
) -> tuple[Any, dict[int, BadRecord]]:
    """The table, and what is wrong with rows that have infinite or missing numbers."""
    faults = dict(chunk.bad)
    if table.shape[1] != len(columns):
        raise UsageError(f"expected rows of {len(columns)} columns, got {table.shape[1]}")
    wrong = np.isinf(table) if allow_missing else ~np.isfinite(table)
    for i in np.flatnonzero(wrong.any(axis=1)):
        if int(i) not in faults:
            name = columns[int(np.argmax(wrong[i]))]
            value = table[i][int(np.argmax(wrong[i]))]
            what = "is missing" if np.isnan(value) else "is infinite"
            faults[int(i)] = BadRecord.of(f"{name!r} {what}", chunk.rows[int(i)])
    return table, faults
