"""Records as rows of numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

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
    good = [i for i in range(len(chunk)) if i not in chunk.bad]
    rows = [chunk.rows[i] for i in good]
    fields = _fields_of(rows, chunk.names, columns)
    table = np.zeros((len(chunk), len(columns)))
    whole = _table_of(rows, fields)
    faults = dict(chunk.bad)
    if whole is not None and whole.shape == (len(good), len(columns)):
        table[good] = whole
    else:  # some record is odd: find out which, and why
        for i, row in zip(good, rows, strict=True):
            try:
                table[i] = _numbers(row, fields, columns)
            except ValueError as error:
                faults[i] = Bad.of(str(error), row)
    return _checked(table, columns, allow_missing, replace(chunk, bad=faults))


def _fields_of(
    rows: Sequence[Any], names: tuple[str, ...] | None, columns: Sequence[str]
) -> list[Any] | None:
    """Keys or positions of the columns in each row; None if rows have just these, in order."""
    if names is not None:
        positions = positions_of(columns, names)
        return None if positions == list(range(len(names))) else positions
    return list(columns) if any(isinstance(row, dict) for row in rows) else None


def positions_of(columns: Sequence[str], names: tuple[str, ...]) -> list[int]:
    """Where the columns are in the rows of a table whose columns have these names."""
    if lacking := [name for name in columns if name not in names]:
        raise UsageError(f"the columns {lacking} are missing from {list(names)}")
    return [names.index(name) for name in columns]


def _table_of(rows: list[Any], fields: list[Any] | None) -> Mat | None:
    """All rows as one table, or None if some row is odd."""
    try:
        if fields is not None:
            # With one field, itemgetter gives the value itself instead of a tuple.
            take = itemgetter(*fields) if len(fields) > 1 else lambda row: (row[fields[0]],)
            rows = [*map(take, rows)]
        return np.array(rows, dtype=np.float64)
    except (IndexError, KeyError, TypeError, ValueError):
        return None


def _csv_table(chunk: Chunk, columns: Sequence[str]) -> tuple[list[str], Mat] | None:
    """Rows of CSV lines and a table of their columns; None if some line is not plain numbers.

    Each line alone gives the same numbers, to the bit: a line that could be read in another way,
    with quotes or with too many fields, is not plain.
    """
    lines, names = chunk.rows, chunk.names
    if not isinstance(lines, LineRows) or lines.delimiter is None or names is None:
        return None
    texts = lines.texts()
    if not texts or {text.count(lines.delimiter) for text in texts} != {len(names) - 1}:
        return None
    positions = positions_of(columns, names)
    try:
        table = np.loadtxt(
            texts, delimiter=lines.delimiter, comments=None, usecols=positions, ndmin=2
        )
    except ValueError:
        return None
    return (texts, table) if len(table) == len(texts) else None


def _numbers(row: Any, fields: list[Any] | None, columns: Sequence[str]) -> list[float]:
    """The columns of one row, or a ValueError that says what is wrong with it."""
    if isinstance(row, (dict, list)) and not row:
        raise ValueError("there is nothing in it")
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

    def read(self, chunk: Chunk) -> Chunk:
        """The chunk with `Values` for its records; those that have none are bad."""
        self._layout = with_form(chunk, self._layout)
        values = self._of_csv(chunk)
        if values is not None:
            return replace(chunk, rows=values)
        values, faults = self._of_records(chunk.parsed())
        if isinstance(
            chunk.rows, LineRows
        ):  # keep the line itself, so that it can be learned later
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

    def _of_csv(self, chunk: Chunk) -> Values | None:
        """Lines of plain CSV, read at once; None if there is anything odd about one of them."""
        layout = self._layout
        if layout.form != "rows" or not layout.columns:
            return None
        read = _csv_table(chunk, layout.columns)
        if read is None:
            return None
        lines, table = read
        wrong = np.isinf(table) if self._allows_missing(layout) else ~np.isfinite(table)
        if wrong.any():
            return None
        labels = np.full(len(table), None, object)
        if self._label is not None:
            cut = chunk.rows.delimiter
            texts = [field_of(line.split(cut), self._label, chunk.names) for line in lines]
            try:
                known = {text: checked_label(text, layout) for text in set(texts)}
            except ValueError:
                return None
            labels[:] = [known[text] for text in texts]
        return Values(table, labels)


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
    """Labels as an estimator takes them."""
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
