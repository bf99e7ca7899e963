"""A family of rows whose columns fall into independent blocks, each with a family of its own.

Log probabilities add up over blocks. Features and statistics of blocks are concatenated.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import DTypeLike

from everlearn.core.arrays import IntVec, Mat, Table, Vec
from everlearn.core.families.base import Family

Posteriors: TypeAlias = tuple[Any, ...]
"""The posterior of each block."""


@dataclass(frozen=True, slots=True)
class Block:
    """Columns of a row, and their family."""

    columns: IntVec
    family: Family[Any]


@dataclass(frozen=True, slots=True)
class Product:
    """Blocks that are independent given the component; each column is in one of them."""

    blocks: tuple[Block, ...]

    @property
    def n_features(self) -> int:
        return sum(len(block.columns) for block in self.blocks)

    @property
    def n_stats(self) -> int:
        return sum(block.family.n_stats for block in self.blocks)

    def parts(self, t: Mat) -> list[Mat]:
        """Features or statistics of each block."""
        ends = np.cumsum([block.family.n_stats for block in self.blocks])
        return np.split(t, ends[:-1], axis=1)

    def features(self, X: Table, dtype: DTypeLike = np.float64) -> Mat:
        out = np.empty((X.shape[0], self.n_stats), dtype)
        for block, part in zip(self.blocks, self.parts(out), strict=True):
            part[:] = block.family.features(X[:, block.columns], dtype)
        return out

    def log_base(self, X: Table) -> Vec:
        return np.asarray(sum(b.family.log_base(X[:, b.columns]) for b in self.blocks))

    def posterior(self, n: Vec, t: Mat) -> Posteriors:
        parts = zip(self.blocks, self.parts(t), strict=True)
        return tuple(block.family.posterior(n, part) for block, part in parts)

    def with_learned_prior(self, n: Vec, t: Mat) -> Product:
        """The family whose blocks have learned their priors."""
        parts = zip(self.blocks, self.parts(t), strict=True)
        return Product(
            tuple(replace(b, family=b.family.with_learned_prior(n, part)) for b, part in parts)
        )

    def natural(self, q: Posteriors) -> tuple[Mat, Vec]:
        each = [block.family.natural(own) for block, own in zip(self.blocks, q, strict=True)]
        return np.hstack([eta for eta, _ in each]), np.asarray(sum(c for _, c in each))

    def cumulant(self, q: Posteriors) -> Vec:
        each = zip(self.blocks, q, strict=True)
        return np.asarray(sum(block.family.cumulant(own) for block, own in each))

    def log_predictive(self, X: Table, q: Posteriors) -> Mat:
        each = zip(self.blocks, q, strict=True)
        return np.asarray(sum(b.family.log_predictive(X[:, b.columns], own) for b, own in each))

    def log_typical(self, X: Table, q: Posteriors) -> Mat:
        each = zip(self.blocks, q, strict=True)
        return np.asarray(sum(b.family.log_typical(X[:, b.columns], own) for b, own in each))

    def means(self, q: Posteriors) -> Mat:
        return self._by_column(lambda block, own: block.family.means(own), q)

    def covariances(self, q: Posteriors) -> Mat:
        """Variance of each column, (K, n_features)."""
        return self._by_column(lambda block, own: block.family.covariances(own), q)

    def draw(self, q: Posteriors, k: int, size: int, rng: np.random.Generator) -> Mat:
        return self._by_column(lambda block, own: block.family.draw(own, k, size, rng), q)

    def embedding(self, X: Table, q: Posteriors | None = None) -> Mat:
        """Points of all blocks side by side, in units of the spread within a component.

        Without a posterior, the spread is the one that the prior expects. Columns in different
        units cannot be compared without scaling.
        """
        if q is None:
            q = self.posterior(np.zeros(1), np.zeros((1, self.n_stats)))
        each = zip(self.blocks, q, strict=True)
        return np.hstack([b.family.embedding(X[:, b.columns], own) for b, own in each])

    def _by_column(self, part: Callable[[Block, Any], Mat], q: Posteriors) -> Mat:
        """Parts of all blocks, each at its own columns."""
        parts = [part(block, own) for block, own in zip(self.blocks, q, strict=True)]
        out = np.empty((len(parts[0]), self.n_features))
        for block, own_part in zip(self.blocks, parts, strict=True):
            out[:, block.columns] = own_part
        return out
