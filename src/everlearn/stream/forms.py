"""Detect the form of records from the first good one: rows of numbers, documents or points."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import Any, Final

from scipy import sparse

from everlearn.io.batches import Chunk, ImageFile
from everlearn.registry import Form
from everlearn.stream.layout import Layout

TOKENS: Final = "tokens"
"""The field of a document that holds a list of its words."""
POINTS: Final = "points"
"""The field of a record that holds a list of points."""


def with_form(chunk: Chunk, layout: Layout) -> Layout:
    """The layout, completed by the form that the first good record shows."""
    if layout.form is not None:
        return layout
    first = next(iter(first_records(chunk, layout, 1)), None)
    if first is None:
        return layout
    form = _form_of(first, chunk.names, layout)
    layout.kind_of_model.estimator(form)  # raises if the kind does not learn from such records
    multilabel = isinstance(field_of(first, layout.label, chunk.names), (list, tuple))
    return replace(layout, form=form, multilabel=layout.supervised and multilabel)


def first_records(chunk: Chunk, layout: Layout, n: int) -> list[Any]:
    """The first good records of a chunk that show their form, at most `n`."""
    chunk = chunk.parsed()
    good = (chunk.rows[i] for i in range(len(chunk)) if i not in chunk.bad)
    return list(islice((row for row in good if _shows_form(row, layout)), n))


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
