"""Planted data: rows and documents drawn from a known model, to test what a model finds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from everlearn.core.arrays import Cube, IntVec, Mat, Table, Vec
from everlearn.core.documents import Documents
from everlearn.core.tree import Tree

_CANDIDATES = 20
"""Each centre is the farthest from the earlier ones among this many candidates."""
_NARROWEST = 0.3
"""Standard deviations along the axes of a cluster lie between this and 1."""


@dataclass(frozen=True, slots=True)
class PlantedMixture:
    """Rows and the mixture of Gaussians they were drawn from.

    Attributes
    ----------
    X : (n_rows, n_features) rows, in random order
    labels : (n_rows,) component each row was drawn from
    weights : (n_components,) share of each component
    means : (n_components, n_features) centres
    covariances : (n_components, n_features, n_features) covariances
    """

    X: Mat
    labels: NDArray[np.int64]
    weights: Vec
    means: Mat
    covariances: Cube


def planted_mixture(
    n_rows: int = 5000,
    n_features: int = 2,
    n_components: int = 8,
    *,
    separation: float = 8.0,
    shape: Literal["round", "axis-parallel", "oblique"] = "round",
    random_state: int | np.random.Generator | None = None,
) -> PlantedMixture:
    """Rows of a mixture of Gaussians whose components are well apart.

    Parameters
    ----------
    n_rows, n_features, n_components : int
        How many of each. Shares of the components differ by up to a factor of 3.
    separation : float, default=8.0
        Distance of the two nearest centres, in standard deviations along the longest axis of
        any component.
    shape : {"round", "axis-parallel", "oblique"}, default="round"
        Of the components: unit covariance, a random diagonal one, or that rotated at random.
    random_state : int, Generator or None, default=None
        Determines everything.

    Returns
    -------
    PlantedMixture
        The rows and the truth.

    Examples
    --------
    >>> planted = planted_mixture(1000, 3, 5, random_state=0)
    >>> planted.X.shape, planted.means.shape, np.unique(planted.labels).size
    ((1000, 3), (5, 3), 5)
    """
    rng = np.random.default_rng(random_state)
    means = _centres(n_components, n_features, rng) * separation
    axes = np.ones((n_components, n_features))
    if shape != "round":
        axes = rng.uniform(_NARROWEST, 1.0, axes.shape)
        axes[:, 0] = 1.0
        axes = rng.permuted(axes, axis=1)
    factors = axes[:, :, None] * np.eye(n_features)
    if shape == "oblique":
        directions, _ = np.linalg.qr(rng.normal(size=factors.shape))
        factors = directions @ factors
    weights = rng.uniform(0.5, 1.5, n_components)
    weights /= weights.sum()
    labels = rng.choice(n_components, n_rows, p=weights)
    noise = rng.standard_normal((n_rows, n_features))
    X = means[labels] + np.einsum("nij,nj->ni", factors[labels], noise)
    return PlantedMixture(X, labels, weights, means, factors @ factors.transpose(0, 2, 1))


def _centres(n_components: int, n_features: int, rng: np.random.Generator) -> Mat:
    """Random points of which the two nearest are at distance 1."""
    chosen = rng.normal(size=(1, n_features))
    nearest = np.inf
    for _ in range(1, n_components):
        candidates = rng.normal(size=(_CANDIDATES, n_features))
        distances = np.linalg.norm(candidates[:, None] - chosen, axis=2).min(axis=1)
        best = int(np.argmax(distances))
        nearest = min(nearest, float(distances[best]))
        chosen = np.vstack([chosen, candidates[best]])
    return chosen if n_components == 1 else chosen / nearest


_MINOR_SHARE = 0.1
"""Share of the tokens that the two topics of minor labels have between them."""
_WITHIN_TOPIC = 1.0
"""Dirichlet parameter of the words of a topic."""


@dataclass(frozen=True, slots=True)
class PlantedTopics:
    """Documents and the topics they were drawn from.

    Attributes
    ----------
    documents : Documents, (n_documents,) in random order
    theta : (n_documents, n_topics) topic proportions of each document
    phi : (n_topics, n_words) word probabilities of each topic
    labels : (n_documents,) class of each document
    """

    documents: Documents
    theta: Mat
    phi: Mat
    labels: IntVec

    @property
    def X(self) -> Table:  # noqa: N802
        """The documents as a CSR table of counts."""
        return self.documents.to_csr(self.phi.shape[1])


def planted_topics(
    n_documents: int = 1000,
    n_topics: int = 8,
    n_words: int = 400,
    length: int = 100,
    *,
    concentration: float = 0.1,
    overlap: float = 0.1,
    labels: Literal["main", "minor"] = "main",
    random_state: int | np.random.Generator | None = None,
) -> PlantedTopics:
    """Documents of a topic model whose topics have mostly words of their own.

    Parameters
    ----------
    n_documents, n_topics, n_words : int
        How many of each; at least as many words as topics.
    length : int, default=100
        Mean number of tokens of a document, a Poisson variable.
    concentration : float, default=0.1
        Dirichlet parameter of the topic proportions: below 1, few topics make up a document.
    overlap : float, default=0.1
        Share of its tokens that a topic takes from all words rather than from its own.
    labels : {"main", "minor"}, default="main"
        What the class of a document says: its largest topic; or which is larger of the last two,
        which have a tenth of its tokens between them. A model of few topics that does not look at
        the labels misses such a minor direction. Needs at least 3 topics.
    random_state : int, Generator or None, default=None
        Determines everything.

    Returns
    -------
    PlantedTopics
        The documents and the truth.

    Examples
    --------
    >>> planted = planted_topics(200, 5, 50, random_state=0)
    >>> planted.X.shape, planted.phi.shape, np.unique(planted.labels).size
    ((200, 50), (5, 50), 5)
    """
    if labels == "minor" and n_topics < 3:
        raise ValueError(f"'minor' labels need at least 3 topics, got {n_topics}")
    rng = np.random.default_rng(random_state)
    phi = _word_probabilities(n_topics, n_words, overlap, rng)
    if labels == "main":
        theta = _proportions(n_documents, n_topics, concentration, rng)
        classes = theta.argmax(axis=1)
    else:
        main = _proportions(n_documents, n_topics - 2, concentration, rng)
        minor = _proportions(n_documents, 2, concentration, rng)
        theta = np.hstack([(1 - _MINOR_SHARE) * main, _MINOR_SHARE * minor])
        classes = minor.argmax(axis=1)
    counts = rng.multinomial(rng.poisson(length, n_documents), theta @ phi)
    return PlantedTopics(Documents.from_dense(counts), theta, phi, classes)


def _proportions(
    n_documents: int, n_topics: int, concentration: float, rng: np.random.Generator
) -> Mat:
    return rng.dirichlet(np.full(n_topics, concentration), n_documents)


def _word_probabilities(
    n_topics: int, n_words: int, overlap: float, rng: np.random.Generator
) -> Mat:
    """Topics that share the words out among them, each with a background of all words."""
    owners = rng.permutation(np.arange(n_words) % n_topics)
    own: Mat = rng.gamma(_WITHIN_TOPIC, size=n_words) * (owners == np.arange(n_topics)[:, None])
    background: Vec = rng.dirichlet(np.full(n_words, _WITHIN_TOPIC))
    own /= own.sum(axis=1, keepdims=True)
    return (1 - overlap) * own + overlap * background


@dataclass(frozen=True, slots=True, eq=False)
class PlantedTree:
    """Documents, and where they came from.

    Attributes
    ----------
    counts : (n_documents, n_words) how often each word occurs
    tree : the tree, every node with as many children
    leaves : (n_documents,) position of the last node of each document's path
    topics : (n_nodes, n_words) word probabilities of each node
    """

    counts: NDArray[np.int64]
    tree: Tree
    leaves: IntVec
    topics: Mat

    def branches(self, level: int) -> IntVec:
        """Position of each document's node on a level, (n_documents,)."""
        return np.asarray(self.tree.paths[self.leaves, level])


