"""Choose which columns of a file to learn, from its first records.

Columns of numbers are learned, and categories if the model takes tables. Texts, dates, ids and row
numbers are left out, and a note names them. `mixture/columns.py` then chooses the kind of each
column of a table: numbers, categories or counts.
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

Content: TypeAlias = Literal[
    "numbers", "categories", "texts", "dates", "lists", "ids", "nothing", "rare"
]
"""What a column holds."""
NUMBERS: Final[frozenset[Content]] = frozenset({"numbers"})
"""The contents that every model of rows can learn."""
TABLES: Final[frozenset[Content]] = frozenset({"numbers", "categories"})
"""The contents that models of tables can learn."""
_TEXTS: Final[frozenset[Content]] = frozenset({"categories", "texts", "dates", "lists"})
_DESCRIPTIONS: Final[Mapping[Content, str]] = {
    "numbers": "numbers",
    "categories": "texts",
    "texts": "texts",
    "dates": "dates; add columns of numbers, such as the hour or days since the last visit",
    "lists": "lists or objects",
    "ids": "ids or row numbers",
    "nothing": "empty",
    "rare": "only some records have it",
}
_MAX_NAMED: Final = 20
"""Columns that a message names at most."""
_DATE: Final = re.compile(
    r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}(?:[T ].*)?|\d{1,2}[-/.]\d{1,2}[-/.]\d{2}(?:\d\d)?(?:[T ,].*)?"
    r"|\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?(?: ?[AaPp]\.?[Mm]\.?)?"
    r"|\[?\d{1,2}[-/ .]{1,2}[A-Za-z]{3,9}\.?[-/ ]\d{2,4}.*"
)
_ID_NAME: Final = re.compile(r"(?:.*[_ .-])?(?:id|uuid|guid)|.*[a-z](?:Id|ID)", re.ASCII)


@dataclass(frozen=True, slots=True)
class ColumnChoice:
    """The columns to learn from, and what the others hold.

    Attributes
    ----------
    columns : names of the columns to learn from, in order
    left_out : what each other column holds
    longest : the column with the longest texts, if there are texts
    examples : a text of each column of texts
    """

    columns: tuple[str, ...]
    left_out: Mapping[str, Content]
    longest: str | None = None
    examples: Mapping[str, str] = field(default_factory=dict)

    @property
    def command(self) -> str:
        """The option that makes this choice, ready to type."""
        return f"option 'columns' {shlex.quote(','.join(map(_quoted, self.columns)))}"

    def describe_left_out(self, *, examples: bool = False) -> str:
        """The columns that are left out, and why."""
        shown = self.examples if examples else {}
        named = []
        for name, content in self.left_out.items():
            example = f" such as {shown[name]!r:.40}" if name in shown else ""
            named.append(f"{name} ({_DESCRIPTIONS[content]}{example})")
        more = [f"and {len(named) - _MAX_NAMED} more"] if len(named) > _MAX_NAMED else []
        return ", ".join(named[:_MAX_NAMED] + more)


class CompletedLayout(NamedTuple):
    """A layout with columns, and a note for the user about the choice; "" if all are learned."""

    layout: Layout
    note: str = ""


def with_chosen_columns(
    chunk: Chunk, layout: Layout, learned: Collection[Content] = NUMBERS
) -> CompletedLayout:
    """Complete a layout of rows: choose columns by the first good records.

    Parameters
    ----------
    chunk : the first records
    layout : a layout of rows
    learned : contents of columns that the model can learn
    """
    if layout.columns is not None:
        return CompletedLayout(layout)
    first = first_records(chunk, layout, FIRST_RECORDS)
    if not first:
        return CompletedLayout(layout)
    columns = _columns_of(first, chunk.names, layout)
    if columns is None:  # arrays and lists have no names, and all their columns are numbers
        names = chunk.names or tuple(str(i) for i in range(np.shape(first[0])[-1]))
        return CompletedLayout(
            replace(layout, columns=tuple(n for n in names if not _is_label_or_text(n, layout)))
        )
    choice = choose_columns(columns, chunk.decimal, len(first), learned)
    if not choice.columns and len(first) < FEW:  # they may be bad
        return CompletedLayout(replace(layout, columns=tuple(columns)))
    advice = ""
    if choice.longest is not None and "documents" in layout.kind_of_model.estimators:
        advice = f". To learn from texts, add option 'text' {shlex.quote(choice.longest)}"
    if not choice.columns:
        raise UsageError(
            "there is no column of numbers to learn from. The columns are "
            f"{choice.describe_left_out(examples=True)}{advice}"
        )
    layout = replace(layout, columns=choice.columns)
    if not choice.left_out:
        return CompletedLayout(layout)
    marks = ", with decimal commas" if chunk.decimal == "," else ""
    return CompletedLayout(
        layout,
        f"learning from {choice.command}{marks}; left out: {choice.describe_left_out()}{advice}",
    )


def check_has_text(chunk: Chunk, layout: Layout) -> None:
    """Refuse records that have named fields but no text, and suggest the field with texts."""
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
    return {name: values for name, values in columns.items() if not _is_label_or_text(name, layout)}


def _is_label_or_text(name: str, layout: Layout) -> bool:
    """Whether a field is no column: a label or a text."""
    return name in (layout.label, layout.text, TOKENS)


def choose_columns(
    columns: Mapping[str, Sequence[Any]],
    decimal: str,
    n_records: int,
    learned: Collection[Content] = NUMBERS,
) -> ColumnChoice:
    """Choose columns by the values in the first records. `columns` is empty if none can be learned.

    In objects, a field may be missing: `columns` has only the values that there are.
    """
    contents: dict[str, Content] = {
        name: "rare" if 2 * len(values) <= n_records else content_of(name, values, decimal)
        for name, values in columns.items()
    }
    lengths = {
        name: sum(len(value) for value in columns[name] if isinstance(value, str))
        for name, content in contents.items()
        if content in ("categories", "texts")
    }
    return ColumnChoice(
        tuple(name for name, content in contents.items() if content in learned),
        {name: content for name, content in contents.items() if content not in learned},
        max(lengths, key=lengths.__getitem__, default=None),
        {
            name: next(v for v in columns[name] if isinstance(v, str) and v)
            for name in lengths
            if lengths[name]
        },
    )


def content_of(name: str, values: Sequence[Any], decimal: str) -> Content:
    """What a column holds: the content of most of its values."""
    present = [value for value in values if not is_missing(value)]
    if not present:
        return "nothing" if len(values) >= FEW else "numbers"
    numbers = [value for value in present if is_number(value, decimal)]
    if 2 * len(numbers) > len(present):
        return "ids" if _ID_NAME.fullmatch(name) or _counts_up(values) else "numbers"
    if 2 * sum(isinstance(value, (list, tuple, dict)) for value in present) > len(present):
        return "lists"
    if 2 * sum(map(_is_date, present)) > len(present):
        return "dates"
    return "categories" if 2 * len(set(map(str, present))) <= max(len(present), FEW) else "texts"


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
    present = [value for value in values if not is_missing(value)]
    if present and all(map(is_truth_value, present)):
        return True
    return content_of(name, values, decimal) in _TEXTS


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
