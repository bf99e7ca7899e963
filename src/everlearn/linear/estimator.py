"""What passive-aggressive estimators share: parameters, the learning of rows, and files."""

from __future__ import annotations

import inspect
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from everlearn.core.arrays import IntVec, Mat, Table
from everlearn.core.random import stream
from everlearn.engine.opening import open_engine
from everlearn.errors import CheckpointError
from everlearn.estimator.base import COMMON_CONSTRAINTS, LearnerMixin
from everlearn.estimator.params import Constraint, Instance, Interval, Options
from everlearn.estimator.saving import SaveMixin, checked_names, feature_names, plain_params
from everlearn.estimator.tables import checked_table
from everlearn.linear.beliefs import LinearLearner, LinearState
from everlearn.linear.checkpoint import STATE_KEYS, belief_name, pack_linear, unpack_linear
from everlearn.linear.inputs import Visit, in_batches
from everlearn.linear.passive_aggressive import AveragingLearner, GibbsLearner
from everlearn.store.schema import Arrays, section

T = TypeVar("T")
_LARGEST_BATCH = 1024


@dataclass(frozen=True, slots=True, eq=False)
class Learned(Generic[T]):
    """What an estimator knows: its state, and what its targets are."""

    state: LinearState
    outputs: T


class PassiveAggressive(SaveMixin, LearnerMixin, BaseEstimator, Generic[T]):
    """A linear estimator with targets of type T; subclasses say what these are."""

    _constraints: ClassVar[Mapping[str, tuple[Constraint, ...]]] = {
        "loss": (Options(("averaging", "gibbs")),),
        "slack": (Options(("linear", "squared", "none")),),
        "margin": (Interval(0, 1e50, low_open=True),),
        "c": (Interval(0, 1e50, low_open=True),),
        "variance": (Interval(0, 1e50, low_open=True),),
        "covariance": (Options(("full", "diag")),),
        "inference": (Options(("variational", "sampled")),),
        "batch_size": (Interval(1, _LARGEST_BATCH, integer=True),),
        "n_passes": (Interval(1, integer=True),),
        "shuffle": (Instance((bool, np.bool_), "a truth value"),),
        "fit_intercept": (Instance((bool, np.bool_), "a truth value"),),
        "max_rounds": (Interval(1, integer=True),),
        "tol": (Interval(0),),
        **COMMON_CONSTRAINTS,
    }
    _one_sided: ClassVar[bool]
    _output_members: ClassVar[frozenset[str]] = frozenset()
    _learned: Learned[T]

    def __init__(
        self,
        *,
        loss: str = "averaging",
        slack: str = "linear",
        margin: float = 1.0,
        c: float | None = 0.5,
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
        self.loss = loss
        self.slack = slack
        self.margin = margin
        self.c: Any = c
        self.variance = variance
        self.covariance = covariance
        self.inference = inference
        self.batch_size = batch_size
        self.n_passes = n_passes
        self.shuffle = shuffle
        self.fit_intercept = fit_intercept
        self.max_rounds = max_rounds
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
    def n_rows_seen_(self) -> int:
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

    @abstractmethod
    def _loss_weight(self) -> float:
        """The parameter `c`, or what stands for it."""

    @abstractmethod
    def _pack_outputs(self, outputs: T) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Targets as JSON and arrays."""

    @classmethod
    @abstractmethod
    def _unpack_outputs(cls, header: Any, arrays: Arrays, n_tasks: int) -> T:
        """Inverse of `_pack_outputs`."""

    def _begin(self, outputs: T, n_tasks: int) -> Learned[T]:
        """What is known before the first row."""
        n_weights = self.n_features_in_ + bool(self.fit_intercept)
        state = self._learner().start(n_tasks, n_weights, self._new_seed())
        return Learned(state, outputs)

    def _go_on(self, learned: Learned[T], X: Table, targets: Mat) -> Learned[T]:
        """What is known after the rows in the order in which they came."""
        return self._visit(learned, [_visit_of(X, targets, np.arange(len(targets)))])

    def _fit_passes(self, learned: Learned[T], tables: Iterable[Table], targets: Mat) -> Learned[T]:
        """What is known after `n_passes` over the rows; those of several tables are in order."""
        if not isinstance(tables, list):
            size = int(self.batch_size)
            return self._visit(learned, in_batches(type(self).__name__, tables, targets, size))
        (X,) = tables
        orders = [np.arange(len(targets))] * self.n_passes
        if self.shuffle:
            seed = learned.state.seed
            orders = [stream(seed, "order", 0, i).permutation(o) for i, o in enumerate(orders)]
        return self._visit(learned, (_visit_of(X, targets, order) for order in orders))

    def _known(self) -> Learned[T] | None:
        """What was learned before, unless its form is not that of the parameters any more."""
        learned: Learned[T] | None = getattr(self, "_learned", None)
        if learned is not None:
            self._check_same_form(learned.state)
        return learned

    def _fitted(self) -> Learned[T]:
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

    def _check_same_form(self, state: LinearState) -> None:
        """Refuse to go on with another form of belief than learning began with."""
        form = "fixed" if self.loss == "averaging" else self.covariance
        names = {"fixed": "loss='averaging'", "full": "loss='gibbs' and covariance='full'"}
        names["diag"] = "loss='gibbs' and covariance='diag'"
        begun, intercept = belief_name(state.belief), state.mean.shape[1] > self.n_features_in_
        name = type(self).__name__
        if form != begun:
            raise ValueError(
                f"{name} began to learn with {names[begun]}, which cannot change without a new "
                f"fit. Got {names[form]} instead."
            )
        if bool(self.fit_intercept) != intercept:
            raise ValueError(
                f"the 'fit_intercept' parameter of {name} was {intercept} when learning began and "
                f"cannot change without a new fit. Got {self.fit_intercept!r} instead."
            )

    def _learner(self) -> LinearLearner:
        margin, c, variance = float(self.margin), self._loss_weight(), float(self.variance)
        if self.loss == "gibbs":
            return GibbsLearner(
                one_sided=self._one_sided,
                margin=margin,
                c=c,
                variance=variance,
                diagonal=self.covariance == "diag",
                sampled=self.inference == "sampled",
                batch_size=int(self.batch_size),
                max_rounds=int(self.max_rounds),
                tol=float(self.tol),
            )
        return AveragingLearner(
            one_sided=self._one_sided,
            width=0.0 if self._one_sided else margin,
            box=2.0 * c if self.slack == "linear" else np.inf,
            ridge=0.25 / c if self.slack == "squared" else 0.0,
            variance=variance,
            batch_size=int(self.batch_size),
            max_rounds=int(self.max_rounds),
            tol=float(self.tol),
        )

    def _visit(self, learned: Learned[T], visits: Iterable[Visit]) -> Learned[T]:
        """What is known after these visits."""
        learner, state = self._learner(), learned.state
        with open_engine("serial"), np.errstate(all="ignore"):
            for visit in visits:
                state = learner.learn(state, *visit)
        parts = () if state.belief is None else state.belief.parts
        if not all(np.isfinite(part).all() for part in (state.mean, *parts)):
            raise ValueError(
                f"{type(self).__name__} cannot learn from X: weights are not finite any more. "
                "Scale X, or choose a smaller 'c' or 'variance'."
            )
        return Learned(state, learned.outputs)

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

    # ------------------------------------------------------------------ files

    def to_checkpoint(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The fitted estimator as JSON and arrays; `save` writes them."""
        learned = self._fitted()
        self._check_params()
        self._check_same_form(learned.state)
        header, arrays = pack_linear(learned.state)
        outputs, more = self._pack_outputs(learned.outputs)
        return {
            "params": plain_params(self.get_params(deep=False), learned.state.seed),
            "state": header,
            "outputs": outputs,
            "feature_names": feature_names(self),
        }, arrays | more

    @classmethod
    def from_checkpoint(cls, header: Mapping[str, Any], arrays: Arrays) -> Self:
        """Inverse of `to_checkpoint`; `everlearn.load` reads the file."""
        estimator = cls(**section(header, "params", inspect.signature(cls).parameters))
        state = unpack_linear(section(header, "state", STATE_KEYS), arrays, cls._output_members)
        outputs = cls._unpack_outputs(header, arrays, len(state.mean))
        try:
            estimator._check_params()
            estimator.n_features_in_ = state.mean.shape[1] - bool(estimator.fit_intercept)
            estimator._check_same_form(state)
        except (OverflowError, TypeError, ValueError) as error:
            raise CheckpointError(f"the header's 'params': {error}") from error
        if estimator.n_features_in_ < 1:
            raise CheckpointError("member 'weights' must have a row for a feature")
        estimator._learned = Learned(state, outputs)
        names = header.get("feature_names")
        if names is not None:
            estimator.feature_names_in_ = checked_names(names, estimator.n_features_in_)
        return estimator


def _visit_of(X: Table, targets: Mat, order: IntVec) -> Visit:
    """A visit of the rows in this order; a row without target is left out."""
    useful = np.asarray(~np.isnan(targets).all(axis=1))
    return Visit(X, targets, order[useful[order]])
