"""How `DPMixture` learns from a stream, and takes back what it was taught."""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby
from typing import Any

from scipy import sparse

from everlearn.estimators.history import History
from everlearn.estimators.mixture_families import allow_missing, has_missing
from everlearn.estimators.mixture_learning import LEARNERS, Learned, checked
from everlearn.estimators.mixture_model import model_of
from everlearn.estimators.mixture_workshop import (
    Workshop,
    check_budget,
    most_workers,
    schedule_of,
    workshop,
)
from everlearn.inference.engine import Engine
from everlearn.inference.learners import streaming
from everlearn.inference.learners.memoized import LapInfo
from everlearn.inference.rows import Rows, concatenate
from everlearn.inference.state import State
from everlearn.runtime.engine import open_engine

SETTLING_ROWS = 256
"""Until so many rows have come, a stream starts afresh whenever they have doubled."""


def learn_more(
    params: Any, learned: Learned | None, rows: Rows, seed: int, name: int | str | None = None
) -> Learned:
    """Learn from rows that need not come again; those with a name can be forgotten later."""
    rows = _stored_like(learned, rows)
    n_rows = len(rows) + (0 if learned is None else learned.n_rows)
    with open_engine(params.engine, most_workers(params)) as engine:
        parts = [(rows, name)]
        if learned is None or _still_settling(learned, n_rows):
            parts = _open_parts(learned, rows, name)
            whole = concatenate([part for part, _ in parts])
            state, history = _afresh(params, learned, whole, seed, engine)
            prior_rows = n_rows
        else:
            state, history, prior_rows = learned.state, learned.history, learned.prior_rows
            check_budget(params, state)
            if has_missing(rows.X):
                state = allow_missing(state)

        def record(info: LapInfo) -> None:
            nonlocal history
            history = history.after(info)

        with workshop(params, state.model, rows, None, engine, record) as tools:
            state = _taken_in(params, state, parts, tools)
    settled = learned is not None and learned.settled
    new = Learned(state, history, n_rows, prior_rows, settled, params.learner)
    return checked(params, new)


def _still_settling(learned: Learned, n_rows: int) -> bool:
    """Whether prior and origin still rest on so few rows that twice as many should set them."""
    all_open = learned.state.n_open == learned.n_rows
    return all_open and learned.n_rows < SETTLING_ROWS and n_rows >= 2 * learned.prior_rows


def forget(learned: Learned, name: int | str) -> Learned:
    """What is known without the rows of this name."""
    state, n_rows = streaming.forget(learned.state, name)
    left = learned.n_rows - n_rows
    return replace(learned, state=state, n_rows=left, prior_rows=min(learned.prior_rows, left))


def _open_parts(
    learned: Learned | None, rows: Rows, name: int | str | None
) -> list[tuple[Rows, int | str | None]]:
    """The open rows and the new ones, put together where neighbours have the same name."""
    batches = [] if learned is None else learned.state.batches
    named = [*((batch.name, batch.rows) for batch in batches), (name, rows)]
    return [
        (concatenate([part for _, part in group]), own)
        for own, group in groupby(named, key=lambda pair: pair[0])
    ]


def _afresh(
    params: Any, learned: Learned | None, rows: Rows, seed: int, engine: Engine
) -> tuple[State, History]:
    """An empty state whose prior fits all rows so far; ids go on counting."""
    if learned is None:
        return State.empty(model_of(params, rows, seed, engine), seed), History()
    old = learned.state
    model = model_of(params, rows, old.seed, engine)
    state = State.empty(model, old.seed, next_id=old.next_id)
    return replace(state, clock=old.clock), learned.history


def _taken_in(
    params: Any, state: State, parts: list[tuple[Rows, int | str | None]], tools: Workshop
) -> State:
    """The state that has learned from these rows, each part with its name."""
    limits = tools.limits
    if params.learner == "memoized":
        window = streaming.Window(limits.window_rows, limits.batch_rows)
        for rows, name in parts:
            state = streaming.absorb(
                state, rows, window, tools.runner, tools.moves, tools.on_lap, name
            )
        return state
    learner: Any = LEARNERS[params.learner]
    rows = concatenate([part for part, _ in parts])
    if state.clock == 0:  # the first rows decide on the structure
        schedule = replace(schedule_of(params, rows, limits), max_laps=1)
        start: State = learner.fit(
            state.model, rows, state.seed, tools.runner, tools.moves, schedule, tools.on_lap
        ).state
        return start
    after: State = learner.absorb(state, rows, limits.batch_rows, tools.runner, tools.on_lap)
    return after


def _stored_like(learned: Learned | None, rows: Rows) -> Rows:
    """Rows dense or sparse as the open ones are, so that they can be put together."""
    if learned is None or not learned.state.batches:
        return rows
    if sparse.issparse(learned.state.batches[-1].rows.X):
        return rows if sparse.issparse(rows.X) else replace(rows, X=sparse.csr_array(rows.X))
    return replace(rows, X=rows.X.toarray()) if sparse.issparse(rows.X) else rows
