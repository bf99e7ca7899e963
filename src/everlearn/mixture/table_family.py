"""The family of a table: a block of numbers, one of categories and one of counts."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from everlearn.core.arrays import IntVec, Mat, Vec
from everlearn.core.families.categories import Categories
from everlearn.core.families.gaussian_diag import DiagGaussian
from everlearn.core.families.poisson import GammaPrior, Poisson
from everlearn.core.families.product import Block, Product
from everlearn.core.families.recentred import recentred
from everlearn.core.stats import Stats, total
from everlearn.engine.chunks import ChunkedRows
from everlearn.engine.protocol import Engine
from everlearn.engine.rows import Rows
from everlearn.estimator.families import DataSummary, diagonal_family
from everlearn.mixture.columns import MAX_VALUES, Column, Columns
from everlearn.mixture.state import State, with_statistics

_PRIOR_COUNT: Final = 0.5
"""Rows of each value that the prior of a column of categories counts for, on average."""
_SUM_ROWS: Final = 4096


def table_family(columns: Columns, rows: Rows | ChunkedRows, engine: Engine) -> Product:
    """The family of these columns, with a prior that is scaled to the rows.

    It expects a component to have the shares of values and the mean counts of all rows. A value
    that has not been seen has the prior of one that was seen once.
    """
    moments = DataSummary.of(rows, engine).moments()
    blocks = []
    numbers, categories, counts = (
        _of_kind(columns, k) for k in ("numbers", "categories", "counts")
    )
    if len(numbers):
        own = replace(moments, mean=moments.mean[numbers], variance=moments.variance[numbers])
        blocks.append(Block(numbers, diagonal_family(own, len(columns))))
    if len(categories):
        sizes = np.array([columns[j].n_codes for j in categories], np.int64)
        sums = _value_sums(rows, categories, sizes, engine)
        starts = np.cumsum(sizes) - sizes
        sums[starts] += 1.0
        mass = np.repeat(np.add.reduceat(sums, starts), sizes)
        weight = _PRIOR_COUNT * np.repeat(np.maximum(sizes - 1, 1), sizes)
        blocks.append(Block(categories, Categories(weight * sums / mass, sizes)))
    if len(counts):
        mean = moments.mean[counts]
        blocks.append(Block(counts, Poisson(GammaPrior(1.0, 1.0 / np.where(mean > 0, mean, 1.0)))))
    return Product(tuple(blocks))


def grown(family: Product, columns: Columns) -> Product:
    """The family with room for the codes of new values."""
    blocks = []
    for block in family.blocks:
        own = block.family
        if isinstance(own, Categories):
            sizes = np.array([columns[j].n_codes for j in block.columns], np.int64)
            own = own.grown(sizes)
        blocks.append(replace(block, family=own))
    return Product(tuple(blocks))


def with_columns(state: State, old: Columns, new: Columns, target: Product) -> State:
    """Convert the statistics of a state to the columns and family of another model.

    A value that the new columns lack joins code 0. If there is none, the bound changes only by
    the prior.
    """
    family = state.model.family
    assert isinstance(family, Product)

    def moved(stats: Stats) -> Stats:
        parts = []
        for block, aim, t in zip(family.blocks, target.blocks, family.parts(stats.t), strict=True):
            if isinstance(block.family, Categories) and isinstance(aim.family, Categories):
                pairs = [(old[j], new[j]) for j in block.columns]
                where = _places(aim.family, pairs)
                wide = np.zeros((len(t), aim.family.n_stats))
                np.add.at(wide.T, where, t.T)
                t = wide
            elif isinstance(block.family, DiagGaussian) and isinstance(aim.family, DiagGaussian):
                t = recentred(block.family, replace(stats, t=t), aim.family.origin).t
            parts.append(t)
        return replace(stats, t=np.hstack(parts))

    return with_statistics(state, target, moved)


def _places(target: Categories, pairs: list[tuple[Column, Column]]) -> IntVec:
    """Index of each old code of each column among the features of the target."""
    places = []
    for start, (old, new) in zip(target.starts.tolist(), pairs, strict=True):
        codes = {value: code for code, value in enumerate(new.values, 1)}
        places += [start, *(start + codes.get(value, 0) for value in old.values)]
    return np.array(places, np.int64)


def columns_fit(columns: Columns, family: Product) -> bool:
    """Whether a family has a block for each kind of these columns, with all their codes."""
    kinds = {DiagGaussian: "numbers", Categories: "categories", Poisson: "counts"}
    for block in family.blocks:
        own = block.family
        named = [columns[j] for j in block.columns]
        if any(column.kind != kinds[type(own)] for column in named):
            return False
        if isinstance(own, Categories) and own.sizes.tolist() != [c.n_codes for c in named]:
            return False
    return True


def most_stats(family: Product) -> int:
    """Statistics of a component, with those of all values that can still come."""
    return sum(
        block.family.n_stats
        if not isinstance(block.family, Categories)
        else (MAX_VALUES + 1) * block.family.n_features
        for block in family.blocks
    )


def _of_kind(columns: Columns, kind: str) -> IntVec:
    return np.array([j for j, column in enumerate(columns) if column.kind == kind], np.int64)


def _value_sums(rows: Rows | ChunkedRows, where: IntVec, sizes: IntVec, engine: Engine) -> Vec:
    """Weight of each code of each column of categories."""
    if isinstance(rows, Rows):
        return _sums_of((where, sizes), rows)
    found = engine.map(_sums_of, [chunk.handle for chunk in rows.chunks], (where, sizes))
    return np.asarray(total(found))


def _sums_of(shared: tuple[IntVec, IntVec], rows: Rows) -> Vec:
    where, sizes = shared
    family = Categories(np.ones(sizes.sum()), sizes)
    sums = np.zeros(family.n_stats)
    for block in rows.blocks(_SUM_ROWS):
        own: Mat = family.features(block.X[:, where])
        sums += own.sum(axis=0) if block.weights is None else block.weights @ own
    return sums
