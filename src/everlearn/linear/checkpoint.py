"""Checkpoint schema of linear models: what a file must contain."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from everlearn.core.arrays import Cube
from everlearn.estimator.scaling import RunningScale
from everlearn.estimator.schemas import LABELS
from everlearn.linear.beliefs import DiagonalBelief, FullBelief, LinearState
from everlearn.linear.fit import LinearFit
from everlearn.linear.targets import NumberTargets
from everlearn.linear.units import Units
from everlearn.store.schema import Array, OneOf, Optional, Record, Scalar, Schema, expect

_TOLERANCE: Final = 1e-6
"""Relative tolerance for the covariance as the inverse of the precision. Models reach 1e-9."""
_SMALLEST: Final = 1e-300


def _check_full(belief: FullBelief, place: str) -> None:
    precision, covariance, shift = belief.precision, belief.covariance, belief.shift
    for name, matrices in (("precision", precision), ("covariance", covariance)):
        expect(_definite(matrices), f"{place}/{name}", "positive-definite matrices")
    scale = np.sqrt(np.diagonal(precision, axis1=1, axis2=2))
    unit = (precision @ covariance) * scale[:, None, :] / scale[:, :, None]
    close = np.abs(unit - np.eye(shift.shape[1])).max() <= _TOLERANCE
    expect(close, f"{place}/covariance", "the inverse of 'precision'")


def _definite(matrices: Cube) -> bool:
    symmetric = np.allclose(matrices, matrices.transpose(0, 2, 1), rtol=_TOLERANCE, atol=0)
    return bool(symmetric and (np.linalg.eigvalsh(matrices)[:, 0] > 0).all())


def _check_state(state: LinearState, place: str) -> None:
    expect(state.mean.size, f"{place}/mean", "one for each task and weight")
    expect(state.clock <= state.n_rows, f"{place}/clock", "at most the number of rows")
    units, n_weights = state.units, state.mean.shape[1]
    expect(units.n_rows <= state.n_rows, f"{place}/units/n_rows", "at most the number of rows")
    width = len(units.unit) + units.has_intercept
    expect(n_weights == width, f"{place}/mean", f"{width} weights of each task")
    belief = state.belief
    if isinstance(belief, FullBelief):
        wanted = (belief.precision @ state.mean[..., None])[..., 0]
        room = _TOLERANCE * (np.abs(belief.precision) @ np.abs(state.mean)[..., None])[..., 0]
        near = (np.abs(wanted - belief.shift) <= room).all()
        expect(near, f"{place}/belief/shift", "'precision' times 'mean'")


def _check_scale(scale: RunningScale, place: str) -> None:
    some = (scale.count > 0) | ((scale.mean == 0) & (scale.squares == 0))
    expect(some.all(), f"{place}/count", "more than 0 where 'mean' is not 0")


def _check_units(units: Units, place: str) -> None:
    zero = not (units.origin.any() or units.target_origin.any())
    expect(
        zero or units.has_intercept, f"{place}/has_intercept", "true, because units have an origin"
    )
    expect(
        not (units.is_sparse and units.origin.any()),
        f"{place}/is_sparse",
        "false, because of 'origin'",
    )


def _scale_schema(size: str) -> Record:
    fields = {"count": Array(size, low=0), "mean": Array(size), "squares": Array(size, low=0)}
    return Record(RunningScale, fields, check=_check_scale)


_UNITS = Record(
    Units,
    {
        "column_scale": _scale_schema("features"),
        "target_scale": _scale_schema("tasks"),
        "origin": Array("features"),
        "unit": Array("features", low=_SMALLEST),
        "target_origin": Array("tasks"),
        "target_unit": Array("tasks", low=_SMALLEST),
        "is_sparse": Scalar(bool),
        "row_length": Scalar(float, 1.0),
        "has_intercept": Scalar(bool),
        "n_rows": Scalar(int, 0, 2**63),
    },
    check=_check_units,
)
_DIAGONAL = Record(DiagonalBelief, {"precision": Array("tasks", "weights", low=_SMALLEST)})
_FULL = Record(
    FullBelief,
    {
        "precision": Array("tasks", "weights", "weights"),
        "shift": Array("tasks", "weights"),
        "covariance": Array("tasks", "weights", "weights"),
    },
    check=_check_full,
)
_STATE = Record(
    LinearState,
    {
        "mean": Array("tasks", "weights", transposed=True),
        "belief": Optional(
            OneOf({"diagonal": (DiagonalBelief, _DIAGONAL), "full": (FullBelief, _FULL)})
        ),
        "units": _UNITS,
        "prior": Scalar(float, _SMALLEST),
        "n_rows": Scalar(int, 0, 2**63),
        "clock": Scalar(int, 0, 2**63),
        "seed": Scalar(int, 0, 2**64),
    },
    check=_check_state,
)


def _fit_schema(targets: Schema) -> Record:
    def check(fit: LinearFit[Any], place: str) -> None:
        n_tasks = len(fit.state.mean)
        expect(fit.targets.n_tasks == n_tasks, f"{place}/targets", f"of {n_tasks} tasks")
        flat = isinstance(fit.targets, NumberTargets) and fit.targets.flat
        expect(n_tasks == 1 or not flat, f"{place}/targets/flat", "false, because 'y' has columns")
        n_features = len(fit.state.units.unit)
        expect(fit.n_features == n_features, f"{place}/n_features", f"{n_features}")

    fields = {
        "state": _STATE,
        "targets": targets,
        "n_features": Scalar(int, 1, 2**31),
        "n_iter": Scalar(int, 1, 10_000),
    }
    return Record(LinearFit, fields, check)


CLASSIFIER_FIT: Final = _fit_schema(LABELS)
REGRESSOR_FIT: Final = _fit_schema(
    Record(NumberTargets, {"n_tasks": Scalar(int, 1, 2**31), "flat": Scalar(bool)})
)
