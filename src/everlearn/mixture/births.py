"""Propose births: split the rows of a component into parts that may become components.

A proposal is made from rows of one component. The next lap measures in all batches what its parts
would gain, and `memoized` judges it: one batch alone would never pay for a component with many
parameters.

Parts are seeded on raw coordinates in the first, third and fourth attempt, and on whitened ones
in the second. Whitening by the component's own covariance shrinks exactly the direction that
separates two clusters in it, so raw coordinates come first. If a component took strangers, the
first attempt sets them apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

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
from everlearn.mixture.strangers import StrangerDetector

ATTEMPTS: Final = ((5, False), (2, True), (10, False), (2, False))
"""Number of parts, and whether coordinates are whitened, for each attempt in turn."""
MAX_TARGET_ROWS: Final = 10_000
"""Most rows of a component that parts are made from."""
_REFINEMENTS: Final = 10
_CONVERGED: Final = 1e-3
_MIN_ROW_LIMIT: Final = 2000
_LLOYD_STEPS: Final = 3
_DISTANCES_AT_ONCE: Final = 50_000


@dataclass(frozen=True, slots=True)
class BirthSettings:
    """How births are proposed.

    Attributes
    ----------
    n_targets : most components to split in one lap
    n_rows : most rows of a component to make parts from
    min_rows : fewest rows of a part
    max_components : most components of the mixture
    attempts : ways to split a component, tried one after the other: number of parts, and whether
        coordinates are whitened
    retry_after : a component is tried again when its mass has changed by more than this part
    """

    n_targets: int = 25
    n_rows: int = MAX_TARGET_ROWS
    min_rows: float = 1.0
    max_components: int = 1000
    attempts: tuple[tuple[int, bool], ...] = ATTEMPTS
    retry_after: float = 0.02

    def smallest_part(self, mass: float) -> float:
        """Smallest mass of a part to propose, if all rows have this mass."""
        return max(self.min_rows, 1e-3 * min(mass, 1e4))


def open_targets(state: State, settings: BirthSettings) -> list[int]:
    """Ids of components for which an attempt is left.

    Those that took strangers come first, then the least tried, then the largest.
    """
    stats = state.total
    enough = 2 * settings.smallest_part(float(stats.n.sum()))
    open_mass = stats.n - state.sealed.stats.n
    tried = np.array([_attempt(state, int(i), settings) for i in stats.ids])
    familiar = ~np.isin(stats.ids, list(state.strangers.mass))
    order = np.lexsort((-stats.n, tried, familiar))
    left = (tried < len(settings.attempts)) & (open_mass >= enough)
    return [int(stats.ids[k]) for k in order if left[k]]


def propose(
    state: State, runner: LocalRunner, settings: BirthSettings
) -> tuple[tuple[Proposal, ...], list[int]]:
    """Births for the next lap, and ids of the components that could not be split."""
    proposals: list[Proposal] = []
    without_parts: list[int] = []
    next_id = state.next_id
    room = settings.max_components - len(state.total)
    targets = open_targets(state, settings)[: settings.n_targets] if room > 0 else []
    limit = min(settings.n_rows, max(runner.prepared_rows, _MIN_ROW_LIMIT))
    for target, found, rng in _samples(state, targets, limit, runner.engine):
        if room < 1:
            break
        parts = _split(state, runner.in_process(), settings, target, found, rng)
        if parts is None:
            without_parts.append(target)
            continue
        parts = replace(parts, ids=np.arange(next_id, next_id + len(parts)))
        room -= len(parts) - 1
        next_id += len(parts)
        proposals.append(Proposal(target, state.model.posterior(parts)))
    return tuple(proposals), without_parts


def after_failed_births(
    state: State, components: list[int], settings: BirthSettings
) -> dict[int, Trial]:
    """The birth trials after one more attempt failed for these components."""
    n = {int(i): float(m) for i, m in zip(state.total.ids, state.total.n, strict=True)}
    trials = {i: t for i, t in state.birth_trials.items() if i in n}
    for component in components:
        if component in n:
            trials[component] = Trial(_attempt(state, component, settings) + 1, n[component])
    return trials


def reopen_targets(trials: Mapping[int, Trial]) -> dict[int, Trial]:
    """Trials that leave each component at least one attempt."""
    return {i: Trial(t.failures % len(ATTEMPTS), t.mass) for i, t in trials.items()}


def _attempt(state: State, component: int, settings: BirthSettings) -> int:
    """Number of the next attempt for a component, from 0."""
    trial = state.birth_trials.get(component)
    mass = state.total.n[state.total.position(component)]
    return 0 if trial is None or trial.is_stale(mass, settings.retry_after) else trial.failures


def _split(
    state: State,
    runner: LocalRunner,
    settings: BirthSettings,
    target: int,
    sample: Rows | None,
    rng: np.random.Generator,
) -> Stats | None:
    """Statistics of the parts on a sample of the target's rows, or None if there are none."""
    attempt = _attempt(state, target, settings)
    smallest = settings.smallest_part(float(state.total.n.sum()))
    if sample is None or sample.mass < 2 * smallest:
        return None
    rows = runner.prepared(sample)
    n_parts, whiten = settings.attempts[attempt]
    room = settings.max_components - len(state.total) + 1
    n_parts = min(n_parts, room, len(rows))
    if n_parts < 2:
        return None
    k = state.total.position(target)
    q = state.model.family.posterior(state.total.n[k : k + 1], state.total.t[k : k + 1])
    points = state.model.family.embedding(rows.X, q if whiten else None)
    if attempt == 0 and target in state.strangers.mass:
        labels = _labels_by_strangers(state, runner, rows, points, n_parts, smallest, rng)
    else:
        labels = seed_labels(points, rows.weights, n_parts, rng)
    parts = runner.hard_stats(rows, labels, np.arange(n_parts))
    others = np.delete(state.total.n, k)
    found = refine(state.model, runner, rows, parts, others, smallest)
    if found is None and target in state.strangers.mass and state.sealed.stats.n[k] > 0.0:
        # All open rows may be of one new kind, and only the sealed ones of the old kind.
        return runner.hard_stats(rows, np.zeros(len(rows), np.int64), np.arange(1))
    return found


