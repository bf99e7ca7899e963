"""Run `fit`, `partial_fit` or `forget` of a `DPMixture`, and return all that it has learned."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Final

import numpy as np
from scipy import sparse

from everlearn.core.arrays import IntVec, Labels
from everlearn.core.families.product import Product
from everlearn.core.moves import LapInfo, MoveRecord
from everlearn.engine.chunks import ChunkedRows, sample_rows
from everlearn.engine.protocol import Engine
from everlearn.engine.rows import Rows, concatenate
from everlearn.estimator.families import has_missing
from everlearn.estimator.history import History
from everlearn.mixture.columns import (
    Columns,
    check_counts,
    choose_kinds,
    limit_values,
    no_counts,
)
from everlearn.mixture.learner import Learner, NamedRows
from everlearn.mixture.local import Plan
from everlearn.mixture.model import by_mass
from everlearn.mixture.outliers import (
    MAX_SCORES,
    SeenScores,
    leave_one_out_scores,
    n_leave_one_out,
    scored_before_learning,
)
from everlearn.mixture.pooling import can_be_pooled, pooled
from everlearn.mixture.priors import prior_candidates
from everlearn.mixture.settings import MixtureSettings
from everlearn.mixture.setup import check_budget, open_tools
from everlearn.mixture.state import State, allow_missing
from everlearn.mixture.stochastic import StochasticLearner
from everlearn.mixture.streaming import MemoizedLearner, forget_batch, seal_all
from everlearn.mixture.table_family import grown, with_columns

LEARNERS: Final[Mapping[str, Learner]] = {
    "memoized": MemoizedLearner(),
    "stochastic": StochasticLearner(),
}
SEARCH_AGAIN_ROWS: Final = 5000
"""A stream with fewer rows is searched anew each time that their number has doubled."""
SETTLING_ROWS: Final = 256
"""With fewer rows, kinds of columns may still change."""


@dataclass(frozen=True, slots=True)
class MixtureFit:
    """Everything that a `DPMixture` has learned.

    Attributes
    ----------
    state : state of the learner
    history : laps and moves
    n_rows : rows seen
    n_prior_rows : rows that the prior and the origin were chosen from
    converged : whether the bound converged in the last `fit`
    learner : name of the learner
    scores : outlier scores of rows, by models that had not learned them
    labels : id of the likeliest component of each row that `fit` has just learned; not saved
    columns : columns of a table; None if rows are numbers
    """

    state: State
    history: History
    n_rows: int
    n_prior_rows: int
    converged: bool
    learner: str
    scores: SeenScores
    labels: Labels | None = None
    columns: Columns | None = None

    @property
    def seed(self) -> int:
        """Seed of all draws."""
        return self.state.seed

    @property
    def n_features(self) -> int:
        """Columns of a row."""
        return self.state.model.family.n_features


def fit_rows(
    settings: MixtureSettings, rows: Rows | ChunkedRows, seed: int, engine: Engine
) -> MixtureFit:
    """Learn a data set from nothing, and keep none of its rows."""
    n_rows = len(rows)
    if isinstance(rows, Rows):
        settings, rows = _with_kinds(settings, rows)
    if isinstance(rows, Rows) and can_be_pooled(rows, settings.memory_budget):
        rows = pooled(rows)
    candidates = prior_candidates(settings, rows, seed, engine)
    with open_tools(settings, candidates[0].model, rows, engine) as tools:
        found = LEARNERS[settings.learner].fit(candidates, rows, seed, tools)
        state = seal_all(found.state, tools.runner, measure=True)
        sample = sample_rows(rows, n_leave_one_out(state.model, tools.window.rows), seed, engine)
    scores = _scores_of(state, sample, n_rows)
    state, laps = _numbered(state, found.laps, 0)
    fit = MixtureFit(
        state,
        _after(History(prior=found.choice), laps),
        n_rows,
        n_rows,
        found.converged,
        settings.learner,
        scores,
        columns=settings.columns,
    )
    return _checked(settings, fit)


def learn_rows(
    settings: MixtureSettings,
    known: MixtureFit | None,
    rows: Rows,
    seed: int,
    engine: Engine,
    name: int | str | None = None,
) -> MixtureFit:
    """Learn rows that will not come again; `seed` is used if nothing is known yet.

    Rows with a name can be forgotten later.
    """
    n_rows = len(rows)
    if known is not None:
        n_rows += known.n_rows
        rows = _stored_alike(rows, known.state)
    if known is None or _can_start_again(settings, known, rows, n_rows):
        return _start_again(settings, known, rows, seed, engine, name)
    first_new = known.state.next_id
    known, rows = _with_new_values(settings, known, rows)
    check_budget(settings, known.state)
    if has_missing(rows.X):
        known = replace(known, state=allow_missing(known.state))
    state, laps = known.state, list[LapInfo]()
    with open_tools(settings, state.model, rows, engine, on_lap=laps.append, stream=True) as tools:
        most = min(MAX_SCORES, tools.window.rows)
        mostly_new = n_rows > 2 * known.n_rows
        if not mostly_new:
            place = (state.seed, known.n_rows, tools.runner.block_rows(len(state.total)))
            new = scored_before_learning(state.model, state.total, rows, *place)
            scores = known.scores.after(new, most)
        state = LEARNERS[settings.learner].absorb(state, rows, tools, name)
        if mostly_new:  # the model that these rows met knew little
            sample = sample_rows(rows, n_leave_one_out(state.model, most), seed, engine)
            scores = _scores_of(state, sample, n_rows)
    state, found = _numbered(state, laps, first_new)
    history = _after(known.history, found)
    misfit = state.fitness.misfit(float(state.total.n.sum()))
    if misfit is not None:
        history = history.with_misfit(misfit)
    learned = replace(
        known, state=state, history=history, n_rows=n_rows, scores=scores, labels=None
    )
    return _checked(settings, learned)


def forget_rows(known: MixtureFit, name: int | str) -> MixtureFit:
    """The fit without the rows of this name."""
    state, n_forgotten = forget_batch(known.state, name)
    left = known.n_rows - n_forgotten
    n_prior_rows = min(known.n_prior_rows, left)
    return replace(known, state=state, n_rows=left, n_prior_rows=n_prior_rows, labels=None)


def _numbered(state: State, laps: Sequence[LapInfo], first_new: int) -> tuple[State, list[LapInfo]]:
    """Renumber the ids that this call gave out, in the state and in its laps.

    Of the ids from `first_new` on, the first ones go to components that still exist, the largest
    first. Components that were born and removed within the call get the last ones.
    """
    if first_new == state.next_id:
        return state, list(laps)
    left = by_mass(state.total)
    left = left[left >= first_new]
    gone = np.setdiff1d(np.arange(first_new, state.next_id), left)
    ids = np.arange(state.next_id)
    ids[np.concatenate([left, gone])] = ids[first_new:]
    return _renumbered(state, laps, ids)


def _matched_ids(earlier: Labels, later: Labels, next_id: int) -> IntVec:
    """New numbers of all ids, so that a component of a new search keeps its earlier id.

    That is the id of the earlier component with which it shares at least half of the rows of one
    of them. Each id is given once, those with most shared rows first.
    """
    ids = np.arange(next_id)
    old, where_old, n_old = np.unique(earlier, return_inverse=True, return_counts=True)
    new, where_new, n_new = np.unique(later, return_inverse=True, return_counts=True)
    shared = np.zeros((len(new), len(old)), np.int64)
    np.add.at(shared, (where_new, where_old), 1)
    enough = 2 * shared >= np.minimum(n_new[:, None], n_old)
    for pair in np.argsort(-shared, axis=None, kind="stable"):
        j, l = divmod(int(pair), len(old))
        if enough[j, l]:
            ids[new[j]], ids[old[l]] = old[l], new[j]
            enough[j] = enough[:, l] = False
    return ids


def _renumbered(state: State, laps: Sequence[LapInfo], ids: IntVec) -> tuple[State, list[LapInfo]]:
    """The state and the laps in which component i has the id `ids[i]`."""

    def read(move: MoveRecord) -> MoveRecord:
        if not move.accepted:  # what was refused has got no ids
            return move
        removed, added = (tuple(sorted(ids[list(i)].tolist())) for i in (move.removed, move.added))
        return replace(move, removed=removed, added=added)

    named = [replace(info, moves=tuple(read(move) for move in info.moves)) for info in laps]
    return state.renumbered(ids), named


def _scores_of(state: State, sample: Rows, n_rows: int) -> SeenScores:
    """Leave-one-out scores of rows that the state has learned."""
    scores = leave_one_out_scores(state.model, state.total, sample)
    return SeenScores.of(scores, sample.weights, n_rows)


def _after(history: History, laps: Iterable[LapInfo]) -> History:
    """The history with these laps added."""
    for info in laps:
        history = history.after(info)
    return history


def _checked(settings: MixtureSettings, fit: MixtureFit) -> MixtureFit:
    """The same fit, unless its numbers are out of range."""
    bound = fit.state.bound()
    if not np.isfinite(bound):
        raise ValueError(
            f"{settings.owner} cannot learn from X: with this prior the bound is {bound}, "
            f"out of the range of dtype={settings.dtype!r}. Scale X or the prior."
        )
    return fit


def _can_start_again(settings: MixtureSettings, known: MixtureFit, rows: Rows, n_rows: int) -> bool:
    """Whether to search anew, because prior, origin and components come from few rows.

    It is when there are twice as many rows, or when new ones are of other kinds.
    """
    if known.state.n_open < known.n_rows or len(known.state.total) > settings.max_components:
        return False
    # A table begins anew with the kinds of its columns, which stay after the first rows.
    may_grow = "birth" in settings.moves and settings.columns is None
    limit = SEARCH_AGAIN_ROWS if may_grow else SETTLING_ROWS
    if known.n_rows < limit and n_rows >= 2 * known.n_prior_rows:
        return True
    if settings.columns is None or known.n_rows >= SETTLING_ROWS:
        return False
    pairs = zip(known.columns or (), settings.columns, rows.X.T, strict=True)
    return any(
        old.kind != new.kind or (old.kind == "counts" and len(no_counts(entries)) > 0)
        for old, new, entries in pairs
    )


def _start_again(
    settings: MixtureSettings,
    known: MixtureFit | None,
    rows: Rows,
    seed: int,
    engine: Engine,
    name: int | str | None,
) -> MixtureFit:
    """A mixture that is found anew in all rows so far, with a prior and kinds of columns from them.

    A component keeps the id of the earlier one with which it shares most rows. Numbers of laps go
    on counting.
    """
    named: list[NamedRows] = [(rows, name)]
    next_id, clock, history, converged = 0, 0, History(), False
    if known is not None:
        old = known.state
        named = [*((batch.in_process()[0], batch.name) for batch in old.batches), *named]
        next_id, clock, seed = old.next_id, old.clock, old.seed
        history, converged = known.history, known.converged
    parts = [
        (concatenate([part for part, _ in group]), own_name)
        for own_name, group in groupby(named, key=lambda pair: pair[1])
    ]
    whole = concatenate([part for part, _ in parts])
    settings, whole = _with_kinds(settings, whole)
    if settings.columns is not None:
        ends = np.cumsum([len(part) for part, _ in parts])
        parts = [
            (whole[end - len(part) : end], own_name)
            for (part, own_name), end in zip(parts, ends.tolist(), strict=True)
        ]
    candidates = prior_candidates(settings, whole, seed, engine, stream=True)
    laps = list[LapInfo]()
    empty = replace(State.empty(candidates[0].model, seed, next_id=next_id), clock=clock)
    model = empty.model
    with open_tools(settings, model, whole, engine, on_lap=laps.append, stream=True) as tools:
        begun = LEARNERS[settings.learner].begin(candidates, empty, parts, tools)
        state = begun.state
        n_scored = n_leave_one_out(state.model, min(MAX_SCORES, tools.window.rows))
        sample = sample_rows(whole, n_scored, seed, engine)
        if known is not None:
            earlier = np.concatenate([b.in_process()[1] for b in known.state.batches])
            _, later = tools.runner.run(state.posterior(), Plan(), whole[: len(earlier)])
            ids = _matched_ids(earlier, np.asarray(later), state.next_id)
            state, laps = _renumbered(state, laps, ids)
            state = replace(state, fitness=known.state.fitness)
    scores = _scores_of(state, sample, len(whole))
    state, laps = _numbered(state, laps, next_id)
    fit = MixtureFit(
        state,
        _after(replace(history, prior=begun.choice), laps),
        len(whole),
        len(whole),
        converged,
        settings.learner,
        scores,
        columns=settings.columns,
    )
    return _checked(settings, fit)


def _with_kinds(settings: MixtureSettings, rows: Rows) -> tuple[MixtureSettings, Rows]:
    """For a table, the kinds of its columns as these rows show them, and the rows."""
    if settings.columns is None:
        return settings, rows
    columns, X = choose_kinds(settings.owner, settings.columns, rows.X, settings.kinds)
    return replace(settings, columns=columns), Rows(X, rows.weights)


def _with_new_values(
    settings: MixtureSettings, known: MixtureFit, rows: Rows
) -> tuple[MixtureFit, Rows]:
    """For a table, the fit with room for values that are new in these rows."""
    if settings.columns is None:
        return known, rows
    columns, X = limit_values(settings.columns, rows.X)
    for column, entries in zip(columns, X.T, strict=True):
        check_counts(settings.owner, column, entries)
    for old, new in zip(known.columns or (), columns, strict=True):
        if old.kind != new.kind:
            raise ValueError(
                f"X of {settings.owner} has numbers in column {new.name!r}, which had no value in "
                f"the first {known.n_prior_rows:,} rows. Begin anew with fit or a new model."
            )
    if columns != known.columns:
        family = known.state.model.family
        assert known.columns is not None
        assert isinstance(family, Product)
        state = with_columns(known.state, known.columns, columns, grown(family, columns))
        known = replace(known, state=state, columns=columns)
    return known, Rows(X, rows.weights)


def _stored_alike(rows: Rows, state: State) -> Rows:
    """Rows dense or sparse as the open ones are, so that they can be joined."""
    if not state.batches:
        return rows
    open_rows, _ = state.batches[-1].in_process()
    if sparse.issparse(open_rows.X):
        return rows if sparse.issparse(rows.X) else replace(rows, X=sparse.csr_array(rows.X))
    return replace(rows, X=rows.X.toarray()) if sparse.issparse(rows.X) else rows
