"""Check labels, find all classes of a stream, and convert labels for estimators."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from everlearn.errors import UsageError
from everlearn.io.batches import Chunk
from everlearn.io.ledger import Ledger
from everlearn.io.numbers import number_of
from everlearn.io.sources import Source
from everlearn.stream.forms import field_of, with_form
from everlearn.stream.layout import Layout


def find_classes(
    sources: Sequence[Source], ledger: Ledger, layout: Layout, stop: threading.Event
) -> tuple[str, ...]:
    """All labels in what is still to be learned, sorted; those found so far if `stop` is set.

    A classifier must know its classes before its first batch, so the sources are read once more.
    """
    if not all(source.rewinds for source in sources):
        raise UsageError(
            "standard input cannot be read twice to find all labels. List them with "
            "option 'classes', such as spam,ham"
        )
    found: set[str] = set()
    fields = ""
    for number, source in enumerate(sources):
        try:
            start = source.resume(ledger.of(source.key))
            for chunk in source.read(number, start):
                if stop.is_set():
                    return tuple(sorted(found))
                found |= _labels_in(chunk, layout)
                fields = fields or ", ".join(chunk.names or ())
        except (OSError, ValueError) as error:
            error.add_note(source.name)
            raise
    if len(found) < 2:
        raise UsageError(
            f"a classifier needs at least two labels in the field {layout.label!r}, "
            f"found {', '.join(sorted(found)) or 'none'}. Choose the field with option 'label'"
            f"{f': {fields}' if fields else ''}"
        )
    return tuple(sorted(found))


def _labels_in(chunk: Chunk, layout: Layout) -> set[str]:
    layout, parsed = with_form(chunk, layout), chunk.parsed()
    found: set[str] = set()
    for i, row in enumerate(parsed.rows):
        if i in parsed.bad:
            continue
        try:
            label = checked_label(field_of(row, layout.label, chunk.names), layout)
        except ValueError:
            continue  # learning sets the record aside, and says why
        found.update(label if isinstance(label, list) else [label])
    return found


def checked_label(label: Any, layout: Layout, decimal: str = ".") -> Any:
    """A label as the model takes it, or a ValueError that says what is wrong with it."""
    if label is None or label == "" or label != label:  # NaN
        raise ValueError(f"no label in the field {layout.label!r}")
    if layout.kind_of_model.target == "number":
        try:
            number = number_of(label, decimal)
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
        expected, got = ("list", "single value") if layout.multilabel else ("single value", "list")
        raise ValueError(f"expected a {expected} as the label, as in the first record, got a {got}")
    return names if layout.multilabel else names[0]


def label_array(parts: Sequence[NDArray[np.object_]], layout: Layout) -> NDArray[Any]:
    """Checked labels as an estimator takes them; lists of labels become a matrix of 0 and 1."""
    labels = [label for part in parts for label in part.tolist()]
    if layout.kind_of_model.target == "number":
        return np.array(labels, np.float64)
    if not layout.multilabel or layout.classes is None:
        return np.array(labels, dtype=object) if layout.multilabel else np.array(labels)
    indicator = np.zeros((len(labels), len(layout.classes)), np.int64)
    columns = {name: j for j, name in enumerate(layout.classes)}
    for i, names in enumerate(labels):
        indicator[i, [columns[name] for name in names]] = 1
    return indicator
