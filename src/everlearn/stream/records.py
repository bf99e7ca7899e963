"""Records as rows of numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from everlearn.attic.app_tool_line_numbers import LineReader, NumberLines
from everlearn.core.arrays import Mat
from everlearn.errors import ImageDecodeError, UsageError
from everlearn.io.batches import Bad, Batch, Chunk, ImageFile, LineRows
from everlearn.registry import Form
from everlearn.stream.layout import Layout
from everlearn.stream.prepared import Origins, Prepared, Values, joined_values


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


_TOKENS: Final = "tokens"
_POINTS: Final = "points"


class RecordPreparer:
    """From chunks of records to batches for a model, as `Reader` wants it.

    Parameters
    ----------
    layout : how records are read, as far as it is known; the first good record tells the rest
    allows_missing : whether the model that a layout is of takes rows with missing numbers
    labelled : whether records of a model that learns from labels must have one
    """

    def __init__(
        self, layout: Layout, allows_missing: Callable[[Layout], bool], *, labelled: bool = True
    ) -> None:
        self._layout, self._allows_missing = layout, allows_missing
        self._label = layout.label if labelled and layout.supervised else None
        self._line_reader: LineReader | None = None

    def read(self, chunk: Chunk) -> Chunk:
        """The chunk with `Values` for its records; those that have none are bad."""
        self._layout = layout = with_form(chunk, self._layout)
        if self._line_reader is None and layout.form == "rows" and layout.columns is not None:
            self._line_reader = LineReader(layout.columns, self._label)
        lines = None if self._line_reader is None else self._line_reader.read(chunk)
        if lines is None:
            values, faults = self._of_records(chunk.parsed())
        else:
            values, faults = self._of_lines(chunk, lines)
        if isinstance(chunk.rows, LineRows):  # lines as they were, which can be learned later
            faults = {i: chunk.rows.bad(i, fault.reason) for i, fault in faults.items()}
        return replace(chunk, rows=values, bad=faults)

    def join(self, batch: Batch) -> Prepared:
        """The good records of chunks that were read, as one."""
        order = Origins.of(batch)
        parts, kept = [], []
        bad: dict[int, Bad] = {}
        first = 0
        for chunk in batch:
            good = np.delete(np.arange(len(chunk)), list(chunk.bad)) if chunk.bad else None
            if good is None or len(good):
                parts.append(chunk.rows if good is None else chunk.rows[good])
            kept.append(np.arange(first, first + len(chunk)) if good is None else good + first)
            bad |= {first + i: chunk.bad[i] for i in sorted(chunk.bad)}
            first += len(chunk)
        X = joined_values([part.X for part in parts])
        y = None
        if self._label is not None and parts:
            y = _targets([part.labels for part in parts], self._layout)
        origins = order.taken(np.concatenate(kept)) if bad else order
        refused = [(order[i], fault) for i, fault in bad.items()]
        return Prepared(X, y, origins, refused, order, self._layout)

    def _of_records(self, chunk: Chunk) -> tuple[Values, dict[int, Bad]]:
        """Records that are looked at one by one."""
        X, faults = _values(chunk, self._layout, self._allows_missing(self._layout))
        labels = np.full(len(chunk), None, object)
        if self._label is not None:
            for i in range(len(chunk)):
                if i not in faults:
                    label = field_of(chunk.rows[i], self._label, chunk.names)
                    try:
                        labels[i] = checked_label(label, self._layout)
                    except ValueError as error:
                        faults[i] = Bad.of(str(error), chunk.rows[i])
        return Values(X, labels), faults

    def _of_lines(self, chunk: Chunk, lines: NumberLines) -> tuple[Values, dict[int, Bad]]:
        """Lines that were read at once, but for odd ones and those without a good label."""
        X, odd = lines.table, lines.odd
        good = [None] * len(lines.labels)
        if self._label is not None:
            good = [self._good(label) for label in lines.labels]
            odd |= np.array([label is None for label in good])[lines.which]
        if self._label is not None and not self._layout.multilabel and not odd.any():
            return Values(X, np.array(good)[lines.which]), {}
        labels = np.array(good, object)[lines.which]
        faults: dict[int, Bad] = {}
        if odd.any():
            at = np.flatnonzero(odd)
            values, faulty = self._of_records(chunk.parsed(at))
            X[at], labels[at] = values.X, values.labels
            faults = {int(at[i]): fault for i, fault in faulty.items()}
        return Values(X, labels), faults

    def _good(self, label: Any) -> Any:
        try:
            return checked_label(label, self._layout)
        except ValueError:
            return None


def with_form(chunk: Chunk, layout: Layout) -> Layout:
    """The layout, with what the first good record shows about form and columns."""
    if layout.form is not None and (layout.form != "rows" or layout.columns is not None):
        return layout
    chunk = chunk.parsed()
    good = (chunk.rows[i] for i in range(len(chunk)) if i not in chunk.bad)
    first = next((row for row in good if _has_form(row, layout)), None)
    if first is None:
        return layout
    if layout.form is None:
        form = _form_of(first, chunk.names, layout)
        layout.kind_of_model.estimator(form)  # raises if the kind does not learn from such records
        multilabel = isinstance(field_of(first, layout.label, chunk.names), (list, tuple))
        layout = replace(layout, form=form, multilabel=layout.supervised and multilabel)
    if layout.form == "rows" and layout.columns is None:
        names = chunk.names or (tuple(first) if isinstance(first, dict) else None)
        if names is None:
            names = tuple(str(i) for i in range(np.shape(first)[-1]))
        others = (layout.label, layout.text, _TOKENS)
        layout = replace(layout, columns=tuple(n for n in names if n not in others))
    return layout


def _has_form(row: Any, layout: Layout) -> bool:
    """Whether a record can tell its form: a number, or nothing but a label, is no record."""
    if isinstance(row, str):
        return "documents" in layout.kind_of_model.estimators
    if isinstance(row, (dict, list)):
        return not set(row) <= {layout.label} if isinstance(row, dict) else bool(row)
    return row is not None and not isinstance(row, (bool, int, float))


def _form_of(first: Any, names: tuple[str, ...] | None, layout: Layout) -> Form:
    """What a record is, judged by the first one and by what the kind of model can take."""
    known = layout.kind_of_model.estimators
    if isinstance(first, ImageFile):
        return "points"
    if len(known) == 1:
        return next(iter(known))
    words = isinstance(first, str) or sparse.issparse(first)
    fields = first if isinstance(first, dict) else names or ()
    if isinstance(first, list) and first and isinstance(first[0], str) and names is None:
        words = True
    return "documents" if words or layout.text in fields or _TOKENS in fields else "rows"


def field_of(row: Any, name: str, names: tuple[str, ...] | None) -> Any:
    """The field of a row by its name; None if it has none."""
    if isinstance(row, dict):
        return row.get(name)
    if names is not None and name in names:
        return row[names.index(name)]
    return None


def _values(chunk: Chunk, layout: Layout, allow_missing: bool) -> tuple[Any, dict[int, Bad]]:
    """One value a record, and what is wrong with those that have none."""
    form = layout.form or next(iter(layout.kind_of_model.estimators))
    if form == "rows":
        return number_rows(chunk, layout, allow_missing)
    if form == "points" and _is_table(chunk):
        raise UsageError(
            "rows of numbers are no images: this kind of model learns from folders of images, or "
            f'from lines such as {{"{_POINTS}": [[1.0, 2.0], [3.0, 4.0]]}}, rows are for a mixture'
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
            faults[i] = Bad.of(str(error), row)
            values.append(None)
    return values, faults


def _is_table(chunk: Chunk) -> bool:
    """Whether records are rows of a table none of whose columns holds points."""
    if chunk.names is not None:
        return _POINTS not in chunk.names
    return isinstance(chunk.rows, np.ndarray) or sparse.issparse(chunk.rows)


def _document(row: Any, names: tuple[str, ...] | None, layout: Layout) -> Any:
    """A text or a list of tokens."""
    if isinstance(row, str):
        return row
    if isinstance(row, list) and names is None and all(isinstance(t, str) for t in row):
        return row
    text = field_of(row, layout.text, names)
    if isinstance(text, str):
        return text
    tokens = field_of(row, _TOKENS, names)
    if isinstance(tokens, list) and all(isinstance(t, str) for t in tokens):
        return tokens
    raise ValueError(f"no text in the field {layout.text!r} and no list of words in {_TOKENS!r}")


def _points(row: Any, names: tuple[str, ...] | None, layout: Layout) -> Any:
    """The points of an image, or those that are given."""
    if isinstance(row, ImageFile):
        from everlearn.images.files import read_image
        from everlearn.images.pixels import pixel_points

        try:
            return pixel_points(read_image(row.path), layout.image_side)
        except (ImageDecodeError, OSError) as error:
            raise ValueError(f"the image cannot be read: {error}") from error
    named = isinstance(row, dict) or names is not None
    given = field_of(row, _POINTS, names) if named else row
    if not isinstance(given, (list, tuple)):
        raise ValueError(f"no image and no list of points in {_POINTS!r}")
    points = np.array(given, dtype=np.float64)
    if points.ndim != 2 or not points.size or not np.isfinite(points).all():
        raise ValueError(f"{_POINTS!r} must be a list of points, which are lists of finite numbers")
    return points


def checked_label(label: Any, layout: Layout) -> Any:
    """A label as the model takes it, or a ValueError that says what is wrong with it."""
    if label is None or label == "" or label != label:  # NaN
        raise ValueError(f"no label in the field {layout.label!r}")
    if layout.kind_of_model.target == "number":
        try:
            number = float(label)
        except (TypeError, ValueError) as error:
            raise ValueError(f"the label {label!r:.40} is not a number") from error
        if not np.isfinite(number):
            raise ValueError(f"the label {label!r:.40} is not finite")
        return number
    names = [str(name) for name in label] if isinstance(label, (list, tuple)) else [str(label)]
    unknown = [n for n in names if layout.classes is not None and n not in layout.classes]
    if unknown:
        raise ValueError(f"unknown label {unknown[0]!r:.40}")
    if isinstance(label, (list, tuple)) != layout.multilabel:
        raise ValueError(
            "a label must be a list as others are" if layout.multilabel else "a label is a list"
        )
    return names if layout.multilabel else names[0]


def _targets(parts: list[NDArray[Any]], layout: Layout) -> Any:
    """Labels as an estimator takes them, out of arrays of objects, texts or numbers."""
    if not any(part.dtype == object for part in parts):
        return np.concatenate(parts)
    labels = [label for part in parts for label in part.tolist()]
    if layout.kind_of_model.target == "number":
        return np.array(labels, np.float64)
    if not layout.multilabel or layout.classes is None:
        return np.array(labels, dtype=object) if layout.multilabel else np.array(labels)
    indicator = np.zeros((len(labels), len(layout.classes)), np.int64)
    where = {name: j for j, name in enumerate(layout.classes)}
    for i, names in enumerate(labels):
        indicator[i, [where[name] for name in names]] = 1
    return indicator
