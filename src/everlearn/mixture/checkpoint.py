"""Checkpoint schema of a `DPMixture`: what a file must contain."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from everlearn.core.arrays import Mat
from everlearn.core.families.base import Family
from everlearn.core.families.product import Product
from everlearn.core.priors.dp import DPPrior
from everlearn.core.stats import Stats
from everlearn.estimator.families import PRIOR_CHOICES
from everlearn.estimator.history import MAX_MISFITS, History, Misfit, PriorChoice
from everlearn.estimator.schemas import (
    CLOSE,
    FAMILY,
    HISTORY,
    ROWS,
    STATS,
    TABLE_SIZES,
    check_rows,
    check_stats,
)
from everlearn.mixture.columns import KINDS, MAX_VALUES, Column
from everlearn.mixture.fit import LEARNERS, MixtureFit
from everlearn.mixture.fitness import Fitness
from everlearn.mixture.inputs import LARGEST_NAME
from everlearn.mixture.model import Mixture
from everlearn.mixture.outliers import LARGEST_SCORE, MAX_SCORES, SeenScores
from everlearn.mixture.state import NamedPart, OpenBatch, Sealed, State, Trial
from everlearn.mixture.strangers import Strangers
from everlearn.mixture.table_family import columns_fit
from everlearn.store.schema import Array, Converted, Many, Optional, Record, Scalar, Table, expect

FAMILY_NAMES: Final[dict[type, str]] = {kind: name for name, (kind, _) in FAMILY.kinds.items()}
"""The name of each class of families, as in the `family` parameter."""


class _SavedName(NamedTuple):
    """The name of a batch as a file can hold it: a text or a number."""

    text: str | None
    number: int | None

    @classmethod
    def of(cls, name: int | str) -> _SavedName:
        return cls(name, None) if isinstance(name, str) else cls(None, name)

    def name(self) -> int | str | None:
        return self.number if self.text is None else self.text


def _check_name(name: _SavedName, place: str) -> None:
    expect(name.count(None) == 1, f"{place}/number", "null if there is a text, and only then")


def _check_batch(batch: OpenBatch, family: Family[Any], place: str) -> None:
    """Refuse statistics that are not those of the rows."""
    rows, _ = batch.in_process()
    check_rows(family, rows, f"{place}/rows")
    check_stats(family, batch.stats, f"{place}/stats")
    mass = rows.mass
    same = abs(batch.stats.n.sum() - mass) <= CLOSE * mass
    expect(same, f"{place}/stats/n", f"masses that sum to {mass:g}, the weight of the rows")
    each = family.log_base(rows.X)
    base = float(each.sum() if rows.weights is None else each @ rows.weights)
    near = abs(batch.stats.base - base) <= CLOSE * (abs(base) + 1)
    expect(near, f"{place}/stats/base", f"{base:g}, as the rows have it")


def _check_losses(part: Sealed, most: float | Mat, place: str) -> None:
    """Refuse entropies that are not symmetric, or larger than they can be."""
    loss, name = part.pair_loss, f"{place}/pair_loss"
    expect((loss == loss.T).all() and not np.diagonal(loss).any(), name, "symmetric, with zeros")
    expect((loss <= most).all(), name, "entropies of the sealed rows")


def _check_state(state: State, place: str) -> None:
    family, ids, sealed = state.model.family, state.total.ids, state.sealed
    expect(ids.max() < state.next_id, f"{place}/sealed/stats/ids", f"below {state.next_id}")
    check_stats(family, sealed.stats, f"{place}/sealed/stats")
    most = (sealed.stats.n.sum() + 1) * (state.next_id + 1)
    _check_losses(sealed, most, f"{place}/sealed")
    for number, batch in enumerate(state.batches):
        own = f"{place}/batches/{number}"
        labels = batch.in_process()[1]
        expect((labels < state.next_id).all(), f"{own}/labels", f"below {state.next_id}")
        _check_batch(batch, family, own)
    for number, part in enumerate(state.named_parts.values()):
        own = f"{place}/named_parts/values/{number}/sealed"
        stats = part.sealed.stats
        expect(np.array_equal(stats.ids, ids), f"{own}/stats/ids", "those of 'sealed'")
        check_stats(family, stats, f"{own}/stats")
        contained = (stats.n <= sealed.stats.n * (1 + CLOSE) + CLOSE).all()
        expect(contained, f"{own}/stats/n", "a part of the sealed masses")
        _check_losses(part.sealed, sealed.pair_loss * (1 + CLOSE) + CLOSE, own)
    expect(state.n_new <= state.n_open, f"{place}/n_new", "at most the number of open rows")
    for name, trials in (
        ("birth_trials", state.birth_trials),
        ("delete_trials", state.delete_trials),
    ):
        below = all(component < state.next_id for component in trials)
        expect(below, f"{place}/{name}/keys", f"below {state.next_id}")
    below = all(component < state.next_id for component in state.strangers.mass)
    expect(below, f"{place}/strangers/mass/keys", f"below {state.next_id}")
    if state.reference is not None:
        own = f"{place}/reference"
        expect(set(state.reference.ids) == set(ids), f"{own}/ids", "those of 'sealed'")
        check_stats(family, state.reference, own)
    finite = _is_finite(state)
    expect(finite, f"{place}/sealed/stats/t", "of a model in which all numbers are finite")


def _is_finite(state: State) -> bool:
    """Whether the bound, and scores of all components and of an empty one, are finite."""
    empty = Stats.zeros(np.zeros(1, np.int64), state.model.family.n_stats)
    try:
        numbers = [np.array(state.bound())]
        for stats in (state.total, empty):
            posterior = state.model.posterior(stats)
            numbers += [posterior.eta, posterior.bias]
    except np.linalg.LinAlgError:
        return False
    return all(np.isfinite(x).all() for x in numbers)


def _check_scores(seen: SeenScores, place: str) -> None:
    n = len(seen.scores)
    expect(1 <= n <= MAX_SCORES, f"{place}/scores", f"1 to {MAX_SCORES:,} scores, got {n:,}")


def _check_fit(fit: MixtureFit, place: str) -> None:
    state = fit.state
    expect(fit.n_rows >= state.n_open, f"{place}/n_rows", "at least the number of open rows")
    early = fit.n_prior_rows <= fit.n_rows
    expect(early, f"{place}/n_prior_rows", "at most the number of rows")
    keeps_rows = fit.learner == "memoized" or not state.batches
    expect(keeps_rows, f"{place}/learner", "'memoized', because there are open rows")
    family = state.model.family
    if not isinstance(family, Product):
        expect(fit.columns is None, f"{place}/columns", "null, because rows are numbers")
        return
    columns = fit.columns or ()
    expect(len(columns) == family.n_features, f"{place}/columns", f"{family.n_features} columns")
    expect(columns_fit(columns, family), f"{place}/columns", "those of the family")


def _check_column(column: Column, place: str) -> None:
    values = column.values
    expect(len(set(values)) == len(values), f"{place}/values", "distinct")
    expect(not values or column.kind == "categories", f"{place}/values", "none, of numbers")
    numbers = not column.numeric or all(_is_number(value) for value in values)
    expect(numbers, f"{place}/values", "numbers as texts")


def _is_number(text: str) -> bool:
    try:
        return bool(np.isfinite(float(text)))
    except ValueError:
        return False


def _state(*, sealed: Sealed, batches: tuple[OpenBatch, ...], **fields: Any) -> State:
    """A state with the sum of its statistics, which is not saved."""
    for number, batch in enumerate(batches):
        if not np.array_equal(batch.stats.ids, sealed.stats.ids):
            raise ValueError(f"'batches/{number}/stats/ids' must be those of 'sealed'")
    return State(sealed=sealed, batches=batches, total=sealed.stats, **fields).resummed()


_COUNT: Final = Scalar(int, 0, 2**53)
_NAME: Final = Converted(
    Record(
        _SavedName,
        {"text": Optional(Scalar(str)), "number": Optional(Scalar(int, 0, LARGEST_NAME))},
        _check_name,
    ),
    save=_SavedName.of,
    restore=_SavedName.name,
)
_TRIALS: Final = Table(
    Scalar(int, 0, 2**31),
    Record(Trial, {"failures": Scalar(int, 0, 2**31), "mass": Scalar(float, 0)}),
)
_SEALED: Final = Record(Sealed, {"stats": STATS, "pair_loss": Array("K", "K", low=-CLOSE)})
_OPEN_BATCH: Final = Record(
    OpenBatch,
    {
        "rows": ROWS,
        "stats": STATS,
        "labels": Array("rows", dtypes=("int32",), low=0, high=2**31),
        "name": Optional(_NAME),
    },
)
_STATE: Final = Record(
    _state,
    {
        "model": Record(
            Mixture, {"family": FAMILY, "prior": Record(DPPrior, {"alpha": Scalar(float, 1e-300)})}
        ),
        "sealed": _SEALED,
        "batches": Many(_OPEN_BATCH, own_sizes=TABLE_SIZES),
        "next_id": Scalar(int, 1, 2**31 - 1),
        "seed": Scalar(int, 0, 2**64),
        "clock": _COUNT,
        "n_new": _COUNT,
        "birth_trials": _TRIALS,
        "delete_trials": _TRIALS,
        "named_parts": Table(
            _NAME, Record(NamedPart, {"sealed": _SEALED, "n_rows": Scalar(int, 1, 2**53)})
        ),
        "strangers": Record(
            Strangers,
            {
                "mass": Table(Scalar(int, 0, 2**31), Scalar(float, 0)),
                "n_futile": Scalar(int, 0, 60),
            },
        ),
        "reference": Optional(STATS),
        "fitness": Record(
            Fitness,
            {
                "mass": Scalar(float, 0),
                "mean": Scalar(float),
                "variance": Scalar(float, 0),
                "excess": Scalar(float, 0),
                "rows": Scalar(float, 0),
                "drop": Scalar(float),
            },
        ),
    },
    _check_state,
)
_COLUMN: Final = Record(
    Column,
    {
        "name": Scalar(str),
        "kind": Scalar(str, choices=KINDS),
        "values": Many(Scalar(str), most=MAX_VALUES),
        "numeric": Scalar(bool),
    },
    _check_column,
)
_SCORES: Final = Record(
    SeenScores,
    {
        "scores": Array("scores", low=-LARGEST_SCORE, high=LARGEST_SCORE),
        "weights": Array("scores", low=1e-300, high=1e300),
        "known": Array("scores", dtypes=("int64",), low=0, high=2**53),
    },
    _check_scores,
)
_HISTORY: Final = Record(
    History,
    {
        **HISTORY.fields,
        "misfits": Many(
            Record(Misfit, {"since": _COUNT, "rows": _COUNT, "drop": Scalar(float)}),
            most=MAX_MISFITS,
        ),
        "prior": Optional(
            Record(
                PriorChoice,
                {
                    "name": Scalar(str, choices=PRIOR_CHOICES),
                    "rows_each": Optional(Scalar(float, 0.0)),
                    "n_features": Scalar(int, 0, 2**31),
                },
            )
        ),
    },
    HISTORY.check,
)
MIXTURE_FIT: Final = Record(
    MixtureFit,
    {
        "state": _STATE,
        "history": _HISTORY,
        "n_rows": Scalar(int, 1, 2**53),
        "n_prior_rows": Scalar(int, 1, 2**53),
        "converged": Scalar(bool),
        "learner": Scalar(str, choices=tuple(LEARNERS)),
        "columns": Optional(Many(_COLUMN, most=2**20)),
        "scores": _SCORES,
    },
    _check_fit,
)
"""Of a `MixtureFit`."""
