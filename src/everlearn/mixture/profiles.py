"""What sets a component of a table apart from all rows, column by column.

The difference is the Kullback-Leibler divergence, in nats, of the column in the component from
the column in all rows, both at the expected parameters. So columns of all kinds can be compared.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from everlearn.core.arrays import Mat
from everlearn.core.families.categories import Categories
from everlearn.core.families.gaussian_diag import DiagGaussian
from everlearn.core.families.product import Product
from everlearn.estimator.components import Components
from everlearn.mixture.columns import Columns

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


def profiles_of(family: Product, stats: Components, columns: Columns) -> list[ColumnProfile]:
    """All columns of all components; in each component, those that differ most come first."""
    found: list[list[ColumnProfile]] = [[] for _ in stats.ids]
    for block, t in zip(family.blocks, family.parts(stats.t), strict=True):
        own: Any = block.family
        q = own.posterior(stats.n, t)
        whole = own.posterior(stats.n.sum(keepdims=True), t.sum(axis=0, keepdims=True))
        if isinstance(own, Categories):
            shares, all_shares = own.shares(q), own.shares(whole)[0]
            for j, start, size in zip(block.columns, own.starts, own.sizes, strict=True):
                part = slice(start, start + size)
                terms = shares[:, part] * np.log(shares[:, part] / all_shares[part])
                names = (OTHER_VALUES, *columns[j].values)
                for k, best in enumerate(terms.argmax(axis=1).tolist()):
                    level, overall = shares[k, start + best], all_shares[start + best]
                    found[k].append(
                        ColumnProfile(
                            int(stats.ids[k]),
                            columns[j].name,
                            columns[j].kind,
                            names[best],
                            float(level),
                            float(overall),
                            float(terms[k].sum()),
                        )
                    )
            continue
        means, overall = own.means(q), own.means(whole)[0]
        if isinstance(own, DiagGaussian):
            differences = _of_gaussians(means, own.covariances(q), overall, own.covariances(whole))
        else:
            differences = means * np.log(means / overall) - means + overall
        for i, j in enumerate(block.columns):
            for k, mean in enumerate(means[:, i].tolist()):
                found[k].append(
                    ColumnProfile(
                        int(stats.ids[k]),
                        columns[j].name,
                        columns[j].kind,
                        None,
                        mean,
                        float(overall[i]),
                        float(differences[k, i]),
                    )
                )
    return [one for each in found for one in sorted(each, key=lambda p: -p.difference)]


def _of_gaussians(mean: Mat, variance: Mat, all_mean: Mat, all_variance: Mat) -> Mat:
    """Divergences of Gaussian columns."""
    ratio = variance / all_variance
    return np.asarray(0.5 * (ratio - 1.0 - np.log(ratio) + (mean - all_mean) ** 2 / all_variance))
