"""Local steps of topic models whose documents are elsewhere: sweeps where the documents are.

What comes back are counts of words in topics, which are whole numbers, so that their sums are
exact in any order, and, if there are labels, what the weights need to know of each document.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray
from scipy.special import psi

from everlearn.core.arrays import IntVec, Mat, Vec
from everlearn.core.documents import Documents
from everlearn.engine.chunks import split_chunks
from everlearn.engine.protocol import Engine, Handle
from everlearn.estimator.base import named_errors
from everlearn.estimator.collections import (
    as_rows,
    fetch_collections,
    held_chunks,
    n_rows_of,
    open_collection,
    parts_of,
    portable_clone,
)
from everlearn.kernels.draws import stream_keys
from everlearn.text.inputs import WordSpace, documents_of, text_options
from everlearn.text.tokens import listed
from everlearn.text.vocabulary import Vocabulary
from everlearn.topics.batches import as_bags
from everlearn.topics.bayespa import decay
from everlearn.topics.kernels.sampler import CONTINUE, PREDICTIVE, UNIFORM, WordFactors
from everlearn.topics.kernels.words import add_topics
from everlearn.topics.objective import descent_of
from everlearn.topics.params import SamplerOptions
from everlearn.topics.sampling import deepened
from everlearn.topics.settings import RoundInfo, Targets, TopicLearner
from everlearn.topics.state import CountBuffer, FixedSpread, Gaussians, TopicState
from everlearn.topics.steps import AveragingStep, Block, Draws, GibbsStep, Step
from everlearn.topics.weights import hinges_of, weights_after


@dataclass(frozen=True, slots=True, eq=False)
class DocumentChunk:
    """Documents that are held together: a handle of a list of one `Documents`, and where they are.

    start : position of the first among all documents of the collection
    """

    handle: Handle
    start: int
    n_documents: int
    n_tokens: int


@dataclass(frozen=True, slots=True, eq=False)
class ChunkedDocuments:
    """Documents in chunks."""

    chunks: tuple[DocumentChunk, ...]

    def __len__(self) -> int:
        return sum(chunk.n_documents for chunk in self.chunks)

    @property
    def n_tokens(self) -> int:
        """Number of tokens of all documents."""
        return sum(chunk.n_tokens for chunk in self.chunks)

    def blocks(self, size: int) -> list[ChunkedDocuments]:
        """Batches of about `size` documents, at least a chunk each."""
        return split_chunks(self, size)

    @property
    def positions(self) -> IntVec:
        """Positions of the documents in the collection."""
        parts = [c.start + np.arange(c.n_documents) for c in self.chunks]
        return np.concatenate(parts)


@dataclass(frozen=True, slots=True, eq=False)
class ChunkedBatch:
    """Documents in chunks, with what their tasks ask for."""

    documents: ChunkedDocuments
    targets: Targets


class _Along(NamedTuple):
    """What goes with a chunk: its place in the batch, and what its documents are asked for."""

    first: int
    signs: NDArray[np.int8]
    offsets: Mat
    multipliers: Mat


class _Round(NamedTuple):
    """What all chunks share in a round; `place` is seed, clock, round and documents of a batch."""

    step: Step
    place: tuple[int, int, int, int]
    n_kept: int
    labels: bool


class Told(NamedTuple):
    """What is told of a chunk: topics drawn, in shares of documents; the rest if there are labels.

    lengths : (n,) tokens of each document, at least 1
    totals, tallies, inverses : see `Draws`; totals are left out under the Gibbs loss
    """

    shares: Vec
    lengths: Vec
    totals: Mat
    tallies: NDArray[np.float64]
    inverses: NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Swept:
    """Of chunks in order: whole counts of words in topics over the sweeps kept, what is told."""

    counts: Mat
    told: tuple[Told, ...]

    def __add__(self, other: Swept) -> Swept:
        return Swept(self.counts + other.counts, self.told + other.told)


def _swept(
    shared: _Round, item: tuple[list[Documents], list[Draws] | None, _Along]
) -> tuple[Swept, Draws]:
    """What comes back of a chunk, and the draws, which stay."""
    (documents,), before, along = item
    bags, n = as_bags(documents), len(documents)
    keys = stream_keys(*shared.place)[along.first : along.first + n]
    if before is None:
        topics = np.zeros(int(bags.starts[-1]), np.uint16)
        hinges = along.signs.shape[1] if isinstance(shared.step, GibbsStep) else 0
        inverses = np.zeros((shared.n_kept, n, hinges))
    else:
        topics, inverses = before[0].topics, before[0].inverses
    block = Block(bags, keys, topics, along.signs, along.offsets, along.multipliers, inverses)
    draws = shared.step.draw(block)
    counts = np.zeros(shared.step.factors.counts.shape)
    add_topics(bags, draws.kept, 1.0, counts)
    return Swept(counts, (_told(documents, draws, shared.labels),)), draws


def _told(documents: Documents, draws: Draws, labels: bool) -> Told:
    lengths = np.maximum(documents.lengths, 1).astype(np.float64)
    shares = (1.0 / (len(draws.kept) * lengths)) @ draws.totals
    if labels:
        totals = draws.totals[:0] if draws.tallies.size else draws.totals  # tallies say it all
        return Told(shares, lengths, totals, draws.tallies, draws.inverses)
    return Told(shares, lengths[:0], draws.totals[:0], draws.tallies[:, :0], draws.inverses[:, :0])


class ChunkedSampler:
    """Rounds of sweeps over a batch, each from where the last one stopped."""

    def __init__(
        self,
        learner: TopicLearner,
        state: TopicState,
        batch: ChunkedDocuments,
        targets: Targets,
        engine: Engine,
    ) -> None:
        self._learner, self._state, self._engine = learner, state, engine
        self._batch, self._targets = batch, targets
        self._alpha = learner.prior.document_prior(state.tables)
        self._kept: Sequence[Handle | None] = [None] * len(batch.chunks)
        self.counts: Mat | None = None

    def draw(
        self, number: int, weights: FixedSpread | Gaussians | None, multipliers: Mat
    ) -> tuple[Told, ...]:
        """What is told of the draws of round `number`, from 0; `counts` are those of words."""
        learner, state = self._learner, self._state
        schedule = (learner.n_sweeps, learner.burn_in, self._start(number))
        signs, offsets, factors = self._targets.signs, self._targets.values, self._factors()
        step: Step
        if isinstance(weights, Gaussians) and learner.loss is not None:
            rng = learner.weight_draws(state, number)
            hinges = hinges_of(learner.loss, weights, self._targets, self._engine, rng)
            signs, offsets = hinges.signs, hinges.offsets
            lean = hinges._replace(signs=signs[:0], offsets=offsets[:0])
            step = GibbsStep(factors, self._alpha, lean, learner.first_pull, schedule)
        else:
            mean = np.empty((0, len(self._alpha))) if weights is None else weights.mean
            step = AveragingStep(factors, self._alpha, mean, learner.closed_form(number), schedule)
        items, first = [], 0
        for chunk, kept in zip(self._batch.chunks, self._kept, strict=True):
            own = slice(first, first + chunk.n_documents)
            along = _Along(first, signs[own], offsets[own], multipliers[own])
            items.append((chunk.handle, kept, along))
            first = own.stop
        place = (state.seed, state.clock, number, first)
        shared = _Round(step, place, learner.n_kept, labels=learner.loss is not None)
        swept, self._kept = self._engine.map_sum_and_keep(_swept, items, shared)
        self.counts = swept.counts
        return swept.told

    def _start(self, number: int) -> int:
        if number > 0:
            return CONTINUE
        uniform = self._learner.start == "uniform" or self._state.clock == 0
        return UNIFORM if uniform else PREDICTIVE

    def _factors(self) -> WordFactors:
        """Word factors; after the first round they contain what the batch has drawn."""
        learner, state = self._learner, self._state
        k = state.n_topics
        counts, totals = np.ascontiguousarray(state.counts[:, :k]), state.totals[:k].copy()
        if self.counts is not None:
            weight = learner.ghosts / learner.n_kept
            counts = counts + weight * self.counts
            totals += weight * self.counts.sum(axis=0)
        totals += learner.smoothing * state.n_words
        if learner.word_factor != "digamma":
            return WordFactors(counts, learner.smoothing, 1.0 / totals)
        table = psi(counts + learner.smoothing) - psi(totals)
        return WordFactors(deepened(table), 0.0, np.ones(k))


def learn_chunked_batch(
    learner: TopicLearner,
    state: TopicState,
    batch: ChunkedBatch,
    engine: Engine,
) -> tuple[TopicState, RoundInfo]:
    """The state after one more batch; changes the counts of the state given in place."""
    prior = decay(learner, state)
    targets = batch.targets
    sampler = ChunkedSampler(learner, prior, batch.documents, targets, engine)
    weights, multipliers, k = prior.weights, np.zeros(targets.signs.shape), prior.n_topics
    watch = descent_of(learner, prior, targets, prior.counts[:, :k])
    for number in range(learner.n_rounds):
        told = _together(sampler.draw(number, weights, multipliers))
        weights, multipliers = weights_after(
            learner, prior.weights, targets, told, told.lengths, multipliers
        )
        if watch is not None:
            assert sampler.counts is not None
            watch.follow(told, sampler.counts, prior.tables, weights)
            if watch.has_ended:
                break
    assert sampler.counts is not None
    CountBuffer(prior).add_counts(sampler.counts, learner.ghosts / learner.n_kept)
    n = len(batch.documents)
    after = replace(prior, weights=weights, clock=prior.clock + 1)
    n_tokens = batch.documents.n_tokens
    converged = watch is None or watch.has_ended
    return after, RoundInfo(
        after.clock, n, n_tokens, after.ids, told.shares / n, number + 1, converged
    )


def _together(told: tuple[Told, ...]) -> Told:
    """What is told of all chunks, their documents in order."""
    return Told(
        np.sum([part.shares for part in told], axis=0),
        np.concatenate([part.lengths for part in told]),
        np.concatenate([part.totals for part in told]),
        np.concatenate([part.tallies for part in told], axis=1),
        np.concatenate([part.inverses for part in told], axis=1),
    )


@dataclass(frozen=True, slots=True)
class DocumentInfo:
    """What is known here of a chunk: sizes, and the words as the chunk numbers them.

    space : None, if no document has an entry: then nothing is known of their kind
    widths : numbers of entries of the documents of a list
    head : the first row of a table
    """

    n_documents: int
    n_tokens: int
    space: WordSpace | None = None
    words: list[str] | None = None
    widths: frozenset[int] | None = None
    head: Any = None


@dataclass(frozen=True, slots=True)
class DocumentCheck:
    """Reads a chunk where it is, as a twin of the estimator would read a list or a table.

    ids : whether rows of numbers are known to be numbers of words
    """

    twin: Any
    ids: bool = False

    def __call__(self, chunk: Any) -> tuple[Documents | None, DocumentInfo | None]:
        """The documents, which stay, and what is told of them; a chunk may be empty."""
        chunk = as_rows(chunk)
        if n_rows_of(chunk) == 0:
            return None, None
        rows = listed(chunk)
        widths = None if rows is None else frozenset(map(np.size, rows))  # of a text: 1
        if rows is not None and not any(widths or ()):
            nothing = Documents.from_tokens([[] for _ in rows])
            return nothing, DocumentInfo(len(rows), 0, widths=widths)
        begun = WordSpace("ids", 0) if self.ids else None
        documents, space = documents_of(self.twin, chunk, begun, grow=True, allow_empty=True)
        words = None if space.vocabulary is None else space.vocabulary.words
        lean = replace(space, vocabulary=None)
        head = chunk[:1] if space.kind == "counts" else None
        told = DocumentInfo(len(documents), documents.n_tokens, lean, words, widths, head)
        return documents, told


@dataclass(frozen=True, slots=True)
class Corpus:
    """Documents for the time of one call, their words, the engine, and what goes with them."""

    documents: Documents | ChunkedDocuments
    words: WordSpace
    engine: Engine
    y: Any = None


def learns_in_chunks(estimator: Any) -> bool:
    """Whether chunks of documents may stay where they are: tokens must not see all others.

    With collapsed counts they do. Topics that are born are judged by documents that are here, and
    weights of words learn from one document after the other.
    """
    given = getattr(estimator, "n_topics", "infer") != "infer"
    options = SamplerOptions.of(estimator.options, type(estimator).__name__)
    alone = given and options.word_factor != "collapsed"
    return alone and not getattr(estimator, "word_weights", False)


@contextmanager
def open_corpus(estimator: Any, X: Any, y: Any) -> Iterator[Corpus]:
    """The documents of a collection, checked and numbered on their workers; `y` comes here."""
    parts = parts_of(type(estimator).__name__, "X", X)
    check = DocumentCheck(portable_clone(estimator))
    with open_collection(estimator) as engine:
        known = held_chunks(estimator, engine, parts, check, "document")
        if _are_ids([info for _, info in known]):
            check = replace(check, ids=True)
            known = held_chunks(estimator, engine, parts, check, "document")
        words, numbers = _joined(estimator, [info for _, info in known])
        items = [(handle, number) for (handle, _), number in zip(known, numbers, strict=True)]
        _, kept = engine.map_sum_and_keep(_renumbered, items, None)
        starts = [0, *accumulate(info.n_documents for _, info in known)]
        chunks = tuple(
            DocumentChunk(handle, start, info.n_documents, info.n_tokens)
            for handle, start, (_, info) in zip(kept, starts, known, strict=False)
        )
        (y,) = fetch_collections(estimator, engine, y=y)
        yield Corpus(ChunkedDocuments(chunks), words, engine, y)


def _are_ids(infos: list[DocumentInfo]) -> bool:
    """Whether rows that a chunk alone takes for counts are numbers of words, seen all together.

    Lists of whole numbers of different lengths are; a chunk may have some of the same length.
    """
    kinds = {info.space.kind for info in infos if info.space is not None}
    widths: set[int] = set().union(*(info.widths or () for info in infos))
    every_list = all(info.widths is not None for info in infos)
    return "counts" in kinds and kinds <= {"counts", "ids"} and every_list and len(widths) > 1


def _joined(
    estimator: Any, infos: list[DocumentInfo]
) -> tuple[WordSpace, list[NDArray[np.int64] | None]]:
    """The words of all chunks, in the order in which they come, and the new number of each."""
    told = [info for info in infos if info.space is not None] or infos
    kinds = {"counts" if info.space is None else info.space.kind for info in told}
    if len(kinds) > 1:
        raise ValueError(
            f"X of {type(estimator).__name__} must have documents of one kind in all chunks. "
            f"Got {sorted(kinds)}."
        )
    kind = kinds.pop()
    if kind == "counts":
        space = documents_of(estimator, told[0].head, None, grow=True)[1]
        for info in told[1:]:
            documents_of(estimator, info.head, space, grow=False)
        return space, [None] * len(infos)
    for stale in ("n_features_in_", "feature_names_in_"):
        estimator.__dict__.pop(stale, None)
    n_words = max(cast(WordSpace, info.space).n_words for info in told)
    if kind == "ids" or estimator.vocabulary is not None:
        fixed = None if estimator.vocabulary is None else Vocabulary.fixed(estimator.vocabulary)
        return WordSpace(kind, n_words, fixed), [None] * len(infos)
    vocabulary = Vocabulary(max_features=text_options(estimator).max_features)
    numbers: list[NDArray[np.int64] | None] = []
    with named_errors(estimator, "X"):
        for info in infos:
            words = info.words or []
            vocabulary, _ = vocabulary.encode([words])
            columns = vocabulary.columns
            numbers.append(np.array([columns.get(word, -1) for word in words], np.int64))
        if not vocabulary:
            raise ValueError("expected a word in at least one of the documents, got none")
    return WordSpace("words", len(vocabulary), vocabulary), numbers


def _renumbered(_: None, item: tuple[Documents, IntVec | None]) -> tuple[int, Documents]:
    """Documents whose words have the numbers that all chunks agree on; a number may be missing."""
    documents, numbers = item
    if numbers is None:
        return len(documents), documents
    words = numbers[documents.words]
    rows = np.repeat(np.arange(len(documents)), np.diff(documents.indptr))
    order = np.lexsort((words, rows))
    order = order[words[order] >= 0]
    indptr = np.searchsorted(rows[order], np.arange(len(documents) + 1))
    counts = documents.counts[order]
    return len(documents), Documents(indptr, words[order].astype(np.int32), counts)
