"""Component analysis on a tree: every path is a probabilistic PCA, and paths share components.

A row t takes a path c of the tree and a coordinate on each of its levels:
t = centre + sum_l w[c_l] x_l + noise, x_l ~ N(0, 1), noise ~ N(0, 1 / tau) in each feature. Nodes
have one loading w ~ N(0, scale I) each. Derivations: docs/math/component_trees.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.special import gammaln, psi

from everlearn.core.arrays import Cube, IntVec, Mat, Vec
from everlearn.core.math import LOG_2PI
from everlearn.core.priors.nested import NestedPrior, TreeSticks
from everlearn.core.tree import Tree


@dataclass(frozen=True, slots=True)
class NodeStats:
    """Additive statistics of rows for the nodes of a tree.

    Attributes
    ----------
    ids : (K,) permanent ids of the nodes
    n : number of rows
    slots : (K,) expected number of rows in each slot
    codes : (K,) sums of E[x] on each node
    second : (K, K) sums of E[x x'], zero for nodes that share no path
    cross : (K, D) sums of E[x] t'
    first : (D,) sum of the rows
    squares : sum of squared norms of the rows
    unseen : sum of E[x ** 2] on levels that the tree does not hold
    entropy : entropy of the paths plus E log p(x) - E log q(x) of the coordinates
    """

    ids: IntVec
    n: float
    slots: Vec
    codes: Vec
    second: Mat
    cross: Mat
    first: Vec
    squares: float
    unseen: float
    entropy: float

    @classmethod
    def zeros(cls, ids: IntVec, n_features: int) -> NodeStats:
        """Statistics of no rows at all."""
        k = len(ids)
        return cls(
            np.asarray(ids, np.int64), 0.0, np.zeros(k), np.zeros(k), np.zeros((k, k)),
            np.zeros((k, n_features)), np.zeros(n_features), 0.0, 0.0, 0.0,
        )  # fmt: skip

    def __add__(self, other: Self) -> Self:
        return self._combine(other, np.add)

    def __sub__(self, other: Self) -> Self:
        return self._combine(other, np.subtract)

    def _combine(self, other: Self, op: Callable[[Mat, Mat], Mat]) -> Self:
        if not np.array_equal(self.ids, other.ids):
            raise ValueError(
                f"statistics of nodes {self.ids.tolist()} cannot be combined with those of "
                f"{other.ids.tolist()}: bring them to the same tree first"
            )

        def number(a: float, b: float) -> float:
            return float(op(np.asarray(a), np.asarray(b)))

        return replace(
            self,
            n=number(self.n, other.n),
            slots=op(self.slots, other.slots),
            codes=op(self.codes, other.codes),
            second=op(self.second, other.second),
            cross=op(self.cross, other.cross),
            first=op(self.first, other.first),
            squares=number(self.squares, other.squares),
            unseen=number(self.unseen, other.unseen),
            entropy=number(self.entropy, other.entropy),
        )

    def for_tree(self, tree: Tree) -> NodeStats:
        """The same statistics for the nodes of another tree. New nodes get zeros."""
        if np.array_equal(self.ids, tree.ids):
            return self
        order = np.argsort(self.ids)
        places = np.minimum(np.searchsorted(self.ids, tree.ids, sorter=order), len(order) - 1)
        found = order[places]
        known = self.ids[found] == tree.ids
        return replace(
            self,
            ids=tree.ids,
            slots=np.where(known, self.slots[found], 0.0),
            codes=np.where(known, self.codes[found], 0.0),
            second=np.where(known[:, None] & known, self.second[np.ix_(found, found)], 0.0),
            cross=np.where(known[:, None], self.cross[found], 0.0),
        )

    def rescale(self, tree: Tree, factors: Vec) -> NodeStats:
        """Multiply all coordinates on each node by its factor, (K,)."""
        own = np.diagonal(self.second)
        change = tree.through(self.slots) @ np.log(factors) - 0.5 * own @ (factors**2 - 1.0)
        return replace(
            self,
            codes=self.codes * factors,
            second=self.second * np.outer(factors, factors),
            cross=self.cross * factors[:, None],
            entropy=float(self.entropy + change),
        )


@dataclass(frozen=True, slots=True)
class NodePosterior:
    """Posterior of the nodes, the centre and the noise.

    Attributes
    ----------
    tree : the nodes
    sticks : Beta posteriors of the nodes' sticks
    mean : (K, D) expected loadings
    covariance : (K, K) covariance of the loadings of all nodes, the same in each feature
    centre : (D,) expected centre
    centre_variance : variance of the centre in each feature
    shape, rate : Gamma posterior of the noise precision
    """

    tree: Tree
    sticks: TreeSticks
    mean: Mat
    covariance: Mat
    centre: Vec
    centre_variance: float
    shape: float
    rate: float

    @property
    def precision(self) -> float:
        """E[tau]."""
        return self.shape / self.rate

    @property
    def log_precision(self) -> float:
        """E[log tau]."""
        return float(psi(self.shape) - np.log(self.rate))

    def select(self, tree: Tree) -> NodePosterior:
        """The posterior of the nodes of `tree`, which must be some of the present ones."""
        where = self.tree.at(tree.ids)
        return replace(
            self,
            tree=tree,
            sticks=TreeSticks(self.sticks.won[where], self.sticks.lost[where]),
            mean=self.mean[where],
            covariance=self.covariance[np.ix_(where, where)],
        )

    def append(self, tree: Tree, mean: Mat, covariance: Mat, sticks: TreeSticks) -> NodePosterior:
        """Add the new nodes at the end of `tree`, independent of the old ones."""
        k, new = len(self.tree), len(mean)
        both = np.zeros((k + new, k + new))
        both[:k, :k], both[k:, k:] = self.covariance, covariance
        return replace(
            self,
            tree=tree,
            sticks=TreeSticks(
                np.concatenate([self.sticks.won, sticks.won]),
                np.concatenate([self.sticks.lost, sticks.lost]),
            ),
            mean=np.vstack([self.mean, mean]),
            covariance=both,
        )

    def rescale(self, factors: Vec) -> NodePosterior:
        """Divide all loadings of each node by its factor, (K,)."""
        covariance = self.covariance / np.outer(factors, factors)
        return replace(self, mean=self.mean / factors[:, None], covariance=covariance)


@dataclass(frozen=True, slots=True)
class ComponentModel:
    """Priors of a tree of components, with its updates and its bound.

    Attributes
    ----------
    paths : prior of the paths
    n_features : D
    scale : prior variance of the loadings and of the centre in each feature
    shape, rate : Gamma prior of the noise precision
    """

    paths: NestedPrior
    n_features: int
    scale: float
    shape: float
    rate: float

    def start(self, tree: Tree, mean: Mat, centre: Vec, precision: float) -> NodePosterior:
        """A posterior to start from: these loadings, and sticks at their prior."""
        k = len(tree)
        return NodePosterior(
            tree,
            self.prior_sticks(k),
            mean,
            np.eye(k) * min(self.scale, 1.0 / precision),
            centre,
            min(self.scale, 1.0 / precision),
            self.shape + 1.0,
            (self.shape + 1.0) / precision,
        )

    def prior_sticks(self, k: int) -> TreeSticks:
        """Sticks of new nodes."""
        return TreeSticks(np.ones(k), np.full(k, self.paths.gamma))

    def products(self, q: NodePosterior) -> Mat:
        """E[w_i . w_j] of all nodes, (K, K)."""
        return np.asarray(q.mean @ q.mean.T + self.n_features * q.covariance)

    # ------------------------------------------------------------------ updates

    def update(self, stats: NodeStats, q: NodePosterior) -> NodePosterior:
        """Set sticks, loadings, centre and noise to their optimum, one after the other."""
        q = replace(q, sticks=self.paths.posterior(q.tree, stats.slots))
        q = self._update_loadings(stats, q)
        q = self._update_centre(stats, q)
        return self._update_noise(stats, q)

    def _update_loadings(self, stats: NodeStats, q: NodePosterior) -> NodePosterior:
        cross = q.precision * (stats.cross - np.outer(stats.codes, q.centre))
        second = q.precision * stats.second
        k = len(q.tree)
        factor = cho_factor(second + np.eye(k) / self.scale, lower=True, check_finite=False)
        covariance = cho_solve(factor, np.eye(k), check_finite=False)
        covariance = 0.5 * (covariance + covariance.T)
        return replace(q, mean=covariance @ cross, covariance=covariance)

    def _update_centre(self, stats: NodeStats, q: NodePosterior) -> NodePosterior:
        variance = 1.0 / (1.0 / self.scale + stats.n * q.precision)
        centre = variance * q.precision * (stats.first - stats.codes @ q.mean)
        return replace(q, centre=centre, centre_variance=variance)

    def _update_noise(self, stats: NodeStats, q: NodePosterior) -> NodePosterior:
        shape = self.shape + 0.5 * stats.n * self.n_features
        return replace(q, shape=shape, rate=self.rate + 0.5 * self.expected_error(stats, q))

    def expected_error(self, stats: NodeStats, q: NodePosterior) -> float:
        """Sum over rows of E ||t - centre - W x||^2."""
        d = self.n_features
        distance = stats.squares - 2.0 * stats.first @ q.centre + stats.n * q.centre @ q.centre
        cross = stats.cross - np.outer(stats.codes, q.centre)
        explained = np.sum(self.products(q) * stats.second) - 2.0 * np.sum(q.mean * cross)
        unseen = d * self.scale * stats.unseen
        # If the components explain the rows fully, rounding can leave a negative number.
        return max(float(distance + stats.n * d * q.centre_variance + explained + unseen), 0.0)

    def best_factors(self, stats: NodeStats, q: NodePosterior) -> Vec:
        """The factors with the highest bound for the coordinates on each node, (K,).

        Loadings are divided by the same factors, so the likelihood does not change and the best
        factors have a closed form. Plain updates approach them slowly if there is little noise.
        Nodes with fewer rows than features get 1: the bound would pull their loadings up to the
        scale of the prior, which is worse for new rows.
        """
        second = np.diagonal(stats.second)
        surplus = q.tree.through(stats.slots) - self.n_features
        size = np.einsum("kd,kd->k", q.mean, q.mean) + self.n_features * np.diagonal(q.covariance)
        root = np.sqrt(surplus**2 + 4.0 * second * size / self.scale)
        known = (surplus > 0.0) & (second > 0.0)
        squared = (surplus + root) / np.where(known, 2.0 * second, 1.0)
        return np.sqrt(np.where(known, squared, 1.0))

    # -------------------------------------------------------------------- bound

    def bound(self, stats: NodeStats, q: NodePosterior) -> float:
        """Lower bound of the log evidence, for any statistics and any posterior."""
        d = self.n_features
        likelihood = 0.5 * stats.n * d * (q.log_precision - LOG_2PI)
        likelihood -= 0.5 * q.precision * self.expected_error(stats, q)
        allocation = self.paths.bound_at(q.tree, stats.slots, q.sticks)
        return float(allocation + likelihood + stats.entropy - self.divergence(q))

    def divergence(self, q: NodePosterior) -> float:
        """KL of loadings, centre and noise from their priors, without that of the sticks."""
        d = self.n_features
        loadings = self.loading_divergence(q.mean, q.covariance)
        centre = 0.5 * d * (q.centre_variance / self.scale - 1.0)
        centre -= 0.5 * d * np.log(q.centre_variance / self.scale)
        centre += 0.5 * q.centre @ q.centre / self.scale
        noise = (q.shape - self.shape) * psi(q.shape) - gammaln(q.shape) + gammaln(self.shape)
        noise += self.shape * (np.log(q.rate) - np.log(self.rate))
        noise += q.shape * (self.rate - q.rate) / q.rate
        return float(loadings + centre + noise)

    def loading_divergence(self, mean: Mat, covariance: Mat) -> float:
        """KL of some loadings from their prior."""
        k, d = mean.shape
        volume = np.linalg.slogdet(covariance)[1] - k * np.log(self.scale)
        spread = 0.5 * d * (np.trace(covariance) / self.scale - volume - k)
        return float(spread + 0.5 * np.sum(mean**2) / self.scale)

    # -------------------------------------------------------------- predictions

    def path_covariances(self, q: NodePosterior) -> tuple[Cube, Vec]:
        """Loadings W of each slot's path, (K, L, D), and the variance around it, (K,).

        A row on that path has the posterior covariance W'W + variance I. Levels that the tree does
        not hold have zeros in W, and the prior of their loadings adds to the variance.
        """
        paths = q.tree.paths
        held = paths >= 0
        loadings = np.where(held[:, :, None], q.mean[paths], 0.0)
        doubt = np.where(held, np.diagonal(q.covariance)[paths], self.scale).sum(axis=1)
        noise = q.rate / max(q.shape - 1.0, 0.5 * q.shape)
        return loadings, doubt + q.centre_variance + noise
