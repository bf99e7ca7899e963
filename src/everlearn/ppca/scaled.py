"""`ScaledPCA`: principal components of a stream of rows, with a mean variance of 1."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from everlearn.core.arrays import Mat, Vec
from everlearn.estimator.base import LearnerMixin, named_errors
from everlearn.estimator.params import Constraint, Instance, Interval
from everlearn.estimator.saving import SaveMixin
from everlearn.estimator.tables import LARGEST, plain_numbers
from everlearn.ppca.moments import signed
from everlearn.store.schema import Array, Record, Scalar, expect

_FLAT = 1e-12
"""A singular value below this share of the largest one is a rounding error."""
_LEAST_RESIDUAL = 1e-6
"""A smaller residual, in units of the components, is rounding."""
_SPARE = 2
"""So many times `n_components` directions are kept between batches."""


@dataclass(frozen=True, slots=True)
class Axes:
    """Mean of the rows, their principal directions (k, d), singular values, and number of rows.

    Only the first `n_components` directions are used. The others are kept because every batch loses
    what lies beyond all directions, which would make variances too small.
    """

    mean: Vec
    directions: Mat
    sizes: Vec
    n_rows: int
    n_components: int

    @classmethod
    def none(cls, d: int) -> Axes:
        """Before any rows."""
        return cls(np.zeros(d), np.zeros((0, d)), np.zeros(0), 0, 0)

    def after(self, X: Mat, n_components: int) -> Axes:
        """The axes of these rows and all before, by the update of Ross et al. (2008).

        It is that of scikit-learn's IncrementalPCA: earlier rows enter by their directions and
        their mean.
        """
        n, m = self.n_rows, len(X)
        own = X.mean(axis=0)
        shift = np.sqrt(n * m / (n + m)) * (self.mean - own)
        stacked = np.vstack([self.sizes[:, None] * self.directions, X - own, shift])
        _, sizes, directions = np.linalg.svd(stacked, full_matrices=False)
        rank = int((sizes > _FLAT * max(sizes[0], 1e-300)).sum())
        k = min(_SPARE * n_components, rank)
        mean = self.mean + (own - self.mean) * (m / (n + m))
        turned = np.ascontiguousarray(signed(directions[:k].T).T)
        return Axes(mean, turned, sizes[:k], n + m, min(n_components, rank))

    @property
    def variances(self) -> Vec:
        """Variances of the rows along the directions that are used."""
        return np.asarray(self.sizes[: self.n_components] ** 2 / max(1, self.n_rows - 1))

    @property
    def n_features(self) -> int:
        """Width of a row."""
        return len(self.mean)

    @property
    def seed(self) -> int:
        """Nothing is drawn at random."""
        return 0


def _check_axes(axes: Axes, place: str) -> None:
    sizes, k = axes.sizes, len(axes.sizes)
    expect(axes.n_features, f"{place}/mean", "an entry for each feature")
    expect(k <= axes.n_features, f"{place}/sizes", "at most one for each feature")
    expect((np.diff(sizes) <= 0).all(), f"{place}/sizes", "singular values, the largest first")
    close = np.allclose(axes.directions @ axes.directions.T, np.eye(k), atol=1e-6)
    expect(close, f"{place}/directions", "perpendicular directions of length 1")
    expect(axes.n_components <= k, f"{place}/n_components", f"at most {k} directions")


_AXES = Record(
    Axes,
    {
        "mean": Array("features", low=-LARGEST, high=LARGEST),
        "directions": Array("directions", "features", low=-2.0, high=2.0),
        "sizes": Array("directions", low=0.0),
        "n_rows": Scalar(int, 1, 2**63),
        "n_components": Scalar(int, 0, 2**31),
    },
    check=_check_axes,
)


class ScaledPCA(
    LearnerMixin, ClassNamePrefixFeaturesOutMixin, SaveMixin, TransformerMixin, BaseEstimator
):
    """Principal components of rows, all divided by one number so that their mean variance is 1.

    The components are not whitened: directions with little variance stay small. Priors of mixtures
    expect this scale, see docs/ask/priors.md. Rows may come in batches.

    Parameters
    ----------
    n_components : int, default=100
        Number of components; fewer as long as rows vary in fewer directions. Twice as many are
        kept between batches, which keeps variances right to a percent or two.
    batch_size : int, default=500
        Rows that are learned at a time. More need more memory.
    residual : bool, default=False
        Add a column to what `transform` returns: the log of how far a row is from its projection,
        divided by `scale_`. Use it to find outliers: what makes a row odd is often just what the
        components leave out.

    Attributes
    ----------
    n_components_ : int
        Number of components.
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
    _schema = _AXES
    _learned: Axes
    _constraints: ClassVar[Mapping[str, tuple[Constraint, ...]]] = {
        "n_components": (Interval(1, integer=True),),
        "batch_size": (Interval(1, integer=True),),
        "residual": (Instance((bool,), "a truth value"),),
    }

    def __init__(
        self, n_components: int = 100, *, batch_size: int = 500, residual: bool = False
    ) -> None:
        self.n_components = n_components
        self.batch_size = batch_size
        self.residual = residual

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
            self._learned = self._after(Axes.none(rows.shape[1]), rows)
        return self

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Learn from further rows, which changes the axes of coordinates.

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
        known: Axes | None = getattr(self, "_learned", None)
        with self._unchanged_on_error():
            rows = self._rows(X, reset=known is None)
            self._learned = self._after(known or Axes.none(rows.shape[1]), rows)
        return self

    def transform(self, X: Any) -> Mat:
        """Coordinates of rows along the components, divided by `scale_`.

        Parameters
        ----------
        X : array-like or data frame of shape (n_rows, n_features)
            The rows.

        Returns
        -------
        coordinates : ndarray of shape (n_rows, n_components)
            With `residual=True`, one more column.
        """
        check_is_fitted(self)
        rows, k = self._rows(X, reset=False), self.n_components_
        found = np.empty((len(rows), self._n_features_out))
        for part in self._batches(len(rows)):
            apart = rows[part] - self.mean_
            found[part, :k] = apart @ self.components_.T
            if self.residual:
                apart -= found[part, :k] @ self.components_
                found[part, k] = np.sqrt(np.einsum("nd,nd->n", apart, apart))
        found /= self.scale_
        if self.residual:
            found[:, k] = np.log(np.maximum(found[:, k], _LEAST_RESIDUAL))
        return found

    def inverse_transform(self, X: Any) -> Mat:
        """Rows with these coordinates, and the mean in all other directions.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_components)
            Coordinates. The column that `residual=True` adds may be there, and is left out.

        Returns
        -------
        rows : ndarray of shape (n_rows, n_features)
        """
        check_is_fitted(self)
        with named_errors(self, "X"):
            coordinates = check_array(plain_numbers(X), dtype=np.float64)
            width = coordinates.shape[1]
            if self.residual and width == self._n_features_out:
                coordinates = coordinates[:, :-1]
            elif width != self.n_components_:
                raise ValueError(
                    f"expected {self.n_components_} columns of coordinates, got {width}"
                )
        return np.asarray(self.scale_ * coordinates @ self.components_ + self.mean_)

    # -------------------------------------------------------------------- attributes

    @property
    def n_components_(self) -> int:
        """Number of components."""
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
        """Root of the mean variance along the directions. 1 if there is none."""
        variances = self._fitted().variances
        return float(np.sqrt(variances.mean())) if variances.any() else 1.0

    @property
    def n_samples_seen_(self) -> int:
        """Rows learned from."""
        return self._fitted().n_rows

    # ------------------------------------------------------------------------- inner

    @property
    def _n_features_out(self) -> int:
        return self.n_components_ + bool(self.residual)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_learned")

    def _fitted(self) -> Axes:
        if not hasattr(self, "_learned"):
            raise AttributeError("ScaledPCA has learned no rows yet")
        return self._learned

    def _after(self, axes: Axes, rows: NDArray[Any]) -> Axes:
        for part in self._batches(len(rows)):
            axes = axes.after(np.asarray(rows[part], np.float64), self.n_components)
        return axes

    def _batches(self, n: int) -> Iterator[slice]:
        """The rows of each batch. Only one batch at a time is in double precision."""
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
