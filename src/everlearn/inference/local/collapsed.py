"""Sweeps over a batch in which word counts follow every draw.

Batch samplers draw so, and models that must find topics without labels: each token sees the counts
of all others, those of its own batch included, so documents are visited one after the other.
"""

from __future__ import annotations

import numpy as np

from everlearn.core.arrays import Mat
from everlearn.core.priors import SharedSticks
from everlearn.inference.kernels.collapsed import Live, sweep_collapsed
from everlearn.inference.kernels.draws import stream_keys
from everlearn.inference.kernels.hinges import Hinges
from everlearn.inference.kernels.tables import count_tables
from everlearn.inference.kernels.topics import CONTINUE, PREDICTIVE, UNIFORM
from everlearn.inference.local.topic_batches import Batch, renumbered
from everlearn.inference.local.topic_steps import Draws
from everlearn.inference.margin_step import first_multipliers, hinges_of, no_hinges, tilts
from everlearn.inference.topic_model import TopicLearner, word_factors
from everlearn.inference.topic_state import FixedSpread, Gaussians, TopicState


class CollapsedSampler:
    """Rounds of sweeps over a batch, each from where the last one stopped."""

    def __init__(self, learner: TopicLearner, state: TopicState, batch: Batch) -> None:
        self._learner, self._state, self._batch = learner, state, batch
        self._factors = word_factors(learner, state)
        n, k = len(batch), state.n_topics
        distinct, bags = renumbered(batch.bags)
        counts = np.zeros((len(distinct), k))
        scale = self._factors.scale.copy()
        self._live = Live(bags.words.astype(np.int64), counts, 1.0 / scale, scale)
        self._streams = stream_keys(state.seed, state.clock, 0, n)
        self._topics = np.zeros(batch.n_tokens, np.uint16)
        self._tallies = np.zeros((n, k))
        self._inverses = np.zeros((n, 0))
        self._tables = np.zeros((0, k))

    def draw(self, number: int, weights: FixedSpread | Gaussians | None, multipliers: Mat) -> Draws:
        """The draws of round `number`, from 0, under these weights."""
        learner, batch = self._learner, self._batch
        tilt = np.ones_like(self._tallies)
        hinges = no_hinges(len(batch), self._state.n_topics)
        if isinstance(weights, Gaussians) and learner.loss is not None:
            rng = learner.weight_draws(self._state, number)
            hinges = hinges_of(learner.loss, weights, batch.targets, rng=rng)
            if number == 0:
                self._inverses = np.zeros(hinges.signs.shape)
        if number == 0:
            uniform = learner.start == "uniform" or self._state.clock == 0
            first = tilts(hinges.weights, hinges.signs, learner.first_pull, batch.lengths)
            self._sweep(first, hinges, UNIFORM if uniform else PREDICTIVE)
        if isinstance(weights, FixedSpread) and learner.loss is not None:
            if learner.closed_form(number)[2] > 0.0:
                z = self._tallies / batch.lengths[:, None]
                multipliers = first_multipliers(
                    learner.loss, weights.mean, z, batch.targets.signs, learner.box
                )
            tilt = tilts(weights.mean, batch.targets.signs, multipliers, batch.lengths)
        return self._sweeps(tilt, hinges)

    def _sweeps(self, tilt: Mat, hinges: Hinges) -> Draws:
        kept, tallies, inverses, tables = [], [], [], []
        for sweep in range(self._learner.n_sweeps):
            self._sweep(tilt, hinges, CONTINUE)
            if sweep >= self._learner.burn_in:
                kept.append(self._topics.copy())
                tallies.append(self._tallies.copy())
                inverses.append(self._inverses.copy())
                tables.append(self._tables)
        return Draws(
            kept[-1],
            np.stack(kept),
            np.sum(tallies, axis=0),
            np.stack(tallies),
            np.stack(inverses),
            np.sum(tables, axis=0),
        )

    def _sweep(self, tilt: Mat, hinges: Hinges, start: int) -> None:
        """Draw every token once, then the tables."""
        prior = self._learner.prior
        alpha = prior.document_prior(self._state.tables + self._tables.sum(axis=0))
        sweep_collapsed(
            self._batch.bags,
            self._factors,
            alpha,
            self._live,
            tilt,
            hinges,
            self._streams,
            start,
            self._topics,
            self._tallies,
            self._inverses,
        )
        if isinstance(prior, SharedSticks):
            self._tables = count_tables(self._tallies, alpha, self._streams)
