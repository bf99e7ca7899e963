"""The moves of the published algorithm."""

import numpy as np
from benchmarks.reference.published_moves import published_moves
from numpy.testing import assert_allclose, assert_array_equal

from everlearn.core.documents import Documents
from everlearn.core.tree import Tree
from everlearn.trees.kernels.paths import Posteriors
from everlearn.trees.model import TreeTopics
from trees.small_trees import RULES


def topics_with(
    slots: list[float], shares: np.ndarray
) -> tuple[TreeTopics, list[tuple[Documents, Posteriors]]]:
    """A root with a branch that has two leaves and one that has none left."""
    tree = Tree(np.arange(5), np.array([-1, 0, 0, 1, 1]), 3)
    counts = np.arange(20.0).reshape(4, 5)
    topics = TreeTopics(tree, counts, np.array(slots), np.array([2.0, 1.0, 1.0]), 5)
    documents = Documents.from_tokens([[0, 1], [2, 3], [1, 1]])
    where = np.tile(np.arange(5, dtype=np.int32), (3, 1))
    g, bounds = np.ones((3, 5, 3)), np.zeros(3)
    return topics, [(documents, Posteriors(where, shares, g, bounds))]


def test_it_prunes_merges_and_grows() -> None:
    shares = np.array([[0, 0, 0, 0.5, 0.5], [0, 0, 0, 0.6, 0.4], [0, 1.0, 0, 0, 0]])
    topics, batches = topics_with([0, 1, 0, 1.1, 0.9], shares)
    after = published_moves(topics, batches, RULES, 0, 0)
    assert 2 not in after.tree.ids  # empty
    assert (3 in after.tree.ids) != (4 in after.tree.ids)  # the same documents share them
    assert after.tree.ids.max() == 5  # a path for the document in the slot of an inner node
    assert after.next_id == 6
    assert_allclose(after.counts[:, after.tree.at([5])[0]], [0, 2 * 0.25, 0, 0])


def test_it_leaves_other_trees_alone() -> None:
    shares = np.array([[0, 0, 0, 1.0, 0], [0, 0, 0, 0, 1.0], [0, 0, 0, 1.0, 0]])
    topics, batches = topics_with([0, 0, 1, 2, 1], shares)
    after = published_moves(topics, batches, RULES, 0, 0)
    assert_array_equal(np.sort(after.tree.ids), np.arange(5))


def test_documents_are_found_in_their_batch() -> None:
    shares = np.array([[0, 0, 0, 0.5, 0.5], [0, 0, 0, 0.6, 0.4], [0, 1.0, 0, 0, 0]])
    topics, [(documents, q)] = topics_with([0, 1, 0, 1.1, 0.9], shares)
    batches = []
    for part in (slice(0, 1), slice(1, 3)):
        own = q._replace(slots=q.slots[part], shares=q.shares[part])
        batches.append((documents[part], own))
    whole = published_moves(topics, [(documents, q)], RULES, 0, 0)
    parted = published_moves(topics, batches, RULES, 0, 0)
    assert_array_equal(parted.tree.ids, whole.tree.ids)
    assert_array_equal(parted.counts, whole.counts)
