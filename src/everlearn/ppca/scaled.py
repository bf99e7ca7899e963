"""`ScaledPCA`: principal components of a stream of rows, in one unit for all of them."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from everlearn.core.arrays import Mat, Vec
from everlearn.errors import CheckpointError
from everlearn.estimator.base import LearnerMixin, named_errors
from everlearn.estimator.params import Constraint, Interval
from everlearn.estimator.saving import SaveMixin, checked_names, feature_names, plain_params
from everlearn.estimator.tables import LARGEST, plain_numbers
from everlearn.store.schema import Arrays, entry, member, require, section

_FLAT = 1e-12
"""Directions with less than this part of the largest singular value are rounding, not spread."""
_SPARE = 2
"""As many directions as are asked for, times this, are remembered between portions of rows."""


@dataclass(frozen=True, slots=True)
class Axes:
    """Mean of the rows, their principal directions (k, d), singular values, and how many came.

    Of the directions the first `n_components` are of use. The others are there for rows to come:
    what lies beyond all of them is lost at every portion, and variances would be too small.
    """

    mean: Vec
    directions: Mat
    sizes: Vec
    n_rows: int
    n_components: int

    @classmethod
    def none(cls, d: int) -> Axes:
        """What no rows say."""
        return cls(np.zeros(d), np.zeros((0, d)), np.zeros(0), 0, 0)

    def after(self, X: Mat, n_components: int) -> Axes:
        """The axes of these rows and all before.

        The earlier rows enter as their kept directions and their mean (Ross et al. 2008), as in
        scikit-learn's IncrementalPCA.
        """
        n, m = self.n_rows, len(X)
        own = X.mean(axis=0)
        shift = np.sqrt(n * m / (n + m)) * (self.mean - own)
        stacked = np.vstack([self.sizes[:, None] * self.directions, X - own, shift])
        _, sizes, directions = np.linalg.svd(stacked, full_matrices=False)
        rank = int((sizes > _FLAT * max(sizes[0], 1e-300)).sum())
        k = min(_SPARE * n_components, rank)
        mean = self.mean + (own - self.mean) * (m / (n + m))
        return Axes(mean, _turned(directions[:k]), sizes[:k], n + m, min(n_components, rank))

    @property
    def variances(self) -> Vec:
        """Of the rows along the directions of use."""
        return np.asarray(self.sizes[: self.n_components] ** 2 / max(1, self.n_rows - 1))


class ScaledPCA(
    LearnerMixin, ClassNamePrefixFeaturesOutMixin, SaveMixin, TransformerMixin, BaseEstimator
):
    """Principal components, divided by one number so that their mean variance is 1.

    The components are not whitened: directions with little variance stay quiet. The unit is what
    the priors of mixtures presuppose, see docs/ask/priors.md. Rows may come in portions.

    Parameters
    ----------
    n_components : int, default=100
        Directions of coordinates; fewer while rows spread in fewer. Twice as many are kept, so that
        the variances of rows that come in portions are those of all rows to a percent or two.
    batch_size : int, default=500
        Rows that `fit` takes at a time.

    Attributes
    ----------
    n_components_ : int
        Directions of coordinates.
    components_ : ndarray of shape (n_components, n_features)
        The directions, the largest variance first.
    mean_ : ndarray of shape (n_features,)
        Mean of the rows.
    scale_ : float
        The number that coordinates are divided by.
    explained_variance_ : ndarray of shape (n_components,)
        Variances of the rows along the directions, before the division.
    n_samples_seen_ : int
        Rows learned from.
    n_features_in_ : int
        Width of a row.

    Examples
    --------
    >>> from everlearn.images import ScaledPCA
    >>> X = np.random.default_rng(0).normal(size=(200, 5)) * [9, 3, 1, 1, 1]
    >>> ScaledPCA(n_components=2).fit_transform(X).var(axis=0, ddof=1).round(2)
    array([1.78, 0.22])
    """

    checkpoint_key: ClassVar[str] = "scaled-pca"

    _constraints: ClassVar[Mapping[str, tuple[Constraint, ...]]] = {
        "n_components": (Interval(1, integer=True),),
        "batch_size": (Interval(1, integer=True),),
    }

    def __init__(self, n_components: int = 100, *, batch_size: int = 500) -> None:
        self.n_components = n_components
        self.batch_size = batch_size

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the components of a data set, forgetting anything learned before.

        Parameters
        ----------
        X : array-like or data frame of shape (n_rows, n_features)
            The rows.
        y : None
            Ignored.

        Returns
        -------
        self
            The fitted transformer.
        """
        with self._unchanged_on_error():
            rows = self._rows(X, reset=True)
            self._axes = self._learned(Axes.none(rows.shape[1]), rows)
        return self

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Learn from further rows. Coordinates given before are then of other axes.

        Parameters
        ----------
        X : array-like or data frame of shape (n_rows, n_features)
            The rows.
        y : None
            Ignored.

        Returns
        -------
        self
            The transformer, which has learned the rows.
        """
        known: Axes | None = getattr(self, "_axes", None)
        with self._unchanged_on_error():
            rows = self._rows(X, reset=known is None)
            self._axes = self._learned(known or Axes.none(rows.shape[1]), rows)
        return self

    def transform(self, X: Any) -> Mat:
        """Coordinates of rows along the components, in the unit of the model.

        Parameters
        ----------
        X : array-like or data frame of shape (n_rows, n_features)
            The rows.

        Returns
        -------
        coordinates : ndarray of shape (n_rows, n_components)
        """
        check_is_fitted(self)
        rows = self._rows(X, reset=False)
        found = np.empty((len(rows), self.n_components_))
        for part in self._portions(len(rows)):
            found[part] = (rows[part] - self.mean_) @ self.components_.T
        return found / self.scale_

    def inverse_transform(self, X: Any) -> Mat:
        """The rows that have these coordinates, as far as the components tell.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_components)
            Coordinates.

        Returns
        -------
        rows : ndarray of shape (n_rows, n_features)
        """
        check_is_fitted(self)
        coordinates = np.asarray(X, np.float64)
        if coordinates.ndim != 2 or coordinates.shape[1] != self.n_components_:
            raise ValueError(
                f"X of ScaledPCA.inverse_transform must have {self.n_components_} columns, got "
                f"the shape {coordinates.shape}"
            )
        return np.asarray(self.scale_ * coordinates @ self.components_ + self.mean_)

    # -------------------------------------------------------------------- attributes

    @property
    def n_components_(self) -> int:
        """Directions of coordinates."""
        return self._fitted().n_components

    @property
    def components_(self) -> Mat:
        """The directions."""
        axes = self._fitted()
        return axes.directions[: axes.n_components]

    @property
    def mean_(self) -> Vec:
        """Mean of the rows."""
        return self._fitted().mean

    @property
    def explained_variance_(self) -> Vec:
        """Variances along the directions."""
        return self._fitted().variances

    @property
    def scale_(self) -> float:
        """Root of the mean variance along the directions; 1 if there is none."""
        variances = self._fitted().variances
        return float(np.sqrt(variances.mean())) if variances.any() else 1.0

    @property
    def n_samples_seen_(self) -> int:
        """Rows learned from."""
        return self._fitted().n_rows

    # ------------------------------------------------------------------------- inner

    @property
    def _n_features_out(self) -> int:
        return self.n_components_

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_axes")

    def _fitted(self) -> Axes:
        if not hasattr(self, "_axes"):
            raise AttributeError("ScaledPCA has learned no rows yet")
        return self._axes

    def _learned(self, axes: Axes, rows: NDArray[Any]) -> Axes:
        for part in self._portions(len(rows)):
            axes = axes.after(np.asarray(rows[part], np.float64), self.n_components)
        return axes

    def _portions(self, n: int) -> Iterator[slice]:
        """Where portions begin and end; only one at a time is in double precision."""
        for start in range(0, n, self.batch_size):
            yield slice(start, start + self.batch_size)

    def _rows(self, X: Any, *, reset: bool) -> NDArray[Any]:
        self._check_params()
        with named_errors(self, "X"):
            least = 2 if reset else 1
            rows = validate_data(
                self,
                plain_numbers(X),
                reset=reset,
                dtype=[np.float64, np.float32],
                ensure_min_samples=least,
            )
        largest = max(float(rows.max()), -float(rows.min()))
        if largest > LARGEST:
            raise ValueError(
                f"X of ScaledPCA must have entries of at most {LARGEST:g} in size, got {largest:g}"
            )
        return np.asarray(rows)

    def to_checkpoint(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The fitted transformer as JSON and arrays; `save` writes them."""
        check_is_fitted(self)
        self._check_params()
        axes = self._axes
        return {
            "params": plain_params(self.get_params(deep=False), 0),
            "n_rows": axes.n_rows,
            "n_components": axes.n_components,
            "feature_names": feature_names(self),
        }, {"mean": axes.mean, "directions": axes.directions, "sizes": axes.sizes}

    @classmethod
    def from_checkpoint(cls, header: Mapping[str, Any], arrays: Arrays) -> Self:
        """Inverse of `to_checkpoint`; `everlearn.load` reads the file."""
        params = section(header, "params", inspect.signature(cls).parameters)
        estimator = cls(**params)
        try:
            estimator._check_params()
        except (TypeError, ValueError) as error:
            raise CheckpointError(f"the header's 'params': {error}") from error
        if unknown := sorted(set(arrays) - {"mean", "directions", "sizes"}):
            raise CheckpointError(f"member {unknown[0]!r} belongs to nothing in the header")
        mean = member(arrays, "mean", (None,), "float64")
        sizes = member(arrays, "sizes", (None,), "float64")
        directions = member(arrays, "directions", (len(sizes), len(mean)), "float64")
        n_rows = entry(header, "n_rows", int, 1, 2**63)
        told = {"n_components": len(sizes), **header}  # older files keep no more than they use
        n_components = entry(told, "n_components", int, 0, len(sizes))
        falling = (np.diff(sizes) <= 0).all() and (sizes >= 0).all()
        few = len(sizes) <= len(mean)  # whatever the parameter says now
        require(falling and few, "sizes", "few singular values, the largest first")
        upright = np.allclose(directions @ directions.T, np.eye(len(sizes)), atol=1e-6)
        require(upright, "directions", "perpendicular directions of length 1")
        require(len(mean) and (np.abs(mean) <= LARGEST).all(), "mean", f"within {LARGEST:g}")
        estimator._axes = Axes(mean, directions, sizes, n_rows, n_components)
        estimator.n_features_in_ = len(mean)
        names = header.get("feature_names")
        if names is not None:
            estimator.feature_names_in_ = checked_names(names, len(mean))
        return estimator


def _turned(directions: Mat) -> Mat:
    """The directions, each with a positive entry where it is largest, so that signs are settled."""
    largest = np.abs(directions).argmax(axis=1)
    signs = np.sign(directions[np.arange(len(directions)), largest])
    return np.asarray(directions * signs[:, None])
