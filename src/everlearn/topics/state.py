"""State of a topic model: counts of words in topics, tables, and weights of the tasks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from everlearn.core.arrays import Cube, IntVec, Mat, Vec
from everlearn.engine.protocol import Engine
from everlearn.text.ranking import TopicWords
from everlearn.topics.kernels.gaussians import invert
from everlearn.topics.kernels.sampler import Bags, Topics, WordFactors
from everlearn.topics.kernels.words import add_topics, decay_counts, learn_words
from everlearn.topics.settings import Loss, TopicSettings


class Weights(Protocol):
    """Beliefs about the weights of Q tasks on K topics."""

    mean: Mat
    """Shape (Q, K)."""
    n_tasks: int

    def extended(self, means: Mat, variance: float) -> Self:
        """Add topics, whose weights have these prior means (Q, new topics)."""

    def select(self, topics: IntVec) -> Self:
        """Keep only these topics, in this order. The others must not have learned anything."""

    def merge(self, position: IntVec, mass: Vec, means: Mat, variance: float) -> Self:
        """Merge the topics that have the same position: from now on their weights are equal.

        `means` (Q, K) and `variance` are those of the prior, which counts once.
        """

    def decay(self, share: float, means: Mat, variance: float) -> Self:
        """Keep this share of the evidence of documents. The prior does not change."""

    def rescale(self, factor: float, shift: float) -> Self:
        """Make every mean factor x mean + shift; covariances stay."""


@dataclass(frozen=True, slots=True)
class FixedSpread:
    """Means of weights whose covariance is that of the prior: the averaging loss."""

    mean: Mat

    @property
    def n_tasks(self) -> int:
        return len(self.mean)

    def extended(self, means: Mat, variance: float) -> FixedSpread:
        return FixedSpread(np.hstack([self.mean, means]))

    def select(self, topics: IntVec) -> FixedSpread:
        return FixedSpread(np.ascontiguousarray(self.mean[:, topics]))

    def merge(self, position: IntVec, mass: Vec, means: Mat, variance: float) -> FixedSpread:
        part = np.zeros((len(position), position.max() + 1))
        part[np.arange(len(position)), position] = np.maximum(mass, 1e-300)
        return FixedSpread(self.mean @ (part / part.sum(axis=0)))

    def decay(self, share: float, means: Mat, variance: float) -> FixedSpread:
        return self  # there are no sums that could fade

    def rescale(self, factor: float, shift: float) -> FixedSpread:
        return FixedSpread(factor * self.mean + shift)


@dataclass(frozen=True, slots=True)
class Gaussians:
    """Gaussian weights of the Gibbs loss, in natural parameters, which are sums over documents.

    `precision` is (Q, K, K), `shift` = precision @ mean is (Q, K).
    """

    precision: Cube
    shift: Mat

    @property
    def mean(self) -> Mat:
        return self.moments()[0]

    @property
    def n_tasks(self) -> int:
        return len(self.shift)

    def moments(self, engine: Engine | None = None) -> tuple[Mat, Cube]:
        """Means (Q, K) and covariances (Q, K, K); threads of an engine invert some tasks each."""
        if engine is None:
            return _moments_of(self, slice(None))
        n, size = self.n_tasks, -(-self.n_tasks // engine.local.n_workers)
        tasks = [slice(first, first + size) for first in range(0, n, size)]
        means, covariances = zip(*engine.local.map(_moments_of, tasks, self), strict=True)
        return np.concatenate(means), np.concatenate(covariances)

    def extended(self, means: Mat, variance: float) -> Gaussians:
        q, old = self.shift.shape
        new = means.shape[1]
        precision = np.zeros((q, old + new, old + new))
        precision[:, :old, :old] = self.precision
        fresh = np.arange(old, old + new)
        precision[:, fresh, fresh] = 1.0 / variance
        return Gaussians(precision, np.hstack([self.shift, means / variance]))

    def select(self, topics: IntVec) -> Gaussians:
        block = self.precision[:, topics[:, None], topics]
        return Gaussians(np.ascontiguousarray(block), np.ascontiguousarray(self.shift[:, topics]))

    def merge(self, position: IntVec, mass: Vec, means: Mat, variance: float) -> Gaussians:
        member = np.zeros((len(position), position.max() + 1))
        member[np.arange(len(position)), position] = 1.0
        extra = member.sum(axis=0) - 1.0
        precision = member.T @ self.precision @ member
        precision -= np.diag(extra / variance)
        prior = (means @ member) / (extra + 1.0)
        return Gaussians(precision, self.shift @ member - prior * extra / variance)

    def decay(self, share: float, means: Mat, variance: float) -> Gaussians:
        lost = (1.0 - share) / variance
        unit = np.eye(self.shift.shape[1])
        return Gaussians(share * self.precision + lost * unit, share * self.shift + lost * means)

    def rescale(self, factor: float, shift: float) -> Gaussians:
        return Gaussians(self.precision, factor * self.shift + shift * self.precision.sum(axis=2))

    def draw(self, rng: np.random.Generator) -> Mat:
        """Weights (Q, K) drawn from the Gaussians."""
        noise = rng.standard_normal((*self.shift.shape, 1))
        factor = np.linalg.cholesky(self.precision)
        return np.asarray(self.mean + np.linalg.solve(factor.transpose(0, 2, 1), noise)[..., 0])


def _moments_of(weights: Gaussians, tasks: slice) -> tuple[Mat, Cube]:
    """Means and covariances of some tasks."""
    precision, shift = weights.precision[tasks], weights.shift[tasks]
    mean, covariance = np.empty_like(shift), np.empty_like(precision)
    if not invert(precision, shift, mean, covariance):
        raise np.linalg.LinAlgError("Matrix is not positive definite")
    return mean, covariance


@dataclass(frozen=True, slots=True)
class WordWeights:
    """Words' own weights: a linear term beside the topics. Learners change the arrays in place.

    weights : (n_words, Q)
    frequencies : (n_words,), documents with each word
    n_documents : documents with any word
    """

    weights: Mat
    frequencies: Vec
    n_documents: float

    @classmethod
    def empty(cls, n_words: int, n_tasks: int) -> WordWeights:
        """Nothing learned yet."""
        return cls(np.zeros((n_words, n_tasks)), np.zeros(n_words), 0.0)

    def with_room(self, n_words: int) -> WordWeights:
        """These weights with room for at least this many words. Room grows by doubling."""
        if n_words <= len(self.frequencies):
            return self
        weights, frequencies = (
            _grow_rows(self.weights, n_words),
            _grow_rows(self.frequencies, n_words),
        )
        return WordWeights(weights, frequencies, self.n_documents)


@dataclass(frozen=True, slots=True)
class TopicState:
    """What a topic model has learned, and all that learning the next batch depends on.

    Attributes
    ----------
    counts : (n_words, capacity), tokens of each word in each topic, without the prior's share.
        Columns from `n_topics` on are zero. Learners change this array and `totals` in place.
    totals : (capacity,), its column sums
    ids : (n_topics,), permanent ids of the topics
    codes : (n_topics,), the anchor of each topic: the class it expects, or -1
    tables : (n_topics,), tables of the shared sticks; zero for a fixed number of topics
    weights : of the tasks, None without labels
    words : words' own weights, None without any
    next_id : id of the next topic that is born
    clock : batches learned
    seed : of all draws
    """

    counts: Mat
    totals: Vec
    ids: IntVec
    codes: IntVec
    tables: Vec
    weights: FixedSpread | Gaussians | None
    words: WordWeights | None
    next_id: int
    clock: int
    seed: int

    @classmethod
    def empty(
        cls,
        n_words: int,
        codes: IntVec,
        weights: FixedSpread | Gaussians | None,
        words: WordWeights | None,
        seed: int,
    ) -> TopicState:
        """No data yet, one topic for each code."""
        k = len(codes)
        return cls(
            counts=np.zeros((n_words, k)),
            totals=np.zeros(k),
            ids=np.arange(k),
            codes=codes,
            tables=np.zeros(k),
            weights=weights,
            words=words,
            next_id=k,
            clock=0,
            seed=seed,
        )

    @property
    def n_topics(self) -> int:
        """Topics in use."""
        return len(self.ids)

    @property
    def n_words(self) -> int:
        """Words known."""
        return len(self.counts)

    def with_room(self, n_words: int, n_topics: int) -> TopicState:
        """The same with at least this many rows and columns of counts.

        Rows grow by doubling, columns by a quarter, because few are needed at a time. New rows may
        use spare memory behind the old ones.
        """
        rows, columns = self.counts.shape
        if n_words <= rows and n_topics <= columns:
            return self
        counts, totals = self.counts, self.totals
        if n_topics > columns:
            more = max(n_topics, columns + columns // 4) - columns
            counts, totals = np.pad(counts, ((0, 0), (0, more))), np.pad(totals, (0, more))
        if n_words > rows:
            counts = _grow_rows(counts, n_words)
        words = None if self.words is None else self.words.with_room(n_words)
        return replace(self, counts=counts, totals=totals, words=words)


def _grow_rows(table: NDArray[np.float64], n_rows: int) -> NDArray[np.float64]:
    """The table with rows of zeros appended. Doubles the capacity when it is full.

    The result is a view of these rows only, so copies and files hold nothing of the spare capacity.
    A table has some if it is the beginning of a longer one that this function made. Rows may be
    left there by a call that failed, hence the zeros.
    """
    room = table.base
    fits = (
        isinstance(room, np.ndarray)
        and room.dtype == table.dtype
        and room.shape[1:] == table.shape[1:]
        and room.strides == table.strides
        and room.ctypes.data == table.ctypes.data
        and len(room) >= n_rows
    )
    if not fits or room is None:
        room = np.zeros((max(n_rows, 2 * len(table)), *table.shape[1:]))
        room[: len(table)] = table
    room[len(table) : n_rows] = 0.0
    return np.asarray(room[:n_rows])


class CountBuffer:
    """The arrays of a state that learning changes in place, because copies would take too long.

    All such changes go through this class, and `SavedCounts` reverts them. They are the word counts
    of the topics, their totals, and the linear term on words.
    """

    def __init__(self, state: TopicState) -> None:
        self.counts, self.totals, self.words = state.counts, state.totals, state.words

    def decay(self, share: float) -> None:
        """Keep this share of all counts."""
        decay_counts(share, self.counts, self.totals)

    def add_draws(self, bags: Bags, kept: Topics, weight: float, totals: Vec) -> None:
        """Add `weight` for every token and kept sweep; `totals` (K,) are the tokens of topics."""
        add_topics(bags, kept, weight, self.counts)
        self.totals[: len(totals)] += weight * totals

    def add_counts(self, counts: Mat, weight: float) -> None:
        """Add `weight` times counts (n_words, K)."""
        k = counts.shape[1]
        self.counts[:, :k] += weight * counts
        self.totals[:k] += weight * counts.sum(axis=0)

    def learn_words(
        self, bags: Bags, offsets: Mat, signs: NDArray[np.int8], max_multiplier: float
    ) -> WordWeights:
        """The linear term after these documents; `offsets` (B, Q) are the scores of the topics."""
        assert self.words is not None
        words = self.words
        n_documents = learn_words(
            bags,
            offsets,
            signs,
            max_multiplier,
            words.n_documents,
            words.frequencies,
            words.weights,
        )
        return replace(words, n_documents=n_documents)


class SavedCounts:
    """Copies of the counts that a call changes in place, to undo the call.

    Rows are copied before their first change, or all at once if most of them will change.
    `n_entries` is the number of words that the call will see, each counted once a document.
    """

    def __init__(self, state: TopicState, n_entries: int = 0) -> None:
        self._tables = [state.counts]
        if state.words is not None:
            self._tables += [state.words.weights, state.words.frequencies]
        self._totals, self._old_totals = state.totals, state.totals.copy()
        self._is_saved = np.zeros(state.n_words, np.bool_)
        self._saved: list[tuple[Any, list[NDArray[np.float64]]]] = []
        if n_entries > state.n_words:
            self._is_saved[:] = True
            self._saved.append((slice(None), [table.copy() for table in self._tables]))

    def save(self, words: NDArray[np.int32]) -> None:
        """Copy the rows of these words, unless that is done already."""
        if self._is_saved.all():
            return
        wanted = np.zeros_like(self._is_saved)
        wanted[words[words < len(wanted)]] = True
        fresh = np.flatnonzero(wanted & ~self._is_saved)
        self._is_saved |= wanted
        self._saved.append((fresh, [table[fresh] for table in self._tables]))

    def restore(self) -> None:
        """Undo all changes since the rows were saved."""
        for where, rows in self._saved:
            for table, old in zip(self._tables, rows, strict=True):
                table[where] = old
        self._totals[:] = self._old_totals


def n_anchors(n_tasks: int) -> int:
    """Number of different anchors of topics: the number of classes. A single task has two."""
    return 2 if n_tasks == 1 else n_tasks


def anchor_means(codes: IntVec, n_tasks: int, margin: float) -> Mat:
    """Prior means (n_tasks, n_topics): the margin for a topic's own task, else minus the margin.

    For a single task code 0 stands for yes and code 1 for no; code -1 is no anchor at all.
    """
    own = codes[None, :] == np.arange(n_tasks)[:, None]
    return np.where(codes < 0, 0.0, np.where(own, margin, -margin))


def label_order(signs: np.ndarray) -> IntVec:
    """Tasks in the order in which their labels first appear; tasks without labels come last."""
    seen = signs > 0
    first = np.where(seen.any(axis=0), seen.argmax(axis=0), len(signs))
    return np.argsort(first, kind="stable")


def first_state(
    settings: TopicSettings,
    n_words: int,
    n_topics: int,
    task_order: IntVec,
    seed: int,
    n_rest: int = 1,
) -> TopicState:
    """The state before any data; topics are anchored to tasks in the given order, again and again.

    For a single task one topic is anchored to yes, then `n_rest` topics to no, and so on.
    """
    codes = np.full(n_topics, -1)
    weights: FixedSpread | Gaussians | None = None
    if settings.loss is not None:
        if settings.loss.anchored:
            order = task_order if len(task_order) > 1 else np.repeat([0, 1], [1, n_rest])
            codes = order[np.arange(n_topics) % len(order)]
        means = anchor_means(codes, len(task_order), settings.loss.margin)
        weights = _prior_weights(settings.loss, means)
    words = (
        WordWeights.empty(n_words, len(task_order)) if settings.max_word_multiplier > 0 else None
    )
    return TopicState.empty(n_words, codes, weights, words, seed)


def _prior_weights(loss: Loss, means: Mat) -> FixedSpread | Gaussians:
    if loss.kind == "averaging":
        return FixedSpread(means)
    q, k = means.shape
    precision = np.zeros((q, k, k))
    precision[:, np.arange(k), np.arange(k)] = 1.0 / loss.variance
    return Gaussians(precision, means / loss.variance)


def word_factors(settings: TopicSettings, state: TopicState) -> WordFactors:
    """Expected probability of each word in each topic, as counts and scales."""
    total = state.totals[: state.n_topics] + settings.smoothing * state.n_words
    return WordFactors(state.counts, settings.smoothing, 1.0 / total)


def numbered_by_size(state: TopicState) -> TopicState:
    """The state with topics by decreasing tokens, and ids from 0."""
    k = state.n_topics
    order = np.argsort(-state.totals[:k], kind="stable")
    return replace(
        state,
        counts=state.counts[:, order],
        totals=state.totals[order],
        ids=np.arange(k),
        codes=state.codes[order],
        tables=state.tables[order],
        weights=None if state.weights is None else state.weights.select(order),
        next_id=k,
    )


def topic_words(state: TopicState, prior: float, words: NDArray[Any] | None = None) -> TopicWords:
    """The words of all topics, or some of these words, to rank."""
    counts = state.counts[:, : state.n_topics]
    counts = counts if words is None else counts[words]
    return TopicWords(counts, state.totals[: state.n_topics], state.n_words, prior)
