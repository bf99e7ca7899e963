"""What a learned model of grouped points tells about documents: topics, scores, neighbours."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from everlearn.core.arrays import IntVec, Labels, Mat, Vec
from everlearn.core.params import Interval, check_params
from everlearn.estimators.base import named_errors
from everlearn.estimators.clumped_attributes import ClumpedAttributes
from everlearn.estimators.clumped_input import Grouped, checked_documents
from everlearn.inference.local.new_documents import Reader, Reading
from everlearn.runtime.engine import nearby, open_engine

_REQUESTS = {"n": (Interval(1, integer=True),), "smoothing": (Interval(0.0),)}


class Neighbours(NamedTuple):
    """Documents that resemble another one, most alike first.

    `positions` are rows of the index that was searched, `scores` the lower bounds of the
    log-likelihood of the other document under their mixtures of topics.
    """

    positions: IntVec
    scores: Vec


class ClumpedPredictions(ClumpedAttributes):
    """Documents in the light of the topics, none of which they change."""

    engine: Any

    def transform(self, X: Any, *, groups: Any = None) -> Mat:
        """Expected mixture of topics of each document.

        Parameters
        ----------
        X : list of array-like of shape (n_i, n_features), or array-like (n_points, n_features)
            Documents, as in `fit`.
        groups : array-like of shape (n_points,), default=None
            Which points make a document, if X is no list.

        Returns
        -------
        mixtures : ndarray of shape (n_documents, n_components)
            Rows sum to 1.
        """
        zeta = self.document_index(X, groups=groups)
        return np.asarray(zeta / zeta.sum(axis=1, keepdims=True))

    def assign(self, X: Any, *, groups: Any = None) -> Labels | list[Labels]:
        """The likeliest topic of each point, in the light of its document.

        Parameters
        ----------
        X : list of array-like of shape (n_i, n_features), or array-like (n_points, n_features)
            Documents, as in `fit`.
        groups : array-like of shape (n_points,), default=None
            Which points make a document, if X is no list.

        Returns
        -------
        labels : ndarray of shape (n_points,), or a list of them if X is a list
            Positions of topics; `component_ids_[labels]` are permanent.
        """
        documents, readings = self._read(X, groups)
        return documents.like_input([reading.labels for reading in readings])

    def score(self, X: Any, y: Any = None, *, groups: Any = None) -> float:
        """Mean log-likelihood per point, as far as a lower bound tells it.

        Parameters
        ----------
        X : list of array-like of shape (n_i, n_features), or array-like (n_points, n_features)
            Documents, as in `fit`.
        y : None
            Ignored.
        groups : array-like of shape (n_points,), default=None
            Which points make a document, if X is no list.

        Returns
        -------
        score : float
            Nats per point, higher is better.
        """
        documents, readings = self._read(X, groups)
        n_points = sum(len(part) for part in documents.parts)
        return sum(reading.bound for reading in readings) / n_points

    def document_index(self, X: Any, *, groups: Any = None) -> Mat:
        """What `retrieve` needs to know of documents: Dirichlet posteriors of their mixtures.

        Parameters
        ----------
        X : list of array-like of shape (n_i, n_features), or array-like (n_points, n_features)
            Documents, as in `fit`.
        groups : array-like of shape (n_points,), default=None
            Which points make a document, if X is no list.

        Returns
        -------
        index : ndarray of shape (n_documents, n_components)
            Valid as long as the topics stay as they are.
        """
        _, readings = self._read(X, groups)
        return np.array([reading.zeta for reading in readings])

    def retrieve(
        self, X: Any, n: int = 10, index: Any = None, smoothing: float = 0.5
    ) -> Neighbours:
        """The documents whose mixtures of topics make one document likeliest.

        A document that has no point of a topic would hardly ever be found for one that has, so
        each is taken to have some points more, spread over the topics as all points seen are.

        Parameters
        ----------
        X : array-like of shape (n_points, n_features)
            The document to look for.
        n : int, default=10
            Neighbours wanted, at most.
        index : ndarray of shape (n_documents, n_components), default=None
            Documents to search, from `document_index`; None searches the groups learned from, and
            `group_ids_[positions]` says which documents these are.
        smoothing : float, default=0.5
            Points that each document is taken to have more, as a share of those that documents
            have on average. 0 is the score of Gomes, Welling and Perona (2008).

        Returns
        -------
        neighbours : Neighbours
            `positions` and `scores`, best first.
        """
        state = self._fitted()
        requests = {"n": n, "smoothing": smoothing}
        check_params(f"{type(self).__name__}.retrieve", requests, _REQUESTS)
        document = checked_documents(self, X, None, reset=False)
        if len(document.parts) != 1:
            raise ValueError(
                f"'X' of {type(self).__name__}.retrieve must be one document, "
                f"got {len(document.parts)}"
            )
        if index is None:
            zetas = state.topics.alpha + state.topics.counts / state.sizes[:, None]
        else:
            zetas = _checked_index(self, index)
        zetas = zetas + smoothing * state.n_points / state.n_documents * state.topics.shares
        with open_engine(nearby(self.engine)):
            scores = Reader.of(state.model, state.topics).resemblance(document.parts[0], zetas)
        best = np.argsort(-scores, kind="stable")[:n]
        return Neighbours(best, scores[best])

    def _read(self, X: Any, groups: Any) -> tuple[Grouped, list[Reading]]:
        state = self._fitted()
        documents = checked_documents(self, X, groups, reset=False)
        with open_engine(nearby(self.engine)) as engine:
            reader = Reader.of(state.model, state.topics)
            return documents, reader.read_all(documents.parts, engine)


def _checked_index(estimator: ClumpedPredictions, index: Any) -> Mat:
    """Dirichlet parameters of documents over the topics there are."""
    with named_errors(estimator, "index"):
        zetas = np.asarray(index, np.float64)
    k = estimator.n_components_
    if zetas.ndim != 2 or zetas.shape[1] != k or not (np.isfinite(zetas) & (zetas > 0)).all():
        raise ValueError(
            f"'index' of {type(estimator).__name__}.retrieve must be positive numbers, {k} for "
            f"each document, as document_index gives them; got shape {zetas.shape}"
        )
    return zetas
