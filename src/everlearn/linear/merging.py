"""Merge linear models that learned parts of a stream."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from everlearn.estimator.merge_checks import ROUNDING, check_grown, not_descended, refused, totals
from everlearn.linear.beliefs import FullBelief, LinearState, settled
from everlearn.linear.gaussian import moments


def merge_linear_models(models: list[Any], base: Any) -> Any:
    """What is known from the rows of all models, those of the base counted once."""
    first = models[0]
    if first.loss != "gibbs":
        raise refused(first, "loss", "'gibbs'")
    learned = [model._learned for model in models]
    if not isinstance(learned[0].state.belief, FullBelief):
        raise refused(first, "covariance", "'full'")
    shapes = sorted({x.state.mean.shape for x in learned})
    if len(shapes) > 1:
        raise ValueError(f"merge needs models of as many targets. Got weights of {shapes}.")
    beliefs = [x.state.belief for x in learned]
    old = None if base is None else base._learned.state
    if old is not None:
        _check_beliefs([x.state for x in learned], old)
    begun = np.zeros_like(beliefs[0].shift) if old is None else old.belief.shift
    unit = np.broadcast_to(np.eye(begun.shape[1]) / first.variance, beliefs[0].precision.shape)
    prior = unit if old is None else old.belief.precision
    precision = totals([b.precision for b in beliefs], prior)
    shift = totals([b.shift for b in beliefs], begun)
    mean, covariance = moments(precision, shift)
    state = replace(
        learned[0].state,
        mean=settled(mean),
        belief=FullBelief(precision, shift, covariance),
        n_rows=totals([x.state.n_rows for x in learned], old and old.n_rows),
        clock=totals([x.state.clock for x in learned], old and old.clock),
    )
    return replace(learned[0], state=state)


def _check_beliefs(states: list[LinearState], base: LinearState) -> None:
    """Refuse a base of which a model is no continuation: rows only add to the precision."""
    begun: Any = base.belief
    for position, state in enumerate(states):
        own: Any = state.belief
        seen = ({"seed": s.seed, "rows": s.n_rows, "batches": s.clock} for s in (state, base))
        check_grown(position, *seen)
        gained = np.linalg.eigvalsh(own.precision - begun.precision)
        if (gained < -ROUNDING * np.abs(own.precision).max()).any():
            raise not_descended(position, "it is less sure of some weights than the base")
