"""`OnlinePPCA`: principal components of a stream that are not forgotten."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_array, check_is_fitted

from everlearn.core.arrays import IntVec, Mat, Vec
from everlearn.core.random import stream
from everlearn.engine.opening import EngineChoice, is_collection, local_engine, open_engine
from everlearn.engine.rows import Rows
from everlearn.estimator.base import LearnerMixin, named_errors
from everlearn.estimator.collections import open_rows
from everlearn.estimator.params import (
    RATE_CONSTRAINTS,
    Constraint,
    Interval,
    check_params,
    check_unchanged,
)
from everlearn.estimator.saving import SaveMixin
from everlearn.estimator.tables import check_size, plain_numbers
from everlearn.ppca.checkpoint import PPCA_FIT
from everlearn.ppca.fit import (
    PPCAFit,
    begin,
    consolidated,
    engine_for,
    fit_rows,
    learn_rows,
)
from everlearn.ppca.inputs import (
    can_be_joined,
    check_chunks,
    checked_chunk,
    checked_rows,
    checked_task,
)
from everlearn.ppca.local import block_rows
from everlearn.ppca.model import PPCA
from everlearn.ppca.moments import signed
from everlearn.ppca.natural_em import NaturalEM, StepSize
from everlearn.ppca.predict import (
    filled,
    latents,
    log_densities,
    mixture_latents,
    responsibilities,
    rows_of_latents,
)
from everlearn.ppca.settings import CONSTRAINTS, PPCAForm, PPCAOptions, PPCASettings
from everlearn.ppca.state import PPCAState
from everlearn.ppca.uncertainty import noise_interval

_SAMPLE_CONSTRAINTS = {"n_samples": (Interval(1, integer=True),)}


class Reference(NamedTuple):
    """What the constraint protects: a model, and the weight of the rows behind it."""

    mean: Vec
    loadings: Mat
    noise_variance: float
    n_rows: float


def is_mixture(estimator: OnlinePPCA) -> bool:
    """Whether there may be several PPCAs."""
    return bool(estimator.n_mixtures > 1)


class OnlinePPCA(
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, LearnerMixin, SaveMixin, BaseEstimator
):
    """Principal components of a stream that are not forgotten: probabilistic PCA by online EM.

    Rows are Gaussian with a covariance of low rank plus noise. Plain online EM follows the latest
    rows: on a stream of one class after the other it forgets the earlier classes. The natural
    constraint holds each step close to a reference model. By default the reference is all rows so
    far, and the constraint is exact.

    Parameters
    ----------
    n_components : int, default=2
        Number of principal components.
    constraint : {None, "step", "task", "previous"}, default="step"
        When the reference is updated: after every batch, or at the end of a task (`consolidate`, or
        a new `task` in `partial_fit`). "previous" takes the model before each batch, which only
        slows forgetting down. None is plain online EM.
    constraint_weight : "count" or float, default="count"
        Weight of the reference in units of the weight of recent rows. "count" compares numbers of
        rows, so that all rows of the stream count alike. "previous" needs a number.
    max_reference_rows : float or None, default=None
        The most rows that the reference counts for. Set it if the stream drifts: older rows fade.
    n_mixtures : int, default=1
        More than 1 makes a mixture of PPCAs, each with its own mean and components. `fit` uses so
        many. `partial_fit` begins with one and adds another, up to this number, when enough rows
        have come that none explains.
    batch_size : int or None, default=None
        Rows of a step of `partial_fit`. None takes all rows of a call at once.
    fit_method : {"auto", "exact", "em"}, default="auto"
        How `fit` finds the parameters: in closed form, or by EM. "auto" is "exact" unless there are
        several PPCAs or missing values.
    max_iter : int, default=200
        The most iterations of EM in `fit`.
    tol : float, default=1e-3
        EM stops when the mean log-likelihood rises by less.
    options : PPCAOptions, mapping of its fields or None, default=None
        Rarely used parameters: step sizes, the directions that references keep (`kept_components`),
        and what is a row of a new kind (`novelty`).
    engine : {None, "serial", "threads", "dask"}, Client or address, default=None
        Where blocks of rows are worked on. None uses all cores; "dask", a `distributed.Client` or
        an address ("tcp://...") uses a cluster. All engines give the same bits.
    random_state : int, RandomState instance or None, default=None
        Seed of the start of EM and of `sample`.
    verbose : int, default=0
        1 shows a progress bar.

    Attributes
    ----------
    mean_, components_, explained_variance_, explained_variance_ratio_, noise_variance_ : ndarray
        As in scikit-learn's PCA. For mixtures, all have one more axis, the first, for the PPCAs.
    loadings_ : ndarray of shape (n_features, n_components)
        W; the covariance is W W^T plus noise.
    weights_ : ndarray of shape (n_mixtures_,)
        Shares of the PPCAs.
    n_mixtures_ : int
        PPCAs in use.
    component_ids_ : ndarray of shape (n_mixtures_,)
        Permanent ids of the PPCAs of a mixture: 0, 1, 2 and so on. `fit` sorts them by share, the
        largest first. A new one gets the next id and the last place, and none ever goes.
    reference_ : Reference
        The model that the constraint protects, and how many rows it stands for, or None.
    n_samples_seen_, n_steps_ : int
        Rows and batches learned.
    task_ : int, str or None
        Task of the latest rows.
    n_iter_, log_likelihoods_ : int, ndarray
        Iterations of the last `fit`, and the mean log-likelihood before each if it used EM.
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
    _schema = PPCA_FIT
    _constraints: ClassVar[Mapping[str, tuple[Constraint, ...]]] = CONSTRAINTS
    _options: ClassVar = {"options": PPCAOptions}
    _learned: PPCAFit

    def __init__(
        self,
        n_components: int = 2,
        *,
        constraint: str | None = "step",
        constraint_weight: float | str = "count",
        max_reference_rows: float | None = None,
        n_mixtures: int = 1,
        batch_size: int | None = None,
        fit_method: str = "auto",
        max_iter: int = 200,
        tol: float = 1e-3,
        options: PPCAOptions | Mapping[str, Any] | None = None,
        engine: EngineChoice = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.constraint = constraint
        self.constraint_weight = constraint_weight
        self.max_reference_rows = max_reference_rows
        self.n_mixtures = n_mixtures
        self.batch_size = batch_size
        self.fit_method = fit_method
        self.max_iter = max_iter
        self.tol = tol
        self.options = options
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
                    self._check_closed_form(given.rows.missing)
                    settings, seed = self._settings(), self._new_seed()
                    self._learned = fit_rows(settings, given.rows, given.engine, seed)
            else:
                rows = checked_rows(self, X, reset=True, sample_weight=sample_weight)
                self._check_closed_form(rows.missing)
                settings, seed = self._settings(), self._new_seed()
                with engine_for(settings, rows) as engine:
                    self._learned = fit_rows(settings, rows, engine, seed)
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
            The task that the rows belong to. If it is not that of the rows before, theirs is ended
            first, as by `consolidate`. None continues the same task.
        sample_weight : array-like of shape (n_rows,), default=None
            How often each row counts.

        Returns
        -------
        self
            The estimator, which has learned the rows.
        """
        with self._unchanged_on_error():
            self._check_params()
            known: PPCAFit | None = getattr(self, "_learned", None)
            if known is not None:
                self._check_learned(known)
            rows = checked_rows(self, X, reset=known is None, sample_weight=sample_weight)
            task, settings = checked_task(type(self).__name__, task), self._settings()
            known = known or begin(settings, rows, task, self._new_seed())
            self._learned = learn_rows(settings, known, [rows], task)
        return self

    def partial_fit_each(self, batches: Sequence[Any]) -> Self:
        """Learn from several batches: the same, to the bit, as a `partial_fit` of each.

        It is quicker if batches are small, because they are checked together. If one of them is
        refused, none is learned.

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
            if not (hasattr(self, "_learned") and can_be_joined(batches)):
                for X in batches:
                    self.partial_fit(X)
                return self
            self._check_params()
            self._check_learned(self._learned)
            rows = checked_rows(self, np.concatenate(batches), reset=False)
            stops = np.cumsum([len(X) for X in batches]).tolist()
            parts = [rows[i:j] for i, j in zip([0, *stops], stops, strict=False)]
            self._learned = learn_rows(self._settings(), self._learned, parts)
        return self

    def consolidate(self) -> Self:
        """End a task: with `constraint="task"`, what was learned in it is protected from now on.

        Other constraints update their reference by themselves, or have none. For them nothing
        changes.

        Returns
        -------
        self
            The estimator.
        """
        self._fitted()
        with self._unchanged_on_error():
            self._check_params()
            self._check_learned(self._learned)
            self._learned = consolidated(self._settings(), self._learned)
        return self

    # ------------------------------------------------------------------ predictions

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
        return np.concatenate(self._mapped(mixture_latents if is_mixture(self) else latents, X))

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Names of the columns of `transform`; for a mixture, with the ids of its PPCAs.

        Parameters
        ----------
        input_features : None
            Ignored.

        Returns
        -------
        names : ndarray of str
            "onlineppca0" and so on. For a mixture "ppca0" for a probability, "ppca0_latent0" for a
            latent.
        """
        if not is_mixture(self):
            return np.asarray(super().get_feature_names_out(input_features))
        ids, latent = self.component_ids_, range(self.n_components)
        shares = [f"ppca{i}" for i in ids]
        return np.array([*shares, *(f"ppca{i}_latent{j}" for i in ids for j in latent)], object)

    def inverse_transform(self, X: Any) -> Mat:
        """Rows for latents as `transform` returns them.

        Expected latents are shrunk towards 0, because noise makes them uncertain. This undoes the
        shrinkage: complete rows come back as their orthogonal projections, as from PCA.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features_out)
            Latents.

        Returns
        -------
        rows : ndarray of shape (n_rows, n_features)
            The projections.
        """
        state, width = self._checked_state(), self._n_features_out
        with named_errors(self, "X"):
            Z = check_array(plain_numbers(X), dtype=np.float64)
            check_size(Z)
            if Z.shape[1] != width:
                raise ValueError(f"expected {width} columns of latents, got {Z.shape[1]}")
        return rows_of_latents(state, Z, is_mixture=is_mixture(self))

    def impute(self, X: Any) -> Mat:
        """The rows, with expected values in place of missing entries.

        Parameters
        ----------
        X : array-like or data frame of shape (n_rows, n_features)
            The rows; NaN is missing.

        Returns
        -------
        rows : ndarray of shape (n_rows, n_features)
            Without NaN; entries that were there are as they were.
        """
        return np.concatenate(self._mapped(filled, X))

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
        return np.concatenate(self._mapped(log_densities, X))

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
        """Probabilities of the PPCAs of a mixture for each row. Only if `n_mixtures` is not 1.

        Parameters
        ----------
        X : array-like or data frame of shape (n_rows, n_features)
            The rows; NaN is missing.

        Returns
        -------
        shares : ndarray of shape (n_rows, n_mixtures_)
            Rows sum to 1.
        """
        return np.concatenate(self._mapped(responsibilities, X))

    @available_if(is_mixture)  # type: ignore[untyped-decorator]
    def predict(self, X: Any) -> IntVec:
        """The likeliest PPCA of a mixture for each row. Only if `n_mixtures` is not 1.

        Parameters
        ----------
        X : array-like or data frame of shape (n_rows, n_features)
            The rows; NaN is missing.

        Returns
        -------
        labels : ndarray of shape (n_rows,)
            Entries of `component_ids_`.
        """
        return np.asarray(self.predict_proba(X).argmax(axis=1))

    def get_covariance(self) -> Mat:
        """Covariance of rows. For a mixture, with the variance between its PPCAs.

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
            The id of the PPCA that each was drawn from.
        """
        state = self._fitted()
        check_params(f"{type(self).__name__}.sample", {"n_samples": n_samples}, _SAMPLE_CONSTRAINTS)
        rng = stream(self._new_seed(), "sample")
        counts = rng.multinomial(n_samples, state.weights / state.weights.sum())
        drawn = [model.draw(int(n), rng) for model, n in zip(state.models, counts, strict=True)]
        return np.concatenate(drawn), np.repeat(np.arange(len(counts)), counts)

    def credible_intervals(self, rate: float = 0.95) -> NDArray[np.float64]:
        """Interval that holds the noise variance with a probability of `rate`.

        It takes the components as known, and rows as Gaussian. Rows that have faded, by
        `max_reference_rows`, do not count.

        Parameters
        ----------
        rate : float, default=0.95
            Probability that the noise variance is inside its interval.

        Returns
        -------
        intervals : ndarray of shape (2,), or (n_mixtures_, 2) for mixtures
            Lower and upper end.
        """
        state, name = self._fitted(), type(self).__name__
        check_params(f"{name}.credible_intervals", {"rate": rate}, RATE_CONSTRAINTS)
        if self.constraint is None:
            raise ValueError(
                f"credible_intervals of {name} need a constraint, such as constraint='step': "
                "without one, rows fade, and it is not known how many the noise was learned from."
            )
        masses = np.zeros(len(state.models))
        for parts in (state.reference, state.window):
            for k, part in enumerate(parts):
                masses[k] += part.mass * part.share_present
        d, q = self.n_features_in_, self.n_components
        if q >= d or not (masses > q + 1).all():
            raise ValueError(
                f"credible_intervals of {name} need more features than n_components={q}, and more "
                f"than {q + 1} rows for each PPCA. Got {d} features and {masses.min():.4g} rows."
            )
        pairs = zip(state.models, masses, strict=True)
        return self._each([noise_interval(m.noise, mass, d, q, rate) for m, mass in pairs])

    # ------------------------------------------------------------------ attributes

    @property
    def mean_(self) -> NDArray[np.float64]:
        """Mean of the rows, (n_features,)."""
        return self._each([model.mean.copy() for model in self._fitted().models])

    @property
    def loadings_(self) -> NDArray[np.float64]:
        """W, (n_features, n_components): the covariance is W W^T plus noise."""
        return self._each([model.loadings.copy() for model in self._fitted().models])

    @property
    def components_(self) -> NDArray[np.float64]:
        """Orthonormal principal axes, (n_components, n_features), largest variance first."""
        return self._each([signed(m.axes()[0]).T for m in self._fitted().models])

    @property
    def explained_variance_(self) -> NDArray[np.float64]:
        """Variance of the rows along each axis, noise included, (n_components,)."""
        return self._each([_variances(m) for m in self._fitted().models])

    @property
    def explained_variance_ratio_(self) -> NDArray[np.float64]:
        """Its share of the variance along all directions, (n_components,)."""
        models = self._fitted().models
        return self._each([_variances(m) / _total(m) for m in models])

    @property
    def noise_variance_(self) -> Any:
        """Variance in every direction that is no component."""
        noise = [model.noise for model in self._fitted().models]
        return np.array(noise) if is_mixture(self) else noise[0]

    @property
    def weights_(self) -> Vec:
        """Share of each PPCA in the mixture."""
        return self._fitted().weights.copy()

    @property
    def n_mixtures_(self) -> int:
        """PPCAs in use."""
        return len(self._fitted().models)

    @property
    def component_ids_(self) -> IntVec:
        """Permanent ids of the PPCAs, which are their places: they are never sorted again."""
        return np.arange(self.n_mixtures_)

    @property
    def n_samples_seen_(self) -> int:
        """Rows learned from."""
        return self._fitted().n_rows

    @property
    def n_steps_(self) -> int:
        """Batches learned. A `fit` counts as one."""
        return self._fitted().clock

    @property
    def n_iter_(self) -> int:
        """Iterations of the last `fit`. The closed form is one."""
        return max(1, len(self.log_likelihoods_))

    @property
    def task_(self) -> int | str | None:
        """Name of the task of the latest rows, if it was given."""
        return self._fitted().task

    @property
    def log_likelihoods_(self) -> Vec:
        """Mean log-likelihood before each iteration, if the last `fit` used EM."""
        self._fitted()
        return np.array(self._learned.likelihoods)

    @property
    def reference_(self) -> Reference | list[Reference] | None:
        """What the constraint protects, one for each PPCA. None if there is nothing yet."""
        found = [
            Reference(part.mean.copy(), part.factor.copy(), part.noise, part.mass)
            for part in self._fitted().reference
        ]
        if not found:
            return None
        return found[0] if self.n_mixtures == 1 else found

    # ------------------------------------------------------------------ inner

    def _settings(self) -> PPCASettings:
        """The checked parameters, for rows of `n_features_in_` columns."""
        options = PPCAOptions.of(self.options, type(self).__name__)
        rank = int(self.n_components)
        kept = 2 * rank if options.kept_components is None else int(options.kept_components)
        weight, most, step = self.constraint_weight, self.max_reference_rows, options.step_size
        learner = NaturalEM(
            rank=rank,
            kept_rank=min(kept, self.n_features_in_),
            constraint=self.constraint,
            weight=None if weight == "count" else float(weight),
            max_reference_mass=np.inf if most is None else float(most),
            step_size=StepSize(
                None if step is None else float(step),
                float(options.step_power),
                float(options.step_offset),
            ),
            max_components=int(self.n_mixtures),
            novelty=float(options.novelty),
        )
        return PPCASettings(
            owner=type(self).__name__,
            form=self._form(),
            learner=learner,
            batch_size=None if self.batch_size is None else int(self.batch_size),
            exact=None if self.fit_method == "auto" else self.fit_method == "exact",
            max_iter=int(self.max_iter),
            tol=float(self.tol),
            engine=self.engine,
            verbose=int(self.verbose),
        )

    def _form(self) -> PPCAForm:
        return PPCAForm(int(self.n_components), self.constraint, is_mixture(self))

    def _check_params(self) -> None:
        """Also refuse parameters that are right one by one but not together."""
        super()._check_params()
        name = type(self).__name__
        if self.constraint == "previous" and self.constraint_weight == "count":
            raise ValueError(
                f"the 'constraint_weight' parameter of {name} must be a number if "
                "constraint='previous', because its reference stands for no number of rows. Got "
                "'count' instead."
            )
        kept = PPCAOptions.of(self.options, name).kept_components
        if kept is not None and kept < self.n_components:
            raise ValueError(
                f"the 'kept_components' option of {name} must be at least n_components="
                f"{self.n_components}. Got {kept!r} instead."
            )

    def _check_closed_form(self, gaps: bool) -> None:
        """Refuse an exact fit where there is none."""
        if self.fit_method == "exact" and (is_mixture(self) or gaps):
            why = "X has missing values" if gaps else "n_mixtures is more than 1"
            raise ValueError(
                f"the 'fit_method' parameter of {type(self).__name__} must be 'auto' or 'em' if "
                f"{why}: there is no closed form. Got 'exact' instead."
            )

    def _check_learned(self, learned: PPCAFit) -> None:
        """Refuse a kind of model other than the one that learning began with."""
        name, known, asked = type(self).__name__, learned.form, self._form()
        check_unchanged(name, "n_components", asked.n_components, known.n_components)
        check_unchanged(name, "constraint", asked.constraint, known.constraint)
        least = len(learned.state.models)
        if known.is_mixture != asked.is_mixture or self.n_mixtures < least:
            expected = f"at least {max(2, least)}" if known.is_mixture else "1"
            raise ValueError(
                f"the 'n_mixtures' parameter of {name} must be {expected} to go on from what was "
                f"learned without a new fit. Got {self.n_mixtures!r} instead."
            )

    def _fitted(self) -> PPCAState:
        check_is_fitted(self)
        return self._learned.state

    def _checked_state(self) -> PPCAState:
        """What was learned, if the parameters still belong to it."""
        state = self._fitted()
        self._check_learned(self._learned)
        return state

    def _each(self, values: list[Vec] | list[Mat]) -> NDArray[np.float64]:
        """One for each PPCA of a mixture, or the only one."""
        return np.array(values) if is_mixture(self) else values[0]

    def _mapped(self, task: Callable[[PPCAState, Rows], Mat | Vec], X: Any) -> list[Any]:
        """What a task makes of each block of rows."""
        state = self._checked_state()
        rows = checked_rows(self, X, reset=False)
        blocks = rows.blocks(block_rows(self.n_features_in_, self.n_components))
        with open_engine("serial" if len(blocks) == 1 else local_engine(self.engine)) as engine:
            return list(engine.map(task, blocks, state))

    @property
    def _n_features_out(self) -> int:
        q = self.n_components
        return self.n_mixtures_ * (1 + q) if is_mixture(self) else q

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_learned")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


def _variances(model: PPCA) -> Vec:
    """Variance along each axis of the model, noise included."""
    return np.asarray(model.axes()[1] ** 2 + model.noise)


def _total(model: PPCA) -> float:
    """Variance along all directions together."""
    return float(np.vdot(model.loadings, model.loadings)) + len(model.mean) * model.noise
