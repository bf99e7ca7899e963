"""From records to what an estimator learns from; records that do not fit are set aside."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

import numpy as np
from scipy import sparse

from everlearn.app.tool.kinds import Form, UsageError
from everlearn.app.tool.layout import Layout
from everlearn.app.tool.rows import SHOWN, fault_of, number_rows
from everlearn.core.errors import ImageDecodeError
from everlearn.runtime.stream.chunks import Bad, Batch, Chunk

R = TypeVar("R")
_TOKENS: Final = "tokens"
_POINTS: Final = "points"


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a record came from: number of its source, and place after it."""

    source: int
    place: int


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """A batch as an estimator takes it.

    Attributes
    ----------
    X, y : good records and their labels (None without)
    origins : where each good record came from
    bad : the others, with the reason
    order : where all the records came from, in the order in which they came
    layout : how records are read from now on
    """

    X: Any
    y: Any
    origins: tuple[Origin, ...]
    bad: tuple[tuple[Origin, Bad], ...]
    order: tuple[Origin, ...]
    layout: Layout

    def __len__(self) -> int:
        return len(self.origins)

    def taken(self, rows: Sequence[int]) -> Prepared:
        """Some of the good records."""
        y = None if self.y is None else self.y[rows]
        origins = tuple(self.origins[i] for i in rows)
        return replace(self, X=_taken(self.X, rows), y=y, origins=origins, bad=())


def prepare(
    batch: Batch, layout: Layout, allows_missing: Callable[[Layout], bool], *, labelled: bool = True
) -> Prepared:
    """The records of a batch for the model that the layout is of.

    With `labelled`, records of a model that learns from labels must have one.
    """
    labelled = labelled and layout.supervised
    parts: list[Any] = []
    labels: list[Any] = []
    origins: list[Origin] = []
    bad: list[tuple[Origin, Bad]] = []
    for chunk in batch:
        layout = with_form(chunk, layout)
        values, faults = _values(chunk, layout, allows_missing(layout))
        given = _labels(chunk, layout, faults) if labelled else []
        for i, place in enumerate(chunk.places):
            if i in faults:
                bad.append((Origin(chunk.source, place), faults[i]))
            else:
                origins.append(Origin(chunk.source, place))
        kept = [i for i in range(len(chunk)) if i not in faults]
        if kept:
            whole = len(kept) == len(chunk)
            parts.append(values if whole else _taken(values, kept))
            labels += [given[i] for i in kept] if given else []
    y = _targets(labels, layout) if labels else None
    order = tuple(Origin(chunk.source, place) for chunk in batch for place in chunk.places)
    return Prepared(_joined(parts), y, tuple(origins), tuple(bad), order, layout)


def with_form(chunk: Chunk, layout: Layout) -> Layout:
    """The layout, with what the first good record shows about form and columns."""
    good = next((i for i in range(len(chunk)) if i not in chunk.bad), None)
    if good is None:
        return layout
    first = chunk.rows[good]
    if layout.form is None:
        form = _form_of(first, chunk.names, layout)
        layout.kind_of_model.estimator(form)  # raises if the kind does not learn from such records
        multilabel = isinstance(field_of(first, layout.label, chunk.names), (list, tuple))
        layout = replace(layout, form=form, multilabel=layout.supervised and multilabel)
    if layout.form == "rows" and layout.columns is None:
        names = chunk.names or (tuple(first) if isinstance(first, dict) else None)
        if names is None:
            names = tuple(str(i) for i in range(np.shape(first)[-1] if np.ndim(first) else 1))
        layout = replace(layout, columns=tuple(n for n in names if n != layout.label))
    return layout


