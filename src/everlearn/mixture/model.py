"""The model of a mixture: a family of components, a prior of their weights, and the bound.

All is computed from statistics. The bound has all its constants, so it can be compared between
numbers of components and between families.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from everlearn.core.arrays import IntVec, Mat, Vec
from everlearn.core.families.base import Family
from everlearn.core.priors.dp import DPPrior, SticksPosterior
from everlearn.core.stats import Stats


@dataclass(frozen=True, slots=True)
class MixturePosterior:
    """What a local step needs: the score of row x in component k is T(x) . eta_k + bias_k."""

    ids: IntVec
    eta: Mat
    bias: Vec

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, slots=True)
class Mixture:
    """A Dirichlet-process mixture with components of one family."""

    family: Family[Any]
    prior: DPPrior
    prior_cumulant: float = field(init=False, compare=False)
    """Cumulant of a component without rows."""

    def __post_init__(self) -> None:
        empty = self.family.posterior(np.zeros(1), np.zeros((1, self.family.n_stats)))
        object.__setattr__(self, "prior_cumulant", float(self.family.cumulant(empty)[0]))

    def posterior(self, stats: Stats) -> MixturePosterior:
        """The optimal posterior of all components given statistics (global step)."""
        eta, constant = self.family.natural(self.family.posterior(stats.n, stats.t))
        weights = self.prior.posterior(stats.n).expected_log_weights()
        return MixturePosterior(stats.ids, eta, constant + weights)

    def sticks(self, stats: Stats) -> SticksPosterior:
        """Posterior of the weights."""
        return self.prior.posterior(stats.n)

    def observation_terms(self, n: Vec, t: Mat) -> Vec:
        """Log marginal likelihood of each component's rows without their base measure, (K,).

        It is the cumulant of the prior minus the cumulant of the posterior.
        """
        return np.asarray(self.prior_cumulant - self.family.cumulant(self.family.posterior(n, t)))

    def bound(self, stats: Stats) -> float:
        """Evidence lower bound at the optimal posterior for `stats`."""
        return (
            self.prior.bound(stats.n)
            + float(self.observation_terms(stats.n, stats.t).sum())
            + float(stats.h.sum())
            + stats.base
        )

    def bound_at(self, stats: Stats, evidence: Stats) -> float:
        """Bound of `stats` at the posterior for `evidence`, which need not be optimal."""
        q = self.family.posterior(evidence.n, evidence.t)
        eta, constant = self.family.natural(q)
        change = stats - evidence
        slack = change.n @ constant + (change.t * eta).sum()
        terms = self.prior_cumulant - self.family.cumulant(q)
        allocation = self.prior.bound_at(stats.n, self.prior.posterior(evidence.n))
        return float(allocation + terms.sum() + slack + stats.h.sum() + stats.base)


def by_mass(stats: Stats) -> IntVec:
    """Ids by decreasing mass, then by id. This order of sticks maximises the bound."""
    return np.asarray(stats.ids[np.lexsort((stats.ids, -stats.n))])
