"""The Dirichlet process by stick breaking, with nested truncation.

v_k ~ Beta(1, alpha), pi_k = v_k prod_{l<k} (1 - v_l). Sticks beyond the last component keep
their prior, so an empty component appended at the end changes no bound, and bounds compare
across numbers of components. Derivations: docs/math/dp_sticks.md.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln, psi

from everlearn.core.arrays import Mat, Vec
from everlearn.core.math import log_beta_normalizer


@dataclass(frozen=True, slots=True)
class SticksPosterior:
    """q(v_k) = Beta(won_k, lost_k): mass that stopped at stick k, and mass that went on."""

    won: Vec
    lost: Vec

    def expected_log(self) -> tuple[Vec, Vec]:
        """E[log v_k] and E[log (1 - v_k)]."""
        both = psi(self.won + self.lost)
        return psi(self.won) - both, psi(self.lost) - both

    def expected_log_weights(self) -> Vec:
        """E[log pi_k]."""
        log_v, log_rest = self.expected_log()
        before = np.concatenate([[0.0], np.cumsum(log_rest)[:-1]])
        return np.asarray(log_v + before)

    def mean_weights(self) -> tuple[Vec, float]:
        """E[pi_k] and the expected mass of all components not yet seen; together they are 1."""
        v = self.won / (self.won + self.lost)
        rest = np.cumprod(1.0 - v)
        left = np.concatenate([[1.0], rest])
        return v * left[:-1], float(left[-1])


@dataclass(frozen=True, slots=True)
class DPPrior:
    """Dirichlet-process prior with concentration `alpha`."""

    alpha: float

    def posterior(self, n: Vec) -> SticksPosterior:
        """Sticks given the mass of each component, in stick order."""
        behind = np.cumsum(n[::-1])[::-1] - n
        return SticksPosterior(1.0 + n, self.alpha + np.maximum(behind, 0.0))

    def bound(self, n: Vec) -> float:
        """Allocation part of the bound at the optimal sticks for masses `n`."""
        return float(self.bounds(n[None])[0])

    def bounds(self, n: Mat) -> Vec:
        """`bound` of each row of masses.

        The digamma terms cancel at the optimum and the sum telescopes:
        K log a + lgam(a) - lgam(a + N) + sum lgam(1 + n_k) - sum log(a + n_k + n_{k+1} + ...).
        Only the last sum depends on the order, and decreasing masses maximise it.
        """
        a = self.alpha
        tail = np.cumsum(n[:, ::-1], axis=1)
        return np.asarray(
            n.shape[1] * np.log(a)
            + gammaln(a)
            - gammaln(a + n.sum(axis=1))
            + gammaln(1.0 + n).sum(axis=1)
            - np.log(a + tail).sum(axis=1)
        )

    def bound_at(self, n: Vec, sticks: SticksPosterior) -> float:
        """Allocation part of the bound for masses `n` under any sticks, optimal or not."""
        log_v, log_rest = sticks.expected_log()
        behind = np.cumsum(n[::-1])[::-1] - n
        a = np.full_like(n, self.alpha)
        return float(
            np.sum(
                log_beta_normalizer(np.ones_like(n), a)
                - log_beta_normalizer(sticks.won, sticks.lost)
                + (n + 1.0 - sticks.won) * log_v
                + (behind + a - sticks.lost) * log_rest
            )
        )
