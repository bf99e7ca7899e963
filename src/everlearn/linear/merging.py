"""Merge linear models that learned parts of a stream."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np

from everlearn.core.arrays import Cube, Mat
from everlearn.estimator.merge_checks import ROUNDING, check_grown, not_descended, refused, totals
from everlearn.estimator.scaling import RunningScale
from everlearn.linear.beliefs import FullBelief, LinearState, feature_major
from everlearn.linear.conversion import convert_data, with_prior
from everlearn.linear.gaussian import moments
from everlearn.linear.units import Units


def merge_linear_models(models: list[Any], base: Any) -> Any:
    """The fit of the merged model. Rows of the base count once."""
    first = models[0]
    if first.loss != "gibbs":
        raise refused(first, "loss", "'gibbs'")
    learned = [model._learned for model in models]
    if not isinstance(learned[0].state.belief, FullBelief):
        raise refused(first, "covariance", "'full'")
    shapes = sorted({x.state.mean.shape for x in learned})
    if len(shapes) > 1:
        raise ValueError(f"merge needs models of as many targets. Got weights of {shapes}.")
    states = [x.state for x in learned]
    old = None if base is None else base._learned.state
    units = _joint_units(states, old)
    data = [_data_of(state, units) for state in states]
    begun = None if old is None else _data_of(old, units)
    if old is not None and begun is not None:
        _check_beliefs(states, data, old, begun)
    prior = states[0].prior
    precision = with_prior(totals([p for p, _ in data], begun and begun[0]), prior)
    shift = totals([b for _, b in data], begun and begun[1])
    mean, covariance = moments(precision, shift)
    state = replace(
        states[0],
        mean=feature_major(mean),
        belief=FullBelief(precision, shift, covariance),
        units=units,
        n_rows=units.n_rows,
        clock=totals([state.clock for state in states], old and old.clock),
    )
    return replace(learned[0], state=state, n_iter=1)


def _joint_units(states: list[LinearState], base: LinearState | None) -> Units:
    """Units of all rows, those of the base counted once."""
    if len({state.units.is_sparse for state in states}) > 1:
        raise ValueError(
            "merge needs models that all began with dense rows, or all with sparse ones. Got both."
        )

    def joined(scales: list[RunningScale], old: RunningScale | None) -> RunningScale:
        first, *others = scales
        news = others if old is None else [scale.minus(old) for scale in others]
        return reduce(RunningScale.plus, news, first)

    all_units, old = [state.units for state in states], None if base is None else base.units
    units = replace(
        all_units[0],
        column_scale=joined(
            [u.column_scale for u in all_units], None if old is None else old.column_scale
        ),
        target_scale=joined(
            [u.target_scale for u in all_units], None if old is None else old.target_scale
        ),
    )
    return units.renewed(totals([state.n_rows for state in states], base and base.n_rows))


def _data_of(state: LinearState, units: Units) -> tuple[Cube, Mat]:
    """What the rows of a state add to a belief, in these units."""
    belief: Any = state.belief
    return convert_data(belief.precision, belief.shift, state.units, units, state.prior)


def _check_beliefs(
    states: list[LinearState],
    data: list[tuple[Cube, Mat]],
    base: LinearState,
    begun: tuple[Cube, Mat],
) -> None:
    """Refuse a base of which a model is no continuation: rows only add to the precision."""
    for position, (state, own) in enumerate(zip(states, data, strict=True)):
        seen = ({"seed": s.seed, "rows": s.n_rows, "batches": s.clock} for s in (state, base))
        check_grown(position, *seen)
        gained = np.linalg.eigvalsh(own[0] - begun[0])
        if (gained < -ROUNDING * np.abs(own[0]).max()).any():
            raise not_descended(position, "it is less sure of some weights than the base")
