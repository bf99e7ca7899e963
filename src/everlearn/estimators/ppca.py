"""`OnlinePPCA`: principal components of a stream, learned without forgetting what came before."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, ClassVar, Self

from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import Tags

from everlearn.core.errors import CheckpointError
from everlearn.core.params import Constraint
from everlearn.estimators.collections import open_rows
from everlearn.estimators.persistence import (
    Arrays,
    SaveMixin,
    checked_names,
    feature_names,
    plain_params,
    section,
)
from everlearn.estimators.ppca_batches import PPCABatches
from everlearn.estimators.ppca_checkpoint import STATE_KEYS, pack_learned, unpack_learned
from everlearn.estimators.ppca_input import check_chunks, checked_chunk, checked_rows, checked_task
from everlearn.estimators.ppca_learning import (
    check_same_model,
    consolidated,
    engine_for,
    fit_rows,
    learn_rows,
)
from everlearn.estimators.ppca_params import CONSTRAINTS, check_closed_form, check_combination
from everlearn.estimators.ppca_predictions import PPCAPredictions
from everlearn.runtime.engine import is_collection


class OnlinePPCA(PPCAPredictions, PPCABatches, SaveMixin, BaseEstimator):
    """Probabilistic PCA by online EM, with a natural constraint against forgetting.

    Rows are Gaussian with a covariance of low rank plus noise. Plain online EM follows the latest
    rows: on a stream of one class after the other it forgets. The natural constraint holds each
    step to a reference model, in the geometry of the Fisher information. By default it is kept
    exactly, as the divergence from all rows so far, which no step then forgets.

    Parameters
    ----------
    n_components : int, default=2
        Dimensions of the latents.
    constraint : {None, "step", "task", "previous"}, default="step"
        When the reference is brought up to date: after every batch, at the end of a task
        (`consolidate`, or a new `task` in `partial_fit`), or to the model before each batch, which
        only slows forgetting down. None is plain online EM.
    constraint_form : {"kl", "gain", "ewc", "printed"}, default="kl"
        "kl" bounds the divergence from the reference itself. "gain" and "ewc" replace it by its
        quadratic form with the Fisher information, against the curvature of the M-step or the
        information at the new parameters. "printed" is the step as its authors print it, which
        depends on the units of X.
    solver : {"moment", "em"}, default="moment"
        For `constraint_form="kl"`: "moment" merges batch and reference exactly; "em" makes one EM
        step on blended statistics. With missing values "moment" learns every feature from the rows
        that have it; "em" counts what it filled in, until it fades.
    constraint_weight : "count" or float, default="count"
        Weight of the reference against recent rows. "count" weighs both by their rows, so that all
        rows of the stream matter alike; a number weighs recent rows more or less than that, which
        "previous" and "printed" need.
    max_reference_rows : float or None, default=None
        The most rows that the reference counts for. It lets the model follow a stream that drifts:
        older rows fade.
    kept_components : int or None, default=None
        Directions that references keep, so that cutting them again and again costs nothing that
        matters; None keeps twice `n_components`.
    step_size : float or None, default=None
        Share of the newest batch in the statistics of online EM, or in the window of recent rows if
        the weight is a number. None lets it fall as `(k + step_offset) ** -step_power` for the
        k-th batch.
    step_power : float, default=0.6
        Between 0.5 and 1; at 1 with an offset of 0 all batches weigh alike.
    step_offset : float, default=0
        See `step_size`.
    statistics : {"raw", "printed"}, default="raw"
        For online EM: "printed" centres rows with the mean of the moment, as the authors print it,
        which is out of date when the mean has moved.
    fisher : {"complete", "marginal"}, default="complete"
        For `constraint_form="printed"`: the information of rows with latents, or of rows alone.
    clip : bool, default=True
        For `constraint_form="printed"`: no step beyond the reference. Without, it may diverge.
    align : bool, default=True
        For "gain", "ewc" and "printed": rotate the reference to the loadings before they are
        compared.
    n_mixtures : int, default=1
        PPCAs in a mixture. `fit` uses so many; `partial_fit` begins with one and adds another, up
        to this number, when enough rows have come that none explains. More than 1 needs
        `constraint_form="kl"` or no constraint.
    novelty : float, default=2.0
        For mixtures: standard deviations below the usual log-likelihood from which on a row is one
        that no PPCA explains. Such rows wait; if too few come together they are not learned.
    batch_size : int or None, default=None
        Rows of a step of `partial_fit`; None takes all rows of a call at once.
    fit_method : {"auto", "exact", "em"}, default="auto"
        How `fit` finds the parameters: in closed form, or by EM. "auto" is "exact" unless there are
        several PPCAs or missing values.
    max_iter : int, default=200
        The most iterations of EM in `fit`.
    tol : float, default=1e-3
        EM stops when the mean log-likelihood rises by less.
    engine : {None, "serial", "threads", "dask"}, Client or address, default=None
        Where blocks of rows are worked on; all engines give the same bits. None uses all cores;
        "dask", a `distributed.Client` or an address ("tcp://...") a cluster.
    random_state : int, RandomState instance or None, default=None
        Determines where EM starts, and draws.
    verbose : int, default=0
        1 shows a progress bar.

    Attributes
    ----------
    mean_, components_, explained_variance_, explained_variance_ratio_, noise_variance_ : ndarray
        As in scikit-learn's PCA. For mixtures, all have a first axis for the PPCAs.
    loadings_ : ndarray of shape (n_features, n_components)
        W; the covariance is W W^T plus noise.
    weights_ : ndarray of shape (n_mixtures_,)
        Shares of the PPCAs.
    n_mixtures_ : int
        PPCAs in use.
    reference_ : Reference
        What the constraint protects and the weight of the rows behind it, or None.
    fisher_ : Fisher
        Fisher information of one row at the parameters.
    n_rows_seen_, n_steps_ : int
        Rows and batches learned.
    task_ : int, str or None
        Task of the latest rows.
    n_iter_, log_likelihoods_ : int, ndarray
        Iterations of the last `fit`, and the mean log-likelihood before each if they were EM's.
    n_features_in_ : int
        Width of a row.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from everlearn import OnlinePPCA
    >>> X, y = load_digits(return_X_y=True)
    >>> X = X / 16.0
    >>> model = OnlinePPCA(n_components=10, batch_size=10)
    >>> forgetful = OnlinePPCA(n_components=10, batch_size=10, constraint=None)
    >>> for digit in range(10):  # one class after the other
    ...     model = model.partial_fit(X[y == digit])
    ...     forgetful = forgetful.partial_fit(X[y == digit])
    >>> at_once = OnlinePPCA(n_components=10).fit(X)
    >>> [round(m.score(X)) for m in (at_once, model, forgetful)]
    [17, 17, 3]
    """

    checkpoint_key: ClassVar[str] = "online-ppca"

    _constraints: ClassVar[Mapping[str, tuple[Constraint, ...]]] = CONSTRAINTS

    def __init__(
        self,
        n_components: int = 2,
        *,
        constraint: str | None = "step",
        constraint_form: str = "kl",
        solver: str = "moment",
        constraint_weight: float | str = "count",
        max_reference_rows: float | None = None,
        kept_components: int | None = None,
        step_size: float | None = None,
        step_power: float = 0.6,
        step_offset: float = 0.0,
        statistics: str = "raw",
        fisher: str = "complete",
        clip: bool = True,
        align: bool = True,
        n_mixtures: int = 1,
        novelty: float = 2.0,
        batch_size: int | None = None,
        fit_method: str = "auto",
        max_iter: int = 200,
        tol: float = 1e-3,
        engine: str | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.constraint = constraint
        self.constraint_form = constraint_form
        self.solver = solver
        self.constraint_weight = constraint_weight
        self.max_reference_rows = max_reference_rows
        self.kept_components = kept_components
        self.step_size = step_size
        self.step_power = step_power
        self.step_offset = step_offset
        self.statistics = statistics
        self.fisher = fisher
        self.clip = clip
        self.align = align
        self.n_mixtures = n_mixtures
        self.novelty = novelty
        self.batch_size = batch_size
        self.fit_method = fit_method
        self.max_iter = max_iter
        self.tol = tol
        self.engine = engine
        self.random_state = random_state
        self.verbose = verbose

    # ------------------------------------------------------------------ learning

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn from a data set, forgetting anything learned before.

        Parameters
        ----------
        X : array-like, data frame or Dask collection of shape (n_rows, n_features)
            The rows; NaN is missing. Chunks of a Dask array or data frame stay on their workers.
        y : None
            Ignored.
        sample_weight : array-like of shape (n_rows,), default=None
            How often each row counts; a Dask array of the same chunks if X is one.

        Returns
        -------
        self
            The fitted estimator.
        """
        with self._unchanged_on_error():
            self._check_params()
            if is_collection(X):
                with open_rows(self, X, sample_weight, checked_chunk) as given:
                    check_chunks(self, given.rows, given.engine)
                    check_closed_form(self, given.rows.missing)
                    self._learned = fit_rows(self, given.rows, given.engine)
            else:
                rows = checked_rows(self, X, reset=True, sample_weight=sample_weight)
                check_closed_form(self, rows.missing)
                with engine_for(self, rows) as engine:
                    self._learned = fit_rows(self, rows, engine)
        return self

    def partial_fit(
        self, X: Any, y: Any = None, *, task: int | str | None = None, sample_weight: Any = None
    ) -> Self:
        """Learn from rows that need not come again.

        Parameters
        ----------
        X : array-like or data frame of shape (n_rows, n_features)
            The rows; NaN is missing.
        y : None
            Ignored.
        task : int, str or None, default=None
            What the rows belong to. If it is another task than that of the rows before, these are
            consolidated first. None goes on with the same task.
        sample_weight : array-like of shape (n_rows,), default=None
            How often each row counts.

        Returns
        -------
        self
            The estimator, which has learned the rows.
        """
        with self._unchanged_on_error():
            self._check_params()
            learned = getattr(self, "_learned", None)
            if learned is not None:
                check_same_model(self, learned)
            rows = checked_rows(self, X, reset=learned is None, sample_weight=sample_weight)
            self._learned = learn_rows(self, learned, [rows], checked_task(self, task))
        return self

    def consolidate(self) -> Self:
        """End a task: with `constraint="task"`, what was learned in it is protected from now on.

        Other constraints bring their reference up to date by themselves, or have none: for them
        nothing changes.

        Returns
        -------
        self
            The estimator.
        """
        self._fitted()
        with self._unchanged_on_error():
            self._check_params()
            check_same_model(self, self._learned)
            self._learned = consolidated(self, self._learned)
        return self

    # ---------------------------------------------------------------------- inner

    def _check_params(self) -> None:
        super()._check_params()
        check_combination(self)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def to_checkpoint(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The fitted estimator as JSON and arrays; `save` writes them."""
        state = self._fitted()
        self._check_params()
        check_same_model(self, self._learned)
        header, arrays = pack_learned(self._learned)
        return {
            "params": plain_params(self.get_params(deep=False), state.seed),
            "state": header,
            "feature_names": feature_names(self),
        }, arrays

    @classmethod
    def from_checkpoint(cls, header: Mapping[str, Any], arrays: Arrays) -> Self:
        """Inverse of `to_checkpoint`; `everlearn.load` reads the file."""
        estimator = cls(**section(header, "params", inspect.signature(cls).parameters))
        try:
            estimator._check_params()
        except (OverflowError, TypeError, ValueError) as error:
            raise CheckpointError(f"the header's 'params': {error}") from error
        estimator._learned = unpack_learned(estimator, section(header, "state", STATE_KEYS), arrays)
        estimator.n_features_in_ = len(estimator._learned.state.origin)
        names = header.get("feature_names")
        if names is not None:
            estimator.feature_names_in_ = checked_names(names, estimator.n_features_in_)
        return estimator