def planted_tree(
    seed: int,
    *,
    branching: int = 3,
    depth: int = 3,
    n_documents: int = 400,
    n_tokens: int = 80,
    words_per_node: int = 10,
) -> PlantedTree:
    """Documents of `n_tokens` words from a tree in which each node has words of its own.

    Topics are uneven over their words, levels are drawn from Dir(4, 3, 3), or as many threes as
    there are levels below the root, and leaves at random.

    Examples
    --------
    >>> planted = planted_tree(0, branching=2, n_documents=5)
    >>> planted.counts.shape, len(planted.tree), planted.counts.sum(axis=1).tolist()
    ((5, 70), 7, [80, 80, 80, 80, 80])
    """
    rng = np.random.default_rng(seed)
    tree = Tree.root(depth)
    for level in range(depth - 1):
        for parent in np.flatnonzero(tree.levels == level):
            for _ in range(branching):
                tree = tree.grown(int(parent), [len(tree)])
    n_words = len(tree) * words_per_node
    topics = np.zeros((len(tree), n_words))
    for node in range(len(tree)):
        own = slice(node * words_per_node, (node + 1) * words_per_node)
        topics[node, own] = rng.dirichlet(np.full(words_per_node, 2.0))
    ends = np.flatnonzero(tree.levels == depth - 1)
    leaves = rng.choice(ends, n_documents)
    shares = rng.dirichlet([4.0, *[3.0] * (depth - 1)], n_documents)
    counts = np.empty((n_documents, n_words), np.int64)
    for i, leaf in enumerate(leaves):
        counts[i] = rng.multinomial(n_tokens, shares[i] @ topics[tree.paths[leaf]])
    return PlantedTree(counts, tree, leaves, topics)
