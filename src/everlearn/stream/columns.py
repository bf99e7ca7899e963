"""Choose the columns of records that a model learns from, by the first of them.

A column of numbers among texts, dates and row numbers is learned. The others are left out
and named. `look_of` says what a column holds.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, time
from itertools import pairwise
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import numpy as np
from scipy import sparse

from everlearn.errors import UsageError
from everlearn.io.batches import Chunk, ImageFile
from everlearn.io.dialects import FEW, FIRST_RECORDS
from everlearn.io.numbers import is_missing, is_number, is_truth_value
from everlearn.stream.forms import TOKENS, field_of, first_records
from everlearn.stream.layout import Layout

Look: TypeAlias = Literal[
    "numbers", "categories", "texts", "dates", "lists", "ids", "nothing", "rare"
]
"""What a column holds."""
NUMBERS: Final[frozenset[Look]] = frozenset({"numbers"})
"""What every model of rows learns from."""
TABLES: Final[frozenset[Look]] = frozenset({"numbers", "categories"})
"""What models of tables learn from."""
_TEXTS: Final[frozenset[Look]] = frozenset({"categories", "texts", "dates", "lists"})
_ADVICE: Final[Mapping[Look, str]] = {
    "numbers": "numbers",
    "categories": "texts",
    "texts": "texts",
    "dates": "dates; add columns of numbers, such as the hour or days since the last visit",
    "lists": "lists or objects",
    "ids": "ids or row numbers",
    "nothing": "empty",
    "rare": "only some records have it",
}
_MAX_TOLD: Final = 20
"""Columns that a message names."""
_DATE: Final = re.compile(
    r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}(?:[T ].*)?|\d{1,2}[-/.]\d{1,2}[-/.]\d{2}(?:\d\d)?(?:[T ,].*)?"
    r"|\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?(?: ?[AaPp]\.?[Mm]\.?)?"
    r"|\[?\d{1,2}[-/ .]{1,2}[A-Za-z]{3,9}\.?[-/ ]\d{2,4}.*"
)
_ID_NAME: Final = re.compile(r"(?:.*[_ .-])?(?:id|uuid|guid)|.*[a-z](?:Id|ID)", re.ASCII)


@dataclass(frozen=True, slots=True)
class Choice:
    """The columns to learn from, and what the others hold.

    Attributes
    ----------
    columns : names of the columns to learn from, in order
    left_out : what each other column holds
    longest : the column with the longest texts, if there are texts
    examples : a text of each column of texts
    """

    columns: tuple[str, ...]
    left_out: Mapping[str, Look]
    longest: str | None = None
    examples: Mapping[str, str] = field(default_factory=dict)

    @property
    def command(self) -> str:
        """The option that makes this choice, ready to type."""
        return f"option 'columns' {shlex.quote(','.join(map(_quoted, self.columns)))}"

    def told_left_out(self, *, examples: bool = False) -> str:
        """The columns that are left out, and why."""
        shown = self.examples if examples else {}
        told = [
            f"{name} ({_ADVICE[look]}{f' such as {shown[name]!r:.40}' if name in shown else ''})"
            for name, look in self.left_out.items()
        ]
        more = [f"and {len(told) - _MAX_TOLD} more"] if len(told) > _MAX_TOLD else []
        return ", ".join(told[:_MAX_TOLD] + more)


class FirstLook(NamedTuple):
    """The layout by which to read records, and what to say about it."""

    layout: Layout
    note: str = ""


def with_columns(chunk: Chunk, layout: Layout, learned: Collection[Look] = NUMBERS) -> FirstLook:
    """The layout, completed by the columns that the first good records have.

    Parameters
    ----------
    chunk : the first records
    layout : a layout of rows
    learned : what columns may hold to be learned
    """
    if layout.columns is not None:
        return FirstLook(layout)
    first = first_records(chunk, layout, FIRST_RECORDS)
    if not first:
        return FirstLook(layout)
    columns = _columns_of(first, chunk.names, layout)
    if columns is None:  # arrays and lists have no names, and all their columns are numbers
        names = chunk.names or tuple(str(i) for i in range(np.shape(first[0])[-1]))
        return FirstLook(
            replace(layout, columns=tuple(n for n in names if not _is_other(n, layout)))
        )
    choice = choose_columns(columns, chunk.decimal, len(first), learned)
    if not choice.columns and len(first) < FEW:  # they may be bad
        return FirstLook(replace(layout, columns=tuple(columns)))
    advice = ""
    if choice.longest is not None and "documents" in layout.kind_of_model.estimators:
        advice = f". To learn from texts, add option 'text' {shlex.quote(choice.longest)}"
    if not choice.columns:
        raise UsageError(
            "there is no column of numbers to learn from. The columns are "
            f"{choice.told_left_out(examples=True)}{advice}"
        )
    layout = replace(layout, columns=choice.columns)
    if not choice.left_out:
        return FirstLook(layout)
    marks = ", with decimal commas" if chunk.decimal == "," else ""
    return FirstLook(
        layout,
        f"learning from {choice.command}{marks}; left out: {choice.told_left_out()}{advice}",
    )


def check_has_text(chunk: Chunk, layout: Layout) -> None:
    """Refuse records with named fields of which none holds a text; they are of another layout."""
    first = first_records(chunk, layout, FIRST_RECORDS)
    columns = _columns_of(first, chunk.names, layout) if len(first) >= FEW else None
    if columns is None:
        return
    for name in (layout.text, TOKENS):
        if any(field_of(row, name, chunk.names) is not None for row in first):
            return
    longest = choose_columns(columns, chunk.decimal, len(first)).longest
    advice = f": add option 'text' {shlex.quote(longest)}" if longest else ""
    raise UsageError(
        f"the records have no text in the field {layout.text!r}{advice}. Their fields are "
        f"{', '.join(columns)}"
    )


def _columns_of(
    rows: Sequence[Any], names: tuple[str, ...] | None, layout: Layout
) -> dict[str, list[Any]] | None:
    """Values by field, without the label and texts; None if fields have no names."""
    if isinstance(rows[0], (str, ImageFile, np.ndarray)) or sparse.issparse(rows[0]):
        return None
    if names is not None:
        columns = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
    elif isinstance(rows[0], dict):
        columns = {}
        for row in rows:
            for name, value in row.items() if isinstance(row, dict) else ():
                columns.setdefault(name, []).append(value)
    else:
        return None
    return {name: values for name, values in columns.items() if not _is_other(name, layout)}


def _is_other(name: str, layout: Layout) -> bool:
    """Whether a field is no column: a label or a text."""
    return name in (layout.label, layout.text, TOKENS)


def choose_columns(
    columns: Mapping[str, Sequence[Any]],
    decimal: str,
    n_records: int,
    learned: Collection[Look] = NUMBERS,
) -> Choice:
    """Choose among columns by the values of the first records; empty `columns` if none fits.

    Objects may have fields that others have not: a column has the values of those that have it.
    """
    looks: dict[str, Look] = {
        name: "rare" if 2 * len(values) <= n_records else look_of(name, values, decimal)
        for name, values in columns.items()
    }
    lengths = {
        name: sum(len(value) for value in columns[name] if isinstance(value, str))
        for name, look in looks.items()
        if look in ("categories", "texts")
    }
    return Choice(
        tuple(name for name, look in looks.items() if look in learned),
        {name: look for name, look in looks.items() if look not in learned},
        max(lengths, key=lengths.__getitem__, default=None),
        {
            name: next(v for v in columns[name] if isinstance(v, str) and v)
            for name in lengths
            if lengths[name]
        },
    )


def look_of(name: str, values: Sequence[Any], decimal: str) -> Look:
    """What most values of a column are."""
    held = [value for value in values if not is_missing(value)]
    if not held:
        return "nothing" if len(values) >= FEW else "numbers"
    numbers = [value for value in held if is_number(value, decimal)]
    if 2 * len(numbers) > len(held):
        return "ids" if _ID_NAME.fullmatch(name) or _counts_up(values) else "numbers"
    if 2 * sum(isinstance(value, (list, tuple, dict)) for value in held) > len(held):
        return "lists"
    if 2 * sum(map(_is_date, held)) > len(held):
        return "dates"
    return "categories" if 2 * len(set(map(str, held))) <= max(len(held), FEW) else "texts"


def text_columns(chunk: Chunk, layout: Layout) -> tuple[str, ...]:
    """The columns of the layout that the first good records fill with texts or truth values."""
    first = first_records(chunk, layout, FIRST_RECORDS)
    found = _columns_of(first, chunk.names, layout) if first else None
    return tuple(
        name
        for name in layout.columns or ()
        if found is not None and name in found and _holds_texts(name, found[name], chunk.decimal)
    )


def _holds_texts(name: str, values: Sequence[Any], decimal: str) -> bool:
    held = [value for value in values if not is_missing(value)]
    if held and all(map(is_truth_value, held)):
        return True
    return look_of(name, values, decimal) in _TEXTS


def _counts_up(values: Sequence[Any]) -> bool:
    """Whether the values number the records: each is one more than the one before."""
    if len(values) < FEW:
        return False
    try:
        numbers = [int(value) for value in values]
    except (TypeError, ValueError):
        return False
    return all(b == a + 1 for a, b in pairwise(numbers))


def _is_date(value: Any) -> bool:
    if isinstance(value, str):
        return _DATE.fullmatch(value.strip()) is not None
    return isinstance(value, (date, time))


def _quoted(name: str) -> str:
    """A name as `--columns` reads it."""
    if '"' in name or "," in name or name != name.strip():
        return '"' + name.replace('"', '""') + '"'
    return name
