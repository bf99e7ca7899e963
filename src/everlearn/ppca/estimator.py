"""Several batches in one call of `OnlinePPCA`, each learned as if it came alone."""

from __future__ import annotations

import inspect
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_array, check_is_fitted

from everlearn.core.arrays import IntVec, Mat, Vec
from everlearn.core.random import stream
from everlearn.engine.opening import is_collection, nearby, open_engine
from everlearn.engine.rows import Rows
from everlearn.errors import CheckpointError
from everlearn.estimator.base import LearnerMixin, named_errors
from everlearn.estimator.collections import open_rows
from everlearn.estimator.params import Constraint, Interval, check_params
from everlearn.estimator.saving import SaveMixin, checked_names, feature_names, plain_params
from everlearn.estimator.tables import check_size, plain_numbers
from everlearn.ppca.checkpoint import STATE_KEYS, pack_learned, unpack_learned
from everlearn.ppca.fisher import Fisher
from everlearn.ppca.fit import (
    Learned,
    check_same_model,
    consolidated,
    engine_for,
    fit_rows,
    is_mixture,
    learn_rows,
)
from everlearn.ppca.inputs import (
    CONSTRAINTS,
    check_chunks,
    check_closed_form,
    check_combination,
    checked_chunk,
    checked_rows,
    checked_task,
)
from everlearn.ppca.local import block_rows, joint_log_likelihood
from everlearn.ppca.model import PPCA, RowPosterior
from everlearn.ppca.moments import signed
from everlearn.ppca.state import PPCAState
from everlearn.store.schema import Arrays, section


class PPCABatches(LearnerMixin):
    """What learns from several batches, for an estimator that learns from one."""

    _learned: Learned

    @abstractmethod
    def partial_fit(self, X: Any) -> Self:
        """Learn from one batch."""

    def partial_fit_each(self, batches: Sequence[Any]) -> Self:
        """Learn from several batches, to the bit as `partial_fit` does from one after the other.

        It is quicker where batches are small, because they are checked all at once. If one of them
        is refused, none is learned.

        Parameters
        ----------
        batches : sequence of arrays of shape (n_rows, n_features)
            The rows; NaN is missing.

        Returns
        -------
        self
            The estimator, which has learned the rows.
        """
        with self._unchanged_on_error():
            learned = getattr(self, "_learned", None)
            if learned is None or not _are_tables(batches):
                for X in batches:
                    self.partial_fit(X)
                return self
            self._check_params()
            check_same_model(self, learned)
            rows = checked_rows(self, np.concatenate(batches), reset=False)
            self._learned = learn_rows(self, learned, _parts(rows, batches), None)
        return self


def _are_tables(batches: Sequence[Any]) -> bool:
    """Whether batches are plain arrays of numbers, none of them empty, that make one array."""
    return len(batches) > 0 and all(
        type(X) is np.ndarray
        and X.dtype == np.float64
        and X.ndim == 2
        and X.shape[0] > 0
        and X.shape[1] == batches[0].shape[1]
        for X in batches
    )


def _parts(rows: Rows, batches: Sequence[Any]) -> list[Rows]:
    """The rows of each of the batches that were checked as one."""
    stops = np.cumsum([len(X) for X in batches]).tolist()
    return [rows[start:stop] for start, stop in zip([0, *stops[:-1]], stops, strict=True)]


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
    def n_samples_seen_(self) -> int:
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
    n_samples_seen_, n_steps_ : int
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
