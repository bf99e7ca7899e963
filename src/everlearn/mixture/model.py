"""A Dirichlet-process mixture: one family of components and one prior over their weights.

Everything here is a function of statistics alone. The bound is complete, constants included,
so it compares across numbers of components and across families.
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
    """What a local step needs: score of row x under component k is T(x) . eta_k + bias_k."""

    ids: IntVec
    eta: Mat
    bias: Vec

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, slots=True)
class Mixture:
    """The model; `Q`, the family's own posterior, stays inside its methods."""

    family: Family[Any]
    prior: DPPrior
    prior_cumulant: float = field(init=False, compare=False)
    """Cumulant of a component without data."""

    def __post_init__(self) -> None:
        empty = self.family.posterior(np.zeros(1), np.zeros((1, self.family.n_stats)))
        object.__setattr__(self, "prior_cumulant", float(self.family.cumulant(empty)[0]))

    def posterior(self, stats: Stats) -> MixturePosterior:
        """Global step: from the statistics of all rows to the scores of the next."""
        eta, constant = self.family.natural(self.family.posterior(stats.n, stats.t))
        weights = self.prior.posterior(stats.n).expected_log_weights()
        return MixturePosterior(stats.ids, eta, constant + weights)

    def sticks(self, stats: Stats) -> SticksPosterior:
        """Posterior of the weights."""
        return self.prior.posterior(stats.n)

    def observation_terms(self, n: Vec, t: Mat) -> Vec:
        """Log marginal likelihood of each component's weighted rows, less their base measure.

        Shape (K,): cumulant of the prior minus cumulant of the posterior.
        """
        return np.asarray(self.prior_cumulant - self.family.cumulant(self.family.posterior(n, t)))

    def bound(self, stats: Stats) -> float:
        """Evidence lower bound at the optimal globals for `stats`: equations (A), (B) and (D)."""
        return (
            self.prior.bound(stats.n)
            + float(self.observation_terms(stats.n, stats.t).sum())
            + float(stats.h.sum())
            + stats.base
        )

    def bound_at(self, stats: Stats, evidence: Stats) -> float:
        """Bound of `stats` under the globals that `evidence` gave, which need not be optimal."""
        q = self.family.posterior(evidence.n, evidence.t)
        eta, constant = self.family.natural(q)
        change = stats - evidence
        slack = change.n @ constant + (change.t * eta).sum()
        terms = self.prior_cumulant - self.family.cumulant(q)
        allocation = self.prior.bound_at(stats.n, self.prior.posterior(evidence.n))
        return float(allocation + terms.sum() + slack + stats.h.sum() + stats.base)


def by_mass(stats: Stats) -> IntVec:
    """Ids by decreasing mass, the order of sticks that maximises the bound; ties by id."""
    return np.asarray(stats.ids[np.lexsort((stats.ids, -stats.n))])