def _labels_by_strangers(
    state: State,
    runner: LocalRunner,
    rows: Rows,
    points: Table,
    n_parts: int,
    smallest: float,
    rng: np.random.Generator,
) -> IntVec:
    """Labels of a rough partition: one part of the familiar rows, the others of strangers."""
    family = state.model.family
    detector = StrangerDetector.of(
        state.model, state.total if state.reference is None else state.reference
    )
    where = detector.strangers(family, rows, runner.step.features(rows), family.log_base(rows.X))
    labels = np.zeros(len(rows), np.int64)
    if len(where):
        weights = None if rows.weights is None else rows.weights[where]
        n_new = int(np.clip(len(where) / (2.0 * smallest), 1, n_parts - 1))
        labels[where] = 1 + seed_labels(points[where], weights, n_new, rng)
    return labels


def refine(
    model: Mixture,
    runner: LocalRunner,
    rows: Rows,
    parts: Stats,
    others: Vec,
    smallest: float,
) -> Stats | None:
    """Assign the rows to the parts alone and merge parts, or None if only one is left."""
    while True:
        settled = _compete(model, runner, rows, parts, smallest)
        if len(settled) < 2:
            return None
        j, l = np.triu_indices(len(settled), 1)
        pairs = np.stack([settled.ids[j], settled.ids[l]], axis=1)
        summary, _ = runner.run(model.posterior(settled), Plan(pairs=pairs), rows)
        loss = np.zeros((len(settled), len(settled)))
        loss[j, l] = loss[l, j] = summary.pair_loss
        parts = merge_greedily(model, summary.stats, loss, others)
        if len(parts) == len(settled):
            return parts


