"""What a learned `OnlinePPCA` tells about rows: latents, reconstructions, likelihoods, gaps."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import logsumexp
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_array

from everlearn.core.arrays import IntVec, Mat, Vec
from everlearn.core.families.ppca import PPCA, RowPosterior
from everlearn.core.params import Interval, check_params
from everlearn.core.random import stream
from everlearn.estimators.base import named_errors
from everlearn.estimators.ppca_attributes import PPCAAttributes
from everlearn.estimators.ppca_input import checked_rows
from everlearn.estimators.ppca_learning import check_same_model, is_mixture
from everlearn.estimators.tables import check_size, plain_numbers
from everlearn.inference.local.ppca import block_rows, joint_log_likelihood
from everlearn.inference.ppca_state import PPCAState
from everlearn.inference.rows import Rows
from everlearn.runtime.engine import nearby, open_engine

_SAMPLE_CONSTRAINTS = {"n_samples": (Interval(1, integer=True),)}


class PPCAPredictions(PPCAAttributes, ClassNamePrefixFeaturesOutMixin, TransformerMixin):
    """Rows in the light of the model, which they do not change."""

    engine: Any

    def transform(self, X: Any) -> Mat:
        """Expected latents of each row, given the entries that it has.

        Parameters
        ----------
        X : array-like or data frame of shape (n_rows, n_features)
            The rows; NaN is missing.

        Returns
        -------
        Z : ndarray of shape (n_rows, n_components)
            For a mixture of K, `K * (1 + n_components)` columns: the probabilities of the PPCAs,
            then the latents in each, times its probability.
        """
        return np.concatenate(self._mapped(_latents if self.n_mixtures == 1 else _mixed_latents, X))

    def inverse_transform(self, X: Any) -> Mat:
        """Rows for latents as `transform` returns them.

        Expected latents are shrunk towards 0, as far as noise makes them uncertain. That is undone
        here, so complete rows come back as their orthogonal projections, as from PCA.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features_out)
            Latents.

        Returns
        -------
        rows : ndarray of shape (n_rows, n_features)
            What the latents stand for.
        """
        state = self._fitted()
        check_same_model(self, self._learned)
        width = self._n_features_out
        with named_errors(self, "X"):
            z = check_array(plain_numbers(X), dtype=np.float64)
            check_size(z)
            if z.shape[1] != width:
                raise ValueError(f"expected {width} columns of latents, got {z.shape[1]}")
        k, q = len(state.models), self.n_components
        if self.n_mixtures == 1:
            return np.asarray(state.models[0].mean + z @ _unshrunk(state.models[0]).T)
        rows = z[:, :k] @ np.stack([model.mean for model in state.models])
        for i, model in enumerate(state.models):
            rows += z[:, k + i * q : k + (i + 1) * q] @ _unshrunk(model).T
        return np.asarray(rows)

    def impute(self, X: Any) -> Mat:
        """The rows, with what is expected in place of missing entries.

        Parameters
        ----------
        X : array-like or data frame of shape (n_rows, n_features)
            The rows; NaN is missing.

        Returns
        -------
        rows : ndarray of shape (n_rows, n_features)
            Without NaN; entries that were there are as they were.
        """
        return np.concatenate(self._mapped(_filled, X))

    def score_samples(self, X: Any) -> Vec:
        """Log density of the entries that each row has.

        Parameters
        ----------
        X : array-like or data frame of shape (n_rows, n_features)
            The rows; NaN is missing.

        Returns
        -------
        log_likelihood : ndarray of shape (n_rows,)
            In nats.
        """
        return np.concatenate(self._mapped(_scores, X))

    def score(self, X: Any, y: Any = None) -> float:
        """Mean log-likelihood of the rows.

        Parameters
        ----------
        X : array-like or data frame of shape (n_rows, n_features)
            The rows; NaN is missing.
        y : None
            Ignored.

        Returns
        -------
        score : float
            Nats per row.
        """
        return float(self.score_samples(X).mean())

    @available_if(is_mixture)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Mat:
        """Probabilities of the PPCAs of a mixture for each row; only if `n_mixtures` is not 1.

        Parameters
        ----------
        X : array-like or data frame of shape (n_rows, n_features)
            The rows; NaN is missing.

        Returns
        -------
        shares : ndarray of shape (n_rows, n_mixtures_)
            Rows sum to 1.
        """
        return np.concatenate(self._mapped(_responsibilities, X))

    @available_if(is_mixture)  # type: ignore[untyped-decorator]
    def predict(self, X: Any) -> IntVec:
        """The likeliest PPCA of a mixture for each row; only if `n_mixtures` is not 1.

        Parameters
        ----------
        X : array-like or data frame of shape (n_rows, n_features)
            The rows; NaN is missing.

        Returns
        -------
        labels : ndarray of shape (n_rows,)
            Positions in `weights_`.
        """
        return np.asarray(self.predict_proba(X).argmax(axis=1))

    def get_covariance(self) -> Mat:
        """Covariance of rows, of a mixture that between its PPCAs included.

        Returns
        -------
        covariance : ndarray of shape (n_features, n_features)
        """
        state = self._fitted()
        mean = sum(w * m.mean for w, m in zip(state.weights, state.models, strict=True))
        parts = [
            w * (m.covariance() + np.outer(m.mean - mean, m.mean - mean))
            for w, m in zip(state.weights, state.models, strict=True)
        ]
        return np.asarray(sum(parts[1:], start=parts[0]))

    def get_precision(self) -> Mat:
        """Inverse of the covariance.

        Returns
        -------
        precision : ndarray of shape (n_features, n_features)
        """
        models = self._fitted().models
        if len(models) == 1:
            return models[0].precision()
        return np.asarray(np.linalg.inv(self.get_covariance()))

    def sample(self, n_samples: int = 1) -> tuple[Mat, IntVec]:
        """Draw rows from the model.

        Parameters
        ----------
        n_samples : int, default=1
            How many.

        Returns
        -------
        X : ndarray of shape (n_samples, n_features)
            The rows, ordered by the PPCA of a mixture.
        y : ndarray of shape (n_samples,)
            The PPCA each was drawn from, as a position.
        """
        state = self._fitted()
        check_params(f"{type(self).__name__}.sample", {"n_samples": n_samples}, _SAMPLE_CONSTRAINTS)
        rng = stream(self._new_seed(), "sample")
        counts = rng.multinomial(n_samples, state.weights / state.weights.sum())
        drawn = [model.draw(int(n), rng) for model, n in zip(state.models, counts, strict=True)]
        return np.concatenate(drawn), np.repeat(np.arange(len(counts)), counts)

    def _mapped(self, task: Any, X: Any) -> list[Any]:
        """What a task makes of each block of rows."""
        state = self._fitted()
        check_same_model(self, self._learned)
        rows = checked_rows(self, X, reset=False)
        blocks = rows.blocks(block_rows(self.n_features_in_, self.n_components))
        with open_engine("serial" if len(blocks) == 1 else nearby(self.engine)) as engine:
            return list(engine.map(task, blocks, state))


def _posteriors(state: PPCAState, rows: Rows) -> tuple[list[RowPosterior], Mat]:
    """Beliefs under each PPCA, and their joint log-likelihoods with it."""
    found = [model.posterior(rows.X) for model in state.models]
    return found, joint_log_likelihood(found, state.log_weights)


def _scores(state: PPCAState, rows: Rows) -> Vec:
    return np.asarray(logsumexp(_posteriors(state, rows)[1], axis=1))


def _responsibilities(state: PPCAState, rows: Rows) -> Mat:
    return _shares(_posteriors(state, rows)[1])


def _shares(joint: Mat) -> Mat:
    shares = np.exp(joint - joint.max(axis=1, keepdims=True))
    return np.asarray(shares / shares.sum(axis=1, keepdims=True))


def _latents(state: PPCAState, rows: Rows) -> Mat:
    return state.models[0].posterior(rows.X).z


def _mixed_latents(state: PPCAState, rows: Rows) -> Mat:
    found, joint = _posteriors(state, rows)
    shares = _shares(joint)
    weighted = [r[:, None] * one.z for r, one in zip(shares.T, found, strict=True)]
    return np.hstack([shares, *weighted])


def _filled(state: PPCAState, rows: Rows) -> Mat:
    found, joint = _posteriors(state, rows)
    shares = _shares(joint)
    filled = np.zeros(rows.X.shape)
    for r, one in zip(shares.T, found, strict=True):
        filled += r[:, None] * one.filled
    return np.asarray(np.where(np.isnan(rows.X), filled, rows.X))


def _unshrunk(model: PPCA) -> Mat:
    """What expected latents are multiplied with for an orthogonal projection, (d, q)."""
    u, s, v = model.axes()
    scale = np.divide(s**2 + model.noise, s, out=np.zeros_like(s), where=s > 0.0)
    return np.asarray((u * scale) @ v.T)
