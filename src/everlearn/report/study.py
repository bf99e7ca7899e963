"""What there is to say about a learned mixture, in numbers; console and report both read it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from everlearn.core.arrays import IntVec, Mat, Vec
from everlearn.core.moves import ALL_MOVES
from everlearn.estimator.history import AcceptedMove, History, Point
from everlearn.metrics.clustering import (
    adjusted_mutual_information,
    normalized_mutual_information,
    purity,
)
from everlearn.mixture.estimator import DPMixture

MOVE_KINDS = ALL_MOVES


@dataclass(frozen=True, slots=True)
class Truth:
    """Known classes, for comparison: what a class is called, one index per row, their names."""

    noun: str
    labels: IntVec
    classes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Gallery:
    """Pictures with ink from 0 to 1: one for each component, one for each row."""

    means: NDArray[np.float64]
    rows: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Mark:
    """Something that happened after so many rows."""

    rows: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """A learned mixture, the rows to describe it with, and what is known besides.

    Attributes
    ----------
    model, rows : the mixture, and rows to be assigned to its components
    title, lead : what this is, in a line and in a sentence or two
    noun : what a row is called
    truth, gallery : classes and pictures, if there are any
    trace : further points of the curve, such as one after each batch
    marks : events worth a line in the curve
    seconds : time spent learning, if it was measured
    notes : sentences on how the data were prepared
    """

    model: DPMixture
    rows: Mat
    title: str
    lead: str
    noun: str = "row"
    truth: Truth | None = None
    gallery: Gallery | None = None
    trace: tuple[Point, ...] = ()
    marks: tuple[Mark, ...] = ()
    seconds: float | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Assigned:
    """The likeliest component of each row, as a position, and how sure that is."""

    labels: NDArray[np.intp]
    certainty: Vec


@dataclass(frozen=True, slots=True)
class Component:
    """One component: where it is in the model, its id, its share, its rows and main class."""

    position: int
    id: int
    share: float
    n_rows: int
    top: str | None = None
    purity: float | None = None


@dataclass(frozen=True, slots=True)
class Agreement:
    """Components against known classes: a table of counts, and what it amounts to.

    NMI and AMI are those of `everlearn.metrics.clustering`, by its defaults.
    """

    table: NDArray[np.int64]
    purity: float
    nmi: float
    ami: float


@dataclass(frozen=True, slots=True)
class MoveTally:
    """How the moves of one kind fared; gains in nats, of those accepted."""

    kind: str
    accepted: int
    refused: int
    gain: float
    largest: float


def assigned(study: Study) -> Assigned:
    """Rows of the study and the components they belong to."""
    responsibilities = study.model.predict_proba(study.rows)
    certainty = responsibilities.max(axis=1).astype(np.float64)
    return Assigned(responsibilities.argmax(axis=1), certainty)


def agreement(labels: NDArray[np.intp], truth: Truth, n_components: int) -> Agreement:
    """Components compared with the classes."""
    _check_truth(truth, len(labels))
    table = np.zeros((n_components, len(truth.classes)), np.int64)
    np.add.at(table, (labels, truth.labels), 1)
    return Agreement(
        table=table,
        purity=purity(truth.labels, labels),
        nmi=normalized_mutual_information(truth.labels, labels),
        ami=adjusted_mutual_information(truth.labels, labels),
    )


def _check_truth(truth: Truth, n_rows: int) -> None:
    """Refuse labels that are not one for each row, or not positions of classes."""
    found = np.asarray(truth.labels)
    if found.shape != (n_rows,):
        raise ValueError(
            f"the 'labels' of Truth must be one for each of the {n_rows} rows, got the shape "
            f"{found.shape}"
        )
    last = len(truth.classes) - 1
    if found.size and (found.dtype.kind not in "iu" or found.min() < 0 or found.max() > last):
        shown = [label for label in np.unique(found).tolist() if label not in range(last + 1)]
        raise ValueError(
            f"the 'labels' of Truth must be positions of its {last + 1} 'classes', whole numbers "
            f"from 0 to {last}, got {shown[:5] or found.dtype}"
        )


def components(study: Study, rows: Assigned, classes: Agreement | None) -> tuple[Component, ...]:
    """The components, largest share first."""
    model = study.model
    counts = np.bincount(rows.labels, minlength=model.n_components_)
    shares, ids = model.weights_, model.component_ids_
    found = []
    for k in np.argsort(-shares, kind="stable").tolist():
        top, purity = None, None
        if classes is not None and study.truth is not None and counts[k]:
            top = study.truth.classes[int(classes.table[k].argmax())]
            purity = float(classes.table[k].max() / counts[k])
        found.append(Component(k, int(ids[k]), float(shares[k]), int(counts[k]), top, purity))
    return tuple(found)


def curve(study: Study) -> tuple[Point, ...]:
    """Laps and further points, in the order in which they happened."""
    points = {(p.rows, p.lap): p for p in (*study.model.history_.points, *study.trace)}
    return tuple(points[key] for key in sorted(points))


def move_tallies(history: History) -> tuple[MoveTally, ...]:
    """Moves accepted and refused, by kind; gains are of the moves the history still holds."""
    return tuple(_tally(kind, history.counts, history.moves) for kind in MOVE_KINDS)


def _tally(kind: str, counts: Mapping[str, int], moves: tuple[AcceptedMove, ...]) -> MoveTally:
    gains = [move.gain for move in moves if move.kind == kind]
    return MoveTally(
        kind,
        counts.get(f"{kind} accepted", 0),
        counts.get(f"{kind} refused", 0),
        sum(gains),
        max(gains, default=0.0),
    )


def move_text(move: AcceptedMove) -> str:
    """The change in a few words, with permanent ids."""
    gone = ", ".join(f"#{i}" for i in move.removed)
    came = ", ".join(f"#{i}" for i in move.added)
    if move.kind == "birth":
        return f"{gone} gave birth to {came}"
    if move.kind == "merge":
        return f"{gone} merged into {came}"
    return f"{gone} deleted"
