"""What the rounds of a batch of documents lower, and when it has ceased to fall.

Given topics Z of the tokens X of a batch and weights w of the tasks, this is

    -log p(Z) - log p(X | Z) - log p(w) + 2 c (sum of the losses)

up to a constant, the state before the batch being the prior. Rounds draw Z, and weights answer
what was drawn, so it need not fall in each of them. See docs/math/bayespa.md, section 1.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from everlearn.core.arrays import Mat, Vec
from everlearn.core.priors.learned_dirichlet import rising
from everlearn.inference.margin_step import Drawn, hinge_targets
from everlearn.inference.topic_model import Loss, Targets, TopicLearner
from everlearn.inference.topic_state import FixedSpread, Gaussians, TopicState

_WINDOW: Final = 10
"""Rounds that are averaged before they are compared: chance, and turns to and fro, even out."""


@dataclass(frozen=True, slots=True)
class Objective:
    """Of a batch with the words of which the prior state has `before` (words, K) in topics."""

    learner: TopicLearner
    loss: Loss
    prior: TopicState
    targets: Targets
    before: Mat

    def value(self, tallies: Mat, counts: Mat, tables: Vec, mean: Mat) -> float:
        """The objective where the batch stands; ghosts count as documents.

        Parameters
        ----------
        tallies : (B, K), tokens of documents in topics
        counts : (words, K), tokens of words in topics
        tables : (K,), of all data
        mean : (Q, K), of the weights
        """
        copies = self.learner.ghosts
        z = tallies / np.maximum(tallies.sum(axis=1, keepdims=True), 1.0)
        alpha = self.learner.prior.document_prior(tables)
        return (
            2.0 * self.loss.c * copies * total_loss(self.loss, self.targets, z, mean)
            + self._surprise(mean)
            - copies * _log_topics(alpha, tallies)
            - self._log_words(copies * counts)
        )

    def _log_words(self, counts: Mat) -> float:
        """Log p(X | Z): each topic is a Dirichlet that has counted what came before."""
        prior, smoothing = self.prior, self.learner.smoothing
        totals = prior.totals[: prior.n_topics] + smoothing * prior.n_words
        words = _sum_rising(self.before + smoothing, counts)
        return words - float(rising(totals, counts.sum(axis=0)).sum())

    def _surprise(self, mean: Mat) -> float:
        """-log p(w) at these means."""
        prior = self.prior.weights
        assert prior is not None
        moved = mean - prior.mean
        if isinstance(prior, Gaussians):
            return 0.5 * float(np.einsum("qk,qkl,ql->", moved, prior.precision, moved))
        return float((moved**2).sum() / (2.0 * self.loss.variance))


def _log_topics(alpha: Vec, tallies: Mat) -> float:
    """Log p(Z) of documents whose tokens in topics are (B, K)."""
    whole = rising(alpha.sum(), tallies.sum(axis=1)).sum()
    return _sum_rising(np.broadcast_to(alpha, tallies.shape), tallies) - float(whole)


def _sum_rising(start: Mat, counts: Mat) -> float:
    """The sum of log rising factorials; most counts are zero."""
    used = counts > 0.0
    return float(rising(start[used], counts[used]).sum())


def total_loss(loss: Loss, targets: Targets, z: Mat, mean: Mat) -> float:
    """The sum of the hinges of documents with topic frequencies z (B, K) under weights (Q, K)."""
    signs, offsets = hinge_targets(loss, targets)
    scores = np.tile(z @ mean.T, 2 if loss.regression else 1)
    return float((np.maximum(offsets - signs * scores, 0.0) * (signs != 0)).sum())


@dataclass(frozen=True, slots=True)
class Descent:
    """Watches the objective of a batch from round to round.

    tol : share of the objective by which its mean over a window must fall a round to go on
    values : the objective after each round
    """

    objective: Objective
    tol: float
    values: list[float] = field(default_factory=list)

    @property
    def has_ended(self) -> bool:
        """Whether the objective falls no longer."""
        if len(self.values) < 2 * _WINDOW:
            return False
        before, now = np.mean(np.reshape(self.values[-2 * _WINDOW :], (2, _WINDOW)), axis=1)
        return bool(before - now < self.tol * _WINDOW * abs(before))

    def follow(
        self, drawn: Drawn, counts: Mat, tables: Vec, weights: FixedSpread | Gaussians
    ) -> None:
        """Look at what a round has drawn, and at the weights that this asks for.

        Counts (words, K) are summed over the sweeps that were kept, tables (K,) are of all data.
        """
        n_kept = self.objective.learner.n_kept
        totals = drawn.totals if len(drawn.totals) else drawn.tallies.sum(axis=0)
        value = self.objective.value(totals / n_kept, counts / n_kept, tables, weights.mean)
        self.values.append(value)


def descent_of(
    learner: TopicLearner, prior: TopicState, targets: Targets, before: Mat
) -> Descent | None:
    """What watches a batch, if the learner has a tolerance; `before` is that of `Objective`."""
    if learner.tol is None or learner.loss is None:
        return None
    return Descent(Objective(learner, learner.loss, prior, targets, before), learner.tol)
