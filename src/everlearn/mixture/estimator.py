"""`DPMixture`: Dirichlet-process mixtures that find the number of clusters."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, ClassVar, Final, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp
from sklearn.base import BaseEstimator, DensityMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from everlearn.core.arrays import IntVec, Labels, Mat, Vec
from everlearn.core.families.base import Family
from everlearn.core.families.product import Product
from everlearn.core.moves import ALL_MOVES
from everlearn.core.random import stream
from everlearn.core.stats import Stats
from everlearn.engine.opening import EngineChoice, is_collection, open_engine
from everlearn.engine.rows import Rows
from everlearn.errors import NotConvergedWarning
from everlearn.estimator.base import COMMON_CONSTRAINTS, LearnerMixin, named_errors
from everlearn.estimator.components import ComponentAttributes
from everlearn.estimator.families import FAMILIES, check_prior, has_missing
from everlearn.estimator.params import (
    RATE_CONSTRAINTS,
    ByteSize,
    Constraint,
    Instance,
    Interval,
    Options,
    Subset,
    check_params,
    parse_bytes,
)
from everlearn.estimator.saving import SaveMixin
from everlearn.estimator.tables import refuse_collection
from everlearn.mixture.budget import stats_bytes
from everlearn.mixture.checkpoint import FAMILY_NAMES, MIXTURE_FIT
from everlearn.mixture.columns import Columns
from everlearn.mixture.fit import LEARNERS, MixtureFit, fit_rows, forget_rows, learn_rows
from everlearn.mixture.inputs import check_forgettable, checked_name, read_rows
from everlearn.mixture.outliers import outlier_scores
from everlearn.mixture.priors import check_entries
from everlearn.mixture.profiles import ColumnProfile, profiles_of
from everlearn.mixture.settings import FAMILY_ALIASES, KindsByColumn, MixtureSettings, family_of
from everlearn.mixture.setup import held_bytes, memory_limits, mixture_step
from everlearn.mixture.state import State, allow_missing
from everlearn.mixture.table_chunks import open_chunks
from everlearn.mixture.tables import decoded, given_kinds
from everlearn.mixture.uncertainty import (
    CredibleIntervals,
    PosteriorDraws,
    credible_intervals,
    posterior_draws,
)
from everlearn.store.schema import Schema

_PREDICT_ROWS: Final = 1024
_SAMPLE_CONSTRAINTS: Final = {"n_samples": (Interval(1, integer=True),)}
_DRAW_CONSTRAINTS: Final = {"n": (Interval(1, integer=True),)}


class DPMixture(
    ComponentAttributes, SaveMixin, LearnerMixin, TransformerMixin, DensityMixin, BaseEstimator
):
    """Mixture of Gaussians or multinomials that finds the number of components by itself.

    The model is a Dirichlet-process mixture, learned by memoized variational inference. It adds,
    merges and deletes components whenever that raises its evidence lower bound. `fit` learns from
    a data set, `partial_fit` from a stream with bounded memory; each can follow the other.

    Parameters
    ----------
    family : {"auto", "diagonal", "full", "zero-mean", "multinomial", "table"} or mapping, \
            default="auto"
        Distribution of a component. "auto" takes "table" if X has text, or is a data frame with
        truth values or a categorical column; otherwise "diagonal". "diagonal" and "full" are
        Gaussians with such a covariance, "zero-mean" is a full one with mean zero, "multinomial"
        is for counts such as those of words. Use "full" if features are correlated within a
        cluster; its work and memory grow with the square of the number of features. "table"
        learns each column as numbers, categories or counts. A mapping such as
        ``{"zip": "categories"}`` does too, and names the kind of some columns. "diagonal", which
        may be written as "diag", and "table" take missing values; the others refuse them.
    prior : str or mapping, default="auto"
        How large components are before they have seen rows. "auto" learns the spread of Gaussians
        while it searches for them. Diagonal ones with few rows for their many features get
        "shared": nearly the same spread for all; `history_.prior` says so. "data" scales the
        prior to the rows and learns nothing. "par-ingmm" (diagonal) and
        "wishart" (all Gaussians) are fixed priors for features of unit variance. A mapping sets
        entries by hand, see docs/ask/priors.md. A stream takes the prior from its first few
        hundred rows; later a change has no effect before the next `fit`.
    concentration : float, default=1.0
        Concentration of the Dirichlet process. Larger values expect more components.
    max_components : int, default=1000
        No new components are added beyond this number. Existing ones stay.
    batch_size : int or None, default=None
        Rows of a batch. None means 1000, or a tenth of the data in `fit` if that is more. A
        memory budget may need larger batches.
    birth_window : int, default=10000
        Rows of a stream to keep in memory. New components can form from these rows only.
    max_laps : int, default=200
        Most passes over the data in `fit`.
    tol : float, default=1e-5
        `fit` stops when a pass raises the bound by less than this part of it and no move is left.
    moves : sequence of {"birth", "merge", "delete"}, default=all
        Changes of structure to try. Without "birth" the number of components cannot grow.
    learner : {"memoized", "stochastic"}, default="memoized"
        "memoized" has an exact bound. "stochastic" finds the components in the first rows and
        then only moves them: it takes less work per batch, and its bound is an estimate. It
        cannot change before the next `fit`.
    dtype : {"float64", "float32"}, default="float64"
        Precision of the work on rows. "float32" is faster. Statistics and bounds are always
        float64.
    memory_budget : int, str or None, default=None
        Bytes that statistics, rows in memory and work space may take, as a number or as text such
        as "64MB". Rows given to a call are not counted, nor is a label for each of them in `fit`.
        None means no limit.
    engine : {None, "serial", "threads", "dask"}, Client or address, default=None
        Where to compute. None uses all cores of this machine; "dask", a `distributed.Client` or
        an address ("tcp://...") a cluster. All engines give the same bits.
    random_state : int, RandomState instance or None, default=None
        Seed of births, of the order of batches and of samples.
    verbose : int, default=0
        1 shows a progress bar.

    Attributes
    ----------
    n_components_ : int
        Number of components.
    component_ids_ : ndarray of shape (n_components,)
        Permanent ids of the components, ascending: the order of `weights_`, `means_` and of the
        columns of `predict_proba`. `fit` numbers what it finds from 0 on, the largest first. Later
        components get larger ids, and no id is ever used twice.
    labels_ : ndarray of shape (n_rows,)
        Id of the likeliest component of each row that `fit` learned, as `predict` gives it. They
        are not saved, and there are none after `partial_fit` or for rows of a Dask collection.
    weights_ : ndarray of shape (n_components,)
        Expected share of rows in each component. They sum to 1.
    means_ : ndarray of shape (n_components, n_features)
        Expected means; of "multinomial", the probability of each feature. NaN in columns of
        categories: see `profiles`.
    covariances_ : ndarray of shape (n_components, n_features[, n_features])
        Inverse expected precisions.
    bound_ : float
        Lower bound of the log evidence of all rows seen, with all constants.
    bound_history_ : ndarray
        The bound after each lap.
    history_ : History
        Rows seen, bound and components after each lap, accepted moves, and counts of moves
        judged. `prior` is the prior that was used, and why. `misfits` are rows of a stream that
        fit worse than usual when they came.
    n_samples_seen_ : int
        Rows learned from.
    converged_ : bool
        Whether the last `fit` converged within `max_laps`; always with "stochastic". False
        without a `fit`.
    n_features_in_ : int
        Columns of a row.
    columns_ : tuple of Column
        Name, kind and values of each column of a table; empty if rows are numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from everlearn import DPMixture
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(c, 1, (100, 2)) for c in (-9, 0, 9)])
    >>> DPMixture(random_state=0).fit(X).n_components_
    3
    """

    checkpoint_key: ClassVar[str] = "dp-mixture"
    _schema: ClassVar[Schema] = MIXTURE_FIT
    _constraints: ClassVar[Mapping[str, tuple[Constraint, ...]]] = {
        "family": (Options((*FAMILIES, *FAMILY_ALIASES)), KindsByColumn()),
        "prior": (Instance((str, Mapping), "the name of a prior or a mapping"),),
        "concentration": (Interval(0, low_open=True),),
        "max_components": (Interval(1, integer=True),),
        "batch_size": (Options((None,)), Interval(1, integer=True)),
        "birth_window": (Interval(1, integer=True),),
        "max_laps": (Interval(1, integer=True),),
        "tol": (Interval(0),),
        "moves": (Subset(ALL_MOVES),),
        "learner": (Options(tuple(LEARNERS)),),
        "dtype": (Options(("float64", "float32")),),
        "memory_budget": (Options((None,)), ByteSize()),
        **COMMON_CONSTRAINTS,
    }
    _learned: MixtureFit

    def __init__(
        self,
        *,
        family: str | Mapping[str, str] = "auto",
        prior: str | Mapping[str, Any] = "auto",
        concentration: float = 1.0,
        max_components: int = 1000,
        batch_size: int | None = None,
        birth_window: int = 10_000,
        max_laps: int = 200,
        tol: float = 1e-5,
        moves: tuple[str, ...] = ALL_MOVES,
        learner: str = "memoized",
        dtype: str = "float64",
        memory_budget: int | str | None = None,
        engine: EngineChoice = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.family = family
        self.prior = prior
        self.concentration = concentration
        self.max_components = max_components
        self.batch_size = batch_size
        self.birth_window = birth_window
        self.max_laps = max_laps
        self.tol = tol
        self.moves = moves
        self.learner = learner
        self.dtype = dtype
        self.memory_budget = memory_budget
        self.engine = engine
        self.random_state = random_state
        self.verbose = verbose

    # ------------------------------------------------------------------ learning

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn from a data set, and forget anything learned before.

        Parameters
        ----------
        X : array-like, CSR matrix, data frame or Dask collection of shape (n_rows, n_features)
            The rows. NaN is a missing value in tables and with diagonal Gaussians. Chunks of a
            Dask array or data frame stay on their workers.
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
            settings = self._settings()
            if is_collection(X):
                with open_chunks(self, X, sample_weight) as given:
                    settings, seed = replace(settings, columns=given.columns), self._new_seed()
                    far = given.opened
                    self._learned = fit_rows(settings, far.rows, seed, far.engine)
            else:
                columns, rows = read_rows(self, X, None, sample_weight=sample_weight)
                settings = replace(settings, columns=columns)
                with open_engine(self.engine, settings.most_workers) as engine:
                    self._learned = fit_rows(settings, rows, self._new_seed(), engine)
                self._learned = replace(self._learned, labels=self.predict(X))
            if not self.converged_:  # inside the block, because a warning may be an error
                warnings.warn(
                    f"DPMixture did not converge in max_laps={self.max_laps} passes over the data. "
                    "Increase max_laps or tol, or decrease max_components.",
                    NotConvergedWarning,
                    stacklevel=2,
                )
        return self

    def partial_fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        batch_id: int | str | None = None,
    ) -> Self:
        """Learn from rows that need not come again.

        Parameters
        ----------
        X : array-like, CSR matrix or data frame of shape (n_rows, n_features)
            The rows. NaN is a missing value in tables and with diagonal Gaussians. New values of
            categories are learned; later ones than the 256th of a column count as one value.
        y : None
            Ignored.
        sample_weight : array-like of shape (n_rows,), default=None
            How often each row counts.
        batch_id : int, str or None, default=None
            Name under which `forget` can take these rows back. Each name takes the memory of a
            set of statistics. Calls with the same name make one batch.

        Returns
        -------
        self
            The estimator, which has learned the rows.
        """
        with self._unchanged_on_error():
            self._check_params()
            settings = self._settings()
            name = checked_name(settings, batch_id)
            known: MixtureFit | None = getattr(self, "_learned", None)
            if known is not None:
                self._check_same_model(known)
            begun = None if known is None else (known.columns,)
            columns, rows = read_rows(self, X, begun, grow=True, sample_weight=sample_weight)
            settings = replace(settings, columns=columns)
            seed = self._new_seed() if known is None else known.seed
            with open_engine(self.engine, settings.most_workers) as engine:
                self._learned = learn_rows(settings, known, rows, seed, engine, name)
        return self

    def forget(self, batch_id: int | str) -> Self:
        """Take back the rows of a batch: subtract their statistics.

        What is left is the sum over all other rows, exactly up to rounding. Components stay,
        except those without any rows left. Their boundaries move when more rows are learned.

        Parameters
        ----------
        batch_id : int or str
            The `batch_id` that `partial_fit` was given with the rows.

        Returns
        -------
        self
            The estimator, which has forgotten the rows.
        """
        check_forgettable(type(self).__name__, self._fitted(), batch_id)
        with self._unchanged_on_error():
            self._learned = forget_rows(self._learned, batch_id)
        return self

    def fit_predict(self, X: Any, y: Any = None, sample_weight: Any = None) -> Labels:
        """Learn from a data set, and return the likeliest component of each of its rows.

        Parameters
        ----------
        X : array-like, CSR matrix or data frame of shape (n_rows, n_features)
            The rows.
        y : None
            Ignored.
        sample_weight : array-like of shape (n_rows,), default=None
            How often each row counts.

        Returns
        -------
        labels : ndarray of shape (n_rows,)
            What `fit(X).predict(X)` gives.
        """
        refuse_collection(X)
        return self.fit(X, y, sample_weight).labels_

    # --------------------------------------------------------------- predictions

    def predict(self, X: Any) -> Labels:
        """Id of the likeliest component of each row.

        Ids are permanent: while the model learns, an id never changes its meaning.

        Parameters
        ----------
        X : array-like, CSR matrix or data frame of shape (n_rows, n_features)
            The rows.

        Returns
        -------
        labels : ndarray of shape (n_rows,)
            Entries of `component_ids_`.
        """
        ids = self._fitted().total.ids.astype(np.int32)
        return np.concatenate([ids[labels] for _, labels in self._assignments(X)])

    def predict_proba(self, X: Any) -> Mat:
        """Responsibility of each component for each row.

        Parameters
        ----------
        X : array-like, CSR matrix or data frame of shape (n_rows, n_features)
            The rows.

        Returns
        -------
        responsibilities : ndarray of shape (n_rows, n_components)
            One column for each of `component_ids_`. Rows sum to 1. They are float64 for any
            `dtype`.
        """
        order = self._fitted().order_of_birth()
        return np.concatenate([_in_double(r)[:, order] for r, _ in self._assignments(X)])

    def transform(self, X: Any) -> Mat:
        """Responsibilities of the components as features, like `predict_proba`.

        Parameters
        ----------
        X : array-like, CSR matrix or data frame of shape (n_rows, n_features)
            The rows.

        Returns
        -------
        responsibilities : ndarray of shape (n_rows, n_components)
            One column for each component.
        """
        return self.predict_proba(X)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Names of the columns of `transform`: "component" and the permanent id.

        Parameters
        ----------
        input_features : None
            Ignored.

        Returns
        -------
        names : ndarray of str
            One name for each component.
        """
        return np.array([f"component{i}" for i in self.component_ids_], dtype=object)

    def score_samples(self, X: Any) -> Vec:
        """Log posterior-predictive density of each row.

        It includes a new component that has no rows yet, so the density integrates to one.

        Parameters
        ----------
        X : array-like, CSR matrix or data frame of shape (n_rows, n_features)
            The rows.

        Returns
        -------
        log_density : ndarray of shape (n_rows,)
            Natural logarithms.
        """
        state, rows = self._ready(X)
        family = state.model.family
        known, unseen = state.model.sticks(state.total).mean_weights()
        with np.errstate(divide="ignore"):  # a concentration near zero leaves nothing unseen
            log_weights = np.log(np.append(known, unseen))
        n = np.append(state.total.n, 0.0)
        q = family.posterior(n, np.vstack([state.total.t, np.zeros((1, family.n_stats))]))
        blocks = rows.blocks(_PREDICT_ROWS)
        return np.concatenate(
            [logsumexp(family.log_predictive(b.X, q) + log_weights, axis=1) for b in blocks]
        )

    def score(self, X: Any, y: Any = None) -> float:
        """Mean log posterior-predictive density of the rows.

        Parameters
        ----------
        X : array-like, CSR matrix or data frame of shape (n_rows, n_features)
            The rows.
        y : None
            Ignored.

        Returns
        -------
        score : float
            Nats per row. Larger is better.
        """
        return float(np.mean(self.score_samples(X)))

    def outlier_score(self, X: Any) -> Vec:
        """How odd each row is: how badly it fits the component that explains it best.

        Minus the log of its density, where the density of each component is divided by what its
        own rows have on average. So a narrow cluster does not make the rows of a wide one odd.
        Counts are scored per token. Unlike `score_samples`, larger means odder.

        Parameters
        ----------
        X : array-like, CSR matrix or data frame of shape (n_rows, n_features)
            The rows.

        Returns
        -------
        score : ndarray of shape (n_rows,)
            Nats. Compare scores of one model only.
        """
        state, rows = self._ready(X)
        return outlier_scores(state.model, state.total, rows.X)

    def is_outlier(self, X: Any, rate: float = 0.01) -> NDArray[np.bool_]:
        """Whether each row is odder than nearly all rows that the model has learned.

        The limit comes from scores of about 2,000 of the latest rows, taken while the model did
        not know them. Rows that differ from these are flagged more often than `rate`.

        Parameters
        ----------
        X : array-like, CSR matrix or data frame of shape (n_rows, n_features)
            The rows.
        rate : float, default=0.01
            Share of rows to flag, if they are like the rows seen. Below 1 / (rows scored + 1),
            only rows odder than all of them are flagged.

        Returns
        -------
        is_outlier : ndarray of bool of shape (n_rows,)
            True for rows that are odd.
        """
        check_params("DPMixture.is_outlier", {"rate": rate}, RATE_CONSTRAINTS)
        return np.asarray(self.outlier_score(X) > self._learned.scores.threshold(rate))

    def sample(self, n_samples: int = 1) -> tuple[NDArray[Any], IntVec]:
        """Draw rows from the posterior predictive of the components.

        Parameters
        ----------
        n_samples : int, default=1
            Number of rows.

        Returns
        -------
        X : ndarray of shape (n_samples, n_features)
            The rows, ordered by component. Those of a table are objects: texts and numbers.
        y : ndarray of shape (n_samples,)
            Id of the component that each row was drawn from.
        """
        family, found = self._components()
        check_params("DPMixture.sample", {"n_samples": n_samples}, _SAMPLE_CONSTRAINTS)
        rng = stream(self._new_seed(), "sample")
        q = family.posterior(found.n, found.t)
        counts = rng.multinomial(n_samples, self.weights_)
        drawn = np.concatenate([family.draw(q, k, int(n), rng) for k, n in enumerate(counts)])
        columns = self._learned.columns
        X = drawn if columns is None else decoded(columns, drawn)
        return X, np.repeat(found.ids, counts)

    def profiles(self) -> list[ColumnProfile]:
        """What sets each component of a table apart from all rows, column by column.

        Returns
        -------
        profiles : list of ColumnProfile
            Component, column, kind, value that stands out, level, overall level and difference
            in nats. Within a component the columns that differ most come first.
        """
        family, found = self._components()
        columns = self._learned.columns
        if columns is None or not isinstance(family, Product):
            raise ValueError(
                f"profiles of {type(self).__name__} are for tables with columns of several kinds, "
                "but this model learned rows of numbers. Use means_ and covariances_, or learn "
                "with family='table'."
            )
        return profiles_of(family, found, columns)

    def sample_posterior(self, n: int = 1) -> PosteriorDraws:
        """Draw parameters from their posterior: what they may be, given the rows seen.

        Parameters
        ----------
        n : int, default=1
            Number of draws.

        Returns
        -------
        draws : PosteriorDraws
            `weights` (n, n_components), `means` (n, n_components, n_features) and `covariances`,
            in the order of `component_ids`.
        """
        state = self._fitted()
        check_params("DPMixture.sample_posterior", {"n": n}, _DRAW_CONSTRAINTS)
        return posterior_draws(state, n, self._new_seed())

    def credible_intervals(self, rate: float = 0.95) -> CredibleIntervals:
        """Intervals that hold each weight and each mean with a probability of `rate`.

        They take the components found as given, so they are too narrow where these overlap.

        Parameters
        ----------
        rate : float, default=0.95
            Probability that a parameter is inside its interval.

        Returns
        -------
        intervals : CredibleIntervals
            `weights` (n_components, 2) and `means` (n_components, n_features, 2), in the order of
            `component_ids`. The last axis is the lower and the upper end.
        """
        state = self._fitted()
        check_params("DPMixture.credible_intervals", {"rate": rate}, RATE_CONSTRAINTS)
        return credible_intervals(state, rate)

    # ---------------------------------------------------------------- attributes

    @property
    def weights_(self) -> Vec:
        """Expected share of rows in each component, summing to 1."""
        state = self._fitted()
        known, _ = state.model.sticks(state.total).mean_weights()
        return np.asarray(known / known.sum())[state.order_of_birth()]

    @property
    def labels_(self) -> Labels:
        """Id of the likeliest component of each row that `fit` learned."""
        self._fitted()
        labels = self._learned.labels
        if labels is None:
            raise AttributeError(
                f"{type(self).__name__} has labels_ only after a fit of rows in this process. They "
                "are not saved, and partial_fit drops them. Use predict(X)."
            )
        return labels

    @property
    def bound_(self) -> float:
        """Lower bound of the log evidence of every row seen."""
        return self._fitted().bound()

    @property
    def n_samples_seen_(self) -> int:
        """Rows learned from."""
        self._fitted()
        return self._learned.n_rows

    @property
    def columns_(self) -> Columns:
        """Name, kind and values of each column of a table; empty if rows are numbers."""
        self._fitted()
        return self._learned.columns or ()

    @property
    def converged_(self) -> bool:
        """Whether the last `fit` converged within `max_laps`; False without a `fit`."""
        self._fitted()
        return self._learned.converged

    def memory_report(self) -> dict[str, int | None]:
        """Bytes that the model holds, and the limits that its budget sets.

        Returns
        -------
        report : dict
            "statistics", "pair_entropies", "open_rows", "scores", "total" and "budget" in bytes;
            "bytes_per_component", "max_components" and "window_rows".
        """
        state, settings = self._fitted(), self._settings()
        statistics, pairs, open_rows = held_bytes(state)
        row_bytes = open_rows // state.n_open if state.n_open else 8 * self._learned.n_features
        scores = self._learned.scores.nbytes
        limits = memory_limits(settings, state.model, row_bytes, settings.birth_window)
        return {
            "statistics": statistics,
            "pair_entropies": pairs,
            "open_rows": open_rows,
            "scores": scores,
            "total": statistics + pairs + open_rows + scores,
            "budget": settings.memory_budget,
            "bytes_per_component": stats_bytes(state.model.family.n_stats),
            "max_components": limits.max_components,
            "window_rows": limits.window_rows,
        }

    # -------------------------------------------------------------------- inner

    def _fitted(self) -> State:
        check_is_fitted(self)
        return self._learned.state

    def _components(self) -> tuple[Family[Any], Stats]:
        state = self._fitted()
        return state.model.family, state.total.rows(state.order_of_birth())

    def _ready(self, X: Any) -> tuple[State, Rows]:
        """State and rows for a prediction, which changes neither."""
        state = self._fitted()
        self._check_same_model(self._learned)
        _, rows = read_rows(self, X, (self._learned.columns,))
        return (allow_missing(state) if has_missing(rows.X) else state), rows

    def _assignments(self, X: Any) -> Iterator[tuple[NDArray[np.floating], Labels]]:
        """Responsibilities and labels, for one block of rows after the other."""
        state, rows = self._ready(X)
        step, posterior = mixture_step(self._settings(), state.model), state.posterior()
        for block in rows.blocks(_PREDICT_ROWS):
            with np.errstate(over="ignore", invalid="ignore"):  # the next lines refuse these
                found = step.assign(posterior, step.features(block), None)
            if not np.isfinite(found.log_norm).all():
                raise ValueError(
                    f"X of {type(self).__name__} has rows so far from all components that their "
                    f"scores are out of the range of dtype={self.dtype!r}. Leave them out, or use "
                    "dtype='float64'."
                )
            yield found.r, found.labels

    def _settings(self) -> MixtureSettings:
        """All parameters, for the time of one call."""
        budget = self.memory_budget
        return MixtureSettings(
            owner=type(self).__name__,
            family=family_of(self.family),
            prior=self.prior,
            concentration=float(self.concentration),
            max_components=int(self.max_components),
            batch_size=None if self.batch_size is None else int(self.batch_size),
            birth_window=int(self.birth_window),
            max_laps=int(self.max_laps),
            tol=float(self.tol),
            moves=frozenset(self.moves),
            learner=self.learner,
            dtype=self.dtype,
            memory_budget=None if budget is None else parse_bytes(budget),
            verbose=self.verbose,
            kinds=given_kinds(self.family),
        )

    def _check_params(self) -> None:
        family: object = self.family
        if isinstance(family, str) and family in ("spherical", "tied"):
            raise ValueError(
                f"the 'family' parameter of {type(self).__name__} must be one of "
                f"{', '.join(map(repr, FAMILIES))}: each component has its own variance in each "
                f"feature. Use 'diagonal' or 'full'. Got {family!r} instead."
            )
        super()._check_params()
        with named_errors(self, "prior"):
            check_prior(family_of(self.family), self.prior)

    def _check_same_model(self, learned: MixtureFit) -> None:
        """Refuse to continue with another family, concentration or learner.

        What a stochastic learner has blended is no sum over rows, so no exact bound can follow.
        """
        model = learned.state.model
        began_with = FAMILY_NAMES[type(model.family)]
        as_table = self.family == "auto" and began_with == "table"
        for name, own, began in (
            ("family", "table" if as_table else family_of(self.family), began_with),
            ("concentration", self.concentration, model.prior.alpha),
            ("learner", self.learner, learned.learner),
        ):
            if own != began:
                raise ValueError(
                    f"the {name!r} parameter of {type(self).__name__} was {began!r} when learning "
                    "began and cannot change without a new fit. "
                    f"Got {getattr(self, name)!r} instead."
                )
        given = given_kinds(self.family)
        for column in learned.columns or ():
            if given.get(column.name, column.kind) != column.kind:
                raise ValueError(
                    f"the 'family' parameter of {type(self).__name__} says that column "
                    f"{column.name!r} holds {given[column.name]}, but it was learned as "
                    f"{column.kind}, which cannot change without a new fit."
                )

    def _check_learned(self, learned: MixtureFit) -> None:
        """Refuse to save or load parameters that cannot belong to what was learned."""
        self._check_same_model(learned)
        owner, family = type(self).__name__, family_of(self.family)
        check_entries(owner, family, self.prior, learned.n_features)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        counts = self.family == "multinomial"
        tags.input_tags.sparse = counts
        tags.input_tags.positive_only = counts
        tags.input_tags.allow_nan = family_of(self.family) in ("diagonal", "table")
        tags.input_tags.categorical = not isinstance(self.family, str) or self.family in (
            "auto",
            "table",
        )
        return tags


def _in_double(r: NDArray[np.floating]) -> Mat:
    """Responsibilities in float64, whose rows sum to 1 in float64 too."""
    exact = r.astype(np.float64, copy=False)
    return exact if exact is r else np.asarray(exact / exact.sum(axis=1, keepdims=True))
