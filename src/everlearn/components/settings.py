"""The parameters of `ComponentTree`, checked and typed for one call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

from everlearn.components.model import ComponentModel
from everlearn.core.moves import TREE_MOVES
from everlearn.core.priors.nested import NestedPrior
from everlearn.estimator.options import ExpertOptions
from everlearn.estimator.params import Constraint, Interval

BATCH_ROWS: Final = 8192
"""Rows of a batch in `fit` if `batch_size` is None."""
_NOISE_SHAPE: Final = 1e-3
_SMALLEST_VARIANCE: Final = 1e-200


@dataclass(frozen=True, slots=True, kw_only=True)
class ComponentTreeOptions(ExpertOptions):
    """Rarely used parameters of `ComponentTree`.

    Parameters
    ----------
    min_gain : float, default=0.25
        How much a new node must raise the bound, in nats per feature. Larger values give
        smaller trees.
    patience : int, default=8
        `fit` stops growing the tree after this many rounds of moves without success.

    Examples
    --------
    >>> from everlearn import ComponentTree, ComponentTreeOptions
    >>> model = ComponentTree(options=ComponentTreeOptions(min_gain=1.0))
    """

    min_gain: float = 0.25
    patience: int = 8

    constraints: ClassVar[Mapping[str, tuple[Constraint, ...]]] = {
        "min_gain": (Interval(0),),
        "patience": (Interval(1, 10_000, integer=True),),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class ComponentTreeSettings:
    """All parameters for one call, checked.

    They are those of `ComponentTree` and `ComponentTreeOptions`, in the form in which they are
    used: `prior_scale` is None for "auto", and `moves` is a set.
    """

    depth: int = 3
    max_nodes: int = 100
    concentration: float = 1.0
    prior_scale: float | None = None
    moves: frozenset[str] = frozenset(TREE_MOVES)
    min_gain: float = 0.25
    patience: int = 8
    n_init: int = 1
    batch_size: int = BATCH_ROWS
    max_iter: int = 100
    tol: float = 1e-5
    birth_window: int = 1000
    verbose: int = 0

    def model(self, n_features: int, variance: float) -> ComponentModel:
        """The model with its priors, for rows whose features have this mean variance."""
        if not variance > _SMALLEST_VARIANCE:
            variance = 1.0
        return ComponentModel(
            NestedPrior(self.concentration),
            n_features,
            variance if self.prior_scale is None else self.prior_scale,
            _NOISE_SHAPE,
            _NOISE_SHAPE * variance,
        )
