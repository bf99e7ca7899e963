"""What a learned mixture shows: components, bounds, history and the memory it takes."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp
from sklearn.base import BaseEstimator, DensityMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from everlearn.core.arrays import IntVec, Labels, Mat, Vec
from everlearn.core.families.base import Family
from everlearn.core.moves import ALL_MOVES
from everlearn.core.random import stream
from everlearn.engine.opening import is_collection
from everlearn.engine.rows import Rows
from everlearn.errors import NotConvergedWarning
from everlearn.estimator.base import COMMON_CONSTRAINTS, LearnerMixin, named_errors
from everlearn.estimator.collections import open_rows
from everlearn.estimator.components import ComponentAttributes, Components
from everlearn.estimator.families import FAMILIES, check_prior, has_missing
from everlearn.estimator.params import (
    ByteSize,
    Constraint,
    Instance,
    Interval,
    Options,
    Subset,
    check_params,
    parse_bytes,
)
from everlearn.estimator.tables import refuse_collection
from everlearn.mixture.budget import stats_bytes
from everlearn.mixture.checkpoint import MixtureStorage
from everlearn.mixture.fit import Learned, allow_missing, forget, learn, learn_elsewhere, learn_more
from everlearn.mixture.inputs import check_forgettable, check_same_model, checked_name, checked_rows
from everlearn.mixture.setup import held_bytes, memory_limits, mixture_step
from everlearn.mixture.state import State


class MixtureAttributes(ComponentAttributes):
    """Fitted attributes, computed from the statistics when asked for."""

    _learned: Learned
    n_features_in_: int
    birth_window: int
    memory_budget: Any

    def _fitted(self) -> State:
        check_is_fitted(self)
        return self._learned.state

    def _components(self) -> tuple[Family[Any], Components]:
        state = self._fitted()
        return state.model.family, state.total

    @property
    def weights_(self) -> Vec:
        """Expected share of each component among those seen."""
        state = self._fitted()
        known, _ = state.model.sticks(state.total).mean_weights()
        return np.asarray(known / known.sum())

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
    def converged_(self) -> bool:
        """Whether the last `fit` settled before `max_laps`; False without a `fit`."""
        self._fitted()
        return self._learned.settled

    def memory_report(self) -> dict[str, int | None]:
        """Bytes the model holds, by what they are for, and the limits set by the budget.

        Returns
        -------
        report : dict
            "statistics", "pair_entropies", "open_rows", "total" and "budget" in bytes;
            "bytes_per_component", "max_components" and "window_rows".
        """
        state = self._fitted()
        statistics, pairs, open_rows = held_bytes(state)
        row_bytes = open_rows // state.n_open if state.n_open else 8 * self.n_features_in_
        limits = memory_limits(self, state.model, row_bytes, self.birth_window)
        return {
            "statistics": statistics,
            "pair_entropies": pairs,
            "open_rows": open_rows,
            "total": statistics + pairs + open_rows,
            "budget": None if self.memory_budget is None else parse_bytes(self.memory_budget),
            "bytes_per_component": stats_bytes(state.model.family.n_stats),
            "max_components": limits.max_components,
            "window_rows": limits.window_rows,
        }


_PREDICT_ROWS = 4096
_SAMPLE_CONSTRAINTS = {"n_samples": (Interval(1, integer=True),)}


class MixturePredictions(MixtureAttributes, LearnerMixin, TransformerMixin):
    """Predictions; none of them changes the model."""

    dtype: str

    def predict(self, X: Any) -> Labels:
        """Position of the likeliest component of each row.

        `component_ids_[predict(X)]` are the permanent ids.

        Parameters
        ----------
        X : array-like, CSR matrix or data frame of shape (n_rows, n_features)
            The rows.

        Returns
        -------
        labels : ndarray of shape (n_rows,)
            Positions in `means_`, `weights_` and `component_ids_`.
        """
        return np.concatenate([labels for _, labels in self._assignments(X)])

    def predict_proba(self, X: Any) -> Mat:
        """Responsibility of each component for each row.

        Parameters
        ----------
        X : array-like, CSR matrix or data frame of shape (n_rows, n_features)
            The rows.

        Returns
        -------
        responsibilities : ndarray of shape (n_rows, n_components)
            Rows sum to 1; float64, whatever `dtype` is.
        """
        return np.concatenate([_in_double(r) for r, _ in self._assignments(X)])

    def transform(self, X: Any) -> Mat:
        """Rows as features: the responsibilities of `predict_proba`.

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

        The chance that a row comes from a component not yet seen is part of it, so that the
        density integrates to one.

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
            Nats per row; larger is better.
        """
        return float(np.mean(self.score_samples(X)))

    def sample(self, n_samples: int = 1) -> tuple[Mat, IntVec]:
        """Draw rows from the posterior predictive of the components.

        Parameters
        ----------
        n_samples : int, default=1
            How many.

        Returns
        -------
        X : ndarray of shape (n_samples, n_features)
            The rows, ordered by component.
        y : ndarray of shape (n_samples,)
            The component each was drawn from, as a position.
        """
        state = self._fitted()
        check_params("DPMixture.sample", {"n_samples": n_samples}, _SAMPLE_CONSTRAINTS)
        rng = stream(self._new_seed(), "sample")
        family = state.model.family
        q = family.posterior(state.total.n, state.total.t)
        counts = rng.multinomial(n_samples, self.weights_)
        drawn = [family.draw(q, k, int(n), rng) for k, n in enumerate(counts)]
        return np.concatenate(drawn), np.repeat(np.arange(len(counts)), counts)

    def _ready(self, X: Any) -> tuple[State, Rows]:
        """State and rows for a prediction; neither is changed by it."""
        state = self._fitted()
        check_same_model(self, self._learned)
        rows = checked_rows(self, X, reset=False)
        return (allow_missing(state) if has_missing(rows.X) else state), rows

    def _assignments(self, X: Any) -> Iterator[tuple[NDArray[np.floating], Labels]]:
        state, rows = self._ready(X)
        step, posterior = mixture_step(self, state.model), state.posterior()
        for block in rows.blocks(_PREDICT_ROWS):
            with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is refused
                found = step.assign(posterior, step.features(block), None)
            if not np.isfinite(found.log_norm).all():
                raise ValueError(
                    f"X of {type(self).__name__} has rows so far from all components that their "
                    f"scores are out of the range of dtype={self.dtype!r}. Leave them out, or use "
                    "a wider dtype."
                )
            yield found.r, found.labels


def _in_double(r: NDArray[np.floating]) -> Mat:
    """Responsibilities in float64; those of float32 sum to 1 as exactly as the others."""
    exact = r.astype(np.float64, copy=False)
    return exact if exact is r else np.asarray(exact / exact.sum(axis=1, keepdims=True))


class DPMixture(MixtureStorage, MixturePredictions, DensityMixin, BaseEstimator):
    """Dirichlet-process mixture with memoized online variational inference.

    The number of components is found, not given: components are born, merged and deleted when
    that raises the evidence lower bound. `fit` learns from a data set in laps, `partial_fit`
    from a stream in bounded memory; each can follow the other.

    Parameters
    ----------
    family : {"diagonal", "full", "zero-mean", "multinomial"}, default="diagonal"
        Distribution of a component: a Gaussian with diagonal or full covariance, one with mean
        zero, or a multinomial over counts. Missing values (NaN) are fine for "diagonal".
    prior : str or mapping, default="data"
        "data" scales the prior to the first rows; "shared" (diagonal) finds one spread for all
        components; "par-ingmm" and "wishart" are fixed priors for features of unit scale. A
        mapping sets entries by hand, see docs/ask/priors.md.
        It is taken from the first rows (a stream's first few hundred, see docs/ask/stream.md);
        after them a change has no effect before the next `fit`.
    concentration : float, default=1.0
        Of the Dirichlet process: larger values expect more components.
    max_components : int, default=1000
        No births beyond this many; components that are there already stay.
    init_components : int or "many", default=1
        Components to start with, seeded by k-means++, in `fit` and in the first rows of a
        "stochastic" stream; other streams start with one. "many" is one for every 10 rows, at
        most `max_components`, and merges do the rest: for the prior "shared", and many classes.
    n_init : int, default=1
        Starts to try there, of which the one with the largest bound is kept.
    batch_size : int or None, default=None
        Rows of a batch; None means 1000, or a tenth of the data in `fit` if that is more.
        A memory budget may ask for larger ones.
    birth_window : int, default=10000
        Rows of a stream that stay open for births.
    max_laps : int, default=50
        Passes over the data in `fit`, those that were undone included.
    tol : float, default=1e-6
        `fit` stops when the bound rises by less than this share of it and no move is left.
    moves : sequence of {"birth", "merge", "delete"}, default=all
        Changes of structure that are allowed.
    learner : {"memoized", "stochastic"}, default="memoized"
        "stochastic" blends batches without remembering them: the first rows decide on the
        components, and the bound is an estimate. It cannot change before the next `fit`.
    dtype : {"float64", "float32"}, default="float64"
        Precision of the work on rows. Statistics and bounds are float64 always, and so are sums
        over more than 128 dense rows.
    memory_budget : int, str or None, default=None
        Bytes, or text such as "64MB", that statistics, open rows and work space may take. The
        rows given to a call, and in `fit` a label for each, are not counted.
    engine : {None, "serial", "threads", "dask"}, Client or address, default=None
        Where rows are worked on; all engines give the same bits. None uses all cores;
        "dask", a `distributed.Client` or an address ("tcp://...") a cluster.
    random_state : int, RandomState instance or None, default=None
        Determines births, batch order and samples.
    verbose : int, default=0
        1 shows a progress bar.

    Attributes
    ----------
    n_components_ : int
        Components in use.
    component_ids_ : ndarray of shape (n_components,)
        Permanent ids; never used twice in the life of a model.
    weights_, means_, covariances_ : ndarray
        Expected weights (summing to 1), means, and inverse expected precisions.
    bound_ : float
        Lower bound of the log evidence of every row seen, constants included.
    bound_history_ : ndarray
        The bound after each lap that was kept.
    history_ : History
        Laps, accepted moves, and counts of moves judged. Births that cost at first are listed
        if they paid within a few laps.
    n_samples_seen_ : int
        Rows learned from.
    converged_ : bool
        Whether the last `fit` settled before `max_laps`, as "stochastic" always does;
        False without a `fit`.
    n_features_in_ : int
        Width of a row.

    Examples
    --------
    >>> import numpy as np
    >>> from everlearn import DPMixture
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(c, 1, (100, 2)) for c in (-9, 0, 9)])
    >>> DPMixture(random_state=0).fit(X).n_components_
    3
    """

    _constraints: ClassVar[Mapping[str, tuple[Constraint, ...]]] = {
        "family": (Options(FAMILIES),),
        "prior": (Instance((str, Mapping), "the name of a prior or a mapping"),),
        "concentration": (Interval(0, low_open=True),),
        "max_components": (Interval(1, integer=True),),
        "init_components": (Options(("many",)), Interval(1, integer=True)),
        "n_init": (Interval(1, integer=True),),
        "batch_size": (Options((None,)), Interval(1, integer=True)),
        "birth_window": (Interval(1, integer=True),),
        "max_laps": (Interval(1, integer=True),),
        "tol": (Interval(0),),
        "moves": (Subset(ALL_MOVES),),
        "learner": (Options(("memoized", "stochastic")),),
        "dtype": (Options(("float64", "float32")),),
        "memory_budget": (Options((None,)), ByteSize()),
        **COMMON_CONSTRAINTS,
    }

    def __init__(
        self,
        *,
        family: str = "diagonal",
        prior: str | Mapping[str, Any] = "data",
        concentration: float = 1.0,
        max_components: int = 1000,
        init_components: int | str = 1,
        n_init: int = 1,
        batch_size: int | None = None,
        birth_window: int = 10_000,
        max_laps: int = 50,
        tol: float = 1e-6,
        moves: tuple[str, ...] = ALL_MOVES,
        learner: str = "memoized",
        dtype: str = "float64",
        memory_budget: int | str | None = None,
        engine: str | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.family = family
        self.prior = prior
        self.concentration = concentration
        self.max_components = max_components
        self.init_components = init_components
        self.n_init = n_init
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
        """Learn from a data set, forgetting anything learned before.

        Parameters
        ----------
        X : array-like, CSR matrix, data frame or Dask collection of shape (n_rows, n_features)
            The rows; NaN is a missing value if `family="diagonal"`. Chunks of a Dask array or
            data frame stay on their workers.
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
                with open_rows(self, X, sample_weight, checked_rows) as given:
                    self._learned = learn_elsewhere(self, given, self._new_seed())
            else:
                rows = checked_rows(self, X, reset=True, sample_weight=sample_weight)
                self._learned = learn(self, rows, self._new_seed())
            if not self.converged_:  # within, as a warning may be an error
                warnings.warn(
                    f"DPMixture was still changing after max_laps={self.max_laps}: allow more "
                    "laps, or fewer components with max_components.",
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
            The rows; NaN is a missing value if `family="diagonal"`.
        y : None
            Ignored.
        sample_weight : array-like of shape (n_rows,), default=None
            How often each row counts.

        batch_id : int, str or None, default=None
            A name under which the statistics of these rows are kept, for `forget`. That takes
            the memory of a set of statistics; calls with the same name make one batch.

        Returns
        -------
        self
            The estimator, which has learned the rows.
        """
        with self._unchanged_on_error():
            self._check_params()
            name = checked_name(self, batch_id)
            learned = getattr(self, "_learned", None)
            if learned is not None:
                check_same_model(self, learned)
            rows = checked_rows(self, X, reset=learned is None, sample_weight=sample_weight)
            seed = self._new_seed() if learned is None else 0
            self._learned = learn_more(self, learned, rows, seed, name)
        return self

    def forget(self, batch_id: int | str) -> Self:
        """Take back what the rows of a batch have taught: its statistics are subtracted.

        What is left is the sum over all other rows, exactly but for rounding. Components stay,
        except those that nothing is left of; their boundaries move when more rows are learned.

        Parameters
        ----------
        batch_id : int or str
            The name that `partial_fit` was given with the rows.

        Returns
        -------
        self
            The estimator, which has forgotten the rows.
        """
        state = self._fitted()
        check_forgettable(self, state, batch_id)
        with self._unchanged_on_error():
            self._learned = forget(self._learned, batch_id)
        return self

    def fit_predict(self, X: Any, y: Any = None, sample_weight: Any = None) -> Labels:
        """Learn from a data set and tell the likeliest component of each of its rows.

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
        return self.fit(X, y, sample_weight).predict(X)

    # ---------------------------------------------------------------------- inner

    def _check_params(self) -> None:
        super()._check_params()
        with named_errors(self, "prior"):
            check_prior(self.family, self.prior)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        counts = self.family == "multinomial"
        tags.input_tags.sparse = counts
        tags.input_tags.positive_only = counts
        tags.input_tags.allow_nan = self.family == "diagonal"
        return tags
