"""Priors of a document's topic proportions: a fixed number of topics, or shared sticks.

The hierarchical Dirichlet process shares sticks among all documents (BayesPA, section 4): with T_k
tables of topic k, pi_k is a product of Beta(1 + T_k, eta + tables of all later topics). Models keep
the tables and not the Beta parameters, so topics can be ordered, dropped and added at will.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from everlearn.core.arrays import Vec

_LEAST = 1e-12


@dataclass(frozen=True, slots=True)
class FixedTopics:
    """theta ~ Dir(alpha, ..., alpha); alpha is 1 / number of topics if it is None."""

    alpha: float | None = None

    def document_prior(self, tables: Vec) -> Vec:
        """The Dirichlet parameter of each topic."""
        return np.full(len(tables), self.alpha or 1.0 / len(tables))


@dataclass(frozen=True, slots=True)
class SharedSticks:
    """theta ~ Dir(concentration * pi), pi from sticks Beta(1, eta)."""

    concentration: float
    eta: float

    def document_prior(self, tables: Vec) -> Vec:
        """The expected Dirichlet parameter of each topic. Topics without tables share the rest."""
        known, rest = stick_weights(tables, self.eta)
        fresh = tables <= 0.0
        known[fresh] = rest / max(1, int(fresh.sum()))
        return np.maximum(self.concentration * known, _LEAST)


def stick_weights(tables: Vec, eta: float) -> tuple[Vec, float]:
    """Expected weights of topics with these numbers of tables, and of all that have none.

    Topics are ordered by decreasing tables, because sticks favour the first.

    Examples
    --------
    >>> import numpy as np
    >>> weights, rest = stick_weights(np.array([1.0, 6.0, 0.0]), eta=1.0)
    >>> weights.round(4).tolist(), round(rest, 4)
    ([0.1481, 0.7778, 0.0], 0.0741)
    """
    order = np.argsort(-tables, kind="stable")
    order = order[tables[order] > 0.0]
    T = tables[order]
    later = np.cumsum(T[::-1])[::-1] - T
    stick = np.clip((1.0 + T) / (1.0 + T + eta + later), _LEAST, 1.0 - _LEAST)
    log_left = np.concatenate([[0.0], np.cumsum(np.log1p(-stick))])
    weights = np.zeros(len(tables))
    weights[order] = stick * np.exp(log_left[:-1])
    return weights, float(np.exp(log_left[-1]))
