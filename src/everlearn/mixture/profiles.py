"""How a component differs from all rows of a table, column by column.

The difference is the Kullback-Leibler divergence, in nats, of the column in the component from
the column in all rows, both at the expected parameters. So columns of all kinds can be compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

import numpy as np

from everlearn.core.families.categories import Categories
from everlearn.core.families.gaussian_diag import DiagGaussian
from everlearn.core.families.product import Product
from everlearn.core.stats import Stats
from everlearn.mixture.columns import Column, Columns

OTHER_VALUES: Final = "(other values)"


class ColumnProfile(NamedTuple):
    """A column in a component.

    Attributes
    ----------
    component : permanent id
    column : name of the column
    kind : "numbers", "categories" or "counts"
    value : of categories, the value that stands out most; otherwise None
    level : share of that value, or the mean
    overall : the same in all rows
    difference : how much the column differs from all rows, in nats
    """

    component: int
    column: str
    kind: str
    value: str | None
    level: float
    overall: float
    difference: float

    def __str__(self) -> str:
        if self.value is None:
            return f"{self.column}={self.level:.3g}"
        return f"{self.column}={self.value} {self.level:.0%}"


def profiles_of(family: Product, stats: Stats, columns: Columns) -> list[ColumnProfile]:
    """All columns of all components; in each component, those that differ most come first."""
    found: list[ColumnProfile] = []
    for block, t in zip(family.blocks, family.parts(stats.t), strict=True):
        own = [columns[j] for j in block.columns]
        whole = Stats(stats.ids[:1], *(x.sum(axis=0, keepdims=True) for x in (stats.n, t, stats.h)))
        of_block = _of_categories if isinstance(block.family, Categories) else _of_means
        found += of_block(block.family, replace(stats, t=t), whole, own)
    order = {component: k for k, component in enumerate(stats.ids.tolist())}
    return sorted(found, key=lambda profile: (order[profile.component], -profile.difference))


def _of_categories(
    family: Any, stats: Stats, whole: Stats, columns: Sequence[Column]
) -> Iterator[ColumnProfile]:
    """Profiles of categories. The value that stands out adds most to the divergence."""
    shares, overall = (family.shares(family.posterior(s.n, s.t)) for s in (stats, whole))
    for column, start, size in zip(columns, family.starts, family.sizes, strict=True):
        own, every = shares[:, start : start + size], overall[0, start : start + size]
        terms = own * np.log(own / every)
        names = (OTHER_VALUES, *column.values)
        for k, best in enumerate(terms.argmax(axis=1).tolist()):
            levels = float(own[k, best]), float(every[best])
            difference = float(terms[k].sum())
            component = int(stats.ids[k])
            yield ColumnProfile(
                component, column.name, column.kind, names[best], *levels, difference
            )


def _of_means(
    family: Any, stats: Stats, whole: Stats, columns: Sequence[Column]
) -> Iterator[ColumnProfile]:
    """Profiles of numbers and counts."""
    q, all_rows = (family.posterior(s.n, s.t) for s in (stats, whole))
    means, overall = family.means(q), family.means(all_rows)
    if isinstance(family, DiagGaussian):
        ratio = family.covariances(q) / family.covariances(all_rows)
        shift = (means - overall) ** 2 / family.covariances(all_rows)
        differences = 0.5 * (ratio - 1.0 - np.log(ratio) + shift)
    else:
        differences = means * np.log(means / overall) - means + overall
    for k, component in enumerate(stats.ids.tolist()):
        for j, column in enumerate(columns):
            levels = float(means[k, j]), float(overall[0, j])
            difference = float(differences[k, j])
            yield ColumnProfile(component, column.name, column.kind, None, *levels, difference)
