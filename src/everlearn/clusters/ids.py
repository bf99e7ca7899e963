"""Permanent ids: a new group takes the id of the old cluster with which it shares most rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from everlearn.core.arrays import IntVec
from everlearn.core.moves import MoveRecord


def first_ids(sizes: IntVec) -> IntVec:
    """Ids of the first groups: the largest has id 0."""
    ids = np.empty(len(sizes), np.int64)
    ids[np.argsort(-sizes, kind="stable")] = np.arange(len(sizes))
    return ids


def match_ids(
    old: NDArray[np.integer], ids: IntVec, new: NDArray[np.integer], n_new: int, next_id: int
) -> tuple[IntVec, list[MoveRecord]]:
    """Ids of the new groups, and what became of the old clusters.

    Each old cluster is kept by one new group at most, pairs with most rows in common first. Other
    groups get fresh ids, the largest first.

    Parameters
    ----------
    old, new : (n,) group of the same rows before and now
    ids : id of each old group
    n_new : number of new groups
    next_id : first fresh id
    """
    pairs = old.astype(np.int64) * n_new + new
    shared = np.bincount(pairs, minlength=len(ids) * n_new).reshape(len(ids), n_new)
    found, kept = np.full(n_new, -1), np.zeros(len(ids), bool)
    for pair in np.argsort(-shared, axis=None, kind="stable"):
        a, b = divmod(int(pair), n_new)
        if shared[a, b] == 0:
            break
        if found[b] < 0 and not kept[a]:
            found[b], kept[a] = ids[a], True
    sizes, moves = shared.sum(axis=0), []
    fresh = [int(b) for b in np.argsort(-sizes, kind="stable") if found[b] < 0]
    for number, b in enumerate(fresh):
        found[b] = next_id + number
        moves.append(MoveRecord("split", (), (int(found[b]),), float(sizes[b]), accepted=True))
    for a in np.flatnonzero(~kept).tolist():
        heir = int(found[shared[a].argmax()])
        mass = float(shared[a].sum())
        moves.append(MoveRecord("merge", (int(ids[a]),), (heir,), mass, accepted=True))
    return found, moves
