"""A tree of topics as JSON and arrays, and back again."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from everlearn.core.documents import Documents
from everlearn.errors import CheckpointError
from everlearn.estimator.saving import checked_names, feature_names, plain_params
from everlearn.estimator.schemas import pack_nodes, unpack_nodes
from everlearn.store.schema import Arrays, entry, member, require, section
from everlearn.text.inputs import pack_words, text_options, unpack_words
from everlearn.text.vocabulary import Vocabulary
from everlearn.trees.fit import LEVEL_RANGE, Learned
from everlearn.trees.model import TreeTopics
from everlearn.trees.stream import PAST, Kept, TreeState

T = TypeVar("T")
_HEADER_KEYS = frozenset(("params", "state", "words", "bounds", "feature_names"))
_STATE_KEYS = ("next_id", "word_prior", "seed", "clock", "n_documents", "n_tokens")
_CLOSE = 1e-6
_MOST = 2**53
_LAST_CLOCK = 2**36
"""Draws are named by whole numbers below 2**63, of which a batch has 2**26."""


def pack_tree(estimator: Any, learned: Learned) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """The estimator as a header and arrays."""
    state, topics, kept = learned.state, learned.state.topics, learned.state.kept
    words, arrays = pack_words(learned.words)
    arrays |= {
        **pack_nodes(topics.tree),
        "tree/counts": topics.counts,
        "tree/slots": topics.slots,
        "tree/alpha": topics.alpha,
        "kept/indptr": kept.documents.indptr,
        "kept/words": kept.documents.words,
        "kept/counts": kept.documents.counts,
        "kept/levels": kept.levels,
        "kept/leaves": kept.leaves,
        "kept/ranks": kept.ranks,
        "past/levels": state.past,
    }
    params = estimator.get_params(deep=False)
    if params["text"] is not None:
        params["text"] = text_options(estimator)
    if params["vocabulary"] is not None:
        params["vocabulary"] = list(Vocabulary.fixed(params["vocabulary"]).words)
    if params["level_prior"] is not None:
        params["level_prior"] = [float(v) for v in params["level_prior"]]
    header = {
        "params": plain_params(params, state.seed),
        "state": {
            "next_id": topics.next_id,
            "word_prior": state.word_prior,
            "seed": state.seed,
            "clock": state.clock,
            "n_documents": state.n_documents,
            "n_tokens": state.n_tokens,
        },
        "words": words,
        "bounds": list(learned.bounds),
        "feature_names": feature_names(estimator),
    }
    return header, arrays


def unpack_tree(cls: type[T], header: Mapping[str, Any], arrays: Arrays) -> T:
    """Inverse of `pack_tree`; whatever could not have been packed is refused."""
    if wrong := sorted((set(header) - {"estimator"}) ^ _HEADER_KEYS):
        verb = "lacks" if wrong[0] in _HEADER_KEYS else "must not have"
        raise CheckpointError(f"the header {verb} {wrong[0]!r}")
    estimator: Any = cls(**section(header, "params", inspect.signature(cls).parameters))
    try:
        estimator.text = None if estimator.text is None else text_options(estimator)
        estimator._check_params()
    except (OverflowError, TypeError, ValueError) as error:
        raise CheckpointError(f"the header's 'params': {error}") from error
    words = unpack_words(header, arrays)
    values = section(header, "state", _STATE_KEYS)
    state = _state(values, arrays, words.n_words, int(estimator.depth))
    bounds = entry(header, "bounds", list)
    if not all(type(b) is float and abs(b) <= 1e300 for b in bounds):
        raise CheckpointError("the header's 'bounds' must be finite numbers")
    estimator._learned = Learned(state, words, tuple(bounds))
    if words.kind == "counts":
        estimator.n_features_in_ = words.n_words
    if header["feature_names"] is not None:
        estimator.feature_names_in_ = checked_names(header["feature_names"], words.n_words)
    if unknown := sorted(set(arrays) - set(pack_tree(estimator, estimator._learned)[1])):
        raise CheckpointError(f"member {unknown[0]!r} belongs to nothing in the header")
    return estimator  # type: ignore[no-any-return]


def _state(header: Mapping[str, Any], arrays: Arrays, n_words: int, depth: int) -> TreeState:
    n_documents = entry(header, "n_documents", int, 1, _MOST)
    n_tokens = entry(header, "n_tokens", int, 0, _MOST)
    topics = _topics(header, arrays, n_words, depth)
    near = abs(topics.slots.sum() - n_documents) <= _CLOSE * (1.0 + n_documents)
    require(near, "tree/slots", f"{n_documents} documents in sum")
    most = n_tokens * (1.0 + _CLOSE) + _CLOSE
    require(topics.counts.sum() <= most, "tree/counts", f"at most {n_tokens} in sum")
    kept = _kept(arrays, topics)
    gone = min(PAST, n_documents - len(kept.documents))
    past = member(arrays, "past/levels", (gone, depth), "float64")
    require((past >= -_CLOSE).all(), "past/levels", "tokens by level")
    return TreeState(
        topics,
        entry(header, "word_prior", float, 1e-5, 1e6),
        kept,
        past,
        entry(header, "seed", int, 0, 2**62),
        entry(header, "clock", int, 1, _LAST_CLOCK),
        n_documents,
        n_tokens,
    )


def _topics(header: Mapping[str, Any], arrays: Arrays, n_words: int, depth: int) -> TreeTopics:
    next_id = entry(header, "next_id", int, 1, 2**62)
    tree = unpack_nodes(arrays, depth, next_id)
    k = len(tree)
    counts = member(arrays, "tree/counts", (n_words, k), "float64")
    slots = member(arrays, "tree/slots", (k,), "float64")
    require((counts >= 0).all(), "tree/counts", "counts of words at nodes")
    require((slots >= 0).all(), "tree/slots", "numbers of documents")
    require((tree.through(slots)[1:] > 0).all(), "tree/slots", "positive below each node")
    alpha = member(arrays, "tree/alpha", (depth,), "float64")
    least = LEVEL_RANGE[0]
    require(((alpha >= least) & (alpha <= _MOST)).all(), "tree/alpha", f"at least {least}")
    return TreeTopics(tree, counts, slots, alpha, next_id)


def _kept(arrays: Arrays, topics: TreeTopics) -> Kept:
    """Documents that can still move; all that they have drawn must be in the counts."""
    indptr = member(arrays, "kept/indptr", (None,), "int64")
    words = member(arrays, "kept/words", (None,), "int32")
    counts = member(arrays, "kept/counts", words.shape, "int32")
    ordered = len(indptr) > 0 and indptr[0] == 0 and (np.diff(indptr) >= 0).all()
    require(ordered and indptr[-1] == len(words), "kept/indptr", "where documents begin")
    require((counts >= 1).all() and counts.sum(dtype=np.int64) <= _MOST, "kept/counts", "counts")
    inside = not len(words) or (words.min() >= 0 and words.max() < topics.n_words)
    rows = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    ascending = (np.diff(words)[np.diff(rows) == 0] > 0).all() if len(words) else True
    require(inside and ascending, "kept/words", "ascending numbers of words")
    documents = Documents(indptr, words, counts)
    levels = member(arrays, "kept/levels", (documents.n_tokens,), "int64")
    within = not len(levels) or (levels.min() >= 0 and levels.max() < topics.tree.depth)
    require(within, "kept/levels", "levels of tokens")
    leaves = member(arrays, "kept/leaves", (len(documents),), "int64")
    at = topics.tree.at(leaves)
    last = (at >= 0).all() and (topics.tree.levels[at] == topics.tree.depth - 1).all()
    require(last, "kept/leaves", "ids of nodes on the last level")
    ranks = member(arrays, "kept/ranks", (len(documents),), "float64")
    require(((ranks >= 0) & (ranks < 1)).all(), "kept/ranks", "numbers from 0 to 1")
    here = np.bincount(at, minlength=len(topics.slots)) <= topics.slots + _CLOSE
    require(here.all(), "tree/slots", "at least the documents kept")
    left = topics.counts.copy()
    tokens = np.repeat(words, counts), np.repeat(at, documents.lengths)
    np.subtract.at(left, (tokens[0], topics.tree.paths[tokens[1], levels]), 1.0)
    require((left >= -_CLOSE).all(), "tree/counts", "at least the words of documents kept")
    return Kept(documents, levels, leaves, ranks)
