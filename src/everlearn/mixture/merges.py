"""Merges and deletes: candidates, and how much each would change the bound.

The gain of a merge is exact: the gain of the pooled evidence, plus the gain of the allocation,
minus the entropy that the rows lose because the two components become one. The entropy only
costs, so a pair that loses without it need not be tracked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from everlearn.core.arrays import IntVec, Mat, Vec
from everlearn.core.stats import Delete, Merge, Permute, Stats
from everlearn.mixture.model import Mixture, by_mass
from everlearn.mixture.state import State, Trial, pooled_losses

_PAIRS_AT_ONCE: Final = 2
"""Pairs to pool at a time, for each component."""
MAX_SHARE: Final = 0.05
"""Only components with a smaller share of the mass are candidates for deletes."""
RETRY_AFTER: Final = 0.05
"""A component is tried again when its mass has changed by more than this part."""


@dataclass(frozen=True, slots=True)
class JudgedPair:
    """A tracked pair: its row in the plan, its ids, the gain of its merge, and the verdict."""

    row: int
    keep: int
    drop: int
    gain: float
    accepted: bool


def promising_pairs(model: Mixture, stats: Stats, limit: int) -> NDArray[np.int64]:
    """Ids (P, 2) of at most `limit` pairs whose merge could raise the bound, best first.

    The gain of the allocation is at most log((alpha + N) / alpha) plus its factorials. So no
    merge that could be accepted is left out, except by `limit`.
    """
    k = len(stats)
    if k < 2 or limit == 0:
        return np.empty((0, 2), np.int64)
    j, l = np.triu_indices(k, 1)
    gain = _pooling_gains(model, stats, j, l) + np.log1p(stats.n.sum() / model.prior.alpha)
    best = np.argsort(-gain, kind="stable")[:limit]
    best = best[gain[best] > 0]
    return np.stack([stats.ids[j[best]], stats.ids[l[best]]], axis=1)


def merge_gain(model: Mixture, stats: Stats, keep: int, drop: int, entropy_loss: float) -> float:
    """Change of the bound if `drop` joins `keep`, with components sorted by mass."""
    j, l = np.array([stats.position(keep)]), np.array([stats.position(drop)])
    observation = _observation_gains(model, stats, j, l)
    allocation = _allocation_gains(model, stats.n, j, l, np.empty(0))
    return float((observation + allocation)[0] - entropy_loss)


def judge_pairs(
    model: Mixture, stats: Stats, pairs: NDArray[np.int64], losses: Vec, margin: float
) -> list[JudgedPair]:
    """The verdict on each pair, best first. A component takes part in one accepted merge at most.

    The entropies that a merged component shares with others are measured in the next lap only. A
    merge keeps the id of the component with more mass, or else the older one.
    """
    gains = [
        merge_gain(model, stats, a, b, float(loss))
        for (a, b), loss in zip(pairs.tolist(), losses, strict=True)
    ]
    judged: list[JudgedPair] = []
    used: set[int] = set()
    for row in np.argsort(-np.array(gains), kind="stable").tolist():
        pair = pairs[row].tolist()
        if used.intersection(pair):
            continue
        keep, drop = sorted(pair, key=lambda i: (-stats.n[stats.position(i)], i))
        gain = merge_gain(model, stats, keep, drop, float(losses[row])) if used else gains[row]
        judged.append(JudgedPair(row, keep, drop, gain, gain > margin))
        if gain > margin:
            used |= {keep, drop}
            stats = Merge(keep, drop, float(losses[row])).on(stats)
    return judged


def merge_greedily(model: Mixture, stats: Stats, pair_loss: Mat, others: Vec) -> Stats:
    """Merge the best pair while that raises the bound.

    `others` are masses of the other components. `pair_loss` (K, K) is added up for merged
    components, which is an upper bound of their loss. The gain of the allocation is a lower bound,
    so no merge costs.
    """
    k = len(stats)
    gains = np.full((k, k), -np.inf)  # without the gain of the sticks, which every merge changes
    j, l = np.triu_indices(k, 1)
    gains[j, l] = gains[l, j] = _pooling_gains(model, stats, j, l) - pair_loss[j, l]
    while len(stats) > 1:
        sticks = _stick_gains(model, stats.n, others)
        whole = gains + np.minimum.outer(sticks, sticks)
        best = int(np.argmax(whole))
        if whole.flat[best] <= 0:
            break
        a, b = sorted(divmod(best, len(stats)))
        loss = float(pair_loss[a, b])
        stats = Merge(int(stats.ids[a]), int(stats.ids[b]), loss).on(stats)
        pair_loss = _without(pooled_losses(pair_loss, a, b), b)
        gains = _without(gains, b)
        rest = np.delete(np.arange(len(stats)), a)
        changed = _pooling_gains(model, stats, np.full(len(rest), a), rest) - pair_loss[a, rest]
        gains[a, rest] = gains[rest, a] = changed
    return stats


def _pooling_gains(model: Mixture, stats: Stats, j: NDArray[np.intp], l: NDArray[np.intp]) -> Vec:
    """What each merge gains in the evidence and in the factorials of the masses."""
    n = stats.n
    factorials = gammaln(1 + n[j] + n[l]) - gammaln(1 + n[j]) - gammaln(1 + n[l])
    return np.asarray(_observation_gains(model, stats, j, l) + factorials)


def _stick_gains(model: Mixture, n: Vec, others: Vec) -> Vec:
    """What the sticks gain, at least, if each component joined a larger one.

    Its own stick goes. Those between the two get shorter and the pooled one may move up, which
    gains more.
    """
    mass = np.concatenate([n, others])
    order = np.argsort(mass, kind="stable")
    behind = np.empty(len(mass))
    behind[order] = np.cumsum(mass[order])
    alpha = model.prior.alpha
    return np.asarray(np.log(alpha + behind[: len(n)]) - np.log(alpha))


def _without(matrix: Mat, position: int) -> Mat:
    """The matrix without one row and column."""
    return np.delete(np.delete(matrix, position, 0), position, 1)


def _allocation_gains(
    model: Mixture, n: Vec, j: NDArray[np.intp], l: NDArray[np.intp], others: Vec
) -> Vec:
    """Gain of the allocation for each pair, with components sorted by mass before and after."""
    pooled = np.repeat(np.concatenate([n, others])[None], len(j), axis=0)
    row = np.arange(len(j))
    pooled[row, j] += n[l]
    pooled[row, l] = -1.0
    after = np.sort(pooled, axis=1)[:, :0:-1]
    before = np.sort(np.concatenate([n, others]))[::-1]
    return np.asarray(model.prior.bounds(after) - model.prior.bound(before))


def _observation_gains(
    model: Mixture, stats: Stats, j: NDArray[np.intp], l: NDArray[np.intp]
) -> Vec:
    """Evidence of the pooled rows less the evidence of the two apart, for each pair."""
    terms = model.observation_terms(stats.n, stats.t)
    size = _PAIRS_AT_ONCE * max(len(stats), 32)
    gains = np.empty(len(j))
    for start in range(0, len(j), size):
        a, b = j[start : start + size], l[start : start + size]
        pooled = model.observation_terms(stats.n[a] + stats.n[b], stats.t[a] + stats.t[b])
        gains[start : start + size] = pooled - terms[a] - terms[b]
    return gains


def delete_candidates(state: State, limit: int) -> tuple[int, ...]:
    """Ids of the smallest components without sealed rows that were not tried with this mass."""
    stats, sealed = state.total, state.sealed.stats
    if len(stats) < 2:
        return ()
    small = stats.n < MAX_SHARE * stats.n.sum()
    chosen: list[int] = []
    for k in np.argsort(stats.n, kind="stable"):
        component = int(stats.ids[k])
        trial = state.delete_trials.get(component)
        tried = trial is not None and not trial.is_stale(stats.n[k], RETRY_AFTER)
        if small[k] and not tried and sealed.n[sealed.position(component)] == 0.0:
            chosen.append(component)
        if len(chosen) == limit:
            break
    return tuple(chosen)


def delete_gain(model: Mixture, stats: Stats, component: int, change: Stats) -> float:
    """Change of the bound if the component is deleted and others take its rows.

    Components are sorted by mass before and after, so that the gain of the order is left out.
    """
    after = Delete(component).on(stats) + change
    best = [model.bound(Permute(by_mass(s)).on(s)) for s in (stats, after)]
    return best[1] - best[0]


def after_failed_deletes(state: State, components: Sequence[int]) -> dict[int, Trial]:
    """The delete trials after the deletes of these components failed."""
    n = {int(i): float(m) for i, m in zip(state.total.ids, state.total.n, strict=True)}
    kept = {i: t for i, t in state.delete_trials.items() if i in n}
    return kept | {i: Trial(1, n[i]) for i in components if i in n}


def receivers(change: Stats) -> IntVec:
    """Ids of the components that take rows of a deleted one."""
    return np.asarray(change.ids[np.abs(change.n) > 1e-9])
