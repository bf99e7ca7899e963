"""Records as rows of numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse

from everlearn.app.tool.kinds import UsageError
from everlearn.app.tool.layout import Layout
from everlearn.core.arrays import Mat
from everlearn.runtime.stream.chunks import Bad, Chunk


def number_rows(chunk: Chunk, layout: Layout, allow_missing: bool) -> tuple[Any, dict[int, Bad]]:
    """A table of the columns that the model learns from, and the records that do not fit in it."""
    columns = layout.columns or ()
    if isinstance(chunk.rows, np.ndarray):
        return _checked(np.asarray(chunk.rows, np.float64), columns, allow_missing, chunk)
    if sparse.issparse(chunk.rows):
        return _checked(chunk.rows.toarray(), columns, allow_missing, chunk)
    rows = _chosen(chunk, columns)
    whole = _at_once(rows, len(columns))
    if whole is not None:
        return _checked(whole, columns, allow_missing, chunk)
    table = np.zeros((len(rows), len(columns)))
    faults = dict(chunk.bad)
    for i, row in enumerate(rows):
        if i not in faults:
            try:
                table[i] = _numbers(row, columns)
            except ValueError as error:
                faults[i] = Bad.of(str(error), chunk.rows[i])
    return _checked(table, columns, allow_missing, replace(chunk, bad=faults))


def _at_once(rows: list[Any], width: int) -> Mat | None:
    """All rows as one table; None if some row is odd, which only a look at each can tell."""
    try:
        table = np.array(rows, dtype=np.float64)
    except (TypeError, ValueError):
        return None
    return table if width and table.shape == (len(rows), width) else None


def _chosen(chunk: Chunk, columns: Sequence[str]) -> list[Any]:
    """The fields of each row that are columns; a row that has others stays as it is."""
    if chunk.names is not None:
        lacking = [name for name in columns if name not in chunk.names]
        if lacking:
            raise UsageError(f"the columns {lacking} are missing from {list(chunk.names)}")
        where = [chunk.names.index(name) for name in columns]
        if where == list(range(len(chunk.names))):
            return list(chunk.rows)
        return [
            row if i in chunk.bad else [row[j] for j in where] for i, row in enumerate(chunk.rows)
        ]
    return [_by_name(row, columns) if isinstance(row, dict) else row for row in chunk.rows]


def _by_name(row: dict[str, Any], columns: Sequence[str]) -> Any:
    """The fields in the order of the columns; the row itself if it lacks one."""
    try:
        return [row[name] for name in columns]
    except KeyError:
        return row


def _numbers(row: Any, columns: Sequence[str]) -> list[float]:
    if isinstance(row, (dict, list)) and not row:
        raise ValueError("there is nothing in it")
    if isinstance(row, dict):
        lacking = next(name for name in columns if name not in row)
        raise ValueError(f"the field {lacking!r} is missing")
    if not isinstance(row, (list, tuple)):
        raise ValueError(f"expected a list of numbers or an object of fields, got {row!r:.40}")
    if len(row) != len(columns):
        raise ValueError(f"expected {len(columns)} numbers, got {len(row)}")
    out = []
    for name, value in zip(columns, row, strict=True):
        try:
            out.append(float("nan") if value is None or value == "" else float(value))
        except (TypeError, ValueError) as error:
            raise ValueError(f"{name!r} is not a number: {value!r:.40}") from error
    return out


def _checked(
    table: Any, columns: Sequence[str], allow_missing: bool, chunk: Chunk
) -> tuple[Any, dict[int, Bad]]:
    faults = dict(chunk.bad)
    if table.shape[1] != len(columns):
        raise UsageError(f"rows have {table.shape[1]} columns, the model learned {len(columns)}")
    wrong = np.isinf(table) if allow_missing else ~np.isfinite(table)
    for i in np.flatnonzero(wrong.any(axis=1)):
        if int(i) not in faults:
            name = columns[int(np.argmax(wrong[i]))]
            value = table[i][int(np.argmax(wrong[i]))]
            what = "is missing" if np.isnan(value) else "is infinite"
            faults[int(i)] = Bad.of(f"{name!r} {what}", chunk.rows[int(i)])
    return table, faults
