"""Checkpoint schema of a `TopicTree`: what a file must contain."""

from __future__ import annotations

from typing import Final

import numpy as np

from everlearn.core.documents import LARGEST, Documents
from everlearn.estimator.schemas import TREE
from everlearn.store.schema import Array, Many, Record, Scalar, expect
from everlearn.text.checkpoint import WORDS
from everlearn.trees.fit import TreeFit
from everlearn.trees.model import TreeTopics
from everlearn.trees.settings import LEVEL_RANGE, MAX_PASSES
from everlearn.trees.stream import PAST, Reservoir, TreeState

_CLOSE: Final = 1e-6
"""How well sums of counts must agree."""
_MOST: Final = 2**53
_LAST_CLOCK: Final = 2**36
"""Random streams have numbers below 2**63, and each batch uses 2**26 of them."""


def _check_topics(topics: TreeTopics, place: str) -> None:
    tree = topics.tree
    below = (tree.ids < topics.next_id).all()
    expect(below, f"{place}/tree/ids", f"below 'next_id', which is {topics.next_id}")
    filled = (tree.through(topics.slots)[1:] > 0).all()
    expect(filled, f"{place}/slots", "positive in each branch")


def _check_documents(documents: Documents, place: str) -> None:
    starts, words, counts = documents.indptr, documents.words, documents.counts
    ascending = len(starts) > 0 and starts[0] == 0 and (np.diff(starts) >= 0).all()
    last = len(words)
    expect(ascending and starts[-1] == last, f"{place}/indptr", f"ascending from 0 to {last}")
    expect(counts.sum(dtype=np.int64) <= _MOST, f"{place}/counts", f"at most {_MOST} in sum")
    rows = np.repeat(np.arange(len(documents)), np.diff(starts))
    increasing = (np.diff(words)[np.diff(rows) == 0] > 0).all()
    expect(increasing, f"{place}/words", "ascending in each document")


def _check_reservoir(reservoir: Reservoir, place: str) -> None:
    documents = reservoir.documents
    n, n_tokens = len(documents), documents.n_tokens
    expect(len(reservoir.levels) == n_tokens, f"{place}/levels", f"of {n_tokens} tokens")
    expect(len(reservoir.leaves) == n, f"{place}/leaves", f"of {n} documents")


def _check_state(state: TreeState, place: str) -> None:
    """Counts must be those of the documents learned, those of the reservoir included."""
    topics, documents = state.topics, state.reservoir.documents
    n, n_tokens = state.n_documents, state.n_tokens
    near = abs(topics.slots.sum() - n) <= _CLOSE * (1.0 + n)
    expect(near, f"{place}/topics/slots", f"{n} documents in sum")
    few = topics.counts.sum() <= n_tokens * (1.0 + _CLOSE) + _CLOSE
    expect(few, f"{place}/topics/counts", f"at most {n_tokens} tokens in sum")
    gone = min(PAST, n - len(documents))
    expect(len(state.past) == gone, f"{place}/past", f"of {gone} documents")
    _check_moving(topics, state.reservoir, place)


def _check_moving(topics: TreeTopics, reservoir: Reservoir, place: str) -> None:
    tree, documents, levels = topics.tree, reservoir.documents, reservoir.levels
    known = not len(documents.words) or documents.words.max() < topics.n_words
    expect(known, f"{place}/reservoir/documents/words", f"below {topics.n_words}")
    inside = not len(levels) or levels.max() < tree.depth
    expect(inside, f"{place}/reservoir/levels", f"below {tree.depth}")
    at = tree.at(reservoir.leaves)
    last = (at >= 0).all() and (tree.levels[at] == tree.depth - 1).all()
    expect(last, f"{place}/reservoir/leaves", "ids of nodes on the last level")
    moving = np.bincount(at, minlength=len(tree))
    held = (moving <= topics.slots + _CLOSE).all()
    expect(held, f"{place}/topics/slots", "at least the documents of the reservoir")
    left = topics.counts.copy()
    words = np.repeat(documents.words, documents.counts)
    leaves = np.repeat(at, documents.lengths)
    np.subtract.at(left, (words, tree.paths[leaves, levels]), 1.0)
    held = (left >= -_CLOSE).all()
    expect(held, f"{place}/topics/counts", "at least the tokens of the reservoir")


_TOPICS: Final = Record(
    TreeTopics,
    {
        "tree": TREE,
        "counts": Array("W", "nodes", low=0),
        "slots": Array("nodes", low=0),
        "alpha": Array("levels", low=LEVEL_RANGE[0], high=_MOST),
        "next_id": Scalar(int, 1, 2**62),
    },
    _check_topics,
)
_DOCUMENTS: Final = Record(
    Documents,
    {
        "indptr": Array("starts", dtypes=("int64",), low=0, high=_MOST),
        "words": Array("entries", dtypes=("int32",), low=0, high=LARGEST),
        "counts": Array("entries", dtypes=("int32",), low=1, high=LARGEST),
    },
    _check_documents,
)
_RESERVOIR: Final = Record(
    Reservoir,
    {
        "documents": _DOCUMENTS,
        "levels": Array("tokens", dtypes=("int64",), low=0, high=100),
        "leaves": Array("documents", dtypes=("int64",), low=0, high=2**62),
        "ranks": Array("documents", low=0, high=1),
    },
    _check_reservoir,
)
_STATE: Final = Record(
    TreeState,
    {
        "topics": _TOPICS,
        "word_prior": Scalar(float, 1e-3, 1e6),
        "reservoir": _RESERVOIR,
        "past": Array("past", "levels", low=-_CLOSE),
        "seed": Scalar(int, 0, 2**62),
        "clock": Scalar(int, 1, _LAST_CLOCK),
        "n_documents": Scalar(int, 1, _MOST),
        "n_tokens": Scalar(int, 0, _MOST),
    },
    _check_state,
)
# The words come first: they set the size W of the counts.
TREE_FIT: Final = Record(
    TreeFit, {"words": WORDS, "state": _STATE, "bounds": Many(Scalar(float), most=MAX_PASSES)}
)
