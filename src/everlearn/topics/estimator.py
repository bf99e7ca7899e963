"""Watching for topics that collapse into one while documents come."""

from __future__ import annotations

import sys
import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, pairwise
from typing import Any, ClassVar, Final, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from everlearn.core.arrays import IntVec, Mat, Vec
from everlearn.core.documents import Documents, split_documents
from everlearn.core.random import stream
from everlearn.engine.opening import is_collection, local_engine, open_engine
from everlearn.engine.progress import DocumentProgress
from everlearn.engine.protocol import Engine
from everlearn.errors import NotConvergedWarning
from everlearn.estimator.base import LearnerMixin
from everlearn.estimator.collections import fetch_collections
from everlearn.estimator.params import Constraint, check_params
from everlearn.estimator.saving import SaveMixin
from everlearn.metrics.topics import completion_log_likelihood, npmi_coherence, perplexity
from everlearn.text.inputs import WordSpace, document_tags, documents_of, is_list_of_one, word_names
from everlearn.topics.batches import Batch
from everlearn.topics.bayespa import learn_batch, topic_proportions
from everlearn.topics.chunked import (
    ChunkedBatch,
    ChunkedDocuments,
    Corpus,
    learn_chunked_batch,
    learns_in_chunks,
    open_corpus,
)
from everlearn.topics.params import COUNT, PAIRS, SamplerOptions, schedule_of
from everlearn.topics.settings import Loss, RoundInfo, Targets, TopicLearner
from everlearn.topics.state import Gaussians, SavedCounts, TopicState

_FEW_DOCUMENTS, _FIRST_BATCHES = 16, 5
_COLLAPSED = 0.8


@dataclass(frozen=True, slots=True)
class Collapse:
    """Most of an average document's words are in one topic."""

    model: int
    share: float
    n_topics: int


@dataclass(frozen=True, slots=True)
class Watch:
    """Where the words of the last documents went, while these are too few to be judged.

    n_documents : how many they are
    sums : for each model, the sum of their shares in each topic, by the topic's permanent number
    """

    n_documents: int = 0
    sums: tuple[Mapping[int, float], ...] = ()

    def after(self, infos: Sequence[RoundInfo]) -> tuple[Watch, Collapse | None]:
        """What to go on with after a batch, of which each model tells, and what is to be said."""
        if infos[0].clock <= _FIRST_BATCHES:
            return Watch(), None
        n = self.n_documents + infos[0].n_documents
        if self.sums or n < _FEW_DOCUMENTS:
            before = self.sums or tuple({} for _ in infos)
            sums = tuple(_added(old, info) for old, info in zip(before, infos, strict=True))
            if n < _FEW_DOCUMENTS:
                return Watch(n, sums), None
            largest = [max(s.values(), default=0.0) / n for s in sums]
        else:
            largest = [float(info.shares.max(initial=0.0)) for info in infos]
        worst = max(range(len(largest)), key=lambda q: largest[q] if infos[q].n_topics > 2 else 0.0)
        if largest[worst] > _COLLAPSED and infos[worst].n_topics > 2:
            return Watch(), Collapse(worst, largest[worst], infos[worst].n_topics)
        return Watch(), None


def _added(sums: Mapping[int, float], info: RoundInfo) -> dict[int, float]:
    out = dict(sums)
    for topic, share in zip(info.ids.tolist(), info.shares.tolist(), strict=True):
        out[topic] = out.get(topic, 0.0) + info.n_documents * share
    return out


T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False)
class Learned(Generic[T]):
    """What an estimator knows.

    states : one, or one for each task if these have topics of their own
    words : what the columns stand for
    outputs : what the targets are
    loss : the one that learning began with, None without labels
    n_documents, n_tokens : learned from, each counted as often as it was visited
    n_rounds : of the last batch, in the state with most
    watch : what was seen of the last documents' topics; a file does not keep it
    """

    states: tuple[TopicState, ...]
    words: WordSpace
    outputs: T
    loss: Loss | None
    n_documents: int = 0
    n_tokens: int = 0
    n_rounds: int = 0
    watch: Watch = field(default_factory=Watch)


