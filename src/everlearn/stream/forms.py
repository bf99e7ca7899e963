"""What records are, seen from the first good ones: rows of numbers, documents or points."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Final

import numpy as np
from scipy import sparse

from everlearn.errors import UsageError
from everlearn.io.batches import Chunk, ImageFile
from everlearn.io.dialects import FEW, FIRST_RECORDS
from everlearn.registry import Form
from everlearn.stream.columns import Choice, choose_columns
from everlearn.stream.layout import Layout

TOKENS: Final = "tokens"
"""The field of a document that holds a list of its words."""
POINTS: Final = "points"
"""The field of a record that holds a list of points."""


@dataclass(frozen=True, slots=True)
class FirstLook:
    """What the first records show: the layout to read them by, and what to say about it."""

    layout: Layout
    note: str = ""


def with_form(chunk: Chunk, layout: Layout) -> FirstLook:
    """The layout, completed by the form and the columns that the first good records show."""
    if layout.form is not None and (layout.form != "rows" or layout.columns is not None):
        return FirstLook(layout)
    chunk = chunk.parsed()
    good = (chunk.rows[i] for i in range(len(chunk)) if i not in chunk.bad)
    first = list(islice((row for row in good if _shows_form(row, layout)), FIRST_RECORDS))
    if not first:
        return FirstLook(layout)
    if layout.form is None:
        form = _form_of(first[0], chunk.names, layout)
        layout.kind_of_model.estimator(form)  # raises if the kind does not learn from such records
        label = field_of(first[0], layout.label, chunk.names)
        is_list = isinstance(label, (list, tuple))
        layout = replace(layout, form=form, multilabel=layout.supervised and is_list)
    columns = _columns_of(first, chunk.names, layout)
    if layout.form == "documents":
        _check_has_text(first, columns, chunk, layout)
    if layout.form != "rows" or layout.columns is not None:
        return FirstLook(layout)
    if columns is None:  # arrays and lists have no names, and all their columns are numbers
        names = chunk.names or tuple(str(i) for i in range(np.shape(first[0])[-1]))
        others = (layout.label, layout.text, TOKENS)
        return FirstLook(replace(layout, columns=tuple(n for n in names if n not in others)))
    choice = choose_columns(columns, chunk.decimal, len(first))
    if choice.columns:
        return FirstLook(replace(layout, columns=choice.columns), _note(choice, chunk, layout))
    if len(first) < FEW:  # they may be bad
        return FirstLook(replace(layout, columns=tuple(columns)))
    raise UsageError(
        f"there is no column of numbers to learn from. The columns are "
        f"{choice.told_left_out(examples=True)}"
        f"{_advice_on_texts(choice, layout)}"
    )


def _columns_of(
    rows: Sequence[Any], names: tuple[str, ...] | None, layout: Layout
) -> dict[str, list[Any]] | None:
    """Values by field, without the label and texts; None if fields have no names."""
    if isinstance(rows[0], (str, ImageFile, np.ndarray)) or sparse.issparse(rows[0]):
        return None
    others = (layout.label, layout.text, TOKENS)
    if names is not None:
        columns = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
    elif isinstance(rows[0], dict):
        columns = {}
        for row in rows:
            for name, value in row.items() if isinstance(row, dict) else ():
                columns.setdefault(name, []).append(value)
    else:
        return None
    return {name: values for name, values in columns.items() if name not in others}


def _note(choice: Choice, chunk: Chunk, layout: Layout) -> str:
    """What to say about a choice that leaves columns out."""
    marks = ", with decimal commas" if chunk.decimal == "," else ""
    if not choice.left_out:
        return ""
    return (
        f"learning from {choice.command}{marks}; left out: {choice.told_left_out()}"
        f"{_advice_on_texts(choice, layout)}"
    )


def _advice_on_texts(choice: Choice, layout: Layout) -> str:
    if choice.longest is None or "documents" not in layout.kind_of_model.estimators:
        return ""
    return f". To learn from texts, add option 'text' {shlex.quote(choice.longest)}"


def _check_has_text(
    rows: Sequence[Any], columns: Mapping[str, Sequence[Any]] | None, chunk: Chunk, layout: Layout
) -> None:
    """Refuse records with named fields of which none holds a text; they are of another layout."""
    if columns is None or len(rows) < FEW:
        return
    for name in (layout.text, TOKENS):
        if any(field_of(row, name, chunk.names) is not None for row in rows):
            return
    choice = choose_columns(columns, chunk.decimal, len(rows))
    advice = f": add option 'text' {shlex.quote(choice.longest)}" if choice.longest else ""
    raise UsageError(
        f"the records have no text in the field {layout.text!r}{advice}. Their fields are "
        f"{', '.join(columns)}"
    )


def field_of(row: Any, name: str, names: tuple[str, ...] | None) -> Any:
    """A field of a record by its name, None if it has none; `names` are those of a table."""
    if isinstance(row, dict):
        return row.get(name)
    if names is not None and name in names:
        return row[names.index(name)]
    return None


def _shows_form(row: Any, layout: Layout) -> bool:
    """Whether a record shows its form; a bare number or a label alone does not."""
    if isinstance(row, str):
        return "documents" in layout.kind_of_model.estimators
    if isinstance(row, dict):
        return not set(row) <= {layout.label}
    if isinstance(row, list):
        return bool(row)
    return row is not None and not isinstance(row, (bool, int, float))


def _form_of(first: Any, names: tuple[str, ...] | None, layout: Layout) -> Form:
    """The form of a record, among those that the kind of model learns from."""
    known = layout.kind_of_model.estimators
    if isinstance(first, ImageFile):
        return "points"
    if len(known) == 1:
        return next(iter(known))
    words = isinstance(first, str) or sparse.issparse(first)
    fields = first if isinstance(first, dict) else names or ()
    if isinstance(first, list) and first and isinstance(first[0], str) and names is None:
        words = True
    return "documents" if words or layout.text in fields or TOKENS in fields else "rows"
