"""What a family of component distributions must offer.

Every family here is a conjugate exponential family, used through one identity:

    E_q[log p(x | component k)] = T(x) . eta_k + constant_k + log base measure of x

with T the family's features. Scores of a block of rows are one matrix product, and so are its
statistics, sum_n r_nk T(x_n). A family is written once, in `core/families`, and needs to know
nothing about mixtures, streams or threads.
"""

from typing import Final, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from everlearn.core.arrays import Mat, Table, Vec

Q = TypeVar("Q")


LEARNED_PRIOR_ROWS: Final = 10.0
"""Rows that the expected variance counts for when variances are learned from components.

So a feature that is constant within all components keeps some spread.
"""


class Family(Protocol[Q]):
    """A conjugate family; Q is its posterior over the parameters of K components."""

    @property
    def n_stats(self) -> int:
        """Number of features T(x)."""

    @property
    def n_features(self) -> int:
        """Width of a row."""

    def features(self, X: Table, dtype: DTypeLike = np.float64) -> Table:
        """T(x) of each row, shape (n_rows, n_stats)."""

    def log_base(self, X: Table) -> Vec:
        """Log base measure of each row."""

    def posterior(self, n: Vec, t: Mat) -> Q:
        """Posterior given masses n (K,) and feature sums t (K, n_stats); zeros give the prior."""

    def with_learned_prior(self, n: Vec, t: Mat) -> Self:
        """The family whose prior expects the spread that components with these statistics have.

        How many rows the prior counts for stays the same. A family whose prior has no spread
        returns itself.
        """

    def natural(self, q: Q) -> tuple[Mat, Vec]:
        """The pair (eta, constant) of the identity above, shapes (K, n_stats) and (K,)."""

    def cumulant(self, q: Q) -> Vec:
        """Log of the constant in front of each component's posterior density, shape (K,)."""

    def log_predictive(self, X: Table, q: Q) -> Mat:
        """Log posterior-predictive density of each row under each component."""

    def log_typical(self, X: Table, q: Q) -> Mat:
        """Log predictive density that rows of each component have on average, (n_rows, K).

        They have the same entries missing, or the same sum of counts. For counts, it is the log
        number of orders of the tokens, so that only the probability of each token remains.
        """

    def means(self, q: Q) -> Mat:
        """Expected mean of a row of each component, shape (K, n_features)."""

    def covariances(self, q: Q) -> NDArray[np.float64]:
        """Inverse of the expected precision of each component."""

    def draw(self, q: Q, k: int, size: int, rng: np.random.Generator) -> Mat:
        """Rows drawn from the posterior predictive of component k."""

    def embedding(self, X: Table, q: Q | None = None) -> Table:
        """Rows as points in which Euclidean distance means something, for seeding.

        With a posterior of one component, the space in which that component is round.
        """
