"""What the passive-aggressive classifier and regressor share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from everlearn.core.arrays import Mat, Table, Vec
from everlearn.engine.opening import EngineChoice
from everlearn.estimator.base import COMMON_CONSTRAINTS, LearnerMixin
from everlearn.estimator.params import Constraint, Instance, Interval, Options
from everlearn.estimator.saving import SaveMixin
from everlearn.estimator.tables import checked_table
from everlearn.linear.beliefs import DiagonalBelief
from everlearn.linear.fit import LinearFit, Passes, learn_together, learn_visits
from everlearn.linear.inputs import Visit, in_batches, visit_of
from everlearn.linear.passive_aggressive import AveragingLearner, GibbsLearner

T = TypeVar("T")
_LARGEST_BATCH = 1024
_MOST_WEIGHTS, _MOST_ENTRIES = 300, 1 << 22
"""Most weights of a task and most matrix entries for which covariance="auto" means "full"."""


class PassiveAggressive(SaveMixin, LearnerMixin, BaseEstimator, Generic[T]):
    """A linear estimator; T describes its targets, as subclasses read them."""

    _constraints: ClassVar[Mapping[str, tuple[Constraint, ...]]] = {
        "loss": (Options(("averaging", "gibbs")),),
        "slack": (Options(("linear", "squared", "none")),),
        "C": (Interval(0, 1e50, low_open=True),),
        "variance": (Interval(0, 1e50, low_open=True),),
        "covariance": (Options(("auto", "full", "diag")),),
        "inference": (Options(("variational", "sampled")),),
        "batch_size": (Interval(1, _LARGEST_BATCH, integer=True),),
        "max_iter": (Interval(1, 10_000, integer=True),),
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
        loss: str = "gibbs",
        slack: str = "squared",
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
        self.loss = loss
        self.slack = slack
        self.C = C
        self.variance = variance
        self.covariance = covariance
        self.inference = inference
        self.batch_size = batch_size
        self.max_iter = max_iter
        self.shuffle = shuffle
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.engine = engine
        self.random_state = random_state
        self.verbose = verbose

    # ------------------------------------------------------------------ attributes

    @property
    def coef_(self) -> Mat:
        """Weights of the features, in their units and those of the targets."""
        return self._shaped(self._fitted().state.weights()[0])

    @property
    def intercept_(self) -> Any:
        """Score of a row of zeros; 0 without an intercept."""
        return self._shaped_intercepts(self._fitted().state.weights()[1])

    @property
    def coef_variance_(self) -> Mat:
        """Posterior variance of each entry of `coef_`, if `loss="gibbs"`."""
        return self._shaped(self._variances()[0])

    @property
    def intercept_variance_(self) -> Any:
        """Posterior variance of `intercept_`, if `loss="gibbs"`."""
        return self._shaped_intercepts(self._variances()[1])

    @property
    def n_iter_(self) -> int:
        """Passes of the last `fit`; 1 if there was none."""
        return self._fitted().n_iter

    @property
    def n_samples_seen_(self) -> int:
        """Rows learned from; more passes over them do not count."""
        return self._fitted().state.n_rows

    @property
    def learns_row_by_row(self) -> bool:
        """Whether rows may come in one call or in several, with the same bits in the end."""
        return bool(self.loss == "averaging" and self.batch_size == 1)

    # ---------------------------------------------------------- for the subclasses

    def _shaped(self, weights: Mat) -> Mat:
        """Weights (n_tasks, n_features) as users see them."""
        return weights

    def _shaped_intercepts(self, intercepts: Vec) -> Any:
        """Intercepts (n_tasks,) as users see them."""
        return intercepts

    def _tube(self) -> float:
        """Half-width of the tube around targets within which an error costs nothing."""
        return 0.0

    def _begin(self, targets: T, n_tasks: int) -> LinearFit[T]:
        """The fit of a new model."""
        state = self._learner(n_tasks).start(
            n_tasks, self.n_features_in_, self._new_seed(), intercept=bool(self.fit_intercept)
        )
        return LinearFit(state, targets, self.n_features_in_)

    def _learn_in_order(self, fit: LinearFit[T], X: Table, targets: Mat) -> LinearFit[T]:
        """Learn rows once, in the order in which they came."""
        return self._learn(fit, [visit_of(X, targets, np.arange(len(targets)))])

    def _learn_passes(
        self, fit: LinearFit[T], tables: Iterable[Table], targets: Mat
    ) -> LinearFit[T]:
        """Learn the rows of one table in several passes, or those of several tables once."""
        if not isinstance(tables, list):
            size = int(self.batch_size)
            return self._learn(fit, in_batches(type(self).__name__, tables, targets, size))
        (X,) = tables
        passes = Passes(int(self.max_iter), float(self.tol), bool(self.shuffle))
        visit = visit_of(X, targets, np.arange(len(targets)))
        if self.max_iter == 1 or self.slack == "none" or self._samples:
            order = passes.order(fit.state.seed, 0, visit.order)
            return self._learn(fit, [visit._replace(order=order)])
        n_tasks = targets.shape[1]
        learner = self._learner(n_tasks)
        means = None
        if isinstance(fit.state.belief, DiagonalBelief):
            means = self._averaging(batch_size=1)
        return learn_together(fit, learner, means, visit, passes, type(self).__name__)

    def _learn(self, fit: LinearFit[T], visits: Iterable[Visit]) -> LinearFit[T]:
        learner = self._learner(len(fit.state.mean))
        return learn_visits(fit, learner, visits, type(self).__name__)

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

    @property
    def _samples(self) -> bool:
        return bool(self.loss == "gibbs" and self.inference == "sampled" and self.slack == "linear")

    def _check_params(self) -> None:
        super()._check_params()
        name, slack = type(self).__name__, f"Got slack={self.slack!r} instead."
        if self.loss == "gibbs" and self.slack == "none":
            raise ValueError(
                f"the 'slack' parameter of {name} must be 'linear' or 'squared' if loss='gibbs'. "
                f"{slack}"
            )
        if self.loss == "gibbs" and self.inference == "sampled" and self.slack != "linear":
            raise ValueError(
                f"the 'slack' parameter of {name} must be 'linear' if inference='sampled': other "
                f"losses have no augmentation variables. {slack}"
            )
        if self.slack == "none" and self.batch_size > 1:
            raise ValueError(
                f"the 'slack' parameter of {name} must be 'linear' or 'squared' if batch_size is "
                f"more than 1, because rows may contradict each other. {slack}"
            )

    def _check_learned(self, learned: LinearFit[T]) -> None:
        """Refuse a loss or covariance other than those that learning began with."""
        form = self._form(*learned.state.mean.shape)
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

    def _form(self, n_tasks: int, n_weights: int) -> str:
        """What is learned besides means: "fixed" for nothing, "full" or "diag"."""
        if self.loss == "averaging":
            return "fixed"
        if self.covariance != "auto":
            return str(self.covariance)
        small = n_weights <= _MOST_WEIGHTS and n_tasks * n_weights**2 <= _MOST_ENTRIES
        return "full" if small else "diag"

    def _learner(self, n_tasks: int) -> AveragingLearner | GibbsLearner:
        """How rows change the state: a value made of parameters and of the size of the model."""
        if self.loss == "averaging":
            return self._averaging(int(self.batch_size))
        n_weights = self.n_features_in_ + bool(self.fit_intercept)
        return GibbsLearner(
            one_sided=self._one_sided,
            margin=1.0 if self._one_sided else self._tube(),
            c=0.5 * float(self.C),
            variance=float(self.variance),
            diagonal=self._form(n_tasks, n_weights) == "diag",
            squared=self.slack == "squared",
            sampled=self.inference == "sampled",
            batch_size=int(self.batch_size),
            tol=float(self.tol),
        )

    def _averaging(self, batch_size: int) -> AveragingLearner:
        """How rows change means alone."""
        C = float(self.C)
        return AveragingLearner(
            one_sided=self._one_sided,
            width=self._tube(),
            box=C if self.slack == "linear" else np.inf,
            ridge=0.5 / C if self.slack == "squared" else 0.0,
            variance=float(self.variance),
            batch_size=batch_size,
            tol=float(self.tol),
        )

    def _variances(self) -> tuple[Mat, Vec]:
        state = self._fitted().state
        if state.belief is None:
            raise AttributeError(
                f"{type(self).__name__} with loss='averaging' does not learn variances"
            )
        return state.weight_variances()

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_learned")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        return tags
