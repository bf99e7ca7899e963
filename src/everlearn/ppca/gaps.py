"""Gaps in rows that are learned by their moments: what fills them, and what filled them before.

Derivation: docs/math/ppca.md, section 5.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from everlearn.engine.chunks import ChunkedRows
from everlearn.engine.protocol import Engine
from everlearn.engine.rows import Rows
from everlearn.ppca.local import Beliefs, run
from everlearn.ppca.model import PPCA
from everlearn.ppca.moments import Moments
from everlearn.ppca.state import PPCAState
from everlearn.ppca.stats import recalled

_FIRST_ROUNDS: Final = 20
"""How often gaps in the first rows are filled, each time with what followed from the last."""


def recall(
    state: PPCAState,
    known: tuple[Moments, ...],
    beliefs: Beliefs,
    rows: Rows | ChunkedRows,
    engine: Engine,
    unit: float,
    kept_rank: int,
) -> tuple[PPCAState, tuple[PPCA, ...]]:
    """The state with gaps of the past filled anew, and models that fill those of the rows.

    Parameters
    ----------
    state : before the rows
    known : moments of all that the state knows, a component each
    beliefs : of the state
    rows : the next rows
    engine : where they are worked on
    unit : what a row of weight 1 is in units of the mass of `known`
    kept_rank : directions that moments keep
    """
    local = run(replace(beliefs, moments=False, features=True), rows, engine)
    old, one = state.models, unit * state.row_weight
    new = tuple(
        (sums * unit).regressed(model, part.mass * part.shares_present, one)
        for sums, model, part in zip(local.features, old, known, strict=True)
    )

    def anew(parts: tuple[Moments, ...]) -> tuple[Moments, ...]:
        pairs = zip(parts, old, new, strict=True) if parts else ()
        return tuple(recalled(*pair).truncated(kept_rank) for pair in pairs)

    state = replace(state, reference=anew(state.reference), window=anew(state.window))
    counts = state.count * state.weights
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
    """Models that fill the gaps of the first rows, which have little to go by; as for `recall`."""
    beliefs = Beliefs(state.models, state.log_weights, state.origin, moments=True)
    for _ in range(_FIRST_ROUNDS):
        batch = run(beliefs, rows, engine).moments[0]
        part = known[0] + batch.with_mass(unit * batch.mass) if known else batch
        model = _cautious(part.ppca(rank), part, state.count + len(rows))
        beliefs = replace(beliefs, models=(model, *state.models[1:]))
    return beliefs.models


def _cautious(model: PPCA, part: Moments, n_rows: float) -> PPCA:
    """The model of so many rows, with the noise that it has but for what loadings took of it.

    Few rows with gaps are explained too well by loadings, which would then fill gaps too boldly.
    The noise is that per degree of freedom, at most all variance.
    """
    d, q = model.loadings.shape
    free = n_rows * (d * part.share_present - q)
    left = 1.0 - d * q / free if free > 0.0 else 0.0
    variance = part.variance
    noise = min(model.noise / left, variance) if left > 0.0 else variance
    return replace(model, noise=max(noise, model.noise))
