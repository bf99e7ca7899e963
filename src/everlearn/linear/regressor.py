"""`BayesianPassiveAggressiveRegressor`: a linear regressor for streams."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils import Tags

from everlearn.core.arrays import Mat, Vec
from everlearn.engine.opening import EngineChoice
from everlearn.estimator.params import Constraint, Interval
from everlearn.estimator.tables import checked_table
from everlearn.linear.checkpoint import REGRESSOR_FIT
from everlearn.linear.estimator import PassiveAggressive
from everlearn.linear.inputs import open_tables
from everlearn.linear.targets import NumberTargets, read_numbers


class BayesianPassiveAggressiveRegressor(RegressorMixin, PassiveAggressive[NumberTargets]):
    """Online Bayesian passive-aggressive regression with linear scores.

    A row whose score is within `epsilon` of its target hardly changes anything. Any other row moves
    the weights by as little as possible.

    Columns and targets may have any units. The model follows their mean and spread, learns in
    standardised units, and reports weights in yours. If the first rows are sparse, columns are
    scaled but not centred, and zeros do not count.

    Parameters
    ----------
    loss : {"gibbs", "averaging"}, default="gibbs"
        "gibbs" learns the variances of weights too, which `predict(return_std=True)` needs. One
        pass is as good as many. "averaging" learns only their means (the passive-aggressive
        algorithm of Crammer et al., 2006). It is quicker, takes less memory, and is rough after
        one pass.
    slack : {"squared", "linear", "none"}, default="squared"
        Loss of a row whose error exceeds `epsilon`. "squared" (PA-II) is ridge regression if
        `epsilon` is small. "linear" (PA-I) is more robust to outliers. "none" (PA) fits each row
        to within `epsilon`, and needs `loss="averaging", batch_size=1`.
    epsilon : float, default=0.01
        Errors up to this size cost nothing. In standard deviations of the targets.
    C : float, default=1.0
        Weight of the loss, as in scikit-learn, for targets of unit spread. Smaller values learn
        more slowly, and less from outliers.
    variance : float, default=1.0
        Prior variance of each weight, in standardised units.
    covariance : {"auto", "full", "diag"}, default="auto"
        For `loss="gibbs"`: "full" keeps a matrix of n_features squared for each output, "diag"
        a number for each weight. "auto" is "full" up to 299 columns and 4 million numbers in all.
    inference : {"variational", "sampled"}, default="variational"
        For `loss="gibbs", slack="linear"`: "variational" uses the means of the augmentation
        variables, "sampled" draws them.
    batch_size : int, default=32
        Rows that are learned together, at most 1024. Each batch is repeated until its scores
        settle (`tol`).
    max_iter : int, default=1000
        Limit of the passes of `fit`. A new pass replaces the old one, so each row counts once.
        With 1, `fit` is a `partial_fit` of the shuffled rows. `slack="none"` and
        `inference="sampled"` never settle, so they have one pass.
    shuffle : bool, default=True
        Whether `fit` visits rows in random order. `partial_fit` keeps their order.
    fit_intercept : bool, default=True
        Whether a feature that is always 1 is added, with a weight like the others. Without it,
        columns and targets are scaled but not centred.
    tol : float, default=0.01
        `fit` ends when a pass changes scores by less than this (root mean square). The unit is
        the standard deviation of the scores ("gibbs"), or of the targets ("averaging", and
        independent weights). A batch ends when a round changes no score by more than this share
        of its standard deviation, or of the largest loss before the batch.
    engine : {None, "serial", "threads", "dask"}, Client or address, default=None
        Changes nothing, because each row depends on the rows before it. Accepted as in all
        estimators.
    random_state : int, RandomState instance or None, default=None
        Seed of the order of rows, and of draws.
    verbose : int, default=0
        Changes nothing: no progress is shown. Accepted as in all estimators.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,), or (n_outputs, n_features) if `y` has two axes
        Mean of the weights, in units of the targets by units of the columns.
    intercept_ : float or ndarray of shape (n_outputs,)
        Mean score of a row of zeros.
    coef_variance_, intercept_variance_ : ndarray
        Their posterior variances, if `loss="gibbs"`.
    n_samples_seen_ : int
        Rows learned from.
    n_iter_ : int
        Passes of the last `fit`.
    n_features_in_ : int
        Width of a row.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from everlearn import BayesianPassiveAggressiveRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = BayesianPassiveAggressiveRegressor(random_state=0)
    >>> bool(model.fit(X, y).score(X, y) > 0.5)
    True
    """

    checkpoint_key: ClassVar[str] = "bayesian-pa-regressor"
    _schema = REGRESSOR_FIT
    _one_sided = False
    _constraints: ClassVar[Mapping[str, tuple[Constraint, ...]]] = {
        **PassiveAggressive._constraints,
        "epsilon": (Interval(0, 1e50, low_open=True),),
    }

    def __init__(
        self,
        *,
        loss: str = "gibbs",
        slack: str = "squared",
        epsilon: float = 0.01,
        C: float = 1.0,
        variance: float = 1.0,
        covariance: str = "auto",
        inference: str = "variational",
        batch_size: int = 32,
        max_iter: int = 1000,
        shuffle: bool = True,
        fit_intercept: bool = True,
        tol: float = 0.01,
        engine: EngineChoice = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        super().__init__(
            loss=loss,
            slack=slack,
            C=C,
            variance=variance,
            covariance=covariance,
            inference=inference,
            batch_size=batch_size,
            max_iter=max_iter,
            shuffle=shuffle,
            fit_intercept=fit_intercept,
            tol=tol,
            engine=engine,
            random_state=random_state,
            verbose=verbose,
        )
        self.epsilon = epsilon

    def fit(self, X: Any, y: Any) -> Self:
        """Learn from a data set, forgetting anything learned before.

        Parameters
        ----------
        X : array-like, sparse matrix, data frame or Dask collection of shape (n_rows, n_features)
            The rows. Dask collections, also `y`, are loaded into this process. With
            `max_iter=1, shuffle=False`, chunks of X are loaded one after the other.
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
                numbers, targets = read_numbers(self, given.y, given.n_rows)
                begun = self._begin(targets, targets.n_tasks)
                self._learned = self._learn_passes(begun, given.tables, numbers)
        return self

    def partial_fit(self, X: Any, y: Any) -> Self:
        """Learn from further rows, in their order. The model never needs them again.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n_rows, n_features)
            The rows.
        y : array-like of shape (n_rows,) or (n_rows, n_outputs)
            The numbers to predict.

        Returns
        -------
        self
            The estimator.
        """
        with self._unchanged_on_error():
            self._check_params()
            learned = self._known()
            rows = checked_table(self, X, reset=learned is None)
            numbers, targets = read_numbers(self, y, rows.shape[0])
            if learned is None:
                learned = self._begin(targets, targets.n_tasks)
            if targets != learned.targets:
                raise ValueError(
                    f"'y' of {type(self).__name__} must be {learned.targets}, as in the first "
                    f"call. Got {targets}."
                )
            self._learned = self._learn_in_order(learned, rows, numbers)
        return self

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """The mean score of each row.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n_rows, n_features)
            The rows.
        return_std : bool, default=False
            Whether to also return the posterior standard deviation of the score. Needs
            `loss="gibbs"`. It measures how uncertain the weights are, not how noisy the targets.

        Returns
        -------
        y : ndarray of shape (n_rows,) or (n_rows, n_outputs)
            The means.
        std : ndarray of the same shape
            Only if `return_std`.
        """
        rows, scores = self._scores(X)
        learned = self._fitted()
        flat = learned.targets.flat
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

    def _shaped(self, weights: Mat) -> Mat:
        return weights[0] if self._fitted().targets.flat else weights

    def _shaped_intercepts(self, intercepts: Vec) -> Any:
        return float(intercepts[0]) if self._fitted().targets.flat else intercepts

    def _tube(self) -> float:
        return float(self.epsilon)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
