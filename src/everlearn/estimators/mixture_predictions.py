"""What a learned mixture says about rows: labels, probabilities, densities and samples."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp
from sklearn.base import TransformerMixin

from everlearn.core.arrays import IntVec, Labels, Mat, Vec
from everlearn.core.params import Interval, check_params
from everlearn.core.random import stream
from everlearn.estimators.base import LearnerMixin
from everlearn.estimators.mixture_attributes import MixtureAttributes
from everlearn.estimators.mixture_families import allow_missing, has_missing
from everlearn.estimators.mixture_input import check_same_model, checked_rows
from everlearn.estimators.mixture_workshop import mixture_step
from everlearn.inference.rows import Rows
from everlearn.inference.state import State

_PREDICT_ROWS = 4096
_SAMPLE_CONSTRAINTS = {"n_samples": (Interval(1, integer=True),)}


class MixturePredictions(MixtureAttributes, LearnerMixin, TransformerMixin):
    """Predictions; none of them changes the model."""

    dtype: str

    def predict(self, X: Any) -> Labels:
        """Position of the likeliest component of each row.

        `component_ids_[predict(X)]` are the permanent ids.

        Parameters
        ----------
        X : array-like, CSR matrix or data frame of shape (n_rows, n_features)
            The rows.

        Returns
        -------
        labels : ndarray of shape (n_rows,)
            Positions in `means_`, `weights_` and `component_ids_`.
        """
        return np.concatenate([labels for _, labels in self._assignments(X)])

    def predict_proba(self, X: Any) -> Mat:
        """Responsibility of each component for each row.

        Parameters
        ----------
        X : array-like, CSR matrix or data frame of shape (n_rows, n_features)
            The rows.

        Returns
        -------
        responsibilities : ndarray of shape (n_rows, n_components)
            Rows sum to 1; float64, whatever `dtype` is.
        """
        return np.concatenate([_in_double(r) for r, _ in self._assignments(X)])

    def transform(self, X: Any) -> Mat:
        """Rows as features: the responsibilities of `predict_proba`.

        Parameters
        ----------
        X : array-like, CSR matrix or data frame of shape (n_rows, n_features)
            The rows.

        Returns
        -------
        responsibilities : ndarray of shape (n_rows, n_components)
            One column for each component.
        """
        return self.predict_proba(X)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Names of the columns of `transform`: "component" and the permanent id.

        Parameters
        ----------
        input_features : None
            Ignored.

        Returns
        -------
        names : ndarray of str
            One name for each component.
        """
        return np.array([f"component{i}" for i in self.component_ids_], dtype=object)

    def score_samples(self, X: Any) -> Vec:
        """Log posterior-predictive density of each row.

        The chance that a row comes from a component not yet seen is part of it, so that the
        density integrates to one.

        Parameters
        ----------
        X : array-like, CSR matrix or data frame of shape (n_rows, n_features)
            The rows.

        Returns
        -------
        log_density : ndarray of shape (n_rows,)
            Natural logarithms.
        """
        state, rows = self._ready(X)
        family = state.model.family
        known, unseen = state.model.sticks(state.total).mean_weights()
        with np.errstate(divide="ignore"):  # a concentration near zero leaves nothing unseen
            log_weights = np.log(np.append(known, unseen))
        n = np.append(state.total.n, 0.0)
        q = family.posterior(n, np.vstack([state.total.t, np.zeros((1, family.n_stats))]))
        blocks = rows.blocks(_PREDICT_ROWS)
        return np.concatenate(
            [logsumexp(family.log_predictive(b.X, q) + log_weights, axis=1) for b in blocks]
        )

    def score(self, X: Any, y: Any = None) -> float:
        """Mean log posterior-predictive density of the rows.

        Parameters
        ----------
        X : array-like, CSR matrix or data frame of shape (n_rows, n_features)
            The rows.
        y : None
            Ignored.

        Returns
        -------
        score : float
            Nats per row; larger is better.
        """
        return float(np.mean(self.score_samples(X)))

    def sample(self, n_samples: int = 1) -> tuple[Mat, IntVec]:
        """Draw rows from the posterior predictive of the components.

        Parameters
        ----------
        n_samples : int, default=1
            How many.

        Returns
        -------
        X : ndarray of shape (n_samples, n_features)
            The rows, ordered by component.
        y : ndarray of shape (n_samples,)
            The component each was drawn from, as a position.
        """
        state = self._fitted()
        check_params("DPMixture.sample", {"n_samples": n_samples}, _SAMPLE_CONSTRAINTS)
        rng = stream(self._new_seed(), "sample")
        family = state.model.family
        q = family.posterior(state.total.n, state.total.t)
        counts = rng.multinomial(n_samples, self.weights_)
        drawn = [family.draw(q, k, int(n), rng) for k, n in enumerate(counts)]
        return np.concatenate(drawn), np.repeat(np.arange(len(counts)), counts)

    def _ready(self, X: Any) -> tuple[State, Rows]:
        """State and rows for a prediction; neither is changed by it."""
        state = self._fitted()
        check_same_model(self, self._learned)
        rows = checked_rows(self, X, reset=False)
        return (allow_missing(state) if has_missing(rows.X) else state), rows

    def _assignments(self, X: Any) -> Iterator[tuple[NDArray[np.floating], Labels]]:
        state, rows = self._ready(X)
        step, posterior = mixture_step(self, state.model), state.posterior()
        for block in rows.blocks(_PREDICT_ROWS):
            with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is refused
                found = step.assign(posterior, step.features(block), None)
            if not np.isfinite(found.log_norm).all():
                raise ValueError(
                    f"X of {type(self).__name__} has rows so far from all components that their "
                    f"scores are out of the range of dtype={self.dtype!r}. Leave them out, or use "
                    "a wider dtype."
                )
            yield found.r, found.labels


def _in_double(r: NDArray[np.floating]) -> Mat:
    """Responsibilities in float64; those of float32 sum to 1 as exactly as the others."""
    exact = r.astype(np.float64, copy=False)
    return exact if exact is r else np.asarray(exact / exact.sum(axis=1, keepdims=True))
