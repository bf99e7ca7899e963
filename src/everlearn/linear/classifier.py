"""`BayesianPassiveAggressiveClassifier`: a linear classifier for streams."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils import Tags
from sklearn.utils.metaestimators import available_if

from everlearn.core.arrays import Mat
from everlearn.estimator.labels import (
    LabelSpace,
    checked_signs,
    label_space,
    next_label_space,
)
from everlearn.estimator.tables import checked_table
from everlearn.linear.checkpoint import CLASSIFIER_FIT
from everlearn.linear.estimator import PassiveAggressive
from everlearn.linear.inputs import open_tables


def _learns_variances(estimator: Any) -> bool:
    return bool(estimator.loss == "gibbs")


class BayesianPassiveAggressiveClassifier(ClassifierMixin, PassiveAggressive[LabelSpace]):
    """Online Bayesian passive-aggressive classification with linear scores.

    A row whose score is at least 1 on the right side of zero hardly changes anything. Any other row
    moves the weights by as little as possible. Two classes are one task, more are one task each
    against the rest. An indicator matrix has a task for each column, and any label may be missing.

    Columns may have any units. The model follows their mean and spread, learns in standardised
    units, and reports weights in yours. If the first rows are sparse, columns are scaled but not
    centred, and zeros do not count.

    Parameters
    ----------
    loss : {"gibbs", "averaging"}, default="gibbs"
        "gibbs" learns the variances of weights too, which `predict_proba` needs. One pass is
        nearly as good as many. "averaging" learns only their means (the passive-aggressive
        algorithm of Crammer et al., 2006). It is quicker, takes less memory, and is rough after
        one pass.
    slack : {"squared", "linear", "none"}, default="squared"
        Loss of a row whose margin is below 1. "squared" is the squared hinge loss (PA-II).
        "linear" is the hinge loss (PA-I), more robust to mislabelled rows. "none" (PA) fits each
        row to its margin, and needs `loss="averaging", batch_size=1`.
    C : float, default=1.0
        Weight of the loss, as in scikit-learn. Smaller values learn more slowly, and less from
        mislabelled rows.
    variance : float, default=1.0
        Prior variance of each weight, in standardised units.
    covariance : {"auto", "full", "diag"}, default="auto"
        For `loss="gibbs"`: "full" keeps a matrix of n_features squared for each task, "diag"
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
        columns are scaled but not centred.
    tol : float, default=0.01
        `fit` ends when a pass changes scores by less than this (root mean square). The unit is
        the standard deviation of the scores ("gibbs"), or the margin ("averaging", and independent
        weights). A batch ends when a round changes no score by more than this share of its
        standard deviation, or of the largest loss before the batch.
    engine : {None, "serial", "threads", "dask"}, Client or address, default=None
        Changes nothing, because each row depends on the rows before it. Accepted as in all
        estimators.
    random_state : int, RandomState instance or None, default=None
        Seed of the order of rows, and of draws.
    verbose : int, default=0
        Changes nothing: no progress is shown. Accepted as in all estimators.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The classes, or the names of the columns of an indicator matrix.
    coef_ : ndarray of shape (n_tasks, n_features)
        Mean of the weights in the units of the columns; one task if there are two classes,
        otherwise one for each.
    intercept_ : ndarray of shape (n_tasks,)
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
    >>> from sklearn.datasets import load_wine
    >>> from everlearn import BayesianPassiveAggressiveClassifier
    >>> X, y = load_wine(return_X_y=True)
    >>> model = BayesianPassiveAggressiveClassifier(random_state=0)
    >>> bool(model.fit(X, y).score(X, y) > 0.98)
    True
    """

    checkpoint_key: ClassVar[str] = "bayesian-pa-classifier"
    _schema = CLASSIFIER_FIT
    _one_sided = True

    @property
    def classes_(self) -> NDArray[Any]:
        """The classes, or the names of the columns of an indicator matrix."""
        return self._fitted().targets.classes

    def fit(self, X: Any, y: Any) -> Self:
        """Learn from a data set, forgetting anything learned before.

        Parameters
        ----------
        X : array-like, sparse matrix, data frame or Dask collection of shape (n_rows, n_features)
            The rows. Dask collections, also `y`, are loaded into this process. With
            `max_iter=1, shuffle=False`, chunks of X are loaded one after the other.
        y : array-like of shape (n_rows,), or array-like or sparse of shape (n_rows, n_labels)
            A class for each row, or an indicator matrix of 0 and 1 in which NaN is a missing
            label. Masked entries are missing labels too.

        Returns
        -------
        self
            The fitted estimator.
        """
        with self._unchanged_on_error():
            self._check_params()
            with open_tables(self, X, y) as given:
                space = label_space(self, given.y)
                targets = self._targets(space, given.y, given.n_rows)
                begun = self._begin(space, space.n_tasks)
                self._learned = self._learn_passes(begun, given.tables, targets)
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> Self:
        """Learn from further rows, in their order. The model never needs them again.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n_rows, n_features)
            The rows.
        y : array-like of shape (n_rows,), or array-like or sparse of shape (n_rows, n_labels)
            As in `fit`.
        classes : array-like of shape (n_classes,), default=None
            All classes that will ever come. The first call needs them, unless `y` is an indicator
            matrix: then they are optional names of its columns.

        Returns
        -------
        self
            The estimator.
        """
        with self._unchanged_on_error():
            self._check_params()
            learned = self._known()
            rows = checked_table(self, X, reset=learned is None)
            space = next_label_space(self, None if learned is None else learned.targets, y, classes)
            targets = self._targets(space, y, rows.shape[0])
            known = self._begin(space, space.n_tasks) if learned is None else learned
            self._learned = self._learn_in_order(known, rows, targets)
        return self

    def decision_function(self, X: Any) -> Mat:
        """The score of each row for each task. Positive means yes.

        With `loss="averaging"` this is the mean of the score. With `loss="gibbs"` the mean is
        divided by the posterior standard deviation of the score, and `predict_proba` follows from
        it. Several classes share an average variance, so that the class with the largest mean
        stays the largest.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n_rows, n_features)
            The rows.

        Returns
        -------
        scores : ndarray of shape (n_rows,), or (n_rows, n_classes) unless there are two classes
            Positive for yes; with two classes, for the second one.
        """
        scores = self._standard_scores(X)
        return self._fitted().targets.shaped(scores)

    def predict(self, X: Any) -> NDArray[Any]:
        """The class of each row, or an indicator matrix of its labels.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n_rows, n_features)
            The rows.

        Returns
        -------
        y : ndarray of shape (n_rows,) or (n_rows, n_labels)
            Classes, or 0 and 1.
        """
        _, scores = self._scores(X)
        return self._fitted().targets.decide(scores)

    @available_if(_learns_variances)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Mat:
        """How sure the model is of each class. Needs `loss="gibbs"`.

        This is the probability that weights drawn from the posterior give the row a positive
        score. It is not how often rows like this one have the class: where two classes overlap,
        a model of many rows can be sure and wrong. For several classes it is the probability that
        the drawn weights say yes to this class, given that they say yes to exactly one.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n_rows, n_features)
            The rows.

        Returns
        -------
        votes : ndarray of shape (n_rows, n_classes)
            Rows sum to 1, except for indicator matrices, where each column is a task of its own.
        """
        scores = self._standard_scores(X)
        return self._fitted().targets.votes(scores)

    def _standard_scores(self, X: Any) -> Mat:
        """Mean scores, in posterior standard deviations if these are learned."""
        rows, scores = self._scores(X)
        learned = self._fitted()
        if learned.state.belief is None:
            return scores
        variances = learned.state.variances(rows)
        if learned.targets.kind == "multiclass":
            variances = variances.mean(axis=1, keepdims=True)
        known = variances > 0.0
        return np.where(known, scores / np.sqrt(np.where(known, variances, 1.0)), 0.0)

    def _targets(self, space: LabelSpace, y: Any, n_rows: int) -> Mat:
        """What scores should be: 1 or -1, and NaN where the label is missing."""
        signs = checked_signs(self, space, y, n_rows)
        return np.where(signs == 0, np.nan, signs.astype(np.float64))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags
