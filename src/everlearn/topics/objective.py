"""The objective that rounds of a batch lower, and `ConvergenceMonitor`, which says when to stop.

Given topics Z of the tokens X of a batch and weights w of the tasks, this is

    -log p(Z) - log p(X | Z) - log p(w) + 2 c (sum of the losses)

up to a constant. The state before the batch is the prior, and sticks have their expectation. Rounds
draw Z at random and weights follow, so it need not fall in each round. See docs/math/bayespa.md,
section 1.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from everlearn.core.arrays import Mat, Vec
from everlearn.core.priors.learned_dirichlet import rising
from everlearn.topics.batches import Targets
from everlearn.topics.settings import Loss, TopicSettings
from everlearn.topics.state import FixedSpread, Gaussians, TopicState
from everlearn.topics.weights import Drawn, hinge_targets

_WINDOW: Final = 10
"""Rounds in a mean, so that chance and oscillations even out."""


@dataclass(frozen=True, slots=True)
class Objective:
    """The objective of a batch.

    prior : state before the batch
    before : (words, K), its counts of the words of the batch
    origin : (Q, K), means of its weights
    """

    settings: TopicSettings
    loss: Loss
    prior: TopicState
    targets: Targets
    before: Mat
    origin: Mat

    @classmethod
    def of(
        cls, settings: TopicSettings, prior: TopicState, targets: Targets, before: Mat
    ) -> Objective:
        """The objective under settings with a loss."""
        assert settings.loss is not None
        assert prior.weights is not None
        return cls(settings, settings.loss, prior, targets, before, prior.weights.mean)

    def value(self, tallies: Mat, counts: Mat, tables: Vec, mean: Mat) -> float:
        """The objective for these topics and weights. Ghosts count as documents.

        Parameters
        ----------
        tallies : (B, K), tokens of documents in topics
        counts : (words, K), tokens of words in topics
        tables : (K,), of all data
        mean : (Q, K), of the weights
        """
        copies = self.settings.ghosts
        z = tallies / np.maximum(tallies.sum(axis=1, keepdims=True), 1.0)
        alpha = self.settings.prior.document_prior(tables)
        return (
            2.0 * self.loss.c * copies * total_loss(self.loss, self.targets, z, mean)
            + self._weight_cost(mean - self.origin)
            - copies * _log_topics(alpha, tallies)
            - self._log_words(copies * counts)
        )

    def _log_words(self, counts: Mat) -> float:
        """Log p(X | Z). The Dirichlet of each topic includes the counts of earlier batches."""
        prior, smoothing, used = self.prior, self.settings.smoothing, counts > 0.0
        totals = prior.totals[: prior.n_topics] + smoothing * prior.n_words
        words = rising(self.before[used] + smoothing, counts[used]).sum()
        return float(words - rising(totals, counts.sum(axis=0)).sum())

    def _weight_cost(self, moved: Mat) -> float:
        """-log p(w) of weights that have moved this far from their prior means."""
        prior = self.prior.weights
        if isinstance(prior, Gaussians):
            return 0.5 * float(np.einsum("qk,qkl,ql->", moved, prior.precision, moved))
        return float((moved**2).sum() / (2.0 * self.loss.variance))


def _log_topics(alpha: Vec, tallies: Mat) -> float:
    """Log p(Z) of documents whose tokens in topics are (B, K)."""
    used = tallies > 0.0
    each = rising(np.broadcast_to(alpha, tallies.shape)[used], tallies[used]).sum()
    return float(each - rising(alpha.sum(), tallies.sum(axis=1)).sum())


def total_loss(loss: Loss, targets: Targets, z: Mat, mean: Mat) -> float:
    """The sum of the hinges of documents with topic frequencies z (B, K) under weights (Q, K)."""
    signs, offsets = hinge_targets(loss, targets)
    scores = np.tile(z @ mean.T, 2 if loss.regression else 1)
    return float((np.maximum(offsets - signs * scores, 0.0) * (signs != 0)).sum())


@dataclass(slots=True)
class ConvergenceMonitor:
    """Follows the objective of a batch and says when it stops falling.

    tol : share of the objective by which its mean over a window must fall a round to go on
    values : the objective after each round
    """

    objective: Objective
    tol: float
    values: list[float] = field(default_factory=list)

    @property
    def has_converged(self) -> bool:
        """Whether the objective has stopped falling, or rises."""
        if len(self.values) < 2 * _WINDOW:
            return False
        before, now = np.mean(np.reshape(self.values[-2 * _WINDOW :], (2, _WINDOW)), axis=1)
        return bool(before - now <= self.tol * _WINDOW * abs(before))

    def record(
        self, drawn: Drawn, counts: Mat, tables: Vec, weights: FixedSpread | Gaussians | None
    ) -> None:
        """Add the objective after a round, with its draws and the weights for them.

        Counts (words, K) are summed over the sweeps that were kept, tables (K,) are of all data.
        """
        assert weights is not None
        n_kept = self.objective.settings.n_kept
        totals = drawn.totals if len(drawn.totals) else drawn.tallies.sum(axis=0)
        value = self.objective.value(totals / n_kept, counts / n_kept, tables, weights.mean)
        self.values.append(value)


def monitor_of(
    settings: TopicSettings, prior: TopicState, targets: Targets, before: Mat
) -> ConvergenceMonitor | None:
    """A monitor for a batch if there is a tolerance; `before` as in `Objective`."""
    if settings.tol is None or settings.loss is None:
        return None
    return ConvergenceMonitor(Objective.of(settings, prior, targets, before), settings.tol)
