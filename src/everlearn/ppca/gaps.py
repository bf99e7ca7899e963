"""Fill the gaps of rows that are learned by their moments, and refill those of earlier rows.

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
"""How often the gaps of the first rows are filled, each time by the model of the time before."""


def refill_gaps(
    state: PPCAState,
    known: tuple[Moments, ...],
    request: LocalRequest,
    rows: Rows | ChunkedRows,
    engine: Engine,
    unit: float,
    kept_rank: int,
) -> tuple[PPCAState, tuple[PPCA, ...]]:
    """Refill the gaps of earlier rows. Also return the models that fill those of the next rows.

    Parameters
    ----------
    state : before the rows
    known : moments of all rows so far, one for each component
    request : what the local step of the state asks of rows
    rows : the next rows
    engine : where their blocks are worked on
    unit : mass that a row of weight 1 has in `known`
    kept_rank : directions that moments keep
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
    return state, tuple(_cautious(model, part, n) for model, part, n in triples)


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
        model = _cautious(part.ppca(rank), part, state.n_rows + len(rows))
        request = replace(request, models=(model, *state.models[1:]))
    return request.models


def _cautious(model: PPCA, part: Moments, n_rows: float) -> PPCA:
    """The model with more noise, the fewer rows it was learned from.

    Loadings explain few rows with gaps too well, and would fill gaps too boldly. So the noise is
    the residual variance per degree of freedom, at most the whole variance.
    """
    d, q = model.loadings.shape
    free = n_rows * (d * part.share_present - q)
    left = 1.0 - d * q / free if free > 0.0 else 0.0
    variance = part.variance
    noise = min(model.noise / left, variance) if left > 0.0 else variance
    return replace(model, noise=max(noise, model.noise))
