"""The null: how many links a ladder cuts if all rows are one Gaussian.

Rows of a Gaussian with the covariance of the data go through the same codebooks, graph and
ladder. A level of the data is good if it cuts fewer links than the Gaussian's level with as many
effective groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from everlearn.clusters.codebook import codebook_size, graph_of, learn_codebooks, near_prototypes
from everlearn.clusters.ladder import Rung, climb
from everlearn.clusters.units import covariance, unit_length
from everlearn.core.arrays import Mat, Vec
from everlearn.core.random import stream

_FINE: Final = 4
"""Rungs at the fine end, at which clusters do not matter."""
_VISIBLE: Final = 0.004
_NULL: Final = 1
"""Position of the draws of the null in the stream of seeds."""


@dataclass(frozen=True, slots=True, eq=False)
class NullCurve:
    """Share of links that a Gaussian cuts, by the logarithm of its effective number of groups."""

    log_effective: Vec
    cut: Vec

    def at(self, effective: float) -> float:
        """The cut at this effective number of groups."""
        return float(np.interp(np.log(effective), self.log_effective, self.cut))


def null_curve(rows: Mat, seed: int, *, on_sphere: bool) -> NullCurve:
    """The curve for a Gaussian with the moments of the rows; `on_sphere`, of unit length."""
    rng = stream(seed, "sample", _NULL)
    variances, axes = np.linalg.eigh(covariance(rows))
    drawn = rng.standard_normal(rows.shape) * np.sqrt(np.maximum(variances, 0.0))
    if on_sphere:
        drawn = unit_length(drawn + rows.mean(axis=0) @ axes)
    books = learn_codebooks(drawn, seed, _NULL)
    graph = graph_of(near_prototypes(drawn, books), codebook_size(len(rows)))
    rungs = climb(graph, seed)
    order = np.argsort([rung.effective for rung in rungs], kind="stable")
    effective = np.array([rung.effective for rung in rungs])[order]
    cut = np.maximum.accumulate(np.array([rung.cut for rung in rungs])[order])
    return NullCurve(np.log(effective), cut)


def depth(rung: Rung, null: NullCurve) -> float:
    """How much less the rung cuts than the null, which is not bent here."""
    return null.at(rung.effective) - rung.cut


def gaps(rungs: Sequence[Rung], null: NullCurve) -> Vec:
    """How much less each rung cuts than the null.

    Data may have fewer directions nearby than their covariance says. So the null is bent, by a
    power, until it agrees with the data at the fine end. Where nothing is left then, it is not.
    """
    cut = np.array([rung.cut for rung in rungs])
    expected = np.array([null.at(rung.effective) for rung in rungs])
    with np.errstate(divide="ignore"):
        logs = np.log(np.maximum(np.stack([cut, expected])[:, -_FINE:], 1e-9)).sum(axis=1)
    power = max(1.0, float(logs[0] / logs[1])) if logs[1] < 0 else 1.0
    bent: Vec = expected**power - cut
    return bent if (bent[:-_FINE] >= _VISIBLE).any() else expected - cut
