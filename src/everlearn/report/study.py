"""Numbers about a learned `DPMixture` that its report shows: assignments, components and moves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from everlearn.core.arrays import IntVec, Mat, Vec
from everlearn.estimator.history import AcceptedMove, History, Point
from everlearn.metrics.clustering import (
    adjusted_mutual_information,
    normalized_mutual_information,
    purity,
)
from everlearn.mixture.estimator import DPMixture

MOVE_NAMES: Final = {"birth": "births", "merge": "merges", "delete": "deletions"}
"""The kinds of moves, and their plurals."""


@dataclass(frozen=True, slots=True)
class Truth:
    """Known classes to compare with: the word for a class, an index for each row, all names."""

    noun: str
    labels: IntVec
    classes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Gallery:
    """Pictures in shades from 0 (blank) to 1 (black), for the components and for the rows."""

    means: NDArray[np.float64]
    rows: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Mark:
    """An event to mark in the learning curves, and the number of rows seen by then."""

    rows: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """A learned mixture, rows to describe it with, and what else the report can show.

    Attributes
    ----------
    model, rows : the mixture, and rows to assign to its components
    title, lead : headline, and a sentence or two below it
    noun : the word for a row
    truth, gallery : classes and pictures, if there are any
    trace : further points of the learning curves, such as one after each batch
    marks : events to mark in the learning curves
    seconds : learning time, if it was measured
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
    """The position of the likeliest component of each row, and its probability."""

    labels: NDArray[np.intp]
    certainty: Vec


@dataclass(frozen=True, slots=True)
class Component:
    """One component.

    Attributes
    ----------
    position : its place in the arrays of the model
    id : permanent number
    share : expected share of all rows
    n_rows : rows of the study that belong to it
    top, purity : its main class and the share of that among its rows, if classes are known
    """

    position: int
    id: int
    share: float
    n_rows: int
    top: str | None = None
    purity: float | None = None


@dataclass(frozen=True, slots=True)
class Agreement:
    """Components against known classes: counts of rows, (n_components, n_classes), and scores.

    NMI and AMI are those of `everlearn.metrics`, with its defaults.
    """

    table: NDArray[np.int64]
    purity: float
    nmi: float
    ami: float


@dataclass(frozen=True, slots=True)
class MoveTally:
    """Moves of one kind: how many were accepted and refused, and the gains of those accepted."""

    kind: str
    accepted: int
    refused: int
    gain: float
    largest: float


def assigned(study: Study) -> Assigned:
    """The components that the rows of the study belong to."""
    responsibilities = study.model.predict_proba(study.rows)
    certainty = responsibilities.max(axis=1).astype(np.float64)
    return Assigned(responsibilities.argmax(axis=1), certainty)


def agreement(labels: NDArray[np.intp], truth: Truth, n_components: int) -> Agreement:
    """Compare the components of rows with their classes."""
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
    """Raise a ValueError unless each row has a label, and labels are positions of classes."""
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
    """Points after laps and the further points of the study, in the order of learning.

    The last point is the present state of the model.
    """
    model = study.model
    points = {(p.rows, p.lap): p for p in (*model.history_.points, *study.trace)}
    if points:
        rows, lap = max(points)
        if model.n_samples_seen_ > rows:  # some batches end without a lap
            now = Point(lap, model.n_samples_seen_, model.bound_, model.n_components_)
            points[now.rows, lap] = now
    return tuple(points[key] for key in sorted(points))


def move_tallies(history: History) -> tuple[MoveTally, ...]:
    """Moves by kind. Gains are those of the moves that the history still holds."""
    tallies = []
    for kind in MOVE_NAMES:
        gains = [move.gain for move in history.moves if move.kind == kind]
        accepted = history.counts.get(f"{kind} accepted", 0)
        refused = history.counts.get(f"{kind} refused", 0)
        tallies.append(MoveTally(kind, accepted, refused, sum(gains), max(gains, default=0.0)))
    return tuple(tallies)


def move_text(move: AcceptedMove) -> str:
    """The change in words, with permanent ids."""
    gone = ", ".join(f"#{i}" for i in move.removed)
    came = ", ".join(f"#{i}" for i in move.added)
    if move.kind == "birth":
        return f"{gone} gave birth to {came}"
    if move.kind == "merge":
        return f"{gone} merged into {came}"
    return f"{gone} deleted"
