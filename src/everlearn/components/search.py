"""Search for a tree of components: rounds of moves, each judged by the bound.

A move is tried on a copy of the state: it changes the tree and visits all open rows a few times.
Its bound is compared with the bound after as many visits without the move, so that ordinary
progress does not count as a gain. A new node must also gain a minimum, because it is the best of
many candidates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from everlearn.components.local import PathRunner, RemoteRows
from everlearn.components.model import ComponentModel, NodeStats
from everlearn.components.moves import (
    Survey,
    add_branch,
    best_branches,
    merge_candidates,
    merge_siblings,
    principal_loadings,
    removal_candidates,
    remove_branch,
    split_candidates,
    split_leaf,
    survey_rows,
)
from everlearn.components.settings import ComponentTreeSettings
from everlearn.components.state import ComponentTreeState, OpenRows, rescale, sweep
from everlearn.core.arrays import Mat
from everlearn.core.moves import LapInfo, MoveRecord
from everlearn.core.random import stream
from everlearn.core.tree import Tree
from everlearn.engine.protocol import Engine

START_ROWS = 2048
"""Rows that the first path is computed from, at most."""
_FIRST_SWEEPS: Final = 10
_TRIAL_SWEEPS: Final = 3
"""Visits of all rows before a move is judged."""
_N_CANDIDATES: Final = 16
"""Branches that are fitted for each birth."""
_NODES_PER_BIRTH: Final = 24
"""A round may have one more birth for each of this many nodes."""
_MAX_EXCHANGES: Final = 16
_EXCHANGES_PER_NODE: Final = 0.75
"""A full tree of K nodes tries `_MAX_EXCHANGES + _EXCHANGES_PER_NODE * K` rounds at most."""
_MAX_FAILED_REMOVALS: Final = 3
_MAX_STREAM_ROUNDS: Final = 8
"""Limit of the rounds of moves each time that half of the open rows of a stream are new."""
_BATCHES_PER_WINDOW: Final = 4
_TOLERANCE: Final = 1e-6
"""A smaller tree may lower the bound by this much per row, to allow for rounding."""

OnRound = Callable[[LapInfo], None]
"""Called after each round, with what it did."""


def sample_rows(rows: Mat | RemoteRows, seed: int, engine: Engine) -> Mat:
    """The rows that the first path is computed from: all rows, or a sample of `START_ROWS`."""
    n = len(rows)
    if isinstance(rows, RemoteRows):
        sample = stream(seed, "start").choice(n, min(n, START_ROWS), replace=False)
        return rows.fetch(np.sort(sample), engine)
    if n <= START_ROWS:
        return rows
    return rows[stream(seed, "start").choice(n, START_ROWS, replace=False)]


def start_path(
    model: ComponentModel, X: Mat, settings: ComponentTreeSettings, seed: int, next_id: int = 0
) -> ComponentTreeState:
    """A tree of one path with the principal components of some rows, and no open rows yet."""
    length = min(settings.depth, settings.max_nodes)
    ids = list(range(next_id, next_id + length))
    tree = Tree.root(settings.depth, ids[0]).grown(0, ids[1:])
    centre = X.mean(axis=0)
    q = model.start(tree, principal_loadings(X - centre, length), centre, model.shape / model.rate)
    empty = NodeStats.zeros(tree.ids, X.shape[1])
    return ComponentTreeState(model, q, empty, (), empty, next_id + length, seed)


def open_batches(
    state: ComponentTreeState, batches: Sequence[Mat | RemoteRows]
) -> ComponentTreeState:
    """Add open rows, which are not visited yet."""
    empty = NodeStats.zeros(state.tree.ids, state.model.n_features)
    return replace(state, batches=(*state.batches, *(OpenRows(X, empty) for X in batches)))


# ------------------------------------------------------------- rows that stay open


def grow_tree(
    state: ComponentTreeState,
    runner: PathRunner,
    settings: ComponentTreeSettings,
    on_round: OnRound,
) -> tuple[ComponentTreeState, bool]:
    """Grow until no move helps, remove nodes that do not lower the bound, and converge.

    Also returns whether the bound converged.
    """
    state = sweep(state, runner, _FIRST_SWEEPS)
    on_round(_round_info(state))
    n_failed, n_exchanges = 0, 0
    max_exchanges = _MAX_EXCHANGES + _EXCHANGES_PER_NODE * settings.max_nodes
    while n_failed < settings.patience and n_exchanges < max_exchanges:
        n_exchanges += len(state.tree) >= settings.max_nodes
        state, moves = try_growth(state, runner, settings, several=n_failed == 0)
        if not moves:
            break
        on_round(_round_info(state, moves))
        n_failed = 0 if any(move.accepted for move in moves) else n_failed + 1
    state, moves = shrink_tree(state, runner, settings)
    on_round(_round_info(state, moves))
    converged = False
    for _ in range(settings.max_iter):
        before = state.bound()
        state = rescale(sweep(state, runner, together=False))
        converged = state.bound() - before <= settings.tol * abs(before)
        on_round(_round_info(state, settled=converged))
        if converged:
            break
    return state, converged


def _round_info(
    state: ComponentTreeState, moves: Sequence[MoveRecord] = (), *, settled: bool = False
) -> LapInfo:
    mass = state.total.n
    return LapInfo(state.clock, state.bound(), len(state.tree), mass, tuple(moves), settled)


# ---------------------------------------------------------------- rounds of moves


def try_growth(
    state: ComponentTreeState,
    runner: PathRunner,
    settings: ComponentTreeSettings,
    *,
    several: bool = False,
) -> tuple[ComponentTreeState, list[MoveRecord]]:
    """Try a birth and, if that fails, a split. A full tree tries to exchange branches instead.

    With `several`, a large tree tries more than one birth at a time. An empty list of moves means
    that none was possible.
    """
    rng = stream(state.seed, "birth", state.clock)
    state = replace(state, clock=state.clock + 1)
    survey = survey_rows(state, rng, runner.engine)
    room = settings.max_nodes - len(state.tree)
    plain = sweep(state, runner, _TRIAL_SWEEPS)
    records = []
    for kind in ("birth", "split"):
        if kind not in settings.moves:
            continue
        trial = None
        if room > 0 and kind == "birth":
            n_most = 1 + several * (len(state.tree) // _NODES_PER_BIRTH)
            branches = best_branches(survey, rng, _N_CANDIDATES, room, n_most)
            for branch in branches:
                trial = add_branch(state if trial is None else trial, branch)
        elif room > 0:
            trial = _split(state, survey, rng)
        elif kind == "birth" and "delete" in settings.moves:
            trial = _exchange(state, survey, runner, settings, rng)
        if trial is None:
            continue
        trial = sweep(trial, runner, _TRIAL_SWEEPS)
        new, record = judge(plain, trial, kind, settings.min_gain)
        records.append(record)
        if record.accepted:
            return new, records
    return plain, records


def judge(
    plain: ComponentTreeState, trial: ComponentTreeState, kind: str, min_gain: float
) -> tuple[ComponentTreeState, MoveRecord]:
    """The trial, if its bound is higher by `min_gain` per feature and new node. Else `plain`."""
    old, new = set(plain.tree.ids.tolist()), set(trial.tree.ids.tolist())
    removed, added = tuple(sorted(old - new)), tuple(sorted(new - old))
    gain = trial.bound() - plain.bound()
    n_new = max(len(added) - len(removed), 1)
    least = min_gain * plain.model.n_features * n_new if added else -_TOLERANCE * plain.total.n
    accepted = bool(gain > least)
    return (trial if accepted else plain), MoveRecord(kind, removed, added, gain, accepted)


def _draw_rank(rng: np.random.Generator, n: int) -> int:
    """A random rank below n: 0 half of the time, 1 a quarter of the time, and so on."""
    return min(int(rng.geometric(0.5)) - 1, n - 1)


def _split(
    state: ComponentTreeState, survey: Survey, rng: np.random.Generator
) -> ComponentTreeState | None:
    """Split one of the nodes of the last level that fit their rows worst."""
    order = split_candidates(survey)
    if not len(order):
        return None
    return split_leaf(state, survey, int(order[_draw_rank(rng, len(order))]))


def _exchange(
    state: ComponentTreeState,
    survey: Survey,
    runner: PathRunner,
    settings: ComponentTreeSettings,
    rng: np.random.Generator,
) -> ComponentTreeState | None:
    """Remove one of the branches with the smallest loss, and grow others in its place."""
    removals = removal_candidates(state, survey)
    if not removals:
        return None
    removal = removals[_draw_rank(rng, len(removals))]
    state = sweep(remove_branch(state, removal.position), runner)
    while (room := settings.max_nodes - len(state.tree)) > 0:
        survey = survey_rows(state, rng, runner.engine)
        branches = best_branches(survey, rng, _N_CANDIDATES, room, 1)
        if not branches:
            break
        state = sweep(add_branch(state, branches[0]), runner)
    return state


def shrink_tree(
    state: ComponentTreeState, runner: PathRunner, settings: ComponentTreeSettings
) -> tuple[ComponentTreeState, list[MoveRecord]]:
    """Remove branches and merge siblings while the bound does not fall."""
    records: list[MoveRecord] = []
    n_failed = 0
    while n_failed < _MAX_FAILED_REMOVALS:
        rng = stream(state.seed, "birth", state.clock)
        state = replace(state, clock=state.clock + 1)
        kind, trial = _smaller_tree(state, runner, settings, rng, n_failed)
        n_failed += 1
        if trial is None:
            continue
        plain = sweep(state, runner, _TRIAL_SWEEPS)
        trial = sweep(trial, runner, _TRIAL_SWEEPS)
        state, record = judge(plain, trial, kind, settings.min_gain)
        records.append(record)
        n_failed = 0 if record.accepted else n_failed
    return state, records


def _smaller_tree(
    state: ComponentTreeState,
    runner: PathRunner,
    settings: ComponentTreeSettings,
    rng: np.random.Generator,
    n_failed: int,
) -> tuple[str, ComponentTreeState | None]:
    """Try the best removal, then the best merge, then the second best of both, and so on.

    Returns the kind of the move and its state, or None if there is no such move.
    """
    rank, is_merge = divmod(n_failed, 2)
    if not is_merge and "delete" in settings.moves:
        removals = removal_candidates(state, survey_rows(state, rng, runner.engine))
        if len(removals) > rank:
            return "delete", remove_branch(state, removals[rank].position)
    if is_merge and "merge" in settings.moves:
        pairs = merge_candidates(state, rank + 1)
        if len(pairs) > rank:
            return "merge", merge_siblings(state, *pairs[rank])
    return "", None


# ------------------------------------------------------------------------ streams


def learn_stream(
    state: ComponentTreeState,
    X: Mat,
    runner: PathRunner,
    settings: ComponentTreeSettings,
    on_round: OnRound,
) -> ComponentTreeState:
    """Learn from new rows of a stream. The last `birth_window` rows stay open."""
    window = settings.birth_window
    size = max(1, window // _BATCHES_PER_WINDOW)
    for start in range(0, len(X), size):
        state = _append(state, X[start : start + size], size, runner)
        if 2 * state.n_new >= state.n_open:
            state = _revisit(state, runner, settings, on_round)
        while state.n_open > window and len(state.batches) > 1:
            state = _seal_oldest(state, runner)
    return state


def _append(state: ComponentTreeState, X: Mat, size: int, runner: PathRunner) -> ComponentTreeState:
    """Visit new rows once and keep them open, in the last batch if there is room for them."""
    stats = runner.run(state.q, X)
    last = state.batches[-1] if state.batches else None
    if last is not None and isinstance(last.X, np.ndarray) and len(last.X) + len(X) <= size:
        batch = OpenRows(np.concatenate([last.X, X]), last.stats + stats)
        batches = (*state.batches[:-1], batch)
    else:
        batches = (*state.batches, OpenRows(X.copy(), stats))
    state = replace(state, batches=batches, n_new=state.n_new + len(X)).with_total()
    return replace(state, q=state.model.update(state.total, state.q))


def _revisit(
    state: ComponentTreeState,
    runner: PathRunner,
    settings: ComponentTreeSettings,
    on_round: OnRound,
) -> ComponentTreeState:
    """Visit the open rows again, and grow as long as that succeeds."""
    state = replace(sweep(state, runner, _TRIAL_SWEEPS), n_new=0)
    moves: list[MoveRecord] = []
    for _ in range(_MAX_STREAM_ROUNDS):
        state, tried = try_growth(state, runner, settings)
        moves += tried
        if not any(move.accepted for move in tried):
            break
    on_round(_round_info(state, moves))
    return state


def _seal_oldest(state: ComponentTreeState, runner: PathRunner) -> ComponentTreeState:
    """Visit the oldest open batch a last time, and keep only its statistics."""
    oldest, *others = state.batches
    stats = runner.run(state.q, oldest.X)
    state = replace(state, sealed=state.sealed + stats, batches=tuple(others)).with_total()
    return replace(state, q=state.model.update(state.total, state.q))


def seal_all(state: ComponentTreeState) -> ComponentTreeState:
    """Drop all open rows, and keep the statistics of their last visit."""
    return replace(state, sealed=state.with_total().total, batches=(), n_new=0).with_total()
