"""What the passive-aggressive classifier and regressor share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from everlearn.core.arrays import Mat, Table
from everlearn.core.random import stream
from everlearn.engine.opening import EngineChoice
from everlearn.estimator.base import COMMON_CONSTRAINTS, LearnerMixin
from everlearn.estimator.params import Constraint, Instance, Interval, Options
from everlearn.estimator.saving import SaveMixin
from everlearn.estimator.tables import checked_table
from everlearn.linear.beliefs import DiagonalBelief, LinearLearner
from everlearn.linear.fit import LinearFit, learn_visits
from everlearn.linear.inputs import Visit, in_batches, visit_of
from everlearn.linear.passive_aggressive import AveragingLearner, GibbsLearner

T = TypeVar("T")
_LARGEST_BATCH = 1024


class PassiveAggressive(SaveMixin, LearnerMixin, BaseEstimator, Generic[T]):
    """A linear estimator; T describes its targets, as subclasses read them."""

    _constraints: ClassVar[Mapping[str, tuple[Constraint, ...]]] = {
        "loss": (Options(("averaging", "gibbs")),),
        "slack": (Options(("linear", "squared", "none")),),
        "C": (Interval(0, 1e50, low_open=True),),
        "variance": (Interval(0, 1e50, low_open=True),),
        "covariance": (Options(("full", "diag")),),
        "inference": (Options(("variational", "sampled")),),
        "batch_size": (Interval(1, _LARGEST_BATCH, integer=True),),
        "n_passes": (Interval(1, 10_000, integer=True),),
        "shuffle": (Instance((bool, np.bool_), "a truth value"),),
        "fit_intercept": (Instance((bool, np.bool_), "a truth value"),),
        "tol": (Interval(0),),
        **COMMON_CONSTRAINTS,
    }
    _one_sided: ClassVar[bool]
    """Whether a score beyond its target is as good as one at it: classes, not numbers."""
    _learned: LinearFit[T]

    def __init__(
        self,
        *,
        loss: str = "averaging",
        slack: str = "linear",
        C: float | None = 1.0,
        variance: float = 1.0,
        covariance: str = "full",
        inference: str = "variational",
        batch_size: int = 1,
        n_passes: int = 1,
        shuffle: bool = True,
        fit_intercept: bool = True,
        tol: float = 1e-3,
        engine: EngineChoice = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.loss = loss
        self.slack = slack
        self.C: Any = C
        self.variance = variance
        self.covariance = covariance
        self.inference = inference
        self.batch_size = batch_size
        self.n_passes = n_passes
        self.shuffle = shuffle
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.engine = engine
        self.random_state = random_state
        self.verbose = verbose

    # ------------------------------------------------------------------ attributes

    @property
    def coef_(self) -> Mat:
        """Weights of the features."""
        return self._weights(self._fitted().state.mean)

    @property
    def intercept_(self) -> Any:
        """Weight of the constant feature, 0 without one."""
        return self._intercepts(self._fitted().state.mean)

    @property
    def coef_variance_(self) -> Mat:
        """Posterior variance of each entry of `coef_`, if `loss="gibbs"`."""
        return self._weights(self._marginal())

    @property
    def intercept_variance_(self) -> Any:
        """Posterior variance of `intercept_`, if `loss="gibbs"`."""
        return self._intercepts(self._marginal())

    @property
    def n_samples_seen_(self) -> int:
        """Rows learned from, each counted as often as it was visited."""
        return self._fitted().state.n_rows

    @property
    def learns_row_by_row(self) -> bool:
        """Whether rows may come in one call or in several, with the same bits in the end."""
        return bool(self.loss == "averaging" and self.batch_size == 1)

    # ---------------------------------------------------------- for the subclasses

    def _weights(self, values: Mat) -> Mat:
        """The part of (n_tasks, n_weights) values that belongs to features."""
        return np.array(values[:, : self.n_features_in_], order="C")

    def _intercepts(self, values: Mat) -> Any:
        """The part of (n_tasks, n_weights) values that belongs to the constant feature."""
        if values.shape[1] > self.n_features_in_:
            return values[:, -1].copy()
        return np.zeros(len(values))

    def _loss_weight(self) -> float:
        """The parameter `C`, or what stands for it."""
        return float(self.C)

    def _tube(self) -> float:
        """Half-width of the tube around targets within which an error costs nothing."""
        return 0.0

    def _begin(self, targets: T, n_tasks: int) -> LinearFit[T]:
        """What is known before the first row."""
        n_weights = self.n_features_in_ + bool(self.fit_intercept)
        state = self._learner().start(n_tasks, n_weights, self._new_seed())
        return LinearFit(state, targets, self.n_features_in_)

    def _learn_in_order(self, fit: LinearFit[T], X: Table, targets: Mat) -> LinearFit[T]:
        """What is known after the rows in the order in which they came."""
        return self._learn(fit, [visit_of(X, targets, np.arange(len(targets)))])

    def _learn_passes(
        self, fit: LinearFit[T], tables: Iterable[Table], targets: Mat
    ) -> LinearFit[T]:
        """What is known after `n_passes` over the rows; those of several tables are in order."""
        if not isinstance(tables, list):
            size = int(self.batch_size)
            return self._learn(fit, in_batches(type(self).__name__, tables, targets, size))
        (X,) = tables
        orders = [np.arange(len(targets))] * self.n_passes
        if self.shuffle:
            seed = fit.state.seed
            orders = [stream(seed, "order", 0, i).permutation(o) for i, o in enumerate(orders)]
        return self._learn(fit, (visit_of(X, targets, order) for order in orders))

    def _learn(self, fit: LinearFit[T], visits: Iterable[Visit]) -> LinearFit[T]:
        return learn_visits(fit, self._learner(), visits, type(self).__name__)

    def _known(self) -> LinearFit[T] | None:
        """What was learned before, unless its form is not that of the parameters any more."""
        learned: LinearFit[T] | None = getattr(self, "_learned", None)
        if learned is not None:
            self._check_learned(learned)
        return learned

    def _fitted(self) -> LinearFit[T]:
        check_is_fitted(self)
        return self._learned

    def _scores(self, X: Any) -> tuple[Table, Mat]:
        """Checked rows, and their mean scores."""
        state = self._fitted().state
        rows = checked_table(self, X, reset=False)
        return rows, state.scores(rows)

    # ------------------------------------------------------------------ inner

    def _check_params(self) -> None:
        super()._check_params()
        name, slack = type(self).__name__, f"Got slack={self.slack!r} instead."
        if self.loss == "gibbs" and self.slack != "linear":
            raise ValueError(
                f"the 'slack' parameter of {name} must be 'linear' if loss='gibbs'. {slack}"
            )
        if self.slack == "none" and self.batch_size > 1:
            raise ValueError(
                f"the 'slack' parameter of {name} must be 'linear' or 'squared' if batch_size is "
                f"more than 1, because rows may contradict each other. {slack}"
            )

    def _check_learned(self, learned: LinearFit[T]) -> None:
        """Refuse to go on with another form of belief than learning began with."""
        form = "fixed" if self.loss == "averaging" else self.covariance
        names = {"fixed": "loss='averaging'", "full": "loss='gibbs' and covariance='full'"}
        names["diag"] = "loss='gibbs' and covariance='diag'"
        belief = learned.state.belief
        begun = "diag" if isinstance(belief, DiagonalBelief) else "full"
        begun = "fixed" if belief is None else begun
        name = type(self).__name__
        if form != begun:
            raise ValueError(
                f"{name} began to learn with {names[begun]}, which cannot change without a new "
                f"fit. Got {names[form]} instead."
            )
        if bool(self.fit_intercept) != learned.has_intercept:
            raise ValueError(
                f"the 'fit_intercept' parameter of {name} was {learned.has_intercept} when "
                f"learning began and cannot change without a new fit. Got {self.fit_intercept!r} "
                "instead."
            )

    def _learner(self) -> LinearLearner:
        """How rows change the state: a value made of parameters alone."""
        C, variance = self._loss_weight(), float(self.variance)
        if self.loss == "gibbs":
            return GibbsLearner(
                one_sided=self._one_sided,
                margin=1.0 if self._one_sided else self._tube(),
                c=0.5 * C,
                variance=variance,
                diagonal=self.covariance == "diag",
                sampled=self.inference == "sampled",
                batch_size=int(self.batch_size),
                tol=float(self.tol),
            )
        return AveragingLearner(
            one_sided=self._one_sided,
            width=self._tube(),
            box=C if self.slack == "linear" else np.inf,
            ridge=0.5 / C if self.slack == "squared" else 0.0,
            variance=variance,
            batch_size=int(self.batch_size),
            tol=float(self.tol),
        )

    def _marginal(self) -> Mat:
        belief = self._fitted().state.belief
        if belief is None:
            raise AttributeError(
                f"{type(self).__name__} with loss='averaging' does not learn variances"
            )
        return belief.marginal

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_learned")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        return tags
