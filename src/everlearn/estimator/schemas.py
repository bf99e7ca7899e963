"""Schemas of what several estimators save: labels, families, statistics, rows, trees, history."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from everlearn.core import arrays
from everlearn.core.arrays import Mat, Vec
from everlearn.core.families.base import Family
from everlearn.core.families.categories import Categories
from everlearn.core.families.gaussian_diag import DiagGaussian, NormalGammaPrior
from everlearn.core.families.gaussian_full import FullGaussian, NormalWishartPrior
from everlearn.core.families.gaussian_zero_mean import WishartPrior, ZeroMeanGaussian
from everlearn.core.families.multinomial import DirichletPrior, Multinomial
from everlearn.core.families.poisson import GammaPrior, Poisson
from everlearn.core.families.product import Block, Product
from everlearn.core.math import LOG_2PI, unpack_symmetric
from everlearn.core.stats import Stats
from everlearn.core.tree import Tree
from everlearn.engine.rows import Rows
from everlearn.estimator.history import (
    COUNT_KEYS,
    LARGEST_COUNT,
    MAX_MOVES,
    MAX_POINTS,
    MOVE_KINDS,
    AcceptedMove,
    History,
)
from everlearn.estimator.labels import LabelSpace, equal_labels
from everlearn.store.schema import (
    Array,
    Converted,
    Many,
    OneOf,
    Optional,
    Record,
    Scalar,
    Schema,
    Table,
    expect,
)

CLOSE: Final = 1e-3
"""Tolerance between saved sums. Allows for float32, and for the rounding of many moves."""


def check_stats(family: Family[Any], stats: Stats, place: str) -> None:
    """Refuse masses, moments, entropies and base measures that no weighted rows have."""
    expect(stats.t.shape[1] == family.n_stats, f"{place}/t", f"of {family.n_stats} columns")
    mass = float(stats.n.sum())
    expect((stats.n >= 0).all(), f"{place}/n", "masses, which are not negative")
    most = mass * np.log(max(len(stats), 2)) * (1 + CLOSE) + CLOSE
    sound = stats.h.sum() <= most and stats.h.min() >= -1e3 * (mass + 1)
    expect(sound, f"{place}/h", f"entropies of assignments, at most {most:g} in sum")
    if isinstance(family, Product):
        _check_parts(family, stats, place)
        return
    if isinstance(family, Multinomial):
        slack = 1e-9 * np.abs(stats.t).max()
        expect((stats.t >= -slack).all(), f"{place}/t", "sums of counts")
        expect(stats.base >= -CLOSE * (mass + 1), f"{place}/base", "0 or more")
        return
    expect(_possible_moments(family, stats), f"{place}/t", "sums and sums of squares of rows")
    entries = mass * family.n_features
    if isinstance(family, DiagGaussian) and family.missing:
        entries = float(stats.t[:, 2 * family.n_features :].sum())
    want = -0.5 * LOG_2PI * entries
    near = abs(stats.base - want) <= CLOSE * (abs(want) + 1)
    expect(near, f"{place}/base", f"{want:g}, got {stats.base:g}")


def _check_parts(family: Product, stats: Stats, place: str) -> None:
    """Check the statistics of each block of columns. Only their common base measure is saved."""
    most, low = 0.0, 0.0
    for block, t in zip(family.blocks, family.parts(stats.t), strict=True):
        own: Any = block.family
        if isinstance(own, DiagGaussian):
            most -= 0.5 * LOG_2PI * float(t[:, 2 * own.n_features :].sum())
            moments = _possible_moments(own, replace(stats, t=t))
            expect(moments, f"{place}/t", "sums and sums of squares of rows")
            continue
        expect((t >= -_slack(t)).all(), f"{place}/t", "sums of counts")
        if isinstance(own, Poisson):
            seen, low = t[:, own.n_features :], -np.inf
        else:
            seen = np.add.reduceat(t, own.starts, axis=1)
        fits = (seen <= stats.n[:, None] + _slack(seen)).all()
        expect(fits, f"{place}/t", "at most one value of each column in a row")
    slack = CLOSE * (abs(most) + 1)
    sound = most + low - slack <= stats.base <= most + slack
    wanted = f"{most:g}" if low == 0.0 else f"at most {most:g}"
    expect(sound, f"{place}/base", f"{wanted}, got {stats.base:g}")


def _possible_moments(family: Family[Any], stats: Stats) -> bool:
    """Whether some weighted rows have these first and second moments."""
    d = family.n_features
    if isinstance(family, DiagGaussian):
        first, second = stats.t[:, :d], stats.t[:, d : 2 * d]
        count = stats.t[:, 2 * d :] if family.missing else np.repeat(stats.n[:, None], d, axis=1)
        fits = bool((np.abs(count - np.clip(count, 0, stats.n[:, None])) <= _slack(count)).all())
        return fits and _satisfy_cauchy_schwarz(count, first, second)
    if isinstance(family, ZeroMeanGaussian):
        squares, first = stats.t, np.zeros((len(stats), d))
    elif isinstance(family, FullGaussian):
        squares, first = stats.t[:, :-d], stats.t[:, -d:]
    else:
        raise TypeError(f"no moments are known for {type(family).__name__}")
    second = unpack_symmetric(squares, d)
    diagonal = np.diagonal(second, axis1=1, axis2=2)
    smallest = np.linalg.eigvalsh(second)[:, 0]
    definite = bool((smallest >= -CLOSE * (diagonal.sum(axis=1) + 1e-6 * diagonal.sum())).all())
    count = np.repeat(stats.n[:, None], d, axis=1)
    return definite and _satisfy_cauchy_schwarz(count, first, diagonal)


def _satisfy_cauchy_schwarz(count: Mat, first: Mat, second: Mat) -> bool:
    """Whether first ** 2 <= count * second for each component and feature, up to rounding."""
    if (second < -_slack(second)).any():
        return False
    low, high = np.maximum(count, 0) + _slack(count), np.maximum(second, 0) + _slack(second)
    return bool((np.abs(first) <= np.sqrt(low) * np.sqrt(high) * (1 + CLOSE)).all())


def _slack(sums: Mat) -> Vec:
    """Rounding error of a column of sums: a small share of all values that were added to it."""
    return np.asarray(1e-6 * np.abs(sums).sum(axis=0) + 1e-300)


_TINY = 1e-300
LARGEST_ENTRY = 1e100
"""Largest absolute value in a row."""


class _SavedLabels(NamedTuple):
    """Labels in a form that a file can hold: texts of fixed width instead of objects."""

    kind: str
    objects: bool
    classes: NDArray[Any]

    @classmethod
    def of(cls, space: LabelSpace) -> _SavedLabels:
        objects = space.classes.dtype == object
        plain = np.array(space.classes.tolist(), dtype=np.str_) if objects else space.classes
        if not equal_labels(plain, space.classes):
            raise ValueError("class names that end with a NUL character cannot be saved")
        return cls(space.kind, objects, plain)

    def labels(self) -> LabelSpace:
        classes = self.classes.astype(object) if self.objects else self.classes
        return LabelSpace(self.kind, classes)  # type: ignore[arg-type]


def _check_labels(labels: _SavedLabels, place: str) -> None:
    place, classes = f"{place}/classes", labels.classes
    expect(len(classes) > 1, place, "two or more classes")
    expect(len(classes) == 2 or labels.kind != "binary", place, "two classes")
    expect(len(classes) > 2 or labels.kind != "multiclass", place, "more than two classes")
    if classes.dtype.kind == "f":
        expect((np.rint(classes) == classes).all(), place, "whole numbers")
    distinct = np.unique(classes)
    expect(len(distinct) == len(classes), place, "distinct")
    ordered = labels.kind == "multilabel" or equal_labels(distinct, classes)
    expect(ordered, place, "in ascending order")
    expect(classes.dtype.kind == "U" or not labels.objects, place, "texts")


_INTEGERS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
LABELS: Final = Converted(
    Record(
        _SavedLabels,
        {
            "kind": Scalar(str, choices=("binary", "multiclass", "multilabel")),
            "objects": Scalar(bool),
            "classes": Array(
                "classes",
                dtypes=("str", "bool", "float32", "float64", *_INTEGERS),
            ),
        },
        _check_labels,
    ),
    save=_SavedLabels.of,
    restore=_SavedLabels.labels,
)
"""Schema of a `LabelSpace`."""


# ------------------------------------------------------- families and statistics


def _check_family(family: Family[Any], place: str) -> None:
    expect(family.n_features > 0, place, "a family of rows with a column")
    if not isinstance(family, (FullGaussian, ZeroMeanGaussian)):
        return
    place, d = f"{place}/prior", family.n_features
    scale, degrees = family.prior.scale, family.prior.degrees_of_freedom
    definite = np.allclose(scale, scale.T) and np.linalg.eigvalsh(scale)[0] > 0
    expect(definite, f"{place}/scale", "a positive-definite matrix")
    expect(degrees > d - 1, f"{place}/degrees_of_freedom", f"above {d - 1}, got {degrees:g}")


def _sizes_of(family: Family[Any]) -> dict[str, int]:
    return {"D": family.n_features, "S": family.n_stats}


_POSITIVE: Final = Scalar(float, _TINY)
_POINT: Final = Array("D", low=-LARGEST_ENTRY, high=LARGEST_ENTRY)
_NORMAL_GAMMA: Final = Record(
    NormalGammaPrior,
    {
        "mean": _POINT,
        "mean_precision": _POSITIVE,
        "shape": _POSITIVE,
        "rate": Array("D", low=_TINY),
    },
)
_NORMAL_WISHART: Final = Record(
    NormalWishartPrior,
    {
        "mean": _POINT,
        "mean_precision": _POSITIVE,
        "degrees_of_freedom": _POSITIVE,
        "scale": Array("D", "D"),
    },
)
_WISHART: Final = Record(WishartPrior, {"degrees_of_freedom": _POSITIVE, "scale": Array("D", "D")})
_DIRICHLET: Final = Record(DirichletPrior, {"counts": Array("D", low=_TINY)})


_GAMMA: Final = Record(
    GammaPrior, {"shape": _POSITIVE, "inverse_scale": Array("D", low=_TINY, high=1 / _TINY)}
)


def _check_categories(family: Categories, place: str) -> None:
    fits = int(family.sizes.sum()) == len(family.counts)
    expect(fits, f"{place}/sizes", f"sizes that sum to {len(family.counts)}")


def _check_product(family: Product, place: str) -> None:
    expect(len(family.blocks) > 0, f"{place}/blocks", "one or more")
    columns = np.concatenate([block.columns for block in family.blocks])
    whole = np.array_equal(np.sort(columns), np.arange(family.n_features))
    expect(whole, f"{place}/blocks", "blocks with each column once")
    for number, block in enumerate(family.blocks):
        same = len(block.columns) == block.family.n_features
        expect(same, f"{place}/blocks/{number}/columns", "one for each column of the family")


def _of_family(make: Any, fields: Mapping[str, Schema]) -> tuple[type, Record]:
    return make, Record(make, fields, _check_family, _sizes_of)


_DIAGONAL: Final = _of_family(
    DiagGaussian, {"prior": _NORMAL_GAMMA, "origin": _POINT, "missing": Scalar(bool)}
)
_BLOCK: Final = Record(
    Block,
    {
        "columns": Array("columns", dtypes=("int64",), low=0, high=2**31),
        "family": OneOf(
            {
                "diagonal": _DIAGONAL,
                "categories": (
                    Categories,
                    Record(
                        Categories,
                        {
                            "counts": Array("S", low=_TINY),
                            "sizes": Array("D", dtypes=("int64",), low=1, high=2**31),
                        },
                        _check_categories,
                        _sizes_of,
                    ),
                ),
                "poisson": _of_family(Poisson, {"prior": _GAMMA}),
            }
        ),
    },
)
FAMILY: Final = OneOf(
    {
        "diagonal": _DIAGONAL,
        "full": _of_family(FullGaussian, {"prior": _NORMAL_WISHART, "origin": _POINT}),
        "zero-mean": _of_family(ZeroMeanGaussian, {"prior": _WISHART}),
        "multinomial": _of_family(
            Multinomial, {"prior": _DIRICHLET, "trials": Scalar(int, 1, 2**53)}
        ),
        "table": (
            Product,
            Record(
                Product,
                {"blocks": Many(_BLOCK, own_sizes=("D", "S", "columns"), most=2**20)},
                _check_product,
                _sizes_of,
            ),
        ),
    }
)
"""A family with its prior. It sets two sizes: D columns of a row, S columns of statistics."""


def _check_ids(stats: Stats, place: str) -> None:
    distinct = len(stats) > 0 and len(np.unique(stats.ids)) == len(stats)
    expect(distinct, f"{place}/ids", "distinct, and at least one")


STATS: Final = Record(
    Stats,
    {
        "ids": Array("K", dtypes=("int64",), low=0, high=2**62),
        "n": Array("K", low=0),
        "t": Array("K", "S"),
        "h": Array("K"),
        "base": Scalar(float),
    },
    _check_ids,
)
"""Statistics of K components. Compare them with their family by `check_stats`."""


# --------------------------------------------------------------------------- rows


class _Dense(NamedTuple):
    entries: Mat

    def table(self) -> arrays.Table:
        return self.entries


class _Sparse(NamedTuple):
    data: Vec
    indices: NDArray[Any]
    starts: NDArray[Any]
    width: int

    def table(self) -> arrays.Table:
        shape = (len(self.starts) - 1, self.width)
        table = sparse.csr_array((self.data, self.indices, self.starts), shape=shape)
        table.check_format(full_check=True)
        if not table.has_canonical_format:
            raise ValueError("columns must be sorted and distinct in each row")
        return table


def _table_parts(table: arrays.Table) -> _Dense | _Sparse:
    if sparse.issparse(table):
        return _Sparse(table.data, table.indices, table.indptr, int(table.shape[1]))
    return _Dense(table)


_FLOATS: Final = ("float64", "float32")
_INDICES: Final = ("int32", "int64")
TABLE: Final = Converted(
    OneOf(
        {
            "dense": (
                _Dense,
                Record(
                    _Dense,
                    {
                        "entries": Array(
                            "rows",
                            "D",
                            dtypes=_FLOATS,
                            low=-LARGEST_ENTRY,
                            high=LARGEST_ENTRY,
                            nan=True,
                        )
                    },
                ),
            ),
            "sparse": (
                _Sparse,
                Record(
                    _Sparse,
                    {
                        "data": Array(
                            "entries", dtypes=_FLOATS, low=-LARGEST_ENTRY, high=LARGEST_ENTRY
                        ),
                        "indices": Array("entries", dtypes=_INDICES, low=0, high=2**31),
                        "starts": Array("starts", dtypes=_INDICES, low=0, high=2**53),
                        "width": Scalar(int, 1, 2**31),
                    },
                    sizes=lambda table: {"rows": len(table.starts) - 1},
                ),
            ),
        }
    ),
    save=_table_parts,
    restore=lambda parts: parts.table(),
)
"""Rows of numbers, dense or sparse. `check_rows` compares them with their family."""
TABLE_SIZES: Final = ("rows", "entries", "starts")
"""Sizes that differ from table to table: for `Many(..., own_sizes=TABLE_SIZES)`."""
ROWS: Final = Record(Rows, {"X": TABLE, "weights": Optional(Array("rows", low=0))})
"""Rows with weights."""


def check_rows(family: Family[Any], rows: Rows, place: str) -> None:
    """Refuse rows that this family cannot have learned from."""
    x, counts = rows.X, isinstance(family, Multinomial)
    right = x.shape[1] == family.n_features and x.shape[0] > 0
    expect(right, f"{place}/X", f"one or more rows of {family.n_features} columns")
    expect(counts or not sparse.issparse(x), f"{place}/X", "dense: only counts may be sparse")
    entries = x.data if sparse.issparse(x) else x
    if isinstance(family, Product):
        _check_entries(family, np.asarray(x, np.float64), place)
    missing = isinstance(family, Product) or (isinstance(family, DiagGaussian) and family.missing)
    expect(missing or not np.isnan(entries).any(), f"{place}/X", "without missing values")
    expect(not counts or (entries >= 0).all(), f"{place}/X", "counts")
    if rows.weights is not None:
        some = len(rows.weights) == len(rows) and rows.weights.any()
        expect(some, f"{place}/weights", "one weight for each row, not all of them zero")


def _check_entries(family: Product, x: Mat, place: str) -> None:
    """Refuse entries of a table that are neither missing nor a code or count of their column."""
    for block in family.blocks:
        own, part = block.family, x[:, block.columns]
        if isinstance(own, DiagGaussian):
            continue
        most = own.sizes - 1 if isinstance(own, Categories) else np.inf
        right = np.isnan(part) | ((part >= 0) & (part <= most) & (part == np.rint(part)))
        expect(right.all(), f"{place}/X", "codes and counts of the columns")


# ------------------------------------------------------------------ trees, history


def _check_tree(tree: Tree, place: str) -> None:
    ids, parents = tree.ids, tree.parents
    expect(len(ids) and len(np.unique(ids)) == len(ids), f"{place}/ids", "distinct")
    before = parents[0] == -1 and (parents[1:] >= 0).all()
    before = before and (parents < np.arange(len(parents))).all()
    expect(before, f"{place}/parents", "positions of earlier nodes, -1 for the root alone")
    expect(tree.levels.max() < tree.depth, f"{place}/parents", f"of a tree of depth {tree.depth}")


TREE: Final = Record(
    Tree,
    {
        "ids": Array("nodes", dtypes=("int64",), low=0, high=2**62),
        "parents": Array("nodes", dtypes=("int64",), low=-1, high=2**31),
        "depth": Scalar(int, 1, 100),
    },
    _check_tree,
    lambda tree: {"levels": tree.depth},
)
"""Nodes of a tree. It sets the sizes nodes and levels."""


def _check_history(history: History, place: str) -> None:
    curve = history.curve
    whole = np.delete(curve, 2, axis=1)
    counts = (whole >= 0).all() and (whole == np.rint(whole)).all()
    expect(counts, f"{place}/curve", "whole numbers but for the bounds")
    expect(len(curve) <= MAX_POINTS, f"{place}/curve", f"at most {MAX_POINTS} points")


_COUNT: Final = Scalar(int, 0, LARGEST_COUNT)
_IDS: Final = Many(_COUNT, most=2**20)
HISTORY: Final = Record(
    History,
    {
        "curve": Array("points", 4),
        "moves": Many(
            Record(
                AcceptedMove,
                {
                    "lap": _COUNT,
                    "rows": _COUNT,
                    "kind": Scalar(str, choices=MOVE_KINDS),
                    "removed": _IDS,
                    "added": _IDS,
                    "gain": Scalar(float),
                },
            ),
            most=MAX_MOVES,
        ),
        "counts": Table(Scalar(str, choices=COUNT_KEYS), _COUNT),
    },
    _check_history,
)
"""Laps, accepted moves and counts of moves."""
