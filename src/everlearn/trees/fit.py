"""How `TopicTree` learns: what its parameters mean, and what it knows afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from everlearn.core.arrays import IntVec, Mat, Vec
from everlearn.core.documents import Documents
from everlearn.core.priors.nested import NestedPrior
from everlearn.core.random import stream
from everlearn.engine.opening import open_engine
from everlearn.engine.progress import DocumentProgress
from everlearn.text.inputs import WordSpace
from everlearn.trees.batch import BatchPlan, Step, drawn, level_tokens, refined, without_empty
from everlearn.trees.local import MeanFieldStep, PathStep
from everlearn.trees.model import TreeRules, TreeTopics
from everlearn.trees.stream import PAST, Kept, StreamPlan, TreeState, learn_batch

_FIRST_LEVELS = (50.0, 20.0)
"""Prior of the first levels; further ones have half of the one above."""
LEVEL_RANGE = (1e-3, 1e6)
"""What the prior of a level may be to begin with: densities of levels stay finite."""


@dataclass(frozen=True, slots=True, eq=False)
class Learned:
    """What the estimator knows: the tree, its words, and bounds after each lap of a fit."""

    state: TreeState
    words: WordSpace
    bounds: tuple[float, ...] = ()


def tree_rules(estimator: Any) -> TreeRules:
    """What the tree is learned under."""
    return TreeRules(
        int(estimator.depth),
        NestedPrior(float(estimator.concentration)),
        float(estimator.word_prior),
        int(estimator.max_nodes),
        bool(estimator.learn_levels),
    )


def first_levels(estimator: Any) -> Vec:
    """The prior of levels to begin with."""
    if estimator.level_prior is not None:
        return np.asarray(estimator.level_prior, np.float64)
    levels = list(_FIRST_LEVELS[: estimator.depth])
    while len(levels) < estimator.depth:
        levels.append(levels[-1] / 2.0)
    return np.array(levels)


def begin(estimator: Any, words: WordSpace, seed: int) -> Learned:
    """A root that has seen nothing."""
    topics = TreeTopics.empty(words.n_words, first_levels(estimator))
    past = np.empty((0, estimator.depth))
    state = TreeState(topics, float(estimator.word_prior), Kept.none(), past, seed)
    return Learned(state, words)


def with_words(learned: Learned, words: WordSpace) -> Learned:
    """The same with the words that have come since."""
    topics = learned.state.topics.with_words(words.n_words)
    return replace(learned, state=replace(learned.state, topics=topics), words=words)


def learn_corpus(estimator: Any, learned: Learned, documents: Documents) -> Learned:
    """Draw a tree of all documents, then refine it."""
    rules, plan, state = tree_rules(estimator), _batch_plan(estimator, documents), learned.state
    laps = plan.n_sweeps + plan.n_iterations
    with (
        open_engine(estimator.engine) as engine,
        DocumentProgress(estimator.verbose, laps * len(documents)) as progress,
    ):

        def report(done: int, n_nodes: int) -> None:
            progress.show(done * len(documents), n_nodes)

        topics, levels = drawn(documents, state.topics, rules, plan, state.seed, report)
        bounds: list[float] = []
        if plan.n_iterations:
            found, bounds = refined(
                topics, documents, rules, plan, engine, state.seed,
                lambda done, n_nodes: report(plan.n_sweeps + done, n_nodes),
            )  # fmt: skip
            topics, levels = without_empty(found.topics), level_tokens(found)
    state = replace(
        state,
        topics=topics,
        past=_some(levels, state.seed),
        clock=1,
        n_documents=len(documents),
        n_tokens=documents.n_tokens,
    )
    return Learned(state, learned.words, tuple(bounds))


def learn_stream(
    estimator: Any, learned: Learned, documents: Documents, order: IntVec | None = None
) -> Learned:
    """Learn documents once, batch by batch, in this order or as they come."""
    rules, state = tree_rules(estimator), learned.state
    plan = StreamPlan(
        int(estimator.stream_sweeps), int(estimator.reservoir), estimator.moves == "sampled"
    )
    with (
        open_engine(estimator.engine) as engine,
        DocumentProgress(estimator.verbose, len(documents)) as progress,
    ):
        done = 0
        for batch in _batches(documents, order, int(estimator.batch_size)):
            state = learn_batch(state, batch, rules, plan, engine)
            done += len(batch)
            progress.show(done, len(state.topics.tree))
    return replace(learned, state=state)


def random_order(estimator: Any, n: int, seed: int) -> IntVec | None:
    """An order in which to visit documents, if they are to be shuffled."""
    return stream(seed, "order", 0).permutation(n) if estimator.shuffle else None


def _batches(documents: Documents, order: IntVec | None, size: int) -> Iterator[Documents]:
    for i in range(0, len(documents), size):
        where = slice(i, i + size)
        yield documents[where] if order is None else documents.take(order[where])


def _batch_plan(estimator: Any, documents: Documents) -> BatchPlan:
    step: Step = PathStep(int(estimator.n_candidates))
    if estimator.local == "meanfield":
        step = MeanFieldStep(int(estimator.n_candidates))
    memoized = estimator.learning == "memoized"
    return BatchPlan(
        0 if estimator.init == "incremental" else int(estimator.n_sweeps),
        int(estimator.n_iterations),
        step,
        -(-len(documents) // int(estimator.batch_size)) if memoized else 1,
        estimator.moves,
        float(estimator.min_mass),
    )


def _some(levels: Mat, seed: int) -> Mat:
    """Tokens by level of some documents, as many as a stream remembers."""
    if len(levels) <= PAST:
        return levels
    rows = stream(seed, "subsample", 0).choice(len(levels), PAST, replace=False)
    return np.asarray(levels[np.sort(rows)])
