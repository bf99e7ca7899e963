"""Deletes: a component whose rows several others explain well enough together.

A merge cannot remove junk that belongs to many neighbours at once. Here the rows are assigned
anew among the others, at the globals of the visit, and the bound decides.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from everlearn.core.arrays import IntVec
from everlearn.core.mixture import Mixture, by_mass
from everlearn.core.stats import Delete, Permute, Stats
from everlearn.inference.state import State, Trial

MAX_SHARE = 0.05
RETRY_AFTER = 0.05


def delete_candidates(state: State, limit: int) -> tuple[int, ...]:
    """Ids of the smallest components that hold no sealed mass and were not tried as they are."""
    stats, sealed = state.total, state.sealed.stats
    if len(stats) < 2:
        return ()
    fine = stats.n < MAX_SHARE * stats.n.sum()
    chosen: list[int] = []
    for k in np.argsort(stats.n, kind="stable"):
        component = int(stats.ids[k])
        trial = state.delete_trials.get(component)
        tried = trial is not None and not trial.stale(stats.n[k], RETRY_AFTER)
        if fine[k] and not tried and sealed.n[sealed.position(component)] == 0.0:
            chosen.append(component)
        if len(chosen) == limit:
            break
    return tuple(chosen)


def delete_gain(model: Mixture, stats: Stats, component: int, change: Stats) -> float:
    """Change of the bound if the component goes and the others take its rows.

    Components are sorted by mass before and after: what the order alone gains is not the move's.
    """
    after = Delete(component).on(stats) + change
    best = [model.bound(Permute(by_mass(s)).on(s)) for s in (stats, after)]
    return best[1] - best[0]


def failed(state: State, components: Sequence[int]) -> dict[int, Trial]:
    """The delete trials after these components stayed."""
    n = {int(i): float(m) for i, m in zip(state.total.ids, state.total.n, strict=True)}
    kept = {i: t for i, t in state.delete_trials.items() if i in n}
    return kept | {i: Trial(1, n[i]) for i in components if i in n}


def touched(change: Stats) -> IntVec:
    """Ids of the components that take over rows."""
    return np.asarray(change.ids[np.abs(change.n) > 1e-9])
