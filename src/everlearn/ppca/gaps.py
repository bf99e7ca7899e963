"""Fill the gaps of new rows, and correct the moments of earlier rows for better filled gaps.

Derivation: docs/math/ppca.md, section 5.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from everlearn.engine.chunks import ChunkedRows
from everlearn.engine.protocol import Engine
from everlearn.engine.rows import Rows
from everlearn.ppca.local import LocalRequest, sum_over_rows
from everlearn.ppca.model import PPCA
from everlearn.ppca.moments import Moments
from everlearn.ppca.state import PPCAState
from everlearn.ppca.stats import refilled

_FIRST_ROUNDS: Final = 20
"""Rounds that fill the gaps of the first rows, each with the model of the round before."""


def refill_gaps(
    state: PPCAState,
    known: tuple[Moments, ...],
    request: LocalRequest,
    rows: Rows | ChunkedRows,
    engine: Engine,
    unit: float,
    kept_rank: int,
) -> tuple[PPCAState, tuple[PPCA, ...]]:
    """The state with refilled gaps of earlier rows, and the models that fill those of new rows.

    Parameters
    ----------
    state : the state before the new rows
    known : moments of all rows so far, one for each component
    request : the local step of the state
    rows : the new rows
    engine : runs the local step on blocks of rows
    unit : mass that a row of weight 1 has in `known`
    kept_rank : number of directions that moments keep
    """
    local = sum_over_rows(replace(request, moments=False, features=True), rows, engine)
    old, row_weight = state.models, unit * state.row_weight
    new = tuple(
        (sums * unit).regressed(model, part.mass * part.shares_present, row_weight)
        for sums, model, part in zip(local.features, old, known, strict=True)
    )

    def refill(parts: tuple[Moments, ...]) -> tuple[Moments, ...]:
        pairs = zip(parts, old, new, strict=True) if parts else ()
        return tuple(refilled(*pair).truncated(kept_rank) for pair in pairs)

    state = replace(state, reference=refill(state.reference), window=refill(state.window))
    counts = state.n_rows * state.weights
    triples = zip(new, known, counts.tolist(), strict=True)
    return state, tuple(_with_corrected_noise(model, part, n) for model, part, n in triples)


def first_models(
    state: PPCAState,
    known: tuple[Moments, ...],
    rows: Rows | ChunkedRows,
    engine: Engine,
    unit: float,
    rank: int,
) -> tuple[PPCA, ...]:
    """Models that fill the gaps of the first rows, found in rounds. See `refill_gaps`."""
    request = LocalRequest(state.models, state.log_weights, state.origin, moments=True)
    for _ in range(_FIRST_ROUNDS):
        batch = sum_over_rows(request, rows, engine).moments[0]
        part = known[0] + batch.with_mass(unit * batch.mass) if known else batch
        model = _with_corrected_noise(part.ppca(rank), part, state.n_rows + len(rows))
        request = replace(request, models=(model, *state.models[1:]))
    return request.models


def _with_corrected_noise(model: PPCA, part: Moments, n_rows: float) -> PPCA:
    """The model with its noise corrected for overfitting: more noise, the fewer rows it has seen.

    Loadings fit few rows with gaps too closely, so gaps would be filled with extreme values. The
    corrected noise is the residual variance per degree of freedom, at most the whole variance.
    """
    d, q = model.loadings.shape
    n_residuals = n_rows * (d * part.share_present - q)
    share_free = 1.0 - d * q / n_residuals if n_residuals > 0.0 else 0.0
    variance = part.variance
    noise = min(model.noise / share_free, variance) if share_free > 0.0 else variance
    return replace(model, noise=max(noise, model.noise))
