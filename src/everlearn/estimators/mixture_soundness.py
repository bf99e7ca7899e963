"""What holds for the statistics of every mixture, whatever it has learned.

A checkpoint that was written by this library passes. One that was put together in another way,
and says something no rows could say, does not: better no model than a wrong one. Tolerances are
wide enough for float32 and for rounding that many moves have left behind.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from everlearn.core.arrays import Mat, Vec
from everlearn.core.errors import CheckpointError
from everlearn.core.families import (
    DiagGaussian,
    Family,
    FullGaussian,
    Multinomial,
    ZeroMeanGaussian,
)
from everlearn.core.math import LOG_2PI, unpack_symmetric
from everlearn.core.stats import Stats
from everlearn.estimators.persistence import require
from everlearn.inference.state import OpenBatch, State

_CLOSE = 1e-3


def check_stats(family: Family[Any], stats: Stats, name: str) -> None:
    """Refuse masses, moments, entropies and base measures that no weighted rows have."""
    mass = float(stats.n.sum())
    require((stats.n >= 0).all(), f"{name}/n", "masses, which are not negative")
    most = mass * np.log(max(len(stats), 2)) * (1 + _CLOSE) + _CLOSE
    sound = stats.h.sum() <= most and stats.h.min() >= -1e3 * (mass + 1)
    require(sound, f"{name}/h", f"entropies of assignments, at most {most:g} in sum")
    if isinstance(family, Multinomial):
        slack = 1e-9 * np.abs(stats.t).max()
        require((stats.t >= -slack).all(), f"{name}/t", "sums of counts")
        _check_base(stats.base >= -_CLOSE * (mass + 1), name, stats.base)
        return
    require(_possible_moments(family, stats), f"{name}/t", "sums and sums of squares of rows")
    entries = mass * family.n_features
    if isinstance(family, DiagGaussian) and family.missing:
        entries = float(stats.t[:, 2 * family.n_features :].sum())
    want = -0.5 * LOG_2PI * entries
    _check_base(abs(stats.base - want) <= _CLOSE * (abs(want) + 1), name, stats.base)


def check_batch(family: Family[Any], batch: OpenBatch, name: str) -> None:
    """Refuse statistics that are not those of the rows they come with."""
    mass = batch.rows.mass
    same = abs(batch.stats.n.sum() - mass) <= _CLOSE * mass
    require(same, f"{name}/n", f"the masses of rows that weigh {mass:g} together")
    each = family.log_base(batch.rows.X)
    base = float(each.sum() if batch.rows.weights is None else each @ batch.rows.weights)
    _check_base(abs(batch.stats.base - base) <= _CLOSE * (abs(base) + 1), name, batch.stats.base)


def check_state(state: State) -> None:
    """Refuse losses of pairs that cannot be, and numbers too large to go on with."""
    loss, mass = state.sealed.pair_loss, state.sealed.stats.n.sum()
    sound = (loss == loss.T).all() and not np.diagonal(loss).any()
    sound = sound and loss.min() >= -_CLOSE and loss.max() <= (mass + 1) * (state.next_id + 1)
    require(sound, "sealed/pair_loss", "a symmetric matrix of entropies")
    for index, memo in enumerate(state.memos.values()):
        part = memo.part.stats.n <= state.sealed.stats.n * (1 + _CLOSE) + _CLOSE
        require(part.all(), f"memo{index}/n", "a part of the masses that are sealed")
        own = memo.part.pair_loss
        sound = (own == own.T).all() and (own <= loss * (1 + _CLOSE) + _CLOSE).all()
        require(sound, f"memo{index}/pair_loss", "a part of the entropies that are sealed")
    if not _finite(state):
        raise CheckpointError("members 'sealed/t' and 'prior' give a model that is not finite")


def _finite(state: State) -> bool:
    """Whether bound and scores of the components, and of one without rows, are numbers."""
    empty = Stats.zeros(np.zeros(1, np.int64), state.model.family.n_stats)
    try:
        numbers = [np.array(state.bound())]
        for stats in (state.total, empty):
            posterior = state.model.posterior(stats)
            numbers += [posterior.eta, posterior.bias]
    except np.linalg.LinAlgError:
        return False
    return all(np.isfinite(x).all() for x in numbers)


def _check_base(sound: bool, name: str, base: float) -> None:
    if not sound:
        raise CheckpointError(f"the header's 'base' of {name!r} is not that of any rows: {base:g}")


def _possible_moments(family: Family[Any], stats: Stats) -> bool:
    """Whether some weighted rows have these first and second moments."""
    d = family.n_features
    if isinstance(family, DiagGaussian):
        first, second = stats.t[:, :d], stats.t[:, d : 2 * d]
        count = stats.t[:, 2 * d :] if family.missing else np.repeat(stats.n[:, None], d, axis=1)
        fits = bool((np.abs(count - np.clip(count, 0, stats.n[:, None])) <= _slack(count)).all())
        return fits and _agree(count, first, second)
    if isinstance(family, ZeroMeanGaussian):
        squares, first = stats.t, np.zeros((len(stats), d))
    elif isinstance(family, FullGaussian):
        squares, first = stats.t[:, :-d], stats.t[:, -d:]
    else:
        raise TypeError(f"no moments are known for {type(family).__name__}")
    second = unpack_symmetric(squares, d)
    diagonal = np.diagonal(second, axis1=1, axis2=2)
    smallest = np.linalg.eigvalsh(second)[:, 0]
    definite = bool((smallest >= -_CLOSE * (diagonal.sum(axis=1) + 1e-6 * diagonal.sum())).all())
    return definite and _agree(np.repeat(stats.n[:, None], d, axis=1), first, diagonal)


def _agree(count: Mat, first: Mat, second: Mat) -> bool:
    """Cauchy and Schwarz: first ** 2 <= count * second, for each component and feature."""
    if (second < -_slack(second)).any():
        return False
    low, high = np.maximum(count, 0) + _slack(count), np.maximum(second, 0) + _slack(second)
    return bool((np.abs(first) <= np.sqrt(low) * np.sqrt(high) * (1 + _CLOSE)).all())


def _slack(sums: Mat) -> Vec:
    """What rounding may have left in a column: a small part of all that went through it."""
    return np.asarray(1e-6 * np.abs(sums).sum(axis=0) + 1e-300)
