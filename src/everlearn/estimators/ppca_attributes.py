"""What a learned `OnlinePPCA` shows: axes, variances, the reference and its information."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from everlearn.core.arrays import Mat, Vec
from everlearn.core.families.ppca import PPCA
from everlearn.core.families.ppca_fisher import Fisher
from everlearn.core.families.ppca_moments import signed
from everlearn.estimators.ppca_learning import Learned
from everlearn.inference.ppca_state import PPCAState


class Reference(NamedTuple):
    """What the constraint protects: a model, and the weight of the rows behind it."""

    mean: Vec
    loadings: Mat
    noise_variance: float
    n_rows: float


class PPCAAttributes:
    """Fitted attributes, computed from the state when asked for.

    With `n_mixtures=1` each is that of the one PPCA; otherwise it has an axis more, the first, for
    the PPCAs of the mixture.
    """

    _learned: Learned
    n_features_in_: int
    n_components: int
    n_mixtures: int

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_learned")

    def _fitted(self) -> PPCAState:
        check_is_fitted(self)
        return self._learned.state

    def _each(self, values: list[Any]) -> Any:
        """One for each PPCA of a mixture, or the only one."""
        return values[0] if self.n_mixtures == 1 else np.array(values)

    @property
    def mean_(self) -> NDArray[np.float64]:
        """Mean of the rows, (n_features,)."""
        return np.asarray(self._each([model.mean.copy() for model in self._fitted().models]))

    @property
    def loadings_(self) -> NDArray[np.float64]:
        """W, (n_features, n_components): the covariance is W W^T plus noise."""
        return np.asarray(self._each([model.loadings.copy() for model in self._fitted().models]))

    @property
    def components_(self) -> NDArray[np.float64]:
        """Orthonormal principal axes, (n_components, n_features), largest variance first."""
        return np.asarray(self._each([signed(m.axes()[0]).T for m in self._fitted().models]))

    @property
    def explained_variance_(self) -> NDArray[np.float64]:
        """Variance of the rows along each axis, noise included, (n_components,)."""
        return np.asarray(self._each([_variances(m) for m in self._fitted().models]))

    @property
    def explained_variance_ratio_(self) -> NDArray[np.float64]:
        """Its share of the variance along all directions, (n_components,)."""
        models = self._fitted().models
        return np.asarray(self._each([_variances(m) / _total(m) for m in models]))

    @property
    def noise_variance_(self) -> Any:
        """Variance in every direction that is no component."""
        return self._each([model.noise for model in self._fitted().models])

    @property
    def weights_(self) -> Vec:
        """Share of each PPCA in the mixture."""
        return self._fitted().weights.copy()

    @property
    def n_mixtures_(self) -> int:
        """PPCAs in use."""
        return len(self._fitted().models)

    @property
    def n_rows_seen_(self) -> int:
        """Rows learned from."""
        return self._fitted().count

    @property
    def n_steps_(self) -> int:
        """Batches learned; a `fit` counts as one."""
        return self._fitted().clock

    @property
    def n_iter_(self) -> int:
        """Iterations of the last `fit`; the closed form is one."""
        return max(1, len(self.log_likelihoods_))

    @property
    def task_(self) -> int | str | None:
        """Name of the task of the latest rows, if it was told."""
        return self._fitted().task

    @property
    def log_likelihoods_(self) -> Vec:
        """Mean log-likelihood before each iteration, if the last `fit` was made by EM."""
        self._fitted()
        return np.array(self._learned.likelihoods)

    @property
    def reference_(self) -> Reference | list[Reference] | None:
        """What the constraint protects, one for each PPCA; None if there is nothing yet."""
        found = [
            Reference(part.mean.copy(), part.factor.copy(), part.noise, part.mass)
            for part in self._fitted().reference
        ]
        if not found:
            return None
        return found[0] if self.n_mixtures == 1 else found

    @property
    def fisher_(self) -> Fisher | list[Fisher]:
        """Fisher information of one row at the parameters, as operators."""
        found = [Fisher.of(model) for model in self._fitted().models]
        return found[0] if self.n_mixtures == 1 else found

    @property
    def _n_features_out(self) -> int:
        k = self.n_mixtures_
        return self.n_components if self.n_mixtures == 1 else k * (1 + self.n_components)


def _variances(model: PPCA) -> Vec:
    return np.asarray(model.axes()[1] ** 2 + model.noise)


def _total(model: PPCA) -> float:
    return float(np.vdot(model.loadings, model.loadings)) + len(model.mean) * model.noise
