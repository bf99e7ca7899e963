"""Run `fit` or `partial_fit` of a topic model, and return a `TopicFit`: all that was learned."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, pairwise
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from everlearn.core.arrays import IntVec
from everlearn.core.documents import Documents
from everlearn.core.random import stream
from everlearn.engine.progress import DocumentProgress
from everlearn.engine.protocol import Engine
from everlearn.errors import NotConvergedWarning
from everlearn.text.inputs import WordSpace
from everlearn.topics.batches import Batch, BatchInfo, Targets
from everlearn.topics.bayespa import learn_batch
from everlearn.topics.chunked import ChunkedBatch, learn_chunked_batch
from everlearn.topics.collapse import RecentShares, warn_of_collapse
from everlearn.topics.corpus import ChunkedDocuments, Corpus
from everlearn.topics.settings import TopicSettings
from everlearn.topics.state import (
    Gaussians,
    SavedCounts,
    TopicState,
    first_state,
    numbered_by_size,
)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class WeightPrior:
    """The prior of the weights that learning began with; see `Loss`."""

    variance: float
    anchored: bool


@dataclass(frozen=True, slots=True, eq=False)
class TopicFit(Generic[T]):
    """Everything that a topic model has learned.

    Attributes
    ----------
    states : one, or one for each task if these have topics of their own
    words : what the columns stand for
    outputs : what is predicted: labels, the scale of numbers, or None
    weight_prior : None without labels
    n_documents, n_tokens : learned from, each counted as often as it was visited
    n_rounds : rounds of the last batch, in the state with most
    recent : shares of the topics in the latest documents; not saved
    """

    states: tuple[TopicState, ...]
    words: WordSpace
    outputs: T
    weight_prior: WeightPrior | None
    n_documents: int = 0
    n_tokens: int = 0
    n_rounds: int = 0
    recent: RecentShares = field(default_factory=RecentShares)

    @property
    def seed(self) -> int:
        """Seed of all draws."""
        return self.states[0].seed

    @property
    def n_features(self) -> int | None:
        """Columns of a table of counts; None for other documents."""
        return self.words.n_words if self.words.kind == "counts" else None


def start_fit(
    settings: TopicSettings,
    words: WordSpace,
    outputs: T,
    task_order: IntVec,
    seed: int,
    n_rest: int = 1,
) -> TopicFit[T]:
    """The fit of a new model; `task_order` and `n_rest` as in `first_state`."""
    n_models, n_topics = settings.n_models, settings.start_topics
    seeds = [seed, *(int(stream(seed, "start", q).integers(2**31)) for q in range(1, n_models))]
    states = tuple(
        first_state(settings, words.n_words, n_topics, task_order, own, n_rest) for own in seeds
    )
    loss = settings.loss
    prior = None if loss is None else WeightPrior(loss.variance, loss.anchored)
    return TopicFit(states, words, outputs, prior)


def check_unchanged(settings: TopicSettings, fit: TopicFit[Any]) -> None:
    """Refuse settings that do not fit what the model has learned.

    The kind and the prior of the weights, and a given number of topics, must stay as they were.
    """
    state = fit.states[0]

    def check(parameter: str, begun: Any, now: Any) -> None:
        if begun != now:
            raise ValueError(
                f"the {parameter!r} parameter of {settings.name} was {begun!r} when learning "
                f"began and cannot change without a new fit. Got {now!r} instead."
            )

    if settings.loss is not None and fit.weight_prior is not None:
        kind = "gibbs" if isinstance(state.weights, Gaussians) else "averaging"
        check("loss", kind, settings.loss.kind)
        check("word_weights", state.words is not None, settings.max_word_multiplier > 0)
        if len(fit.states) != settings.n_models:
            raise ValueError(
                f"the 'strategy' parameter of {settings.name} cannot change without a new fit."
            )
        check("anchors", fit.weight_prior.anchored, settings.loss.anchored)
        check("variance", fit.weight_prior.variance, settings.loss.variance)
    if settings.grows:
        # A model with a given number of topics has no tables to go on with.
        if state.totals.any() and not state.tables.any():
            check("n_topics", state.n_topics, settings.n_topics)
    elif settings.n_topics is not None:
        check("n_topics", state.n_topics, settings.n_topics)


def fit_corpus(
    settings: TopicSettings, fit: TopicFit[T], corpus: Corpus, targets: Targets
) -> TopicFit[T]:
    """Learn a data set in `n_passes` over the documents: `fit`.

    Topics that were found, rather than given in number, get ids from 0, the largest first.
    """
    documents, n = corpus.documents, len(corpus.documents)
    labelled = np.asarray(targets.signs.any(axis=1))
    orders = _orders(labelled, settings.n_passes, fit.seed if settings.shuffle else None)
    size = settings.batch_size or n
    batches: Iterator[Batch | ChunkedBatch]
    if isinstance(documents, ChunkedDocuments):
        batches = _chunked_batches(documents, targets, orders, size)
    else:
        mixed = not settings.shuffle or settings.batch_size is None
        n_labelled = n if mixed else int(labelled.sum())
        first = settings.first_batch(n, n_labelled, size)
        batches = cut_batches(documents, targets, orders, (first, size))
    known = _learn_batches(settings, fit, batches, n * settings.n_passes, corpus.engine)
    if not settings.grows:
        return known
    states = tuple(numbered_by_size(state) for state in known.states)
    return replace(known, states=states, recent=RecentShares())


def learn_documents(
    settings: TopicSettings,
    fit: TopicFit[T],
    documents: Documents,
    targets: Targets,
    engine: Engine,
    undos: list[Callable[[], None]],
) -> TopicFit[T]:
    """Learn documents of a stream, in the order in which they came: `partial_fit`.

    Changes counts in place; what is added to `undos` reverts that.
    """
    # Decay changes all counts, learning only those of the words in the documents.
    touched = len(documents.words) if settings.retention == 1.0 else sys.maxsize
    saved = [SavedCounts(state, touched) for state in fit.states]
    undos.extend(counts.restore for counts in saved)
    size = settings.batch_size or len(documents)
    batches = _saving_rows(cut_batches(documents, targets, [None], (size, size)), saved)
    return _learn_batches(settings, fit, batches, len(documents), engine)


def _learn_batches(
    settings: TopicSettings,
    fit: TopicFit[T],
    batches: Iterator[Batch | ChunkedBatch],
    n_documents: int,
    engine: Engine,
) -> TopicFit[T]:
    states = tuple(s.with_room(fit.words.n_words, s.n_topics) for s in fit.states)
    n_known, n_tokens, recent = fit.n_documents, fit.n_tokens, fit.recent
    n_rounds, converged = fit.n_rounds, True
    with DocumentProgress(settings.verbose, n_documents) as progress:
        for batch in batches:
            states, infos = _learn_one(settings, states, n_known, batch, engine)
            n_known += infos[0].n_documents
            n_tokens += infos[0].n_tokens
            if settings.classes:
                recent, collapse = recent.add_batch(infos)
                if collapse is not None:
                    warn_of_collapse(settings, collapse, stacklevel=4)
            n_rounds = max(info.n_rounds for info in infos)
            converged = converged and all(info.converged for info in infos)
            progress.show(n_known - fit.n_documents, sum(s.n_topics for s in states))
    for state in states:
        if isinstance(state.weights, Gaussians):
            state.weights.moments()  # raises if they cannot be used, so that none are kept
    if not converged:
        warnings.warn(
            f"{settings.name} had not converged after {settings.n_rounds} rounds of a batch: "
            "allow more with n_rounds, 20 at the least, or a larger tol.",
            NotConvergedWarning,
            stacklevel=4,
        )
    return replace(
        fit,
        states=states,
        n_documents=n_known,
        n_tokens=n_tokens,
        n_rounds=n_rounds,
        recent=recent,
    )


def _learn_one(
    settings: TopicSettings,
    states: tuple[TopicState, ...],
    n_known: int,
    batch: Batch | ChunkedBatch,
    engine: Engine,
) -> tuple[tuple[TopicState, ...], list[BatchInfo]]:
    """All states after one more batch that comes after `n_known` documents, and what it did."""
    learned = []
    for task, state in enumerate(states):
        part = batch
        if len(states) > 1:
            part = replace(batch, targets=batch.targets.of_task(task))
        if isinstance(part, Batch):
            own = settings.for_batch(n_known)
            learned.append(learn_batch(own, state, part, engine, n_known=n_known))
        else:
            # Chunks are on several workers, so counts cannot follow every draw in a young model.
            learned.append(learn_chunked_batch(settings, state, part, engine))
    return tuple(state for state, _ in learned), [info for _, info in learned]


def cut_batches(
    documents: Documents,
    targets: Targets,
    orders: Sequence[IntVec | None],
    sizes: tuple[int, int],
) -> Iterator[Batch]:
    """All documents once for each order, with their targets; None is the order of the documents.

    `sizes` are those of the very first batch and of all others.
    """
    first, size = sizes
    n = len(documents)
    for number, order in enumerate(orders):
        rows = np.arange(n) if order is None else order
        inner = range(size if number else first, n, size)
        for start, stop in pairwise(chain([0], inner, [n])):
            part = rows[start:stop]
            yield Batch.of(documents.take(part), targets.take(part))


def _chunked_batches(
    documents: ChunkedDocuments, targets: Targets, orders: Sequence[IntVec | None], size: int
) -> Iterator[ChunkedBatch]:
    """All documents once for each order, by which batches as a whole are sorted."""
    batches = documents.blocks(size)
    for order in orders:
        places = range(len(batches)) if order is None else np.argsort(order[: len(batches)])
        for i in places:
            yield ChunkedBatch(batches[i], targets.take(batches[i].positions))


def _orders(labelled: NDArray[np.bool_], n_passes: int, seed: int | None) -> list[IntVec | None]:
    """A random order for each pass, labelled documents first; None for each pass without a seed."""
    if seed is None:
        return [None] * n_passes
    drawn = [stream(seed, "order", 0, i).permutation(len(labelled)) for i in range(n_passes)]
    return [order[np.argsort(~labelled[order], kind="stable")] for order in drawn]


def _saving_rows(batches: Iterator[Batch], saved: Sequence[SavedCounts]) -> Iterator[Batch]:
    """The batches; before each one, the counts that it will change are copied."""
    for batch in batches:
        for counts in saved:
            counts.save(batch.documents.words)
        yield batch