def _form_of(first: Any, names: tuple[str, ...] | None, layout: Layout) -> Form:
    """What a record is, judged by the first one and by what the kind of model can take."""
    known = layout.kind_of_model.estimators
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
    if layout.form == "rows":
        return number_rows(chunk, layout, allow_missing)
    if sparse.issparse(chunk.rows):
        return chunk.rows, dict(chunk.bad)
    read = _document if layout.form == "documents" else _points
    values: list[Any] = []
    faults = dict(chunk.bad)
    for i, row in enumerate(chunk.rows):
        try:
            values.append(None if i in faults else read(row, chunk.names, layout))
        except (TypeError, ValueError) as error:
            faults[i] = fault_of(error, row)
            values.append(None)
    return values, faults


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
    if isinstance(row, str):
        from everlearn.features.images import read_image
        from everlearn.features.pixels import pixel_points

        try:
            return pixel_points(read_image(row), layout.image_side)
        except (ImageDecodeError, OSError) as error:
            raise ValueError(f"the image cannot be read: {error}") from error
    given = field_of(row, _POINTS, names) if isinstance(row, dict) else row
    points = np.array(given, dtype=np.float64, ndmin=2)
    if points.ndim != 2 or not points.size or not np.isfinite(points).all():
        raise ValueError(f"{_POINTS!r} must be a list of points with finite numbers")
    return points


def _labels(chunk: Chunk, layout: Layout, faults: dict[int, Bad]) -> list[Any]:
    """Labels of the records; records without a good one become faults."""
    out: list[Any] = []
    for i, row in enumerate(chunk.rows):
        label = None if i in faults else field_of(row, layout.label, chunk.names)
        try:
            out.append(None if i in faults else checked_label(label, layout))
        except ValueError as error:
            faults[i] = fault_of(error, row)
            out.append(None)
    return out


def checked_label(label: Any, layout: Layout) -> Any:
    """A label as the model takes it, or a ValueError that says what is wrong with it."""
    if label is None or label == "":
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


def _targets(labels: list[Any], layout: Layout) -> Any:
    if layout.kind_of_model.target == "number":
        return np.array(labels, np.float64)
    if not layout.multilabel or layout.classes is None:
        return np.array(labels, dtype=object) if layout.multilabel else np.array(labels)
    indicator = np.zeros((len(labels), len(layout.classes)), np.int64)
    where = {name: j for j, name in enumerate(layout.classes)}
    for i, names in enumerate(labels):
        indicator[i, [where[name] for name in names]] = 1
    return indicator


def joined(batches: Sequence[Prepared]) -> Prepared:
    """Several batches as one."""
    y = None if batches[0].y is None else np.concatenate([b.y for b in batches])
    origins = tuple(origin for b in batches for origin in b.origins)
    return replace(batches[-1], X=_joined([b.X for b in batches]), y=y, origins=origins)


def by_halves(
    batch: Prepared, act: Callable[[Prepared], R]
) -> tuple[list[R], list[tuple[Origin, Bad]]]:
    """What `act` gives for a batch, or for its parts, down to records that it refuses."""
    try:
        return [act(batch)], []
    except ValueError as error:
        if len(batch) == 1:
            record = batch.X[0]
            shown = record.tolist() if isinstance(record, np.ndarray) else record
            fault = Bad(str(error)[:SHOWN], repr(shown)[:SHOWN])
            return [], [(batch.origins[0], fault)]
    half = len(batch) // 2
    first, refused = by_halves(batch.taken(range(half)), act)
    second, more = by_halves(batch.taken(range(half, len(batch))), act)
    return first + second, refused + more


def _taken(values: Any, kept: Sequence[int]) -> Any:
    return [values[i] for i in kept] if isinstance(values, list) else values[kept]


def _is_list(part: Any) -> bool:
    return isinstance(part, list)


def _joined(parts: list[Any]) -> Any:
    if len({(type(part).__name__, np.ndim(part)) for part in parts if not _is_list(part)}) > 1 or (
        len({_is_list(part) for part in parts}) > 1
    ):
        raise UsageError("texts and counts of words cannot be learned by one model")
    if not parts or isinstance(parts[0], list):
        return [value for part in parts for value in part]
    if sparse.issparse(parts[0]):
        return sparse.csr_array(sparse.vstack(parts))
    return parts[0] if len(parts) == 1 else np.vstack(parts)
