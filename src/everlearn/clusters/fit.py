"""One call of `fit` or `partial_fit`, and `ClustersFit`: everything learned so far."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from everlearn.clusters.grouping import GIVEN, Grouping, group_rows
from everlearn.clusters.ids import first_ids, match_ids
from everlearn.clusters.sample import Sample
from everlearn.clusters.settings import ClustersSettings
from everlearn.core.arrays import IntVec, Labels, Mat, Vec
from everlearn.core.moves import LapInfo, MoveRecord
from everlearn.estimator.history import History

_GROWN: Final = 1.1
"""The sample is grouped anew when there are this many times the rows of the last time."""


@dataclass(frozen=True, slots=True, eq=False)
class ClustersFit:
    """What is learned.

    Attributes
    ----------
    sample : uniform sample of all rows
    grouping : what was found in the sample when it was last grouped
    ids : (n_groups,) permanent id of each group
    shares, means : (n_groups,), (n_groups, D) share and mean of the sampled rows of each group
    next_id : id of the next new cluster
    n_rows, n_grouped : rows so far, and when the sample was last grouped
    history : rows, gap and clusters each time, with joins and splits
    seed : of all draws
    labels : id of each row of the last `fit`, or None; not saved
    """

    sample: Sample
    grouping: Grouping
    ids: IntVec
    shares: Vec
    means: Mat
    next_id: int
    n_rows: int
    n_grouped: int
    history: History
    seed: int
    labels: Labels | None = field(default=None)

    @property
    def n_features(self) -> int:
        """Columns of a row."""
        return int(self.sample.rows.shape[1])

    @property
    def order(self) -> IntVec:
        """Groups by ascending id."""
        return np.argsort(self.ids)

    def predict(self, rows: Mat) -> Labels:
        """Id of the cluster of each row."""
        return self.ids[self.grouping.assign(rows)].astype(np.int32)


def learn_rows(
    settings: ClustersSettings, known: ClustersFit | None, rows: Mat, seed: int
) -> ClustersFit:
    """The fit after new rows; the old one, if any, stays as it is."""
    old = Sample.empty(rows.shape[1]) if known is None else known.sample
    n_old = 0 if known is None else known.n_rows
    sample = old.after(rows, n_old, seed, settings.most_rows(rows.shape[1]))
    n_rows = n_old + len(rows)
    if known is not None and not _is_due(settings, known, n_rows):
        return replace(known, sample=sample, n_rows=n_rows, labels=None)
    return _grouped(settings, known, sample, n_rows, seed)


def _is_due(settings: ClustersSettings, known: ClustersFit, n_rows: int) -> bool:
    """Whether there are many new rows, or another number of clusters is wanted."""
    wanted, found = settings.n_clusters, known.grouping
    if wanted is None:
        changed = found.reason == GIVEN
    else:
        changed = wanted != found.n_groups
    return changed or n_rows >= _GROWN * known.n_grouped


def _grouped(
    settings: ClustersSettings,
    known: ClustersFit | None,
    sample: Sample,
    n_rows: int,
    seed: int,
) -> ClustersFit:
    """The fit with the sample grouped anew."""
    found = group_rows(sample.rows, settings.n_clusters, seed)
    groups, n_groups = found.assign(sample.rows), found.n_groups
    sizes = np.bincount(groups, minlength=n_groups)
    history, moves = History(), list[MoveRecord]()
    if known is None:
        ids, next_id = first_ids(sizes), n_groups
    else:
        before = known.grouping.assign(sample.rows)
        ids, moves = match_ids(before, known.ids, groups, n_groups, known.next_id)
        history, next_id = known.history, max(known.next_id, int(ids.max()) + 1)
    lap = len(history) and int(history.curve[-1, 0]) + 1
    gap = float(found.gap[found.chosen])
    info = LapInfo(lap, gap, n_groups, float(n_rows), tuple(moves), settled=True)
    sums = np.zeros((n_groups, sample.rows.shape[1]))
    np.add.at(sums, groups, sample.rows)
    return ClustersFit(
        sample,
        found,
        ids,
        sizes / len(groups),
        sums / np.maximum(sizes, 1)[:, None],
        next_id,
        n_rows,
        n_rows,
        history.after(info),
        seed,
    )


def held_bytes(learned: ClustersFit) -> dict[str, int]:
    """Bytes of the parts of a fit."""
    found, sample = learned.grouping, learned.sample
    axes = found.units.axes
    graph = found.graph
    return {
        "sample": sample.rows.nbytes + sample.numbers.nbytes,
        "prototypes": found.books.nbytes + (0 if axes is None else axes.nbytes),
        "graph": graph.starts.nbytes + graph.ends.nbytes + graph.weights.nbytes,
        "levels": sum(rung.groups.nbytes for rung in found.rungs) + found.groups.nbytes,
    }
