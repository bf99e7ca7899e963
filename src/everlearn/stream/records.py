"""Turn chunks of records into batches for a model: rows of numbers, documents or points."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, TypeGuard

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from everlearn.errors import ImageDecodeError, UsageError
from everlearn.io.batches import BadRecord, Batch, Chunk, ImageFile, LineRows
from everlearn.stream.columns import (
    NUMBERS,
    TABLES,
    check_has_text,
    text_columns,
    with_chosen_columns,
)
from everlearn.stream.forms import POINTS, TOKENS, field_of, with_form
from everlearn.stream.labels import checked_label, label_array
from everlearn.stream.layout import Layout
from everlearn.stream.prepared import Origins, PreparedBatch, Values, join_values
from everlearn.stream.rows import csv_table, number_rows
from everlearn.stream.tables import table_rows

_LOG: Final = logging.getLogger("everlearn")


class RecordPreparer:
    """Turns chunks of records into batches for a model; `Reader` calls it in its own thread.

    Parameters
    ----------
    layout : how to read records; the first good record completes it
    allows_missing : whether a model of this layout takes rows with missing numbers
    allows_texts : whether it takes columns of text beside those of numbers
    labelled : whether records must have a label, if the model learns from labels
    """

    def __init__(
        self,
        layout: Layout,
        allows_missing: Callable[[Layout], bool],
        *,
        allows_texts: Callable[[Layout], bool] = lambda layout: False,
        labelled: bool = True,
    ) -> None:
        self._layout, self._allows_missing = layout, allows_missing
        self._allows_texts = allows_texts
        self._label = layout.label if labelled and layout.supervised else None

    def read(self, chunk: Chunk) -> Chunk:
        """The chunk with `Values` instead of records; records that have none are bad."""
        self._layout = self._layout_for(chunk)
        values = self._read_csv(chunk)
        if values is not None:
            return replace(chunk, rows=values)
        values, faults = self._read_records(chunk.parsed())
        if isinstance(chunk.rows, LineRows):
            # The quarantine keeps the line as it was, so that it can be mended and learned later.
            faults = {i: chunk.rows.bad(i, fault.reason) for i, fault in faults.items()}
        return replace(chunk, rows=values, bad=faults)

    def _layout_for(self, chunk: Chunk) -> Layout:
        """The layout, completed by the first good records."""
        layout = with_form(chunk, self._layout)
        if layout.form == "documents" and self._layout.form is None:
            check_has_text(chunk, layout)
        if layout.form != "rows" or layout.texts is not None:
            return layout
        takes_texts = self._allows_texts(layout)
        layout, note = with_chosen_columns(chunk, layout, TABLES if takes_texts else NUMBERS)
        if note:
            _LOG.warning(note)
        if layout.columns is None:
            return layout
        return replace(layout, texts=text_columns(chunk, layout) if takes_texts else ())

    def join(self, batch: Batch) -> PreparedBatch:
        """Chunks that were read as one batch."""
        order = Origins.of(batch)
        parts, kept = [], []
        bad: dict[int, BadRecord] = {}
        first = 0
        for chunk in batch:
            good = np.delete(np.arange(len(chunk)), list(chunk.bad)) if chunk.bad else None
            if good is None or len(good):
                parts.append(chunk.rows if good is None else chunk.rows[good])
            kept.append(np.arange(first, first + len(chunk)) if good is None else good + first)
            bad |= {first + i: chunk.bad[i] for i in sorted(chunk.bad)}
            first += len(chunk)
        y = None
        if self._label is not None and parts:
            y = label_array([part.labels for part in parts], self._layout)
        return PreparedBatch(
            X=join_values([part.X for part in parts]),
            y=y,
            origins=order.select(np.concatenate(kept)) if bad else order,
            bad=[(order[i], fault) for i, fault in bad.items()],
            order=order,
            layout=self._layout,
        )

    def _read_csv(self, chunk: Chunk) -> Values | None:
        """Lines of CSV parsed in bulk; None if one of them needs care."""
        layout = self._layout
        if layout.form != "rows" or not layout.columns or layout.texts:
            return None
        parsed = csv_table(chunk, layout.columns)
        if parsed is None:
            return None
        lines, table = parsed
        wrong = np.isinf(table) if self._allows_missing(layout) else ~np.isfinite(table)
        if wrong.any():
            return None
        labels = np.full(len(table), None, object)
        if self._label is not None:
            delimiter = chunk.rows.delimiter
            texts = [field_of(line.split(delimiter), self._label, chunk.names) for line in lines]
            try:
                checked = {text: checked_label(text, layout, chunk.decimal) for text in set(texts)}
            except ValueError:
                return None
            labels[:] = [checked[text] for text in texts]
        return Values(table, labels)

    def _read_records(self, chunk: Chunk) -> tuple[Values, dict[int, BadRecord]]:
        """Parsed records, checked one by one, and what is wrong with the bad ones."""
        X, faults = _values(chunk, self._layout, self._allows_missing(self._layout))
        labels = np.full(len(chunk), None, object)
        if self._label is not None:
            for i in range(len(chunk)):
                if i not in faults:
                    label = field_of(chunk.rows[i], self._label, chunk.names)
                    try:
                        labels[i] = checked_label(label, self._layout, chunk.decimal)
                    except ValueError as error:
                        faults[i] = BadRecord.of(str(error), chunk.rows[i])
        return Values(X, labels), faults


def _values(chunk: Chunk, layout: Layout, allow_missing: bool) -> tuple[Any, dict[int, BadRecord]]:
    """What an estimator takes of each record, and what is wrong with those that have nothing."""
    form = layout.form or next(iter(layout.kind_of_model.estimators))
    if form == "rows" and layout.texts:
        return table_rows(chunk, layout.columns or (), layout.texts)
    if form == "rows":
        return number_rows(chunk, layout, allow_missing)
    if form == "points" and _is_number_table(chunk):
        raise UsageError(
            f"kind {layout.kind!r} learns from folders of images, or from lines such as "
            f'{{"{POINTS}": [[1.0, 2.0], [3.0, 4.0]]}}, but the records are rows of numbers. For '
            "rows, use kind 'mixture'"
        )
    if sparse.issparse(chunk.rows):
        return chunk.rows, dict(chunk.bad)
    read = _document if form == "documents" else _points
    values: list[Any] = []
    faults = dict(chunk.bad)
    for i, row in enumerate(chunk.rows):
        try:
            values.append(None if i in faults else read(row, chunk.names, layout))
        except (TypeError, ValueError) as error:
            faults[i] = BadRecord.of(str(error), row)
            values.append(None)
    return values, faults


def _is_number_table(chunk: Chunk) -> bool:
    """Whether the records are rows of a table, and no column holds points."""
    if chunk.names is not None:
        return POINTS not in chunk.names
    return isinstance(chunk.rows, np.ndarray) or sparse.issparse(chunk.rows)


def _document(row: Any, names: tuple[str, ...] | None, layout: Layout) -> str | list[str]:
    """A text or a list of tokens."""
    if isinstance(row, str) or (names is None and _is_token_list(row)):
        return row
    text = field_of(row, layout.text, names)
    if isinstance(text, str):
        return text
    tokens = field_of(row, TOKENS, names)
    if _is_token_list(tokens):
        return tokens
    fields = list(row) if isinstance(row, dict) else list(names or ())
    advice = f"; choose it with option 'text': {', '.join(map(str, fields[:6]))}" if fields else ""
    raise ValueError(
        f"no text in the field {layout.text!r} and no list of words in {TOKENS!r}{advice}"
    )


def _is_token_list(value: Any) -> TypeGuard[list[str]]:
    return isinstance(value, list) and all(isinstance(token, str) for token in value)


def _points(row: Any, names: tuple[str, ...] | None, layout: Layout) -> NDArray[np.float64]:
    """The pixels of an image, or the points of a record."""
    if isinstance(row, ImageFile):
        from everlearn.images.files import read_image
        from everlearn.images.pixels import pixel_points

        try:
            return pixel_points(read_image(row.path), layout.image_side)
        except (ImageDecodeError, OSError) as error:
            raise ValueError(f"the image cannot be read: {error}") from error
    named = isinstance(row, dict) or names is not None
    given = field_of(row, POINTS, names) if named else row
    if not isinstance(given, (list, tuple)):
        raise ValueError(f"no image and no list of points in {POINTS!r}")
    try:
        points = np.array(given, dtype=np.float64)
    except (TypeError, ValueError):  # of different lengths, or not of numbers
        points = np.empty(0)
    if points.ndim != 2 or not points.size or not np.isfinite(points).all():
        raise ValueError(f"{POINTS!r} must be a list of points, which are lists of finite numbers")
    return points
