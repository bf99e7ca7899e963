"""Read records as rows of a table in which some columns hold text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from everlearn.io.batches import BadRecord, Chunk
from everlearn.io.numbers import is_missing, is_truth_value, number_of, why_no_number
from everlearn.stream.forms import field_of
from everlearn.stream.rows import positions_of


def table_rows(
    chunk: Chunk, columns: Sequence[str], texts: Sequence[str]
) -> tuple[NDArray[Any], dict[int, BadRecord]]:
    """The records as an array with a field for each column, and what is wrong with bad ones."""
    if chunk.names is not None:
        positions_of(columns, chunk.names)  # raises if one is missing
    table = np.empty(len(chunk), [(name, object if name in texts else float) for name in columns])
    faults = dict(chunk.bad)
    for i, row in enumerate(chunk.rows):
        if i not in faults:
            try:
                table[i] = tuple(_entry(row, name, chunk, name in texts) for name in columns)
            except ValueError as error:
                faults[i] = BadRecord.of(str(error), row)
    return table, faults


def _field(row: Any, name: str, chunk: Chunk) -> Any:
    """A field of a record; a list without names has its columns by position."""
    if isinstance(row, (list, tuple)) and chunk.names is None:
        return row[int(name)] if name.isdecimal() and int(name) < len(row) else None
    return field_of(row, name, chunk.names)


def _entry(row: Any, name: str, chunk: Chunk, is_text: bool) -> str | float | None:
    """A value as a table has it, or a ValueError that names its column."""
    if isinstance(row, dict) and name not in row:
        raise ValueError(f"the field {name!r} is missing")
    value = _field(row, name, chunk)
    if is_text:
        if isinstance(value, (dict, list)):
            raise ValueError(f"{name!r} is not a text: {value!r:.40}")
        if is_truth_value(value):
            return str(value).strip().capitalize()  # "true" of one file is True of another
        return None if is_missing(value) else str(value)
    try:
        number = number_of(value, chunk.decimal)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name!r} is {why_no_number(value, chunk.decimal)}") from error
    if np.isinf(number):
        raise ValueError(f"{name!r} is infinite")
    return number
