"""Checkpoint schema of `Clusters`: what a file must contain."""

from __future__ import annotations

from typing import Final

import numpy as np

from everlearn.clusters.codebook import Graph
from everlearn.clusters.fit import ClustersFit
from everlearn.clusters.grouping import REASONS, Grouping
from everlearn.clusters.joins import Join
from everlearn.clusters.ladder import RESOLUTIONS, Rung
from everlearn.clusters.sample import MOST_ROWS, Sample
from everlearn.clusters.units import KINDS, Units
from everlearn.core.arrays import Labels
from everlearn.estimator.schemas import HISTORY
from everlearn.estimator.tables import LARGEST
from everlearn.store.schema import Array, Converted, Many, Optional, Record, Scalar, expect

_MOST: Final = 2**53
_COUNT: Final = Scalar(int, 0, _MOST)


def _near(*shape: str) -> Array:
    return Array(*shape, low=-LARGEST, high=LARGEST)


def _check_sample(sample: Sample, place: str) -> None:
    expect(1 <= len(sample) <= MOST_ROWS, f"{place}/rows", f"1 to {MOST_ROWS:,} rows")
    expect((np.diff(sample.numbers) > 0).all(), f"{place}/numbers", "ascending")


def _check_units(units: Units, place: str) -> None:
    expect((units.scale > 0).all(), f"{place}/scale", "positive")


def _check_groups(groups: Labels, place: str) -> None:
    whole = np.array_equal(np.unique(groups), np.arange(int(groups.max(initial=-1)) + 1))
    expect(len(groups) and whole, place, "numbers of groups, from 0 on without gaps")


def _check_rung(rung: Rung, place: str) -> None:
    _check_groups(rung.groups, f"{place}/groups")


def _check_graph(graph: Graph, place: str) -> None:
    starts, n_links = graph.starts, len(graph.ends)
    sorted_ = (np.diff(starts) >= 0).all()
    expect(sorted_ and starts[0] == 0 and starts[-1] == n_links, f"{place}/starts", "of all links")
    expect((graph.ends < len(graph)).all(), f"{place}/ends", "positions of prototypes")


def _check_grouping(found: Grouping, place: str) -> None:
    n_nodes = found.books.shape[0] * found.books.shape[1]
    width = len(found.units.scale) if found.units.axes is None else found.units.axes.shape[1]
    expect(found.books.shape[2] == width, f"{place}/books", f"of {width} columns")
    expect(len(found.groups) == n_nodes > 0, f"{place}/groups", f"of {n_nodes} prototypes")
    _check_groups(found.groups, f"{place}/groups")
    expect(len(found.graph) == n_nodes, f"{place}/graph/starts", f"of {n_nodes} prototypes")
    expect(len(found.rungs) == len(found.gap) > 0, f"{place}/gap", "one number for each rung")
    expect(found.chosen < len(found.rungs), f"{place}/chosen", "position of a rung")


def _check_fit(fit: ClustersFit, place: str) -> None:
    ids, n_groups = fit.ids, fit.grouping.n_groups
    expect(len(np.unique(ids)) == len(ids) == n_groups, f"{place}/ids", f"{n_groups} distinct ids")
    expect(ids.max() < fit.next_id, f"{place}/ids", f"below {fit.next_id}")
    expect(fit.n_grouped <= fit.n_rows, f"{place}/n_grouped", "at most 'n_rows'")
    expect(len(fit.sample) <= fit.n_rows, f"{place}/n_rows", "at least the rows of the sample")
    expect(fit.sample.numbers[-1] < fit.n_rows, f"{place}/sample/numbers", "below 'n_rows'")


_GROUPS: Final = Array("nodes", dtypes=("int32",), low=0, high=2**31)
_SAMPLE: Final = Record(
    Sample,
    {
        "rows": _near("rows", "features"),
        "numbers": Array("rows", dtypes=("int64",), low=0, high=_MOST),
    },
    _check_sample,
)
_UNITS: Final = Record(
    Units,
    {
        "kind": Scalar(str, choices=KINDS),
        "origin": _near("features"),
        "scale": Array("features", low=0.0, high=LARGEST),
        "axes": Optional(Array("features", "axes", low=-2.0, high=2.0)),
    },
    _check_units,
)
_GRAPH: Final = Record(
    Graph,
    {
        "starts": Array("starts", dtypes=("int64",), low=0, high=_MOST),
        "ends": Array("links", dtypes=("int64",), low=0, high=_MOST),
        "weights": Array("links", low=0.0, high=_MOST),
    },
    _check_graph,
)
_RUNG: Final = Record(
    Rung,
    {
        "groups": _GROUPS,
        "effective": Scalar(float, 0.0, _MOST),
        "cut": Scalar(float, 0.0, 1.0),
    },
    _check_rung,
)
_JOIN: Final = Record(
    Join,
    {
        "shares": Converted(Array(2, low=0.0, high=1.0), np.array, lambda a: tuple(a.tolist())),
        "ratio": Scalar(float, 0.0),
    },
)
_GROUPING: Final = Record(
    Grouping,
    {
        "units": _UNITS,
        "books": _near("books", "prototypes", "width"),
        "graph": _GRAPH,
        "rungs": Many(_RUNG, most=len(RESOLUTIONS)),
        "gap": Array("rungs", low=-2.0, high=2.0),
        "chosen": Scalar(int, 0, len(RESOLUTIONS)),
        "groups": _GROUPS,
        "joins": Many(_JOIN, most=2**20),
        "reason": Scalar(str, choices=REASONS),
    },
    _check_grouping,
)
CLUSTERS_FIT: Final = Record(
    ClustersFit,
    {
        "sample": _SAMPLE,
        "grouping": _GROUPING,
        "ids": Array("groups", dtypes=("int64",), low=0, high=2**31),
        "shares": Array("groups", low=0.0, high=1.0),
        "means": _near("groups", "features"),
        "next_id": Scalar(int, 1, 2**31 - 1),
        "n_rows": Scalar(int, 1, _MOST),
        "n_grouped": Scalar(int, 1, _MOST),
        "history": HISTORY,
        "seed": Scalar(int, 0, 2**64),
    },
    _check_fit,
)
"""Of a `ClustersFit`."""
