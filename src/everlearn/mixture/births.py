"""Births: a component whose rows are better explained by several.

A proposal is made on the rows of one component, then carried through a whole lap, in which
every batch measures what it would say about the parts. Judged on one batch alone, components
that cost many parameters would never be born. Spec: creation on raw coordinates on the first
and the third try and on whitened ones on the second; whitening by the component's own
covariance squeezes exactly the direction that separates two clusters in one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse
from sklearn import config_context
from sklearn.cluster import kmeans_plusplus

from everlearn.core.arrays import IntVec, Mat, Table, Vec
from everlearn.core.random import stream
from everlearn.core.stats import Stats
from everlearn.engine.chunks import ChunkedRows
from everlearn.engine.protocol import Engine
from everlearn.engine.rows import Rows, concatenate
from everlearn.mixture.local import LocalRunner, Plan, Proposal
from everlearn.mixture.merges import merge_greedily
from everlearn.mixture.model import Mixture
from everlearn.mixture.state import State, Trial, labelled

ATTEMPTS = ((5, False), (2, True), (10, False), (2, False))
"""Parts sought and whether in whitened space, for each try in turn."""
MOST_ROWS = 10_000
"""Rows of a component that are looked at, unless there is less room."""
RETRY_AFTER = 0.02
_REFINEMENTS = 10
_STILL = 1e-3
_ENOUGH_ROWS = 2000
_LLOYD_STEPS = 3
_DISTANCES_AT_ONCE = 50_000


@dataclass(frozen=True, slots=True)
class BirthSettings:
    """How much a lap may try.

    Attributes
    ----------
    n_targets : components that are tried in one lap
    n_rows : rows of each that are looked at
    min_rows : rows that a part must have at least
    max_components : never more components than this
    least_parts : parts that are proposed even if one would explain the rows looked at better
    """

    n_targets: int = 25
    n_rows: int = MOST_ROWS
    min_rows: float = 1.0
    max_components: int = 1000
    least_parts: int = 1

    def smallest_part(self, mass: float) -> float:
        """Mass below which a part is not worth proposing, in `mass` rows."""
        return max(self.min_rows, 1e-3 * min(mass, 1e4))


def open_targets(state: State, settings: BirthSettings) -> list[int]:
    """Ids that have not resisted every kind of attempt; least tried first, then largest."""
    stats = state.total
    enough = 2 * settings.smallest_part(float(stats.n.sum()))
    open_mass = stats.n - state.sealed.stats.n
    tried = np.array([_attempt(state, int(i)) for i in stats.ids])
    order = np.lexsort((-stats.n, tried))
    return [int(stats.ids[k]) for k in order if tried[k] < len(ATTEMPTS) and open_mass[k] >= enough]


def propose(
    state: State, runner: LocalRunner, settings: BirthSettings
) -> tuple[tuple[Proposal, ...], list[int]]:
    """Births to carry through the next lap, and the targets for which none could be made."""
    proposals: list[Proposal] = []
    barren: list[int] = []
    next_id = state.next_id
    room = settings.max_components - len(state.total)
    targets = open_targets(state, settings)[: settings.n_targets] if room > 0 else []
    limit = min(settings.n_rows, max(runner.prepared_rows, _ENOUGH_ROWS))
    for target, found, rng in _samples(state, targets, limit, runner.engine):
        if room < 1:
            break
        parts = _create(state, runner.here(), settings, target, found, rng)
        if parts is None:
            barren.append(target)
            continue
        parts = replace(parts, ids=np.arange(next_id, next_id + len(parts)))
        room -= len(parts) - 1
        next_id += len(parts)
        proposals.append(Proposal(target, state.model.posterior(parts)))
    return tuple(proposals), barren


def failed(state: State, components: list[int]) -> dict[int, Trial]:
    """The birth trials after these components resisted once more."""
    n = {int(i): float(m) for i, m in zip(state.total.ids, state.total.n, strict=True)}
    trials = {i: t for i, t in state.birth_trials.items() if i in n}
    for component in components:
        if component in n:
            trials[component] = Trial(_attempt(state, component) + 1, n[component])
    return trials


def reopened(trials: Mapping[int, Trial]) -> dict[int, Trial]:
    """Trials after which no component counts as having resisted every kind of attempt."""
    return {i: Trial(t.failures % len(ATTEMPTS), t.mass) for i, t in trials.items()}


def _attempt(state: State, component: int) -> int:
    """Number of the attempt this component is at, from 0."""
    trial = state.birth_trials.get(component)
    mass = state.total.n[state.total.position(component)]
    return 0 if trial is None or trial.stale(mass, RETRY_AFTER) else trial.failures


def _create(
    state: State,
    runner: LocalRunner,
    settings: BirthSettings,
    target: int,
    found: Rows | None,
    rng: np.random.Generator,
) -> Stats | None:
    """Statistics of the parts on some of the target's open rows, or None."""
    attempt = _attempt(state, target)
    smallest = settings.smallest_part(float(state.total.n.sum()))
    if found is None or found.mass < 2 * smallest:
        return None
    rows = runner.prepared(found)
    n_parts, whiten = ATTEMPTS[attempt]
    room = settings.max_components - len(state.total) + 1
    n_parts = min(n_parts, room, len(rows))
    if n_parts < 2:
        return None
    k = state.total.position(target)
    q = state.model.family.posterior(state.total.n[k : k + 1], state.total.t[k : k + 1])
    points = state.model.family.embedding(rows.X, q if whiten else None)
    labels = seed_labels(points, rows.weights, n_parts, rng)
    parts = runner.hard_stats(rows, labels, np.arange(n_parts))
    others = np.delete(state.total.n, k)
    return refine(state.model, runner, rows, parts, others, smallest, settings.least_parts)


