"""How good topics are: coherence and diversity of their top words, and held-out likelihood.

The held-out likelihood is that of document completion. Each document is split into two halves.
Topic proportions are inferred from one half, and the other half is scored, so no word is used for
both.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from everlearn.core.arrays import IntVec, Mat, Table, Vec
from everlearn.core.documents import Documents

PhiColumns: TypeAlias = Callable[[NDArray[np.int32]], Mat]
"""Probabilities (n_topics, n) of n words, from the numbers of these words."""
_BLOCK: Final = 2**21
"""Numbers to hold at a time: topics times entries of documents."""


@dataclass(frozen=True, slots=True)
class Coherence:
    """NPMI of each topic, (n_topics,), and the mean over topics: from -1 to 1, higher is better."""

    topics: Vec
    mean: float


def npmi_coherence(
    top_words: ArrayLike, documents: Documents | Table, *, smoothing: float = 1.0
) -> Coherence:
    """How often the top words of a topic occur together, from -1 to 1. Higher is better.

    The score of a topic is the mean of its pairs of top words. That of a pair is its normalised
    pointwise mutual information (NPMI): 1 if both words always occur together, 0 if they are
    independent, -1 if they never do.

    Let D be the number of documents, p_i the share of them with word i, and D_ij the number with
    both words. Then p_ij = (D_ij + s p_i p_j) / (D + s) and
    NPMI_ij = log(p_ij / (p_i p_j)) / -log p_ij. The smoothing s is a number of imagined documents
    in which words are independent: it pulls pairs towards 0, rare pairs most. A pair counts 0 if
    one of its words is in no document, or in all of them.

    Parameters
    ----------
    top_words : (n_topics, n_top) array-like of int
        Word numbers of the top words of each topic, at least 2 and distinct.
    documents : sparse table of counts of shape (n_documents, n_words), or Documents
        Documents in which to count words that occur together, for example held-out ones.
    smoothing : float, default=1.0
        Positive. Close to 0 gives NPMI without smoothing; raise it if documents are few.

    Returns
    -------
    Coherence
        The scores of the topics, and their mean.

    Examples
    --------
    >>> documents = Documents.from_tokens([[0, 1], [0, 1], [2], [3], [2, 3], [0]])
    >>> npmi_coherence([[0, 1], [0, 2]], documents).topics.round(2)
    array([ 0.53, -0.52])
    """
    top = _checked_top_words(top_words)
    if not 0 < smoothing < np.inf:
        raise ValueError(f"'smoothing' must be a positive number. Got {smoothing!r}.")
    documents = documents if isinstance(documents, Documents) else Documents.from_csr(documents)
    n = len(documents)
    if n == 0:
        raise ValueError("'documents' must hold one or more documents. Got none.")
    words, places = np.unique(top, return_inverse=True)
    together = _occurrences_together(documents, words)
    left, right = np.triu_indices(top.shape[1], k=1)
    rows, columns = (places.reshape(top.shape)[:, side].ravel() for side in (left, right))
    share = together.diagonal() / n
    chance = share[rows] * share[columns]
    pairs = np.asarray(together[rows, columns]).ravel()
    values = _npmi(pairs, chance, n, smoothing)
    topics = values.reshape(top.shape[0], -1).mean(axis=1)
    return Coherence(topics, float(topics.mean()))


def _checked_top_words(top_words: ArrayLike) -> IntVec:
    """Word numbers, (n_topics, n_top), at least two and distinct in each topic, or a ValueError."""
    top = np.asarray(top_words)
    if top.ndim != 2 or top.shape[0] < 1 or top.shape[1] < 2 or top.dtype.kind not in "iu":
        raise ValueError(
            "'top_words' must be integers of shape (n_topics, n_top) with at least 2 words a "
            f"topic. Got {top.dtype} of shape {top.shape}."
        )
    if (np.diff(np.sort(top, axis=1), axis=1) == 0).any():
        raise ValueError("'top_words' must not repeat a word within a topic")
    return top


def _npmi(together: Vec, chance: Vec, n: int, smoothing: float) -> Vec:
    """NPMI of pairs of words."""
    joint = (together + smoothing * chance) / (n + smoothing)
    defined = (chance > 0) & (joint < 1)
    joint, chance = np.where(defined, joint, 0.5), np.where(defined, chance, 0.5)
    return np.asarray((np.log(joint) - np.log(chance)) / -np.log(joint))


def _occurrences_together(documents: Documents, words: IntVec) -> Table:
    """Number of documents with both of two words, a sparse (n_words, n_words) table."""
    places = np.searchsorted(words, documents.words)
    places[places == words.size] = 0
    found = words[places] == documents.words
    rows = np.repeat(np.arange(len(documents)), np.diff(documents.indptr))
    shape = (len(documents), words.size)
    present = sparse.csr_array((np.ones(found.sum()), (rows[found], places[found])), shape=shape)
    return sparse.csr_array(present.T @ present)


def topic_diversity(top_words: ArrayLike) -> float:
    """Distinct top words over the number of all top words, above 0 and up to 1.

    Higher is better: it is 1 if no two topics share a top word.

    Parameters
    ----------
    top_words : (n_topics, n_top) array-like
        Top words of each topic, as words or as word numbers.

    Examples
    --------
    >>> topic_diversity([["cat", "dog"], ["cat", "bond"]])
    0.75
    """
    top = np.asarray(top_words)
    if top.size == 0:
        raise ValueError("'top_words' must hold one or more words. Got none.")
    return float(np.unique(top).size / top.size)


def completion_log_likelihood(theta: Mat, phi: Mat | PhiColumns, held_out: Documents) -> Vec:
    """Log-likelihood of the held-out tokens of each document in nats, (n_documents,).

    At most 0; higher is better. It is the sum of log(sum_k theta_k phi_kw) over the tokens w of a
    document, and minus infinity if a word is impossible.

    Parameters
    ----------
    theta : (n_documents, n_topics) array
        Topic proportions, found from the observed halves.
    phi : (n_topics, n_words) array, or callable
        Word probabilities, or a function that returns those of given words, so that a large table
        need not exist.
    held_out : Documents
        The other halves.
    """
    theta = np.asarray(theta, dtype=np.float64)
    if theta.ndim != 2 or len(theta) != len(held_out):
        raise ValueError(
            f"'theta' must have a row for each of the {len(held_out)} documents, "
            f"got shape {theta.shape}"
        )
    width = np.inf if callable(phi) else phi.shape[1]
    if held_out.words.max(initial=-1) >= width:
        raise ValueError(f"'phi' has no column for word {held_out.words.max()}, only {width}")
    rows = np.repeat(np.arange(len(held_out)), np.diff(held_out.indptr))
    step = max(1, _BLOCK // theta.shape[1])
    parts = [
        _log_probabilities(theta[rows[i : i + step]], phi, held_out.words[i : i + step])
        for i in range(0, rows.size, step)
    ]
    weighted = held_out.counts * np.concatenate([np.empty(0), *parts])
    sums = np.bincount(rows, weights=weighted, minlength=len(held_out))
    return np.asarray(sums, dtype=np.float64)


def _log_probabilities(theta: Mat, phi: Mat | PhiColumns, words: NDArray[np.int32]) -> Vec:
    """Log-probability of one word each under the proportions in the same row."""
    distinct, places = np.unique(words, return_inverse=True)
    columns = phi(distinct) if callable(phi) else phi[:, distinct]
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(np.einsum("nk,kn->n", theta, np.asarray(columns)[:, places])))


def perplexity(log_likelihood: ArrayLike, n_tokens: int) -> float:
    """Exponential of minus the mean log-likelihood per token, at least 1. Lower is better.

    A model with perplexity 8 is as uncertain as one that draws each token from 8 equally likely
    words. It is infinite if a token is impossible.

    Parameters
    ----------
    log_likelihood : array-like
        Log-likelihoods in nats, such as those of `completion_log_likelihood`; they are summed.
    n_tokens : int
        Number of tokens that they are of.

    Examples
    --------
    >>> perplexity(10 * np.log(1 / 8), 10)
    8.0
    """
    if n_tokens < 1:
        raise ValueError(f"'n_tokens' must be at least 1, got {n_tokens}")
    with np.errstate(over="ignore"):
        return float(np.exp(-np.sum(log_likelihood) / n_tokens))
