"""Learning a tree of components: sweeps over rows, and rounds of moves judged by the bound.

A move is tried on a copy of the state: the tree is changed, all open rows are visited a few times,
and the bound is compared with that of as many visits without the move. So ordinary progress is
never taken for merit. A new node must bring more than a margin, since each is the best of many.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from everlearn.components import growth as branches
from everlearn.components import growth as cuts
from everlearn.components.local import FarRows, PathRunner
from everlearn.components.model import ComponentModel, PathStats
from everlearn.components.state import OpenRows, TreeState, rescaled, swept
from everlearn.core.arrays import Mat
from everlearn.core.moves import TREE_MOVES, LapInfo, MoveRecord
from everlearn.core.random import stream
from everlearn.core.tree import Tree
from everlearn.engine.protocol import Engine

_FIRST_SWEEPS = 10
_CANDIDATES = 16
_SWEEPS = 3
_CUTS = 3
_NODES_PER_BRANCH = 24
_START_ROWS = 2048
_SWAPS, _SWAPS_PER_NODE = 16, 0.75
_ROUNDS_PER_RENEWAL = 8
_PIECES = 4
_CLOSE = 1e-6


@dataclass(frozen=True, slots=True)
class GrowthSettings:
    """What moves may do.

    Attributes
    ----------
    kinds : moves that are allowed
    max_nodes : no more nodes than these
    margin : nats, for each feature, that a new node must bring
    patience : rounds without an accepted move after which growth ends
    """

    kinds: frozenset[str] = frozenset(TREE_MOVES)
    max_nodes: int = 100
    margin: float = 0.25
    patience: int = 8


OnRound = Callable[[LapInfo], None]


@dataclass(frozen=True, slots=True)
class TreeFit:
    """A learned state, whether it settled before its sweeps ran out, and its rounds."""

    state: TreeState
    settled: bool
    rounds: tuple[LapInfo, ...]


def begin(
    model: ComponentModel, X: Mat, depth: int, max_nodes: int, seed: int, next_id: int = 0
) -> TreeState:
    """One path of principal components of some rows, which are not visited yet."""
    length = min(depth, max_nodes)
    ids = list(range(next_id, next_id + length))
    tree = Tree.root(depth, ids[0]).grown(0, ids[1:])
    if len(X) > _START_ROWS:
        X = X[stream(seed, "start").choice(len(X), _START_ROWS, replace=False)]
    centre = X.mean(axis=0)
    _, sizes, directions = np.linalg.svd(X - centre, full_matrices=False)
    mean = np.zeros((length, X.shape[1]))
    most = min(length, len(sizes))
    mean[:most] = directions[:most] * (sizes[:most] / np.sqrt(len(X)))[:, None]
    q = model.start(tree, mean, centre, model.shape / model.rate)
    nothing = PathStats.zeros(tree.ids, X.shape[1])
    return TreeState(model, q, nothing, (), nothing, next_id + length, seed)


def start_rows(rows: FarRows, seed: int, engine: Engine) -> Mat:
    """Some rows to begin with, brought here."""
    n = len(rows)
    some = stream(seed, "start").choice(n, min(n, _START_ROWS), replace=False)
    return rows.take(np.sort(some), engine)


def opened(state: TreeState, pieces: Sequence[Mat | FarRows]) -> TreeState:
    """With more open rows, which are not visited yet."""
    nothing = PathStats.zeros(state.tree.ids, state.model.n_features)
    return replace(state, batches=(*state.batches, *(OpenRows(X, nothing) for X in pieces)))


def fit(
    state: TreeState,
    runner: PathRunner,
    settings: GrowthSettings,
    max_sweeps: int,
    tol: float,
    on_round: OnRound,
) -> TreeFit:
    """Grow until nothing more pays, cut back what does not, and let the beliefs settle."""
    rounds: list[LapInfo] = []

    def record(state: TreeState, moves: Sequence[MoveRecord] = (), settled: bool = False) -> None:
        rounds.append(_info(state, moves, settled))
        on_round(rounds[-1])

    state = swept(state, runner, _FIRST_SWEEPS)
    record(state)
    futile, swaps = 0, 0
    most_swaps = _SWAPS + _SWAPS_PER_NODE * settings.max_nodes
    while futile < settings.patience and swaps < most_swaps:
        swaps += len(state.tree) >= settings.max_nodes
        state, moves = grown(state, runner, settings, several=futile == 0)
        if not moves:
            break
        record(state, moves)
        futile = 0 if any(move.accepted for move in moves) else futile + 1
    state, moves = cut_back(state, runner, settings)
    record(state, moves)
    settled = False
    for _ in range(max_sweeps):
        before = state.bound()
        state = swept(state, runner, together=False)
        state = state if runner.meanfield else rescaled(state)
        settled = state.bound() - before <= tol * abs(before)
        record(state, settled=settled)
        if settled:
            break
    return TreeFit(state, settled, tuple(rounds))


def grown(
    state: TreeState, runner: PathRunner, settings: GrowthSettings, several: bool = False
) -> tuple[TreeState, list[MoveRecord]]:
    """Try the best birth, then a split; a full tree exchanges branches. No moves: none possible.

    With `several`, a large tree tries more than one birth at a time.
    """
    rng = stream(state.seed, "birth", state.clock)
    state = replace(state, clock=state.clock + 1)
    survey = branches.surveyed(state, rng, runner)
    room = settings.max_nodes - len(state.tree)
    plain = swept(state, runner, _SWEEPS)
    most = 1 + several * (len(state.tree) // _NODES_PER_BRANCH)
    records = []
    for kind in ("birth", "split"):
        if kind not in settings.kinds:
            continue
        if room > 0:
            if kind == "birth":
                trial = _born(state, survey, room, most, rng)
            else:
                trial = _split(state, survey, rng)
        elif kind == "birth" and "delete" in settings.kinds:
            trial = _exchanged(state, survey, runner, settings, rng)
        else:
            continue
        if trial is None:
            continue
        new, record = judged(plain, swept(trial, runner, _SWEEPS), kind, settings.margin)
        records.append(record)
        if record.accepted:
            return new, records
    return plain, records


def judged(
    plain: TreeState, trial: TreeState, kind: str, margin: float
) -> tuple[TreeState, MoveRecord]:
    """The better of two states, where each new node of the second must bring a margin."""
    removed, added = _changes(plain.tree, trial.tree)
    gain = trial.bound() - plain.bound()
    price = margin * plain.model.n_features * max(len(added) - len(removed), 1)
    least = price if added else -_CLOSE * plain.total.n
    accepted = bool(gain > least)
    record = MoveRecord(kind, removed, added, gain, accepted)
    return (trial if accepted else plain), record


def _changes(old: Tree, new: Tree) -> tuple[tuple[int, ...], tuple[int, ...]]:
    one, two = set(old.ids.tolist()), set(new.ids.tolist())
    return tuple(sorted(one - two)), tuple(sorted(two - one))


def _born(
    state: TreeState, survey: branches.Survey, room: int, most: int, rng: np.random.Generator
) -> TreeState | None:
    """With new branches, at most so many."""
    found = branches.best_branches(survey, rng, _CANDIDATES, room, most)
    for branch in found:
        state = branches.with_branch(state, branch)
    return state if found else None


def _split(state: TreeState, survey: branches.Survey, rng: np.random.Generator) -> TreeState | None:
    """With one of the worst last nodes split in two."""
    order = branches.split_order(survey)
    if not len(order):
        return None
    pick = min(int(rng.geometric(0.5)) - 1, len(order) - 1)
    return branches.with_split(state, survey, int(order[pick]))


def _exchanged(
    state: TreeState,
    survey: branches.Survey,
    runner: PathRunner,
    settings: GrowthSettings,
    rng: np.random.Generator,
) -> TreeState | None:
    """With a branch that is missed little gone, and others in its place."""
    found = cuts.cuts(state, survey)
    if not found:
        return None
    pick = min(int(rng.geometric(0.5)) - 1, len(found) - 1)
    state = swept(cuts.without(state, found[pick].position), runner)
    room = settings.max_nodes - len(state.tree)
    while room > 0:
        survey = branches.surveyed(state, rng, runner)
        found_new = branches.best_branches(survey, rng, _CANDIDATES, room, 1)
        if not found_new:
            break
        state = swept(branches.with_branch(state, found_new[0]), runner)
        room = settings.max_nodes - len(state.tree)
    return state


def cut_back(
    state: TreeState, runner: PathRunner, settings: GrowthSettings
) -> tuple[TreeState, list[MoveRecord]]:
    """Remove branches and merge siblings as long as the bound does not fall."""
    records: list[MoveRecord] = []
    tries = 0
    while tries < _CUTS:
        rng = stream(state.seed, "birth", state.clock)
        state = replace(state, clock=state.clock + 1)
        trial, kind = _cut(state, runner, settings, rng, tries)
        tries += 1
        if trial is None:
            continue
        plain = swept(state, runner, _SWEEPS)
        state, record = judged(plain, swept(trial, runner, _SWEEPS), kind, settings.margin)
        records.append(record)
        tries = 0 if record.accepted else tries
    return state, records


def _cut(
    state: TreeState,
    runner: PathRunner,
    settings: GrowthSettings,
    rng: np.random.Generator,
    skip: int,
) -> tuple[TreeState | None, str]:
    """The cheapest cut by its estimate, or siblings that are most alike, in turn."""
    if "delete" in settings.kinds and skip % 2 == 0:
        found = cuts.cuts(state, branches.surveyed(state, rng, runner))
        if len(found) > skip // 2:
            return cuts.without(state, found[skip // 2].position), "delete"
    if "merge" in settings.kinds and skip % 2 == 1:
        pairs = cuts.alike(state, skip // 2 + 1)
        if len(pairs) > skip // 2:
            return cuts.merged(state, *pairs[skip // 2]), "merge"
    return None, ""


def _info(state: TreeState, moves: Sequence[MoveRecord], settled: bool) -> LapInfo:
    mass = state.total.n
    return LapInfo(state.clock, state.bound(), len(state.tree), mass, tuple(moves), settled)


def absorb(
    state: TreeState,
    X: Mat,
    window: int,
    runner: PathRunner,
    settings: GrowthSettings,
    on_round: OnRound,
) -> TreeState:
    """Learn from rows that will not come again; the last `window` rows stay open for births."""
    piece = max(1, window // _PIECES)
    for start in range(0, len(X), piece):
        state = _appended(state, X[start : start + piece], piece, runner)
        if 2 * state.fresh >= state.n_open:
            state = _renewed(state, runner, settings, on_round)
        while state.n_open > window and len(state.batches) > 1:
            state = _oldest_sealed(state, runner)
    return state


def seal_all(state: TreeState) -> TreeState:
    """Let go of all rows; their last statistics stay."""
    return replace(state, sealed=state.resummed().total, batches=(), fresh=0).resummed()


def _appended(state: TreeState, X: Mat, piece: int, runner: PathRunner) -> TreeState:
    """With rows that were visited once, in the last open batch if that is small."""
    stats, slots = runner.run(state.q, X, None)
    *others, last = state.batches or (None,)
    batch = OpenRows(X.copy(), stats, slots)
    if last is not None and len(last.X) + len(X) <= piece:
        both = None
        if last.slots is not None and slots is not None:
            both = np.concatenate([last.slots, slots])
        batch = OpenRows(np.concatenate([last.X, X]), last.stats + stats, both)
        batches = (*others, batch)
    else:
        batches = (*state.batches, batch)
    state = replace(state, batches=batches, fresh=state.fresh + len(X)).resummed()
    return replace(state, q=state.model.updated(state.total, state.q))


def _renewed(
    state: TreeState, runner: PathRunner, settings: GrowthSettings, on_round: OnRound
) -> TreeState:
    """Visit the open rows, and grow as long as that pays."""
    state = replace(swept(state, runner, _SWEEPS), fresh=0)
    moves: list[MoveRecord] = []
    for _ in range(_ROUNDS_PER_RENEWAL):
        state, tried = grown(state, runner, settings)
        moves += tried
        if not any(move.accepted for move in tried):
            break
    on_round(_info(state, moves, False))
    return state


def _oldest_sealed(state: TreeState, runner: PathRunner) -> TreeState:
    """Visit the oldest open rows a last time and keep their statistics alone."""
    oldest, *others = state.batches
    stats, _ = runner.run(state.q, oldest.X, oldest.slots)
    state = replace(state, sealed=state.sealed + stats, batches=tuple(others)).resummed()
    return replace(state, q=state.model.updated(state.total, state.q))
