"""Documents whose topics and labels are known, to see whether a model finds them again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from everlearn.core.arrays import IntVec, Mat, Table, Vec
from everlearn.core.documents import Documents

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
        What the class of a document tells: its largest topic; or which is larger of the last two,
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
