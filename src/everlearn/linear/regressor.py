"""A linear regressor that learns row by row and moves no more than it must."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import RegressorMixin
from sklearn.utils import Tags, check_array

from everlearn.core.arrays import Mat
from everlearn.estimator.base import named_errors
from everlearn.estimator.params import Constraint, Options
from everlearn.estimator.tables import check_size, checked_table, plain_numbers
from everlearn.linear.estimator import PassiveAggressive
from everlearn.linear.inputs import open_tables
from everlearn.store.schema import Arrays, entry, require, section

_DEFAULT_C = {"averaging": 0.01, "gibbs": 0.1}


class Outputs(NamedTuple):
    """How many numbers are predicted for a row, and whether `y` has one axis only."""

    n_outputs: int
    flat: bool


class BayesianPassiveAggressiveRegressor(RegressorMixin, PassiveAggressive[Outputs]):
    """Online Bayesian passive-aggressive regression with linear scores.

    Each row asks that its score be within `margin` of its target. If it is, nothing changes; if
    not, the weights move as little as possible.

    Parameters
    ----------
    loss : {"averaging", "gibbs"}, default="averaging"
        "averaging" moves the mean of the weights and keeps their covariance; it is the
        passive-aggressive algorithm of Crammer et al. (2006). "gibbs" learns the covariance too.
    slack : {"linear", "squared", "none"}, default="linear"
        What leaving the tube costs: PA-I, PA-II and PA of Crammer et al., with C = 2 c. "none"
        needs `batch_size=1`. `loss="gibbs"` is for "linear" only.
    margin : float, default=0.1
        Half-width of the tube around targets within which an error costs nothing.
    c : float or None, default=None
        Weight of the loss; the objective has 2 c times the loss. Smaller values learn more
        slowly, and from outliers less. None means 0.01 for "averaging" and 0.1 for "gibbs",
        which suit targets of unit scale.
    variance : float, default=1.0
        Prior variance of each weight.
    covariance : {"full", "diag"}, default="full"
        For `loss="gibbs"`: "full" keeps a matrix of n_features squared for each output, "diag"
        a number for each weight.
    inference : {"variational", "sampled"}, default="variational"
        For `loss="gibbs"`: whether augmentation variables are replaced by their means, or drawn.
    batch_size : int, default=1
        Rows that are learned together, at most 1024; jointly, as far as `tol` asks.
    n_passes : int, default=1
        Passes over the data in `fit`. With `loss="gibbs"` each pass counts the rows once more.
    shuffle : bool, default=True
        Whether `fit` visits rows in random order. `partial_fit` takes them as they come.
    fit_intercept : bool, default=True
        Whether a feature that is always 1 is added, with a weight like the others.
    max_rounds : int, default=50
        The most sweeps over the rows of a batch, or rounds of its fixed point.
    tol : float, default=1e-3
        A batch is done when a round moves no score by more than this share of the largest loss
        before it ("averaging") or of its own standard deviation before it ("gibbs").
    engine : {None, "serial", "threads", "dask"}, Client or address, default=None
        As in other estimators. A row depends on those before it, so all of them do the same.
    random_state : int, RandomState instance or None, default=None
        Determines the order of visits, and draws.
    verbose : int, default=0
        As in other estimators; there is nothing to show.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,), or (n_outputs, n_features) if `y` has two axes
        Mean of the weights.
    intercept_ : float or ndarray of shape (n_outputs,)
        Mean of the weight of the constant feature.
    coef_variance_, intercept_variance_ : ndarray
        Their posterior variances, if `loss="gibbs"`.
    n_rows_seen_ : int
        Rows learned from, each counted as often as it was visited.
    n_features_in_ : int
        Width of a row.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.preprocessing import scale
    >>> from everlearn import BayesianPassiveAggressiveRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = BayesianPassiveAggressiveRegressor(loss="gibbs", random_state=0)
    >>> bool(model.fit(scale(X), scale(y)).score(scale(X), scale(y)) > 0.45)
    True
    """

    checkpoint_key: ClassVar[str] = "bayesian-pa-regressor"
    _one_sided = False
    _constraints: ClassVar[Mapping[str, tuple[Constraint, ...]]] = {
        **PassiveAggressive._constraints,
        "c": (Options((None,)), *PassiveAggressive._constraints["c"]),
    }

    def __init__(
        self,
        *,
        loss: str = "averaging",
        slack: str = "linear",
        margin: float = 0.1,
        c: float | None = None,
        variance: float = 1.0,
        covariance: str = "full",
        inference: str = "variational",
        batch_size: int = 1,
        n_passes: int = 1,
        shuffle: bool = True,
        fit_intercept: bool = True,
        max_rounds: int = 50,
        tol: float = 1e-3,
        engine: str | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        super().__init__(
            loss=loss,
            slack=slack,
            margin=margin,
            c=c,
            variance=variance,
            covariance=covariance,
            inference=inference,
            batch_size=batch_size,
            n_passes=n_passes,
            shuffle=shuffle,
            fit_intercept=fit_intercept,
            max_rounds=max_rounds,
            tol=tol,
            engine=engine,
            random_state=random_state,
            verbose=verbose,
        )

    def fit(self, X: Any, y: Any) -> Self:
        """Learn from a data set, forgetting anything learned before.

        Parameters
        ----------
        X : array-like, sparse matrix, data frame or Dask collection of shape (n_rows, n_features)
            The rows. Dask collections, also `y`, are brought here; chunks of X come one after the
            other if they are visited once and in order (`n_passes=1, shuffle=False`).
        y : array-like of shape (n_rows,) or (n_rows, n_outputs)
            The numbers to predict.

        Returns
        -------
        self
            The fitted estimator.
        """
        with self._unchanged_on_error():
            self._check_params()
            with open_tables(self, X, y) as given:
                targets, outputs = self._numbers(given.y, given.n_rows)
                begun = self._begin(outputs, outputs.n_outputs)
                self._learned = self._fit_passes(begun, given.tables, targets)
        return self

    def partial_fit(self, X: Any, y: Any) -> Self:
        """Learn from rows that need not come again, in the order in which they come.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n_rows, n_features)
            The rows.
        y : array-like of shape (n_rows,) or (n_rows, n_outputs)
            The numbers to predict.

        Returns
        -------
        self
            The estimator, which has learned the rows.
        """
        with self._unchanged_on_error():
            self._check_params()
            learned = self._known()
            rows = checked_table(self, X, reset=learned is None)
            targets, outputs = self._numbers(y, rows.shape[0])
            if learned is None:
                learned = self._begin(outputs, outputs.n_outputs)
            if outputs != learned.outputs:
                raise ValueError(
                    f"'y' of {type(self).__name__} must be {_described(learned.outputs)}, as when "
                    f"learning began. Got {_described(outputs)}."
                )
            self._learned = self._go_on(learned, rows, targets)
        return self

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """The mean score of each row.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n_rows, n_features)
            The rows.
        return_std : bool, default=False
            Whether to return the posterior standard deviation of the score as well, which needs
            `loss="gibbs"`. It says how well the weights are known, and leaves out the noise of
            the targets.

        Returns
        -------
        y : ndarray of shape (n_rows,) or (n_rows, n_outputs)
            The means.
        std : ndarray of the same shape
            Only if `return_std`.
        """
        rows, scores = self._scores(X)
        learned = self._fitted()
        flat = learned.outputs.flat
        mean = scores[:, 0] if flat else scores
        if not return_std:
            return mean
        if learned.state.belief is None:
            raise ValueError(
                f"'return_std' of {type(self).__name__} must be False if loss='averaging', which "
                "does not learn variances. Got True."
            )
        deviations = np.sqrt(learned.state.variances(rows))
        return mean, deviations[:, 0] if flat else deviations

    def _numbers(self, y: Any, n_rows: int) -> tuple[Mat, Outputs]:
        """Targets of shape (n_rows, n_outputs), and what they are."""
        name = type(self).__name__
        if y is None:
            raise ValueError(f"{name} requires y to be passed, but the target y is None")
        with named_errors(self, "y"):
            if np.ma.is_masked(y):
                raise ValueError("expected a number for each row, got masked entries")
            if sparse.issparse(y):
                raise ValueError("expected a dense array, got a sparse one")
            numbers = check_array(
                plain_numbers(y), dtype=np.float64, ensure_2d=False, input_name="y"
            )
            if numbers.ndim == 0 or len(numbers) != n_rows:
                raise ValueError(
                    f"expected a number for each of {n_rows} rows, got shape {numbers.shape}"
                )
            check_size(numbers)
        flat = numbers.ndim == 1
        table = np.ascontiguousarray(numbers.reshape(n_rows, -1))
        return table, Outputs(table.shape[1], flat)

    def _weights(self, values: Mat) -> Mat:
        weights = super()._weights(values)
        return weights[0] if self._fitted().outputs.flat else weights

    def _intercepts(self, values: Mat) -> Any:
        intercepts = super()._intercepts(values)
        return float(intercepts[0]) if self._fitted().outputs.flat else intercepts

    def _loss_weight(self) -> float:
        return _DEFAULT_C[self.loss] if self.c is None else float(self.c)

    def _pack_outputs(self, outputs: Outputs) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        return {"flat": outputs.flat}, {}

    @classmethod
    def _unpack_outputs(cls, header: Any, arrays: Arrays, n_tasks: int) -> Outputs:
        flat = entry(section(header, "outputs", ("flat",)), "flat", bool)
        require(not flat or n_tasks == 1, "weights", "a column, because 'y' is one")
        return Outputs(n_tasks, flat)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


def _described(outputs: Outputs) -> str:
    if outputs.flat:
        return "a number for each row"
    return f"a matrix with {outputs.n_outputs} columns"
