"""Linear beliefs as JSON and arrays, and back again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from everlearn.core.arrays import Mat
from everlearn.errors import CheckpointError
from everlearn.linear.beliefs import Belief, DiagonalBelief, FullBelief, LinearState
from everlearn.store.schema import Arrays, entry, member, require, shown

STATE_KEYS = ("belief", "n_rows", "clock", "seed")
_NAMES = {"fixed": (), "diag": ("precision",), "full": ("precision", "shift", "covariance")}
_ACCURACY = 1e-6
"""How well precision and covariance must be inverse to each other, which they are to 1e-9."""


def belief_name(belief: Belief) -> str:
    """How a checkpoint calls the form of a belief."""
    if belief is None:
        return "fixed"
    return "diag" if isinstance(belief, DiagonalBelief) else "full"


def pack_linear(state: LinearState) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """The state as a header and arrays."""
    name = belief_name(state.belief)
    parts = () if state.belief is None else state.belief.parts
    arrays = {"weights": state.mean.T, **dict(zip(_NAMES[name], parts, strict=True))}
    header = {"belief": name, "n_rows": state.n_rows, "clock": state.clock, "seed": state.seed}
    return header, arrays


def unpack_linear(header: Mapping[str, Any], arrays: Arrays, others: frozenset[str]) -> LinearState:
    """Inverse of `pack_linear`; `others` are the members that belong to something else."""
    name = entry(header, "belief", str)
    if name not in _NAMES:
        raise CheckpointError(f"the header's 'belief' must be a belief, got {shown(name)}")
    weights = member(arrays, "weights", (None, None), "float64")
    require(weights.size, "weights", "one for each feature and task")
    if unknown := sorted(set(arrays) - {"weights", *_NAMES[name]} - others):
        raise CheckpointError(f"member {unknown[0]!r} belongs to nothing in the header")
    n_rows = entry(header, "n_rows", int, 0, 2**63)
    return LinearState(
        weights.T,
        _unpack_belief(name, arrays, weights.T),
        n_rows,
        entry(header, "clock", int, 0, n_rows),
        entry(header, "seed", int, 0, 2**64),
    )


def _unpack_belief(name: str, arrays: Arrays, mean: Mat) -> Belief:
    if name == "fixed":
        return None
    if name == "diag":
        precision = member(arrays, "precision", mean.shape, "float64")
        require((precision > 0).all(), "precision", "positive")
        return DiagonalBelief(precision)
    shape = (*mean.shape, mean.shape[1])
    precision = member(arrays, "precision", shape, "float64")
    covariance = member(arrays, "covariance", shape, "float64")
    shift = member(arrays, "shift", mean.shape, "float64")
    for matrices, what in ((precision, "precision"), (covariance, "covariance")):
        symmetric = np.allclose(matrices, matrices.transpose(0, 2, 1), rtol=_ACCURACY, atol=0)
        definite = symmetric and (np.linalg.eigvalsh(matrices)[:, 0] > 0).all()
        require(definite, what, "positive-definite matrices")
    scale = np.sqrt(np.diagonal(precision, axis1=1, axis2=2))
    unit = (precision @ covariance) * scale[:, None, :] / scale[:, :, None]
    close = np.abs(unit - np.eye(mean.shape[1])).max() <= _ACCURACY
    require(close, "covariance", "the inverse of 'precision'")
    expected = (precision @ mean[..., None])[..., 0]
    room = _ACCURACY * (np.abs(precision) @ np.abs(mean)[..., None])[..., 0]
    require((np.abs(expected - shift) <= room).all(), "shift", "'precision' times 'weights'")
    return FullBelief(precision, shift, covariance)