class TopicAttributes(Generic[T]):
    """Fitted attributes, computed from the counts when asked for."""

    _learned: Learned[T]
    topic_word_prior: float

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_learned")

    def _fitted(self) -> Learned[T]:
        check_is_fitted(self)
        return self._learned

    def _known(self) -> Learned[T] | None:
        known: Learned[T] | None = getattr(self, "_learned", None)
        return known

    @property
    def n_components_(self) -> int:
        """Topics in use."""
        return sum(state.n_topics for state in self._fitted().states)

    @property
    def n_topics_(self) -> int:
        """The same as `n_components_`, the name that all estimators have for it."""
        return self.n_components_

    @property
    def component_ids_(self) -> IntVec:
        """Permanent numbers of the topics, never used twice in the life of a model.

        If each task has its own topics, they are those of one task after the other.
        """
        return np.concatenate([state.ids for state in self._fitted().states])

    @property
    def components_(self) -> Mat:
        """Dirichlet parameters of the topics over words, (n_topics, n_words)."""
        parts = [state.counts[:, : state.n_topics].T for state in self._fitted().states]
        return np.asarray(np.concatenate(parts) + self.topic_word_prior)

    @property
    def topic_shares_(self) -> Vec:
        """Share of all tokens that each topic has."""
        totals = np.concatenate([s.totals[: s.n_topics] for s in self._fitted().states])
        return np.asarray(totals / max(totals.sum(), 1.0))

    @property
    def vocabulary_(self) -> NDArray[Any]:
        """The word of each column, or its number if words have no names."""
        return word_names(self, self._fitted().words)

    @property
    def n_samples_seen_(self) -> int:
        """Documents learned from, each counted as often as it was visited."""
        return self._fitted().n_documents

    @property
    def n_tokens_seen_(self) -> int:
        """Tokens learned from, each counted as often as it was visited."""
        return self._fitted().n_tokens

    @property
    def n_rounds_(self) -> int:
        """Rounds of the last batch; where tasks have topics of their own, the most of any."""
        return self._fitted().n_rounds

    def top_words(self, n: int = 10) -> list[list[Any]]:
        """The likeliest words of each topic.

        Parameters
        ----------
        n : int, default=10
            How many.

        Returns
        -------
        words : list of lists
            One list a topic, the likeliest word first; numbers of columns if words have no names.
        """
        vocabulary = self.vocabulary_
        return [vocabulary[row].tolist() for row in self._top(n)]

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Names of the columns of `transform`: "topic" and the permanent number.

        Parameters
        ----------
        input_features : None
            Ignored.

        Returns
        -------
        names : ndarray of str
            One name for each topic.
        """
        states = self._fitted().states
        if len(states) == 1:
            return np.array([f"topic{i}" for i in states[0].ids], dtype=object)
        names = [f"task{q}_topic{i}" for q, state in enumerate(states) for i in state.ids]
        return np.array(names, dtype=object)

    def _top(self, n: int) -> IntVec:
        check_params(f"{type(self).__name__}.top_words", {"n": n}, COUNT)
        states, prior = self._fitted().states, self.topic_word_prior
        topics = ((state, k) for state in states for k in range(state.n_topics))
        return np.array([_largest(state.counts[:, k] + prior, n) for state, k in topics])


def _largest(values: Vec, n: int) -> IntVec:
    """Places of the `n` largest values in descending order, equal ones in order of place."""
    if n < len(values):
        places = np.flatnonzero(values >= np.partition(values, -n)[-n])
    else:
        places = np.arange(len(values))
    return places[np.argsort(-values[places], kind="stable")[:n]]


def cut_batches(
    documents: Documents,
    targets: Targets,
    orders: Sequence[IntVec | None],
    sizes: tuple[int, int],
) -> Iterator[Batch]:
    """All documents once for each order, with their targets.

    `sizes` are those of the very first batch and of all others.
    """
    for rows in _parts(len(documents), orders, sizes):
        yield Batch.of(documents.take(rows), targets.take(rows))


def _parts(n: int, orders: Sequence[IntVec | None], sizes: tuple[int, int]) -> Iterator[IntVec]:
    """Positions of the documents of each batch."""
    first, size = sizes
    for number, order in enumerate(orders):
        rows = np.arange(n) if order is None else order
        inner = range(size if number else first, n, size)
        yield from (rows[start:stop] for start, stop in pairwise(chain([0], inner, [n])))


def chunked_batches(
    documents: ChunkedDocuments, targets: Targets, orders: Sequence[IntVec | None], size: int
) -> Iterator[ChunkedBatch]:
    """All documents once for each order, which is that of the batches only."""
    batches = documents.blocks(size)
    for order in orders:
        places = range(len(batches)) if order is None else np.argsort(order[: len(batches)])
        for i in places:
            yield ChunkedBatch(batches[i], targets.take(batches[i].positions))


def orders_of(told: NDArray[np.bool_], n_passes: int, seed: int | None) -> list[IntVec | None]:
    """One for each pass: documents that nothing is told about last; without a seed as they came."""
    if seed is None:
        return [None] * n_passes
    drawn = [stream(seed, "order", 0, i).permutation(len(told)) for i in range(n_passes)]
    return [order[np.argsort(~told[order], kind="stable")] for order in drawn]


def saving_rows(batches: Iterator[Batch], saved: Sequence[SavedCounts]) -> Iterator[Batch]:
    """The batches, the rows of whose words are kept before each is learned."""
    for batch in batches:
        for counts in saved:
            counts.save(batch.documents.words)
        yield batch


_FIXED: Final = {"anchors": "anchored", "variance": "variance"}
"""Parameters of the prior of weights, and what a loss calls them; others follow from the first."""
_SWEEPS: Final = 50
"""Of a sampler of topics, dropped and kept, unless the parameters say how many."""


class TopicEstimator(
    TopicAttributes[T], SaveMixin, LearnerMixin, TransformerMixin, BaseEstimator, Generic[T]
):
    """An estimator of documents with targets of type T; subclasses say what these are."""

    _constraints: ClassVar[Mapping[str, tuple[Constraint, ...]]]
    _no_options: ClassVar[tuple[str, ...]]
    """Fields of `SamplerOptions` that mean nothing to the model."""
    _learned: Learned[T]

    def transform(self, X: Any) -> Mat:
        """Topic proportions of documents, whose labels are not looked at.

        Parameters
        ----------
        X : documents
            As in `fit`; words that the model does not know are left out.

        Returns
        -------
        proportions : ndarray of shape (n_documents, n_topics)
            Rows sum to 1; if each task has its own topics, to the number of tasks.
        """
        documents = self._read(X)
        with open_engine(local_engine(self.engine)) as engine:
            return self._proportions(documents, engine)

    def coherence(self, X: Any, n: int = 10) -> Vec:
        """Normalised pointwise mutual information of the top words of each topic.

        Parameters
        ----------
        X : documents
            In which to look which words occur together.
        n : int, default=10
            Words of each topic that are looked at.

        Returns
        -------
        npmi : ndarray of shape (n_topics,)
            From -1 to 1; larger is better.
        """
        check_params(f"{type(self).__name__}.coherence", {"n": n}, PAIRS)
        return npmi_coherence(self._top(n), self._read(X)).topics

    def perplexity(self, X: Any) -> float:
        """How many equally likely words a held-out word is as hard to guess as.

        Topics are inferred from one half of the tokens of a document and must predict the other.
        If each class has its own topics, their log-likelihoods are averaged.

        Parameters
        ----------
        X : documents
            As in `fit`.

        Returns
        -------
        perplexity : float
            Smaller is better.
        """
        log_likelihood, n_tokens = self._completion(X)
        if not n_tokens.any():
            raise ValueError(
                f"'X' of {type(self).__name__} must have a document with two words or more that "
                "the model knows, of which one half can tell the other. Got none."
            )
        return perplexity(float(log_likelihood.sum()), int(n_tokens.sum()))

    # ---------------------------------------------------------- for the subclasses

    @abstractmethod
    def _learner(self, outputs: T, n_topics: int) -> TopicLearner:
        """How a batch is learned; `n_topics` is the number to start with."""

    def _current(self, learned: Learned[T]) -> TopicLearner:
        """The learner that goes on with what was learned, if its priors are still the same."""
        self._check_same_form(learned)
        state = learned.states[0]
        learner = self._learner(learned.outputs, state.n_topics)
        if learner.loss is not None and learned.loss is not None:
            for parameter, name in _FIXED.items():
                begun, now = getattr(learned.loss, name), getattr(learner.loss, name)
                if begun != now:
                    raise self._changed(parameter, begun, now)
        wanted = getattr(self, "n_topics", None)
        if not learner.grows and wanted not in (None, state.n_topics):
            raise self._changed("n_topics", state.n_topics, wanted)
        if learner.grows and state.totals.any() and not state.tables.any():
            raise self._changed("n_topics", state.n_topics, wanted)
        return learner

    def _changed(self, parameter: str, begun: Any, now: Any) -> ValueError:
        return ValueError(
            f"the {parameter!r} parameter of {type(self).__name__} was {begun!r} when learning "
            f"began and cannot change without a new fit. Got {now!r} instead."
        )

    def _with_schedule(self, learner: TopicLearner, passes: int) -> TopicLearner:
        """The learner with what the parameters say about batches; `passes` unless they do."""
        options = self._sampler()
        sampled = options.inference == "sampled"
        n_rounds, tol = schedule_of(options, learner.n_rounds)
        return replace(
            learner,
            word_factor=options.word_factor,
            start=options.init,
            n_rounds=n_rounds,
            tol=tol,
            n_sweeps=self._sweeps(),
            burn_in=int(options.burn_in),
            ghosts=int(options.ghosts),
            passes=int(options.inference_passes or (_SWEEPS if sampled else passes)),
            sampled=sampled,
            drawn_weights=options.decision == "drawn",
            retention=float(self.retention),
        )

    def _check_same_form(self, learned: Learned[T]) -> None:
        """Refuse to go on with another form of model than learning began with."""

    def _check_unchanged(self, begun: Mapping[str, Any]) -> None:
        """Refuse parameters that are not what they were when learning began."""
        for parameter, value in begun.items():
            if getattr(self, parameter) != value:
                raise self._changed(parameter, value, getattr(self, parameter))

    def _with_words(self, learned: Learned[T], words: WordSpace) -> Learned[T]:
        """The same with the words that have come since."""
        return replace(learned, words=words)

    def _documents(
        self, X: Any, words: WordSpace | None, grow: bool
    ) -> tuple[Documents, WordSpace]:
        return documents_of(self, X, words, grow=grow)

    def _read(self, X: Any) -> Documents:
        """Documents for a prediction."""
        return self._documents(X, self._fitted().words, grow=False)[0]

    def _read_one(self, x: Any) -> Documents:
        """A single document for a prediction."""
        words = self._fitted().words
        if words.kind != "counts":
            return self._read(x if is_list_of_one(x, words) else [x])
        if getattr(x, "ndim", 1) != 2:
            x = x.reshape(1, -1) if sparse.issparse(x) else np.asarray(x)[None]
        documents = self._read(x)
        if len(documents) != 1:
            raise ValueError(
                f"{type(self).__name__} explains one document at a time, got {len(documents)}"
            )
        return documents

    def _proportions(self, documents: Documents, engine: Engine) -> Mat:
        learned = self._fitted()
        learner = self._current(learned)
        parts = [topic_proportions(learner, s, documents, engine) for s in learned.states]
        return np.hstack(parts)

    def _completion(self, X: Any) -> tuple[Vec, IntVec]:
        """Log-likelihood and number of the held-out words of each document."""
        learned = self._fitted()
        learner = self._current(learned)
        seen, held_out = split_documents(self._read(X), 0)
        found = np.zeros(len(held_out))
        with open_engine(local_engine(self.engine)) as engine:
            for state in learned.states:
                theta = topic_proportions(learner, state, seen, engine)
                phi = state.counts[: state.n_words, : state.n_topics].T + learner.smoothing
                phi /= phi.sum(axis=1, keepdims=True)
                found += completion_log_likelihood(theta, phi, held_out) / len(learned.states)
        return found, held_out.lengths

    @contextmanager
    def _corpus(self, X: Any, y: Any = None) -> Iterator[Corpus]:
        """Documents to learn from anew, and the engine that does the work."""
        if is_collection(X) and learns_in_chunks(self):
            with open_corpus(self, X, y) as corpus:
                yield corpus
            return
        X, y = fetch_collections(self, X=X, y=y)
        documents, words = self._documents(X, None, grow=True)
        with open_engine(self.engine) as engine:
            yield Corpus(documents, words, engine, y)

    def _fit_passes(self, learned: Learned[T], corpus: Corpus, targets: Targets) -> Learned[T]:
        """What is known after `n_passes` over the documents."""
        documents, n = corpus.documents, len(corpus.documents)
        told = np.asarray(targets.signs.any(axis=1))
        shuffle = self._sampler().shuffle
        orders = orders_of(told, self.n_passes, learned.states[0].seed if shuffle else None)
        size = self._size(n, learned.outputs)
        batches: Iterator[Batch | ChunkedBatch]
        if isinstance(documents, ChunkedDocuments):
            batches = chunked_batches(documents, targets, orders, size)
        else:
            mixed = not shuffle or self.batch_size == "all"
            n_told = n if mixed else int(told.sum())
            first = self._current(learned).first_batch(n, n_told, size)
            batches = cut_batches(documents, targets, orders, (first, size))
        return self._visit(learned, batches, n * self.n_passes, corpus.engine)

    def _go_on(
        self,
        learned: Learned[T],
        documents: Documents,
        targets: Targets,
        undos: list[Callable[[], None]],
    ) -> Learned[T]:
        """What is known after the documents in the order in which they came.

        Counts are changed in place; `undos` gets what puts them right.
        """
        touched = len(documents.words) if self.retention == 1.0 else sys.maxsize
        saved = [SavedCounts(state, touched) for state in learned.states]
        undos.extend(counts.restore for counts in saved)
        with open_engine(self.engine) as engine:
            size = self._size(len(documents), learned.outputs)
            batches = cut_batches(documents, targets, [None], (size, size))
            return self._visit(learned, saving_rows(batches, saved), len(documents), engine)

    # ------------------------------------------------------------------ inner

    def _check_params(self) -> None:
        super()._check_params()
        options, plain = self._sampler(), SamplerOptions()
        owner = f"SamplerOptions of {type(self).__name__}"
        for name in self._no_options:
            if (value := getattr(options, name)) != getattr(plain, name):
                raise ValueError(
                    f"the {name!r} parameter of {owner} must be left out: it means nothing to "
                    f"this model. Got {value!r}."
                )
        if options.burn_in >= self._sweeps():
            raise ValueError(
                f"the 'burn_in' parameter of {owner} must be less than n_sweeps, which is "
                f"{self._sweeps()}. Got {options.burn_in} instead."
            )

    def _sampler(self) -> SamplerOptions:
        """What the `options` parameter stands for."""
        return SamplerOptions.of(self.options, type(self).__name__)

    def _sweeps(self) -> int:
        """Sweeps of a round."""
        return int(self.n_sweeps)

    def _visit(
        self,
        learned: Learned[T],
        batches: Iterator[Batch | ChunkedBatch],
        n_documents: int,
        engine: Engine,
    ) -> Learned[T]:
        learner = self._current(learned)
        states = tuple(s.with_room(learned.words.n_words, s.n_topics) for s in learned.states)
        n_known, n_tokens, watch = learned.n_documents, learned.n_tokens, learned.watch
        n_rounds, converged = learned.n_rounds, True
        with DocumentProgress(self.verbose, n_documents) as progress:
            for batch in batches:
                states, infos = _learn_batch(learner, states, n_known, batch, engine)
                n_known += infos[0].n_documents
                n_tokens += infos[0].n_tokens
                watch = self._look_at(watch, infos, learned.outputs)
                n_rounds = max(info.n_rounds for info in infos)
                converged = converged and all(info.converged for info in infos)
                n_done = n_known - learned.n_documents
                progress.show(n_done, sum(s.n_topics for s in states))
        for state in states:
            if isinstance(state.weights, Gaussians):
                state.weights.moments()  # what cannot be used must not be kept
        if not converged:
            warnings.warn(
                f"{type(self).__name__} had not settled after {learner.n_rounds} rounds of a "
                "batch: allow more with n_rounds, 20 at the least, or a larger tol.",
                NotConvergedWarning,
                stacklevel=4,
            )
        learned = replace(learned, states=states, watch=watch, n_rounds=n_rounds)
        return replace(learned, n_documents=n_known, n_tokens=n_tokens)

    def _size(self, n_documents: int, outputs: T) -> int:
        """Documents of a batch, of so many in all."""
        return n_documents if self.batch_size == "all" else int(self.batch_size)

    def _look_at(self, watch: Watch, infos: Sequence[RoundInfo], outputs: T) -> Watch:
        """What a batch tells the user, and what to remember for it; nothing in general."""
        return watch

    def __sklearn_tags__(self) -> Tags:
        return document_tags(super().__sklearn_tags__())


def _learn_batch(
    learner: TopicLearner,
    states: tuple[TopicState, ...],
    n_known: int,
    batch: Batch | ChunkedBatch,
    engine: Engine,
) -> tuple[tuple[TopicState, ...], list[RoundInfo]]:
    """All states after one more batch, before which `n_known` documents came; what it did to each.

    Chunks lie on several workers, so counts cannot follow every draw even in a young model.
    """
    learn: Any = learn_chunked_batch
    if isinstance(batch, Batch):
        learn, learner = partial(learn_batch, n_known=n_known), learner.after(n_known)
    if len(states) == 1:
        parts = [batch]
    else:
        parts = [replace(batch, targets=batch.targets.of_task(q)) for q in range(len(states))]
    learned = [
        learn(learner, state, part, engine) for state, part in zip(states, parts, strict=True)
    ]
    return tuple(state for state, _ in learned), [info for _, info in learned]