def refine(
    model: Mixture,
    runner: LocalRunner,
    rows: Rows,
    parts: Stats,
    others: Vec,
    smallest: float,
    least: int = 1,
) -> Stats | None:
    """Restricted learning in which only the parts compete, and merges; None if one is left."""
    while True:
        settled = _compete(model, runner, rows, parts, smallest)
        if len(settled) < 2:
            return None
        j, l = np.triu_indices(len(settled), 1)
        pairs = np.stack([settled.ids[j], settled.ids[l]], axis=1)
        summary, _ = runner.run(model.posterior(settled), Plan(pairs=pairs), rows)
        loss = np.zeros((len(settled), len(settled)))
        loss[j, l] = loss[l, j] = summary.pair_loss
        parts = merge_greedily(model, summary.stats, loss, others, least)
        if len(parts) == len(settled):
            return parts


def _compete(
    model: Mixture, runner: LocalRunner, rows: Rows, parts: Stats, smallest: float
) -> Stats:
    """Parts after a few rounds of assigning the rows to them; those that stay small drop out."""
    for _ in range(_REFINEMENTS):
        kept = parts.rows(np.flatnonzero(parts.n >= smallest))
        if len(kept) < 2:
            return kept
        parts = runner.run(model.posterior(kept), Plan(), rows)[0].stats
        if np.abs(parts.n - kept.n).max() < _STILL * parts.n.sum():
            break
    return parts.rows(np.flatnonzero(parts.n >= smallest))


def seed_labels(
    points: Table, weights: Vec | None, n_parts: int, rng: np.random.Generator
) -> IntVec:
    """A rough partition: k-means++ seeds and a few Lloyd steps."""
    random_state = int(rng.integers(2**31 - 1))
    with config_context(assume_finite=True, skip_parameter_validation=True):
        centres, _ = kmeans_plusplus(
            points, n_parts, sample_weight=weights, random_state=random_state, n_local_trials=1
        )
    centres = centres.toarray() if sparse.issparse(centres) else centres
    mass = np.ones(points.shape[0]) if weights is None else weights
    labels = _nearest(points, centres)
    for _ in range(_LLOYD_STEPS):
        centres = _centres(points, mass, labels, centres)
        labels = _nearest(points, centres)
    return labels


def _nearest(points: Table, centres: Mat) -> IntVec:
    """Position of the centre nearest to each point, a few points at a time."""
    half = 0.5 * (centres**2).sum(axis=1)
    size = max(1, _DISTANCES_AT_ONCE // len(centres))
    pieces = (points[i : i + size] for i in range(0, points.shape[0], size))
    return np.concatenate([np.argmin(half - piece @ centres.T, axis=1) for piece in pieces])


def _centres(points: Table, mass: Vec, labels: IntVec, old: Mat) -> Mat:
    """Weighted means of the points that each centre has; without points it stays."""
    n = len(labels)
    member = sparse.csr_array((mass, (labels, np.arange(n))), shape=(len(old), n))
    sums = member @ points
    sums = sums.toarray() if sparse.issparse(sums) else sums
    weight = np.bincount(labels, mass, len(old))[:, None]
    return np.where(weight > 0, sums / np.maximum(weight, 1e-300), old)


def _samples(
    state: State, targets: list[int], limit: int, engine: Engine
) -> Iterator[tuple[int, Rows | None, np.random.Generator]]:
    """For each target at most `limit` of its open rows, and the random stream they came from.

    Rows in chunks are sought for all targets at once, others when they are asked for.
    """
    rngs = [stream(state.seed, "birth", state.clock, target) for target in targets]
    if any(isinstance(b.rows, ChunkedRows) for b in state.batches) and targets:
        rows = _far_rows(state, targets, limit, rngs, engine)
        yield from zip(targets, rows, rngs, strict=True)
        return
    for target, rng in zip(targets, rngs, strict=True):
        yield target, _rows_of(state, target, limit, rng), rng


def _rows_of(state: State, target: int, limit: int, rng: np.random.Generator) -> Rows | None:
    """At most `limit` open rows whose label is the target, drawn without replacement."""
    found = [np.flatnonzero(b.labels == target) for b in state.batches]
    drawn = _drawn([len(where) for where in found], limit, rng)
    if drawn is None:
        return None
    picked = [w[ranks] for w, ranks in zip(found, drawn, strict=True)]
    return concatenate([b.rows[w] for b, w in zip(state.batches, picked, strict=True) if len(w)])


def _drawn(counts: Sequence[int], limit: int, rng: np.random.Generator) -> list[IntVec] | None:
    """Which rows of each part are taken, in all at most `limit` of so many; None of none."""
    count = sum(counts)
    if count == 0:
        return None
    chosen = np.ones(count, bool)
    if count > limit:
        chosen[:] = False
        chosen[rng.choice(count, limit, replace=False)] = True
    ends = np.cumsum(counts)[:-1]
    return [np.flatnonzero(part) for part in np.split(chosen, ends)]


def _far_rows(
    state: State,
    targets: list[int],
    limit: int,
    rngs: list[np.random.Generator],
    engine: Engine,
) -> list[Rows | None]:
    """The same for rows in chunks: counts come first, then the rows that were drawn."""
    found = labelled(state.batches)
    counts = found.counts(np.array(targets), engine)
    drawn = [_drawn(c.tolist(), limit, rng) for c, rng in zip(counts.T, rngs, strict=True)]
    some = [(t, ranks) for t, ranks in zip(targets, drawn, strict=True) if ranks is not None]
    ranks = [[(t, ranks[i]) for t, ranks in some] for i in range(len(found.chunks))]
    rows = iter(found.rows(ranks, engine))
    return [None if ranks is None else next(rows) for ranks in drawn]
