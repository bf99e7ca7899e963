"""The parameters of `OnlinePPCA`: their ranges, and their typed values for one call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final, NamedTuple

from everlearn.engine.opening import EngineChoice
from everlearn.estimator.base import COMMON_CONSTRAINTS
from everlearn.estimator.options import ExpertOptions
from everlearn.estimator.params import Constraint, Interval, Options
from everlearn.ppca.natural_em import NaturalEM

CONSTRAINTS: Final[Mapping[str, tuple[Constraint, ...]]] = {
    "n_components": (Interval(1, integer=True),),
    "constraint": (Options((None, "step", "task", "previous")),),
    "constraint_weight": (Options(("count",)), Interval(0, 1e12, low_open=True)),
    "max_reference_rows": (Options((None,)), Interval(1)),
    "n_mixtures": (Interval(1, integer=True),),
    "batch_size": (Options((None,)), Interval(1, integer=True)),
    "fit_method": (Options(("auto", "exact", "em")),),
    "max_iter": (Interval(1, integer=True),),
    "tol": (Interval(0),),
    **COMMON_CONSTRAINTS,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PPCAOptions(ExpertOptions):
    """Rarely used parameters of `OnlinePPCA`: its `options`.

    Parameters
    ----------
    kept_components : int or None, default=None
        Directions that references keep, at least `n_components`. None keeps twice `n_components`,
        so that nothing that matters is lost when they are cut to this number after each batch.
    step_size : float or None, default=None
        Share of the newest batch in the statistics of online EM, or in the window of recent rows if
        `constraint_weight` is a number. None lets it fall as `(k + step_offset) ** -step_power` for
        the k-th batch.
    step_power : float, default=0.6
        More than 0.5, at most 1. At 1 with an offset of 0 all batches weigh alike.
    step_offset : float, default=0.0
        See `step_size`.
    novelty : float, default=2.0
        For mixtures: a row is odd if its log density is this many standard deviations below the
        usual one. Odd rows wait until they are enough for a new PPCA; strays are not learned.

    Examples
    --------
    >>> from everlearn import OnlinePPCA, PPCAOptions
    >>> model = OnlinePPCA(constraint=None, options=PPCAOptions(step_size=0.05))
    """

    kept_components: int | None = None
    step_size: float | None = None
    step_power: float = 0.6
    step_offset: float = 0.0
    novelty: float = 2.0

    constraints: ClassVar[Mapping[str, tuple[Constraint, ...]]] = {
        "kept_components": (Options((None,)), Interval(1, integer=True)),
        "step_size": (Options((None,)), Interval(0, 1, low_open=True)),
        "step_power": (Interval(0.5, 1, low_open=True),),
        "step_offset": (Interval(0),),
        "novelty": (Interval(0, low_open=True),),
    }


class PPCAForm(NamedTuple):
    """What cannot change without a new fit."""

    n_components: int
    constraint: str | None
    is_mixture: bool


@dataclass(frozen=True, slots=True, eq=False)
class PPCASettings:
    """The checked parameters of one call.

    Attributes
    ----------
    owner : the name of the estimator, for messages
    form : what cannot change
    learner : how a batch is learned
    batch_size : rows of a step, or None for all rows of a call
    exact : whether `fit` is made in closed form; None means where there is one
    max_iter, tol : of batch EM
    engine, verbose : as users give them
    """

    owner: str
    form: PPCAForm
    learner: NaturalEM
    batch_size: int | None
    exact: bool | None
    max_iter: int
    tol: float
    engine: EngineChoice
    verbose: int
