"""Priors of a document's topic proportions: a fixed number of topics, or as many as there are.

The hierarchical Dirichlet process shares sticks among all documents (BayesPA, section 4): with T_k
tables of topic k, pi_k is a product of Beta(1 + T_k, eta + tables of all later topics). Tables are
kept instead of the Beta parameters, so topics can be ordered, dropped and added at will.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from everlearn.core.arrays import IntVec, Mat, Vec
from everlearn.core.random import stream
from everlearn.topics.kernels.sampler import WordFactors
from everlearn.topics.state import FixedSpread, Gaussians, TopicState, WordWeights, code_means

_LEAST = 1e-12


@dataclass(frozen=True, slots=True)
class FixedTopics:
    """theta ~ Dir(alpha, ..., alpha)."""

    alpha: float

    def document_prior(self, tables: Vec) -> Vec:
        """The Dirichlet parameter of each topic."""
        return np.full(len(tables), self.alpha)


@dataclass(frozen=True, slots=True)
class SharedSticks:
    """theta ~ Dir(concentration * pi), pi from sticks Beta(1, eta)."""

    concentration: float
    eta: float

    def document_prior(self, tables: Vec) -> Vec:
        """The expected Dirichlet parameter of each topic; those without tables share the rest."""
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


@dataclass(frozen=True, slots=True)
class Loss:
    """What missing a margin costs.

    kind : "averaging" judges the mean weights, "gibbs" weights drawn from their posterior
    margin : of the hinge, 1 for classes; of a regression, half the width of the tube
    c : half the weight of the loss
    variance : prior variance of a weight
    anchored : whether the prior means of a topic's weights are the code of one class
    regression : whether scores are to come near numbers instead of beyond a margin
    mean_only : whether augmentation variables take their means instead of being drawn
    draws_weights : whether a round of "gibbs" sees weights that are drawn, not their posterior
    """

    kind: Literal["averaging", "gibbs"]
    margin: float
    c: float
    variance: float
    anchored: bool = True
    regression: bool = False
    mean_only: bool = False
    draws_weights: bool = False


@dataclass(frozen=True, slots=True)
class TopicLearner:
    """A topic model and how it learns from a batch.

    prior : of the topic proportions of a document
    smoothing : Dirichlet parameter of a topic over words
    word_factor : "ratio" of expected counts, "digamma" of the mean field, or "collapsed"
    start : where topics of tokens come from before the first sweep (never "predictive" at first)
    n_rounds, n_sweeps, burn_in : inner rounds, sweeps in each, and how many of these are dropped
    tol : share of the objective by which it must fall a round for rounds to go on; None: always
    ghosts : copies that each document stands for
    passes : over the words of a document whose topics are inferred without its labels
    sampled : whether these topics are drawn instead, in as many sweeps after as many dropped ones
    drawn_weights : whether scores of new documents are those of weights drawn once
    retention : share of the evidence of earlier batches that is left at each batch
    word_box : largest multiplier of the linear term on words; 0 for no such term
    max_topics : no more are born
    young_documents, young_sweeps : how many documents a model begins with, and the sweeps that
        batches of these get at least
    """

    prior: FixedTopics | SharedSticks
    smoothing: float
    loss: Loss | None = None
    word_factor: Literal["ratio", "digamma", "collapsed"] = "ratio"
    start: Literal["predictive", "uniform"] = "predictive"
    n_rounds: int = 1
    n_sweeps: int = 3
    burn_in: int = 0
    tol: float | None = None
    ghosts: int = 1
    passes: int = 2
    sampled: bool = False
    drawn_weights: bool = False
    retention: float = 1.0
    word_box: float = 0.0
    max_topics: int = 1000
    young_documents: int = 0
    young_sweeps: int = 0

    def after(self, n_documents: int) -> TopicLearner:
        """How batches are learned when so many documents are known.

        Topics that say nothing yet cannot tell what a new document is about: while a model is young
        they are found by many sweeps, with counts that follow every draw.
        """
        if n_documents >= self.young_documents:
            return self
        n_sweeps = max(self.n_sweeps, self.young_sweeps)
        return replace(
            self, word_factor="collapsed", n_sweeps=n_sweeps, burn_in=n_sweeps - self.n_kept
        )

    def first_batch(self, n_documents: int, n_told: int, size: int) -> int:
        """How many documents of a corpus are learned first, if all other batches have this size.

        Where topics are born and have no labels, some are left to judge which are needed. Where
        there are labels, those `n_told` that have any come first: topics must know what labels mean
        before other documents take them.
        """
        first = max(size, self.young_documents)
        if self.young_documents and self.grows and self.loss is None:
            first = max(1, min(first, n_documents * 3 // 4))
        return min(first, n_told or n_documents)

    @property
    def collapsed(self) -> bool:
        """Whether word counts follow every draw; without labels no topic is born otherwise."""
        return self.word_factor == "collapsed" or (self.grows and self.loss is None)

    @property
    def grows(self) -> bool:
        """Whether topics are born."""
        return isinstance(self.prior, SharedSticks)

    @property
    def anchored(self) -> bool:
        """Whether each topic has a class."""
        return self.loss is not None and self.loss.anchored

    @property
    def n_kept(self) -> int:
        """Sweeps of a round that count."""
        return self.n_sweeps - self.burn_in

    def weight_draws(self, state: TopicState, number: int) -> np.random.Generator | None:
        """What the weights of a round are drawn by, if they are."""
        if self.loss is None or not self.loss.draws_weights:
            return None
        return stream(state.seed, "sample", state.clock, number)

    @property
    def box(self) -> float:
        """Largest multiplier of the averaging loss."""
        return 0.0 if self.loss is None else 2.0 * self.loss.c * self.ghosts

    @property
    def first_pull(self) -> float:
        """Multiplier of every label while tokens are placed at first, under the Gibbs loss.

        Tokens that nobody has placed meet no margin, and a margin that is missed pulls with 2c. As
        for the averaging loss, there must be anchors: without them labels may mean nothing yet.
        """
        if self.loss is None or self.loss.kind != "gibbs" or not self.loss.anchored:
            return 0.0
        return 2.0 * self.loss.c

    def closed_form(self, number: int) -> tuple[float, float, float]:
        """Margin, variance and box of multipliers that a round makes itself, or a box of 0.

        With anchors the first round does: labels are seen at once. Without, it has none yet.
        """
        if self.loss is None or number > 0 or not self.loss.anchored:
            return 0.0, 1.0, 0.0
        return self.loss.margin, self.loss.variance, self.box


@dataclass(frozen=True, slots=True)
class Targets:
    """What the tasks of a batch ask for.

    signs : (B, Q) of 1, -1 and 0 for nothing known; 1 or 0 in a regression
    values : (B, Q), of a regression; else the margin
    """

    signs: NDArray[np.int8]
    values: Mat

    def __getitem__(self, where: slice) -> Targets:
        return Targets(self.signs[where], self.values[where])

    def take(self, rows: IntVec) -> Targets:
        """Those of the documents at these positions."""
        return Targets(self.signs.take(rows, axis=0), self.values.take(rows, axis=0))

    def of_task(self, task: int) -> Targets:
        """Those of one task."""
        one = slice(task, task + 1)
        return Targets(
            np.ascontiguousarray(self.signs[:, one]), np.ascontiguousarray(self.values[:, one])
        )

    @classmethod
    def none(cls, n: int) -> Targets:
        """For documents without any task."""
        return cls(np.zeros((n, 0), np.int8), np.zeros((n, 0)))


@dataclass(frozen=True, slots=True)
class RoundInfo:
    """What a batch did, for the reader.

    ids, shares : (n_topics,), permanent numbers of the topics, and how much of an average
        document of the batch was drawn into each
    n_rounds : that were made
    converged : False if their limit ended them before their objective had ceased to fall
    """

    clock: int
    n_documents: int
    n_tokens: int
    ids: IntVec
    shares: Vec
    n_rounds: int
    converged: bool

    @property
    def n_topics(self) -> int:
        """Topics in use."""
        return len(self.ids)


def first_state(
    learner: TopicLearner,
    n_words: int,
    n_topics: int,
    task_order: IntVec,
    seed: int,
    n_rest: int = 1,
) -> TopicState:
    """The state before any data; topics are anchored to tasks in the order given.

    The topics of a single task are anchored to yes, then `n_rest` of them to no, and so on.
    """
    codes = np.full(n_topics, -1)
    weights: FixedSpread | Gaussians | None = None
    if learner.loss is not None:
        if learner.loss.anchored:
            order = task_order if len(task_order) > 1 else np.repeat([0, 1], [1, n_rest])
            codes = order[np.arange(n_topics) % len(order)]
        means = code_means(codes, len(task_order), learner.loss.margin)
        weights = _prior_weights(learner.loss, means)
    words = WordWeights.empty(n_words, len(task_order)) if learner.word_box > 0 else None
    return TopicState.empty(n_words, codes, weights, words, seed)


def _prior_weights(loss: Loss, means: Mat) -> FixedSpread | Gaussians:
    if loss.kind == "averaging":
        return FixedSpread(means)
    q, k = means.shape
    precision = np.zeros((q, k, k))
    precision[:, np.arange(k), np.arange(k)] = 1.0 / loss.variance
    return Gaussians(precision, means / loss.variance)


def word_factors(learner: TopicLearner, state: TopicState) -> WordFactors:
    """Expected probability of each word in each topic, as counts and scales."""
    total = state.totals[: state.n_topics] + learner.smoothing * state.n_words
    return WordFactors(state.counts, learner.smoothing, 1.0 / total)