def _compete(
    model: Mixture, runner: LocalRunner, rows: Rows, parts: Stats, smallest: float
) -> Stats:
    """Assign the rows to the parts until their masses are stable. Small parts drop out."""
    for _ in range(_REFINEMENTS):
        kept = parts.rows(np.flatnonzero(parts.n >= smallest))
        if len(kept) < 2:
            return kept
        parts = runner.run(model.posterior(kept), Plan(), rows)[0].stats
        if np.abs(parts.n - kept.n).max() < _CONVERGED * parts.n.sum():
            break
    return parts.rows(np.flatnonzero(parts.n >= smallest))


def seed_labels(
    points: Table, weights: Vec | None, n_parts: int, rng: np.random.Generator
) -> IntVec:
    """Labels of a rough partition: k-means++ seeds and a few Lloyd steps."""
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
    """Weighted mean of the points of each centre. A centre without points stays."""
    n = len(labels)
    member = sparse.csr_array((mass, (labels, np.arange(n))), shape=(len(old), n))
    sums = member @ points
    sums = sums.toarray() if sparse.issparse(sums) else sums
    weight = np.bincount(labels, mass, len(old))[:, None]
    return np.where(weight > 0, sums / np.maximum(weight, 1e-300), old)


def _samples(
    state: State, targets: list[int], limit: int, engine: Engine
) -> Iterator[tuple[int, Rows | None, np.random.Generator]]:
    """For each target at most `limit` of its open rows, and the random stream of the target.

    Rows on workers are fetched for all targets at once, others one target at a time.
    """
    rngs = [stream(state.seed, "birth", state.clock, target) for target in targets]
    if any(isinstance(b.rows, ChunkedRows) for b in state.batches) and targets:
        rows = _remote_rows(state, targets, limit, rngs, engine)
        yield from zip(targets, rows, rngs, strict=True)
        return
    for target, rng in zip(targets, rngs, strict=True):
        yield target, _rows_of(state, target, limit, rng), rng


def _rows_of(state: State, target: int, limit: int, rng: np.random.Generator) -> Rows | None:
    """At most `limit` open rows whose label is the target, drawn without replacement."""
    batches = [batch.in_process() for batch in state.batches]
    found = [np.flatnonzero(labels == target) for _, labels in batches]
    drawn = _draw_ranks([len(where) for where in found], limit, rng)
    if drawn is None:
        return None
    picked = [where[ranks] for where, ranks in zip(found, drawn, strict=True)]
    return concatenate(
        [rows[where] for (rows, _), where in zip(batches, picked, strict=True) if len(where)]
    )


def _draw_ranks(counts: Sequence[int], limit: int, rng: np.random.Generator) -> list[IntVec] | None:
    """Which rows of each batch to take, at most `limit` of all, or None if there are none."""
    count = sum(counts)
    if count == 0:
        return None
    chosen = np.ones(count, bool)
    if count > limit:
        chosen[:] = False
        chosen[rng.choice(count, limit, replace=False)] = True
    ends = np.cumsum(counts)[:-1]
    return [np.flatnonzero(part) for part in np.split(chosen, ends)]


def _remote_rows(
    state: State,
    targets: list[int],
    limit: int,
    rngs: list[np.random.Generator],
    engine: Engine,
) -> list[Rows | None]:
    """The same for rows on workers: count them, draw, then fetch the drawn rows."""
    found = labelled(state.batches)
    counts = found.counts(np.array(targets), engine)
    drawn = [_draw_ranks(c.tolist(), limit, rng) for c, rng in zip(counts.T, rngs, strict=True)]
    some = [(t, ranks) for t, ranks in zip(targets, drawn, strict=True) if ranks is not None]
    ranks = [[(t, ranks[i]) for t, ranks in some] for i in range(len(found.chunks))]
    rows = iter(found.rows(ranks, engine))
    return [None if ranks is None else next(rows) for ranks in drawn]
